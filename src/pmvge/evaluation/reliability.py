r"""Reliability diagrams: mean observed against mean expected weight, in bins of expected weight.

One ratio of totals hides errors that cancel, and where a few entity pairs carry most of the
expected weight it is mostly noise. Memory does not grow with n x m: pairs are processed in chunks,
and large view pairs are estimated on a sample of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.graph import Links
from pmvge.likelihoods import POISSON, Family
from pmvge.similarities import INNER, Similarity

MAX_PAIRS = 20_000_000  # larger view pairs are estimated on a sample of rows
PAIRS_PER_CHUNK = 2_000_000  # pairs in memory at once
FINE_BINS = 4096  # bins that are counted, before neighbours are merged
MAX_BINS = 14  # bins that are returned, at most
MIN_LINKS_PER_BIN = 10  # links expected in each bin that is returned, at least
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Reliability:
    """Mean expected and mean observed weight of entity pairs, in bins of expected weight."""

    expected: Array  # (bins,)
    observed: Array  # (bins,)
    error: Array  # (bins,) standard error of the observed mean
    pairs: Array  # (bins,) number of pairs
    n_sampled: int  # entities of the longer side that were used


def reliability_bins(
    query: Array,
    candidate: Array,
    links: Links,
    *,
    log_alpha: float,
    exposure: float = 1.0,
    similarity: Similarity = INNER,
    family: Family = POISSON,
    rng: np.random.Generator,
    max_pairs: int = MAX_PAIRS,
) -> Reliability:
    r"""Return mean expected and observed weights of all pairs, in bins of :math:`\mu_{ij}`.

    The error of an observed mean is :math:`\sqrt{\sum w^2}` over the number of pairs, which is the
    Poisson error if all weights are 1.

    Parameters
    ----------
    query, candidate
        Vectors (n, Q) and (m, Q) of both sides, as :meth:`PMvGE.vectors <pmvge.PMvGE.vectors>`
        returns them: g is an increasing function of their inner product.
    links
        The observed weights.
    log_alpha, exposure
        The expected weight is that of :math:`\eta = \log(\text{exposure} \cdot \alpha) + g`.
    similarity, family
        The similarity, for that increasing function, and the likelihood family.
    rng, max_pairs
        Above ``max_pairs`` pairs, entities of the longer side are sampled.
    """
    left, right, truth = query, candidate, links.matrix()
    if len(left) < len(right):  # a sample of the longer side has the smaller error
        left, right, truth = right, left, truth.T.tocsr()
    n, m = len(left), len(right)
    rows = np.sort(rng.permutation(n)[: max(1, max_pairs // max(1, m))])
    sampled = np.zeros(n, dtype=bool)
    sampled[rows] = True
    log_scale = log_alpha + math.log(exposure)
    # |<q, c>| <= |q| |c|, and outer is increasing: the range of g.
    reach = float(np.linalg.norm(left, axis=1).max() * np.linalg.norm(right, axis=1).max()) + 1e-3
    low, high = similarity.outer_array(np.array([-reach, reach])) + log_scale
    width = (high - low) / FINE_BINS
    # Columns: pairs, sum of mu, of w, of w^2, links. The last row collects pairs to ignore.
    counts = np.zeros((FINE_BINS + 1, 5))
    for chunk in np.array_split(rows, -(-len(rows) * m // PAIRS_PER_CHUNK)):
        product = left[chunk].astype(np.float64) @ right.T.astype(np.float64)
        log_mu = similarity.outer_array(product) + log_scale
        bins = np.clip((log_mu - low) / width, 0, FINE_BINS - 1).astype(np.int32)
        if links.within:  # count a pair of two sampled rows once
            bins[(chunk[:, None] >= np.arange(m)) & sampled] = FINE_BINS
        mu = family.expected_array(np.minimum(log_mu, 700.0))
        counts[:, 0] += np.bincount(bins.ravel(), minlength=FINE_BINS + 1)
        counts[:, 1] += np.bincount(bins.ravel(), mu.ravel(), FINE_BINS + 1)
        part = truth[chunk].tocoo()
        link_bins, w = bins[part.row, part.col], part.data
        for column, values in ((2, w), (3, w * w), (4, np.ones(len(w)))):
            counts[:, column] += np.bincount(link_bins, values, FINE_BINS + 1)
    pairs, mu, w, squares, _ = _merge_bins(counts[:FINE_BINS]).T
    return Reliability(mu / pairs, w / pairs, np.sqrt(squares) / pairs, pairs, len(rows))


def _merge_bins(counts: Array) -> Array:
    """Return fine bins merged until each has enough expected weight and some observed weight.

    The size of a bin depends on expected weights: observed weights would bias the choice.
    """
    links, weight = counts[:, 4].sum(), counts[:, 2].sum()
    min_weight = MIN_LINKS_PER_BIN * weight / max(links, 1)
    filled = np.flatnonzero(counts[:, 0])
    if not len(filled):
        return np.empty((0, 5))
    tail = np.flatnonzero(np.cumsum(counts[:, 1]) >= min_weight)
    step = (filled[-1] - (tail[0] if len(tail) else filled[0])) // MAX_BINS + 1
    bins, start, current = [], -FINE_BINS, np.zeros(5)
    for index in range(filled[-1] + 1):
        current = current + counts[index]
        if current[1] >= min_weight and current[2] > 0 and index - start >= step:
            bins.append(current)
            start, current = index, np.zeros(5)
    if current[0] and bins:
        bins[-1] = bins[-1] + current
    elif current[0]:
        bins.append(current)
    return np.array(bins)
