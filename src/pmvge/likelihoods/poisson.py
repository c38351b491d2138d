r"""The exact Poisson likelihood of a graph, given the vectors of its entities.

With :math:`g_{ij} = \langle y_i, y_j \rangle` and
:math:`\mu_{ij} = \alpha^{(d_i, d_j)} \exp g_{ij}` (the paper's eq. 3),

.. math:: \ell_n = \sum_{(i,j) \in I_n} [w_{ij} \log\mu_{ij} - \mu_{ij}]
          = \sum_{(d,e) \in \mathcal D} \Bigl[\sum w_{ij} (\log\alpha^{(d,e)} + g_{ij})
            - \alpha^{(d,e)} Z_{de}\Bigr], \qquad Z_{de} = \sum_{I_{de}} \exp g_{ij}.

:mod:`pmvge.likelihoods.partition` computes log Z. The other sum runs over the links alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pmvge.graph import Links, MultiViewGraph, Pair
from pmvge.likelihoods.partition import Array, log_partition
from pmvge.progress import OnProgress, share_progress
from pmvge.similarities import INNER, Similarity


def expected_weight(g: Array, log_alpha: float) -> NDArray[np.float64]:
    r"""Return :math:`\mu = \alpha \exp g` in float64; infinite where it overflows."""
    with np.errstate(over="ignore"):
        mu: NDArray[np.float64] = np.exp(g.astype(np.float64) + log_alpha)
    return mu


def intensity(
    Y: Array, Y_other: Array, log_alpha: float, *, similarity: Similarity = INNER
) -> NDArray[np.float64]:
    r"""Return :math:`\mu_{ij} = \alpha \exp g_{ij}`, (n, m); infinite where it overflows."""
    query = similarity.query_array(Y).astype(np.float64)
    candidate = similarity.candidate_array(Y_other).astype(np.float64)
    return expected_weight(similarity.outer_array(query @ candidate.T), log_alpha)


def log_alpha_hat(total_weight: float, log_Z: float) -> float:
    r"""Return the log of section 4.2's closed form :math:`\hat\alpha^{(d,e)} = W_{de} / Z_{de}`."""
    return math.log(total_weight) - log_Z if total_weight > 0 else -math.inf


def link_similarity(
    links: Links,
    Y: Array,
    Y_other: Array,
    *,
    similarity: Similarity = INNER,
    chunk: int = 1 << 16,
) -> float:
    r"""Return :math:`\sum w_{ij} g_{ij}` over the links."""
    total = 0.0
    for start in range(0, len(links), chunk):
        part = slice(start, start + chunk)
        left = similarity.query_array(Y[links.rows[part]]).astype(np.float64)
        right = similarity.candidate_array(Y_other[links.cols[part]]).astype(np.float64)
        g = similarity.outer_array(np.einsum("nk,nk->n", left, right))
        total += float(links.weights[part] @ g)
    return total


def log_likelihood(
    graph: MultiViewGraph,
    Y: Mapping[str, Array],
    log_alpha: Mapping[Pair, float],
    *,
    similarity: Similarity = INNER,
    on_progress: OnProgress | None = None,
) -> dict[Pair, float]:
    r"""Return :math:`\ell_n(\alpha, \psi)` exactly, by view pair of the graph.

    View pairs that the graph does not observe contribute nothing.
    """
    values = {}
    callbacks = share_progress(_terms(graph.links), on_progress)
    for (a, b), links in graph.links.items():
        log_Z = log_partition(
            Y[a],
            None if links.within else Y[b],
            similarity=similarity,
            on_progress=callbacks[a, b],
        )
        g = link_similarity(links, Y[a], Y[b], similarity=similarity)
        values[a, b] = _pair_log_likelihood(links, g, log_Z, log_alpha[a, b])
    return values


def _terms(links: Mapping[Pair, Links]) -> dict[Pair, int]:
    return {pair: part.n_terms for pair, part in links.items()}


def _pair_log_likelihood(links: Links, g: float, log_Z: float, log_alpha: float) -> float:
    """Return the log-likelihood of a view pair from the weighted sum of g over its links."""
    if log_alpha == -math.inf:
        return -math.inf if links.total > 0 else 0.0
    with np.errstate(over="ignore"):
        return g + links.total * log_alpha - float(np.exp(log_alpha + log_Z))


def profile_log_likelihood(
    graph: MultiViewGraph,
    Y: Mapping[str, Array],
    *,
    similarity: Similarity = INNER,
    on_progress: OnProgress | None = None,
) -> dict[Pair, float]:
    r"""Return :math:`\max_\alpha \ell_n(\alpha, \psi)` exactly, by view pair.

    .. math:: \ell_p = \sum w_{ij} g_{ij} - W \log Z + W \log W - W
    """
    values = dict.fromkeys(graph.links, 0.0)  # without weight, alpha-hat and the maximum are 0
    weighted = {pair: links for pair, links in graph.links.items() if links.total > 0}
    callbacks = share_progress(_terms(weighted), on_progress)
    for (a, b), links in weighted.items():
        W = links.total
        log_Z = log_partition(
            Y[a],
            None if links.within else Y[b],
            similarity=similarity,
            on_progress=callbacks[a, b],
        )
        g = link_similarity(links, Y[a], Y[b], similarity=similarity)
        values[a, b] = g + W * (math.log(W) - log_Z - 1)
    return values
