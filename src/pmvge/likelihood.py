r"""The Poisson likelihood of a graph, exact, from embeddings.

With :math:`g_{ij} = \langle y_i, y_j \rangle` and
:math:`\mu_{ij} = \alpha^{(d_i, d_j)} \exp g_{ij}` (the paper's eq. 3),

.. math:: \ell_n = \sum_{(i,j) \in I_n} [w_{ij} \log\mu_{ij} - \mu_{ij}]
          = \sum_{(d,e) \in \mathcal D} \Bigl[\sum w_{ij} (\log\alpha^{(d,e)} + g_{ij})
            - \alpha^{(d,e)} Z_{de}\Bigr], \qquad Z_{de} = \sum_{I_{de}} \exp g_{ij}.

Sums run over tiles in float64, so that no n x n array exists, and Z stays in the log domain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph import MultiViewGraph
from pmvge.links import Links, Pair
from pmvge.sampling import BlockSampler, LinkBatch

TILE = 2048  # nodes a side of one tile
EXACT_TERMS = 2_000_000_000  # pair terms up to which log Z is summed exactly
BLOCK = 4096  # links, and uniform nodes a side, of one block of the estimate
BLOCKS = 32  # blocks of the estimate

Array = NDArray[Any]


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


def log_partition(Y: Array, Y_other: Array | None = None, *, tile: int = TILE) -> float:
    r"""Exact :math:`\log \sum_{I_{de}} \exp g_{ij}`; without ``Y_other``, within a view (i < j)."""
    within = Y_other is None
    left = torch.from_numpy(np.array(Y, dtype=np.float64))
    right = left if Y_other is None else torch.from_numpy(np.array(Y_other, dtype=np.float64))
    parts = []
    for i in range(0, len(left), tile):
        for j in range(i if within else 0, len(right), tile):
            g = left[i : i + tile] @ right[j : j + tile].T
            if within and i == j:
                above = torch.ones(g.shape, dtype=torch.bool).triu_(diagonal=1)
                g = g[above]
            if g.numel():
                parts.append(float(_log_sum_exp(g)))
    return float(np.logaddexp.reduce(parts)) if parts else -math.inf


def _log_sum_exp(g: torch.Tensor) -> torch.Tensor:
    """In place. Terms below e^-700 of the largest are lifted to it: subnormals are slow."""
    largest = g.max()
    return largest + g.sub_(largest).clamp_(min=-700.0).exp_().sum().log()


def estimate_log_partition(
    Y: Array, Y_other: Array, sampler: BlockSampler, *, blocks: int = BLOCKS
) -> LogPartition:
    r"""Importance-sampled :math:`\log Z` with its standard error (delta method over blocks)."""
    draws = np.array(
        [
            _block_log_partition(batch, Y, Y_other)
            for _ in range(blocks)
            for batch in sampler.each_pair()
        ]
    )
    largest = draws.max()
    ratio = np.exp(draws - largest)
    error = float(ratio.std(ddof=1) / math.sqrt(blocks) / ratio.mean())
    return LogPartition(float(largest + np.log(ratio.mean())), error, exact=False)


def _block_log_partition(batch: LinkBatch, Y: Array, Y_other: Array) -> float:
    r""":math:`\log\hat Z` of a batch, in float64; ``objectives`` has the kernel of training."""
    left, right = Y[batch.left.nodes], Y_other[batch.right.nodes]
    g = left.astype(np.float64) @ right.astype(np.float64).T
    g += batch.left.log_weight.astype(np.float64)[:, None]
    g += batch.right.log_weight.astype(np.float64)
    g[: batch.corner, : batch.corner] += math.log(batch.corner_weight)
    g[batch.masked] = -np.inf
    return float(_log_sum_exp(torch.from_numpy(g))) + math.log(batch.factor)


def graph_log_partitions(
    graph: MultiViewGraph,
    Y: Mapping[str, Array],
    *,
    rng: np.random.Generator,
    exact_terms: int = EXACT_TERMS,
) -> dict[Pair, LogPartition]:
    """log Z of every pair, exact up to ``exact_terms`` pair terms, else estimated."""
    found = {}
    for (a, b), links in graph.links.items():
        if links.n_terms <= exact_terms or len(links) == 0:
            value = log_partition(Y[a], None if links.within else Y[b])
            found[a, b] = LogPartition(value, 0.0, exact=True)
        else:
            alone = graph.with_links({(a, b): links})
            sampler = BlockSampler(alone, n_links=BLOCK, n_uniform=BLOCK, rng=rng)
            found[a, b] = estimate_log_partition(Y[a], Y[b], sampler)
    return found


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
    graph: MultiViewGraph, Y: Mapping[str, Array], log_alpha: Mapping[Pair, float]
) -> dict[Pair, float]:
    r"""Exact :math:`\ell_n(\alpha, \psi)`, by view pair. Pairs outside the graph add nothing."""
    values = {}
    for (a, b), links in graph.links.items():
        log_Z = log_partition(Y[a], None if links.within else Y[b])
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


def profile_log_likelihood(graph: MultiViewGraph, Y: Mapping[str, Array]) -> dict[Pair, float]:
    r"""Exact :math:`\max_\alpha \ell_n(\alpha, \psi)`, by view pair.

    .. math:: \ell_p = \sum w_{ij} g_{ij} - W \log Z + W \log W - W
    """
    values = {}
    for (a, b), links in graph.links.items():
        W = links.total
        if W == 0:
            values[a, b] = 0.0
            continue
        log_Z = log_partition(Y[a], None if links.within else Y[b])
        values[a, b] = link_similarity(links, Y[a], Y[b]) + W * (math.log(W) - log_Z - 1)
    return values
