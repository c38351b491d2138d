r"""The exact likelihood of a graph, given the vectors of its entities.

With :math:`\eta_{ij} = \log\alpha^{(d_i, d_j)} + g_{ij}` and the paper's Poisson family,
:math:`\mu_{ij} = \exp\eta_{ij}` (eq. 3) and

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
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.levels import Level, PairLevels, kind_blocks
from pmvge.likelihoods.partition import log_partition
from pmvge.likelihoods.poisson import POISSON
from pmvge.likelihoods.terms import Array, link_similarity
from pmvge.progress import OnProgress, share_progress
from pmvge.similarities import INNER, Similarity


def expected_weight(
    g: Array, log_alpha: float | NDArray[np.float64], family: Family = POISSON
) -> NDArray[np.float64]:
    r"""Return the expected weight of :math:`\eta = \log\alpha + g` in float64.

    It is infinite where it overflows. ``log_alpha`` is broadcast to the shape of g.
    """
    return family.expected_array(g.astype(np.float64) + log_alpha)


def intensity(
    Y: Array,
    Y_other: Array,
    log_alpha: Level,
    *,
    similarity: Similarity = INNER,
    family: Family = POISSON,
) -> NDArray[np.float64]:
    r"""Return expected weights (n, m), :math:`\alpha \exp g_{ij}` for Poisson weights."""
    query = similarity.query_array(Y).astype(np.float64)
    candidate = similarity.candidate_array(Y_other).astype(np.float64)
    level = log_alpha.matrix() if isinstance(log_alpha, PairLevels) else log_alpha
    return expected_weight(similarity.outer_array(query @ candidate.T), level, family)


def log_likelihood(
    graph: MultiViewGraph,
    Y: Mapping[str, Array],
    log_alpha: Mapping[Pair, Level],
    *,
    similarity: Similarity = INNER,
    family: Family = POISSON,
    on_progress: OnProgress | None = None,
) -> dict[Pair, float]:
    r"""Return :math:`\ell_n(\alpha, \psi)` exactly, by view pair of the graph.

    View pairs that the graph does not observe contribute nothing.
    """
    callbacks = share_progress(_terms(graph.links), on_progress)
    values = {}
    for (a, b), links in graph.links.items():
        level, compared = log_alpha[a, b], similarity.for_pair(a, b)
        own = family.for_pair(a, b)
        if not isinstance(level, PairLevels):
            values[a, b] = own.log_likelihood(
                (a, b), links, Y[a], Y[b], level, compared, callbacks[a, b]
            )
            continue
        values[a, b] = sum(
            own.log_likelihood(
                (a, b),
                block.links,
                Y[a][block.rows],
                Y[b][block.columns],
                float(level.table[block.kind]),
                compared,
            )
            for block in kind_blocks(links, level.left, level.right)
        )
    return values


def _terms(links: Mapping[Pair, Links]) -> dict[Pair, int]:
    return {pair: part.n_terms for pair, part in links.items()}


def profile_log_likelihood(
    graph: MultiViewGraph,
    Y: Mapping[str, Array],
    *,
    similarity: Similarity = INNER,
    on_progress: OnProgress | None = None,
) -> dict[Pair, float]:
    r"""Return the Poisson family's :math:`\max_\alpha \ell_n(\alpha, \psi)` exactly, by view pair.

    Training estimates it on blocks (:class:`BlockObjective`), and tests compare both.

    .. math:: \ell_p = \sum w_{ij} g_{ij} - W \log Z + W \log W - W
    """
    values = dict.fromkeys(graph.links, 0.0)  # without weight, alpha-hat and the maximum are 0
    weighted = {pair: links for pair, links in graph.links.items() if links.total > 0}
    callbacks = share_progress(_terms(weighted), on_progress)
    for (a, b), links in weighted.items():
        W, compared = links.total, similarity.for_pair(a, b)
        log_Z = log_partition(
            Y[a],
            None if links.within else Y[b],
            similarity=compared,
            on_progress=callbacks[a, b],
        )
        g = link_similarity(links, Y[a], Y[b], similarity=compared)
        values[a, b] = g + W * (math.log(W) - log_Z - 1)
    return values
