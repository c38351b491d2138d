"""log Z of a view pair: exact sums over tiles, or an importance-sampled estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph import MultiViewGraph, Pair
from pmvge.progress import OnProgress, share_progress
from pmvge.sampling import BlockSampler, LinkBatch

Array = NDArray[Any]

TILE = 512  # nodes a side of one tile: its terms stay in a core's cache
EXACT_TERMS = 2_000_000_000  # pair terms up to which log Z is summed exactly
BLOCK = 4096  # links, and uniform nodes a side, of one block of the estimate
BLOCKS = 32  # blocks of the estimate
SAFE = 600.0  # exp of plus or minus that is a normal float64, and so is the sum over a tile


class LogPartition(NamedTuple):
    """log Z of a view pair, and how it was found."""

    value: float
    standard_error: float  # of log Z; 0 if exact
    exact: bool


def log_partition(
    Y: Array,
    Y_other: Array | None = None,
    *,
    tile: int = TILE,
    on_progress: OnProgress | None = None,
) -> float:
    r"""Exact :math:`\log \sum_{I_{de}} \exp g_{ij}`; without ``Y_other``, within a view (i < j)."""
    within = Y_other is None
    other = Y if Y_other is None else Y_other
    n, m = len(Y), len(other)
    total, done = n * (n - 1) // 2 if within else n * m, 0
    rows = []
    for i in range(0, n, tile):
        left = _double(Y[i : i + tile])
        parts = []
        for j in range(i if within else 0, m, tile):
            right = left if within and i == j else _double(other[j : j + tile])
            parts.append(_tile_log_sum_exp(left, right, diagonal=right is left))
            if on_progress is not None:
                h, w = len(left), len(right)
                done += h * (h - 1) // 2 if right is left else h * w
                on_progress(done, total)
        rows.append(np.logaddexp.reduce(parts))
    return float(np.logaddexp.reduce(rows))


def _double(Y: Array) -> torch.Tensor:
    return torch.from_numpy(np.array(Y, dtype=np.float64))


def _tile_log_sum_exp(left: torch.Tensor, right: torch.Tensor, *, diagonal: bool) -> float:
    """log-sum-exp of all inner products, or of those above the diagonal."""
    g = left @ right.T
    # |g| <= |y| |y'|: as a rule no exponential can leave the range of a float, shifted or not.
    if float(left.norm(dim=1).max() * right.norm(dim=1).max()) <= SAFE:
        terms = g.exp_().triu_(diagonal=1) if diagonal else g.exp_()
        total = float(terms.sum())
        return math.log(total) if total > 0 else -math.inf
    if diagonal:
        g = g[torch.ones(g.shape, dtype=torch.bool).triu_(diagonal=1)]
    return float(_log_sum_exp(g)) if g.numel() else -math.inf


def _log_sum_exp(g: torch.Tensor) -> torch.Tensor:
    """In place. Terms below e^-700 of the largest are lifted to it: subnormals are slow."""
    largest = g.max()
    return largest + g.sub_(largest).clamp_(min=-700.0).exp_().sum().log()


def estimate_log_partition(
    Y: Array,
    Y_other: Array,
    sampler: BlockSampler,
    *,
    blocks: int = BLOCKS,
    on_progress: OnProgress | None = None,
) -> LogPartition:
    r"""Importance-sampled :math:`\log Z` with its standard error (delta method over blocks)."""
    found = []
    for block in range(blocks):
        found += [_block_log_partition(batch, Y, Y_other) for batch in sampler.each_pair()]
        if on_progress is not None:
            on_progress(block + 1, blocks)
    draws = np.array(found)
    largest = draws.max()
    ratio = np.exp(draws - largest)
    error = float(ratio.std(ddof=1) / math.sqrt(blocks) / ratio.mean())
    return LogPartition(float(largest + np.log(ratio.mean())), error, exact=False)


def _block_log_partition(batch: LinkBatch, Y: Array, Y_other: Array) -> float:
    r""":math:`\log\hat Z` of a batch, in float64; ``objectives`` has the kernel of training."""
    left, right = _double(Y[batch.left.nodes]), _double(Y_other[batch.right.nodes])
    a, b = _double(batch.left.log_weight), _double(batch.right.log_weight)
    rows, columns = map(torch.from_numpy, batch.masked)
    parts = []
    for start in range(0, len(left), TILE):
        g = (left[start : start + TILE] @ right.T).add_(a[start : start + TILE, None]).add_(b)
        g[: max(0, batch.corner - start), : batch.corner] += math.log(batch.corner_weight)
        here = (rows >= start) & (rows < start + TILE)
        g[rows[here] - start, columns[here]] = -math.inf
        parts.append(float(_log_sum_exp(g)))
    return float(np.logaddexp.reduce(parts)) + math.log(batch.factor)


def graph_log_partitions(
    graph: MultiViewGraph,
    Y: Mapping[str, Array],
    *,
    rng: np.random.Generator,
    exact_terms: int = EXACT_TERMS,
    on_progress: OnProgress | None = None,
) -> dict[Pair, LogPartition]:
    """log Z of every pair, exact up to ``exact_terms`` pair terms, else estimated."""
    exact = {p: s.n_terms <= exact_terms or len(s) == 0 for p, s in graph.links.items()}
    estimate = BLOCKS * (2 * BLOCK) ** 2
    told = share_progress(
        {p: s.n_terms if exact[p] else estimate for p, s in graph.links.items()}, on_progress
    )
    found = {}
    for (a, b), links in graph.links.items():
        if exact[a, b]:
            value = log_partition(Y[a], None if links.within else Y[b], on_progress=told[a, b])
            found[a, b] = LogPartition(value, 0.0, exact=True)
        else:
            alone = graph.with_links({(a, b): links})
            sampler = BlockSampler(alone, n_links=BLOCK, n_uniform=BLOCK, rng=rng)
            found[a, b] = estimate_log_partition(Y[a], Y[b], sampler, on_progress=told[a, b])
    return found
