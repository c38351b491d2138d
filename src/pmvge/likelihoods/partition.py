r"""log Z of a view pair: an exact sum, or an importance-sampled estimate.

Exact sums run over tiles of :math:`g_{ij}` in float64: neither an n x n array nor a float64 copy of
all vectors is allocated. Z is computed in the log domain.

The time of a sum is proportional to the number of pair terms. ``on_progress`` is called with the
number of pair terms done and the total.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph import MultiViewGraph, Pair
from pmvge.likelihoods.tiles import TILE_ENTITIES, tile_rows, to_double
from pmvge.progress import OnProgress, share_progress
from pmvge.sampling import BlockSampler, LinkBatch
from pmvge.similarities import INNER, Similarity

Array = NDArray[Any]

EXACT_TERMS = 2_000_000_000  # pair terms up to which log Z is summed exactly
BLOCK_SIZE = 4096  # links, and uniform entities a side, of one block of the estimate
N_BLOCKS = 32  # blocks of the estimate
SAFE_EXPONENT = 600.0  # exp of +-600, and its sum over a tile, are normal float64 numbers


class LogPartition(NamedTuple):
    """log Z of a view pair, and how it was computed."""

    value: float
    standard_error: float  # of log Z; 0 if exact
    exact: bool


def log_partition(
    Y: Array,
    Y_other: Array | None = None,
    *,
    similarity: Similarity = INNER,
    tile: int = TILE_ENTITIES,
    on_progress: OnProgress | None = None,
) -> float:
    r"""Return :math:`\log \sum_{I_{de}} \exp g_{ij}`, exactly.

    Without ``Y_other`` the sum runs over pairs within a view (i < j).
    """
    within = Y_other is None
    query = similarity.query_array(Y)
    candidate = similarity.candidate_array(Y if Y_other is None else Y_other)
    n, m = len(query), len(candidate)
    total, done = n * (n - 1) // 2 if within else n * m, 0
    rows = []
    for left, tiles in tile_rows(query, candidate, within=within, tile=tile):
        parts = []
        for right, diagonal in tiles:
            parts.append(_tile_log_sum_exp(left, right, similarity, diagonal=diagonal))
            if on_progress is not None:
                h, w = len(left), len(right)
                done += h * (h - 1) // 2 if diagonal else h * w
                on_progress(done, total)
        rows.append(np.logaddexp.reduce(parts))
    return float(np.logaddexp.reduce(rows))


def _tile_log_sum_exp(
    left: torch.Tensor, right: torch.Tensor, similarity: Similarity, *, diagonal: bool
) -> float:
    """Return the log-sum-exp of all similarities, or of those above the diagonal."""
    with torch.no_grad():
        g = similarity.outer(left @ right.T)
    # |<q, c>| <= |q| |c|: if this bound is small, exp cannot overflow or underflow without a shift.
    bound = float(left.norm(dim=1).max() * right.norm(dim=1).max())
    if similarity.linear and bound <= SAFE_EXPONENT:
        terms = g.exp_().triu_(diagonal=1) if diagonal else g.exp_()
        total = float(terms.sum())
        return math.log(total) if total > 0 else -math.inf
    if diagonal:
        g = g[torch.ones(g.shape, dtype=torch.bool).triu_(diagonal=1)]
    return float(_log_sum_exp(g)) if g.numel() else -math.inf


def _log_sum_exp(g: torch.Tensor) -> torch.Tensor:
    """Return the log-sum-exp; overwrite ``g``.

    Terms below e^-700 of the largest are raised to it, because subnormal floats are slow.
    """
    largest = g.max()
    return largest + g.sub_(largest).clamp_(min=-700.0).exp_().sum().log()


def estimate_log_partition(
    Y: Array,
    Y_other: Array,
    sampler: BlockSampler,
    *,
    similarity: Similarity = INNER,
    blocks: int = N_BLOCKS,
    on_progress: OnProgress | None = None,
) -> LogPartition:
    r"""Return an importance-sampled :math:`\log Z` and its standard error (delta method)."""
    values = []
    for block in range(blocks):
        values += [
            _block_log_partition(batch, Y, Y_other, similarity) for batch in sampler.each_pair()
        ]
        if on_progress is not None:
            on_progress(block + 1, blocks)
    draws = np.array(values)
    largest = draws.max()
    ratio = np.exp(draws - largest)
    error = float(ratio.std(ddof=1) / math.sqrt(blocks) / ratio.mean())
    return LogPartition(float(largest + np.log(ratio.mean())), error, exact=False)


def _block_log_partition(
    batch: LinkBatch, Y: Array, Y_other: Array, similarity: Similarity = INNER
) -> float:
    r"""Return :math:`\log\hat Z` of a batch in float64 (``block.py`` has the training kernel)."""
    left = to_double(similarity.query_array(Y[batch.left.entities]))
    right = to_double(similarity.candidate_array(Y_other[batch.right.entities]))
    a, b = to_double(batch.left.log_weight), to_double(batch.right.log_weight)
    rows, columns = map(torch.from_numpy, batch.masked)
    parts = []
    for start in range(0, len(left), TILE_ENTITIES):
        part = slice(start, start + TILE_ENTITIES)
        with torch.no_grad():
            g = similarity.outer(left[part] @ right.T).add_(a[part, None]).add_(b)
        g[: max(0, batch.corner - start), : batch.corner] += math.log(batch.corner_weight)
        here = (rows >= start) & (rows < part.stop)
        g[rows[here] - start, columns[here]] = -math.inf
        parts.append(float(_log_sum_exp(g)))
    return float(np.logaddexp.reduce(parts)) + math.log(batch.factor)


def graph_log_partitions(
    graph: MultiViewGraph,
    Y: Mapping[str, Array],
    *,
    rng: np.random.Generator,
    similarity: Similarity = INNER,
    exact_terms: int = EXACT_TERMS,
    on_progress: OnProgress | None = None,
) -> dict[Pair, LogPartition]:
    """Return log Z of every view pair: exact up to ``exact_terms`` pair terms, else estimated."""
    exact = {p: s.n_terms <= exact_terms or len(s) == 0 for p, s in graph.links.items()}
    block_terms = N_BLOCKS * (2 * BLOCK_SIZE) ** 2
    callbacks = share_progress(
        {p: s.n_terms if exact[p] else block_terms for p, s in graph.links.items()}, on_progress
    )
    partitions = {}
    for (a, b), links in graph.links.items():
        compared = similarity.for_pair(a, b)
        if exact[a, b]:
            value = log_partition(
                Y[a],
                None if links.within else Y[b],
                similarity=compared,
                on_progress=callbacks[a, b],
            )
            partitions[a, b] = LogPartition(value, 0.0, exact=True)
        else:
            one_pair = graph.with_links({(a, b): links})
            sampler = BlockSampler(one_pair, n_links=BLOCK_SIZE, n_uniform=BLOCK_SIZE, rng=rng)
            partitions[a, b] = estimate_log_partition(
                Y[a], Y[b], sampler, similarity=compared, on_progress=callbacks[a, b]
            )
    return partitions
