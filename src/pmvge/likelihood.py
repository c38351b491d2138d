r"""The Poisson likelihood of a graph, exact, from embeddings.

With :math:`g_{ij} = \langle y_i, y_j \rangle` and
:math:`\mu_{ij} = \alpha^{(d_i, d_j)} \exp g_{ij}` (the paper's eq. 3),

.. math:: \ell_n = \sum_{(i,j) \in I_n} [w_{ij} \log\mu_{ij} - \mu_{ij}]
          = \sum_{(d,e) \in \mathcal D} \Bigl[\sum w_{ij} (\log\alpha^{(d,e)} + g_{ij})
            - \alpha^{(d,e)} Z_{de}\Bigr], \qquad Z_{de} = \sum_{I_{de}} \exp g_{ij}.

Sums run over tiles in float64, so that neither an n x n array nor a float64 copy of all embeddings
exists, and Z stays in the log domain. They take time in proportion to the number of pairs: whoever
waits may give ``tell``, which is called with the pair terms done and those there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph import MultiViewGraph
from pmvge.links import Links, Pair
from pmvge.sampling import BlockSampler, LinkBatch

TILE = 512  # nodes a side of one tile: its terms stay in a core's cache
EXACT_TERMS = 2_000_000_000  # pair terms up to which log Z is summed exactly
BLOCK = 4096  # links, and uniform nodes a side, of one block of the estimate
BLOCKS = 32  # blocks of the estimate
SAFE = 600.0  # exp of plus or minus that is a normal float64, and so is the sum over a tile

Array = NDArray[Any]
Tell = Callable[[int, int], None]  # pair terms done, and all of them


class LogPartition(NamedTuple):
    """log Z of a view pair, and how it was found."""

    value: float
    standard_error: float  # of log Z; 0 if exact
    exact: bool


def intensity(Y: Array, Y_other: Array, log_alpha: float) -> NDArray[np.float64]:
    r""":math:`\mu = \alpha \exp(Y Y'^\top)`, (n, m); infinite where a float cannot hold it."""
    g = Y.astype(np.float64) @ Y_other.astype(np.float64).T
    with np.errstate(over="ignore"):
        mu: NDArray[np.float64] = np.exp(g + log_alpha)
    return mu


def log_partition(
    Y: Array, Y_other: Array | None = None, *, tile: int = TILE, tell: Tell | None = None
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
            if tell is not None:
                h, w = len(left), len(right)
                done += h * (h - 1) // 2 if right is left else h * w
                tell(done, total)
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
    tell: Tell | None = None,
) -> LogPartition:
    r"""Importance-sampled :math:`\log Z` with its standard error (delta method over blocks)."""
    found = []
    for block in range(blocks):
        found += [_block_log_partition(batch, Y, Y_other) for batch in sampler.each_pair()]
        if tell is not None:
            tell(block + 1, blocks)
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
    tell: Tell | None = None,
) -> dict[Pair, LogPartition]:
    """log Z of every pair, exact up to ``exact_terms`` pair terms, else estimated."""
    exact = {p: s.n_terms <= exact_terms or len(s) == 0 for p, s in graph.links.items()}
    estimate = BLOCKS * (2 * BLOCK) ** 2
    told = _shares({p: s.n_terms if exact[p] else estimate for p, s in graph.links.items()}, tell)
    found = {}
    for (a, b), links in graph.links.items():
        if exact[a, b]:
            value = log_partition(Y[a], None if links.within else Y[b], tell=told[a, b])
            found[a, b] = LogPartition(value, 0.0, exact=True)
        else:
            alone = graph.with_links({(a, b): links})
            sampler = BlockSampler(alone, n_links=BLOCK, n_uniform=BLOCK, rng=rng)
            found[a, b] = estimate_log_partition(Y[a], Y[b], sampler, tell=told[a, b])
    return found


def _shares(terms: Mapping[Pair, int], tell: Tell | None) -> dict[Pair, Tell | None]:
    """For each of several sums, one after the other, what tells of them as parts of one work."""
    shares: dict[Pair, Tell | None] = dict.fromkeys(terms)
    if tell is None:
        return shares
    before, total = 0, sum(terms.values())
    for pair, count in terms.items():
        shares[pair] = partial(_tell_share, tell, before, count, total)
        before += count
    return shares


def _tell_share(tell: Tell, before: int, count: int, total: int, done: int, of: int) -> None:
    tell(before + count * done // max(1, of), total)


def log_alpha_hat(total_weight: float, log_Z: float) -> float:
    r"""The logarithm of section 4.2's closed form :math:`\hat\alpha^{(d,e)} = W_{de} / Z_{de}`."""
    return math.log(total_weight) - log_Z if total_weight > 0 else -math.inf


def link_similarity(links: Links, Y: Array, Y_other: Array, *, chunk: int = 1 << 16) -> float:
    r""":math:`\sum w_{ij} g_{ij}` over the links."""
    total = 0.0
    for start in range(0, len(links), chunk):
        part = slice(start, start + chunk)
        left = Y[links.rows[part]].astype(np.float64)
        right = Y_other[links.cols[part]].astype(np.float64)
        total += float(links.weights[part] @ np.einsum("nk,nk->n", left, right))
    return total


def log_likelihood(
    graph: MultiViewGraph,
    Y: Mapping[str, Array],
    log_alpha: Mapping[Pair, float],
    *,
    tell: Tell | None = None,
) -> dict[Pair, float]:
    r"""Exact :math:`\ell_n(\alpha, \psi)`, by view pair. Pairs outside the graph add nothing."""
    values = {}
    told = _shares({pair: links.n_terms for pair, links in graph.links.items()}, tell)
    for (a, b), links in graph.links.items():
        log_Z = log_partition(Y[a], None if links.within else Y[b], tell=told[a, b])
        values[a, b] = _pair_log_likelihood(links, Y[a], Y[b], log_Z, log_alpha[a, b])
    return values


def _pair_log_likelihood(
    links: Links, Y: Array, Y_other: Array, log_Z: float, log_alpha: float
) -> float:
    if log_alpha == -math.inf:
        return -math.inf if links.total > 0 else 0.0
    attraction = link_similarity(links, Y, Y_other) + links.total * log_alpha
    with np.errstate(over="ignore"):
        return attraction - float(np.exp(log_alpha + log_Z))


def profile_log_likelihood(
    graph: MultiViewGraph, Y: Mapping[str, Array], *, tell: Tell | None = None
) -> dict[Pair, float]:
    r"""Exact :math:`\max_\alpha \ell_n(\alpha, \psi)`, by view pair.

    .. math:: \ell_p = \sum w_{ij} g_{ij} - W \log Z + W \log W - W
    """
    values = dict.fromkeys(graph.links, 0.0)  # where there is no weight, alpha is 0
    weighted = {pair: links for pair, links in graph.links.items() if links.total > 0}
    told = _shares({pair: links.n_terms for pair, links in weighted.items()}, tell)
    for (a, b), links in weighted.items():
        W = links.total
        log_Z = log_partition(Y[a], None if links.within else Y[b], tell=told[a, b])
        values[a, b] = link_similarity(links, Y[a], Y[b]) + W * (math.log(W) - log_Z - 1)
    return values
