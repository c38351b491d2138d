r"""Compare expected with observed weights: calibration, degrees, and similarities of pairs.

Memory does not grow with n x m: pairs are processed in chunks, and large view pairs are estimated
on a sample of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.graph import Links
from pmvge.report.summary import MAX_PAIRS, PairData

PAIRS_PER_CHUNK = 2_000_000  # pairs in memory at once
FINE_BINS = 4096  # bins that are counted, before neighbours are merged
MAX_BINS = 14  # bins that are shown, at most
MIN_LINKS_PER_BIN = 10  # links expected in each bin that is shown, at least
MAX_SIMILARITIES = 20_000  # sampled for each distribution
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Mean expected and mean observed weight of pairs, in bins of expected weight."""

    expected: Array  # (bins,)
    observed: Array  # (bins,)
    error: Array  # (bins,) standard error of the observed mean
    pairs: Array  # (bins,) number of pairs
    held_out: bool  # True: observed weights are held-out links; False: training links
    rows: tuple[int, int, str]  # rows used, rows in total, and their view


def calibration(
    data: PairData, rng: np.random.Generator, *, budget: int = MAX_PAIRS
) -> Calibration:
    r"""Return mean expected and observed weights of pairs, in bins of :math:`\mu_{ij}`.

    Held-out links are compared with :math:`\mu` times the exposure, over all pairs, those with
    training links included. Leaving them out would bias the comparison: among pairs with large
    :math:`\mu` mainly held-out ones would remain, and a perfect model would seem to expect too
    little. The error is :math:`\sqrt{\sum w^2}` over the number of pairs, which is the Poisson
    error if all weights are 1.
    """
    view, left, right, truth = _longer_side_first(data)
    n, m = len(left), len(right)
    rows = np.sort(rng.permutation(n)[: max(1, budget // max(1, m))])
    sampled = np.zeros(n, dtype=bool)
    sampled[rows] = True
    log_scale = data.log_alpha + (np.log(data.exposure) if data.held_out is not None else 0.0)
    chunks = np.array_split(rows, -(-len(rows) * m // PAIRS_PER_CHUNK))
    ends = [(p.min(), p.max()) for p in (_products(left, right, chunk) for chunk in chunks)]
    span = np.array([min(low for low, _ in ends), max(high for _, high in ends)])
    low, high = data.similarity.outer_array(span) + log_scale  # outer is increasing
    width = max(high - low, 1e-6) / FINE_BINS
    # Columns: pairs, sum of mu, of w, of w^2, links. The last row collects pairs to ignore.
    counts = np.zeros((FINE_BINS + 1, 5))
    for chunk in chunks:
        log_mu = data.similarity.outer_array(_products(left, right, chunk)) + log_scale
        bins = np.clip((log_mu - low) / width, 0, FINE_BINS - 1).astype(np.int32)
        if data.training.within:  # count a pair of two sampled rows once
            bins[(chunk[:, None] >= np.arange(m)) & sampled] = FINE_BINS
        mu = data.family.expected_array(np.minimum(log_mu, 700.0))
        counts[:, 0] += np.bincount(bins.ravel(), minlength=FINE_BINS + 1)
        counts[:, 1] += np.bincount(bins.ravel(), mu.ravel(), FINE_BINS + 1)
        links = truth[chunk].tocoo()
        link_bins, w = bins[links.row, links.col], links.data
        for column, values in ((2, w), (3, w * w), (4, np.ones(len(w)))):
            counts[:, column] += np.bincount(link_bins, values, FINE_BINS + 1)
    pairs, mu, w, squares, _ = _merge_bins(counts[:FINE_BINS]).T
    return Calibration(
        expected=mu / pairs,
        observed=w / pairs,
        error=np.sqrt(squares) / pairs,
        pairs=pairs,
        held_out=data.held_out is not None,
        rows=(len(rows), n, view),
    )


def _longer_side_first(data: PairData) -> tuple[str, Array, Array, Any]:
    """Return the view with more entities, its vectors, the other vectors, and the links.

    Rows are sampled from the longer side, which gives the smaller error.
    """
    truth = (data.training if data.held_out is None else data.held_out).matrix()
    (a, b) = data.pair
    if len(data.query) >= len(data.candidate):
        return a, data.query, data.candidate, truth
    return b, data.candidate, data.query, truth.T.tocsr()


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


@dataclass(frozen=True, eq=False)
class Degrees:
    """Complementary distribution of the degrees of the linked entities of a view."""

    view: str
    degree: Array  # ascending
    share: Array  # of linked entities with at least this degree
    n_unlinked: int
    n_entities: int


def degrees(data: PairData, *, points: int = 200) -> list[Degrees]:
    """Return the weighted training degrees of both sides; within a view there is one side."""
    sides = list(zip(data.pair, data.training.degrees(), strict=True))
    curves = []
    for view, degree in sides[: 1 if data.training.within else 2]:
        linked = np.sort(degree[degree > 0])
        values, first = np.unique(linked, return_index=True)
        share = 1 - first / max(1, len(linked))
        if len(values) > points:  # evenly spaced on a logarithmic axis, with both ends
            wanted = np.geomspace(values[0], values[-1], points)
            keep = np.unique(np.minimum(np.searchsorted(values, wanted), len(values) - 1))
            keep = np.union1d(keep, [0, len(values) - 1])
            values, share = values[keep], share[keep]
        curves.append(Degrees(view, values, share, len(degree) - len(linked), len(degree)))
    return curves


def _products(left: Array, right: Array, rows: Array) -> Array:
    """Return inner products (rows, m) in float64."""
    return left[rows].astype(np.float64) @ right.T.astype(np.float64)


def similarities(data: PairData, rng: np.random.Generator) -> dict[str, Array]:
    """Return similarities g of training, held-out and unlinked pairs.

    There are at most ``MAX_SIMILARITIES`` of each kind; kinds without pairs are left out.
    """
    by_kind = {"training": _of_links(data, data.training, rng)}
    if data.held_out is not None:
        by_kind["held out"] = _of_links(data, data.held_out, rng)
    i, j = _unlinked(data, rng)
    by_kind["not linked"] = _similarities(data, i, j)
    return {name: g for name, g in by_kind.items() if len(g)}


def _of_links(data: PairData, links: Links, rng: np.random.Generator) -> Array:
    sample = rng.permutation(len(links))[:MAX_SIMILARITIES]
    return _similarities(data, links.rows[sample], links.cols[sample])


def _similarities(data: PairData, i: Array, j: Array) -> Array:
    """Return g of pairs (i, j)."""
    left, right = data.query[i].astype(np.float64), data.candidate[j].astype(np.float64)
    return data.similarity.outer_array(np.einsum("nk,nk->n", left, right))


def _unlinked(data: PairData, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw uniform pairs and return those without a training or held-out link."""
    n, m = data.training.shape
    i, j = rng.integers(n, size=MAX_SIMILARITIES), rng.integers(m, size=MAX_SIMILARITIES)
    if data.training.within:
        i, j = np.minimum(i, j), np.maximum(i, j)
        i, j = i[i < j], j[i < j]
    unlinked = np.ones(len(i), dtype=bool)
    for links in (data.training, data.held_out):
        if links is not None:
            linked = links.rows.astype(np.int64) * m + links.cols
            unlinked &= ~np.isin(i * m + j, linked)
    return i[unlinked], j[unlinked]
