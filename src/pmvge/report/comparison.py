r"""Expected against observed: calibration, degrees, and similarities of linked and other pairs.

Nothing here holds n x m numbers: pairs come in tiles, and of large view pairs only a sample of rows
is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.graph import Links
from pmvge.report.summary import PAIRS, PairData

TILE = 2_000_000  # pairs held at once
FINE = 4096  # bins that are counted, before they are merged into those that are shown
SHOWN = 14  # bins that are shown, at most
LEAST = 10  # links expected in one that is shown, at least
DRAWN = 20_000  # similarities in each distribution
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Mean expected and mean observed weight of the pairs in each bin of expected weight."""

    expected: Array  # (bins,)
    observed: Array  # (bins,)
    error: Array  # (bins,) standard error of the observed mean
    pairs: Array  # (bins,) how many
    held_out: bool  # judged on held-out links, else on those of training
    rows: tuple[int, int, str]  # so many of so many rows were looked at, of the view


def calibration(data: PairData, rng: np.random.Generator, *, budget: int = PAIRS) -> Calibration:
    r"""Bin the pairs of a view pair by :math:`\mu_{ij}` and compare with :math:`w_{ij}`.

    Held-out links are compared with :math:`\mu` times the exposure, over all pairs: a link that
    fell to training might as well have been held out. Were the pairs of training left out, only
    those would remain of the most expected ones that happen to be held out, and the best model
    would seem to expect too little. The error is :math:`\sqrt{\sum w^2}` over the number of pairs,
    the Poisson error if all weights are 1.
    """
    view, Y, Y_other, truth = _longer_side_first(data)
    n, m = len(Y), len(Y_other)
    rows = np.sort(rng.permutation(n)[: max(1, budget // max(1, m))])
    drawn = np.zeros(n, dtype=bool)
    drawn[rows] = True
    log_scale = data.log_alpha + (np.log(data.exposure) if data.held_out is not None else 0.0)
    reach = float(np.linalg.norm(Y, axis=1).max() * np.linalg.norm(Y_other, axis=1).max()) + 1e-3
    low, width = log_scale - reach, 2 * reach / FINE
    table = np.zeros((FINE + 1, 5))  # pairs, sum of mu, of w, of w^2, links; last row: not judged
    for part in np.array_split(rows, -(-len(rows) * m // TILE)):
        log_mu = Y[part].astype(np.float64) @ Y_other.T.astype(np.float64) + log_scale
        at = np.clip((log_mu - low) / width, 0, FINE - 1).astype(np.int32)
        if data.training.within:  # a pair of two drawn rows counts once
            at[(part[:, None] >= np.arange(m)) & drawn] = FINE
        mu = np.exp(np.minimum(log_mu, 700.0))
        table[:, 0] += np.bincount(at.ravel(), minlength=FINE + 1)
        table[:, 1] += np.bincount(at.ravel(), mu.ravel(), FINE + 1)
        here = truth[part].tocoo()
        place, w = at[here.row, here.col], here.data
        for column, values in ((2, w), (3, w * w), (4, np.ones(len(w)))):
            table[:, column] += np.bincount(place, values, FINE + 1)
    pairs, mu, w, squares, _ = _merged(table[:FINE]).T
    return Calibration(
        expected=mu / pairs,
        observed=w / pairs,
        error=np.sqrt(squares) / pairs,
        pairs=pairs,
        held_out=data.held_out is not None,
        rows=(len(rows), n, view),
    )


def _longer_side_first(data: PairData) -> tuple[str, Array, Array, Any]:
    """A sample of rows tells most if there are many: the view with more entities has the rows."""
    truth = (data.training if data.held_out is None else data.held_out).matrix()
    (a, b) = data.pair
    if len(data.Y) >= len(data.Y_other):
        return a, data.Y, data.Y_other, truth
    return b, data.Y_other, data.Y, truth.T.tocsr()


def _merged(table: Array) -> Array:
    """Neighbouring fine bins together, until enough is expected in each, and something observed.

    Whether a bin is full is decided by what is expected, so that luck does not choose the bins.
    """
    links, weight = table[:, 4].sum(), table[:, 2].sum()
    least = LEAST * weight / max(links, 1)  # in units of weight
    filled = np.flatnonzero(table[:, 0])
    if not len(filled):
        return np.empty((0, 5))
    tail = np.flatnonzero(np.cumsum(table[:, 1]) >= least)
    step = (filled[-1] - (tail[0] if len(tail) else filled[0])) // SHOWN + 1
    bins, start, current = [], -FINE, np.zeros(5)
    for place in range(filled[-1] + 1):
        current = current + table[place]
        if current[1] >= least and current[2] > 0 and place - start >= step:
            bins.append(current)
            start, current = place, np.zeros(5)
    if current[0] and bins:
        bins[-1] = bins[-1] + current
    elif current[0]:
        bins.append(current)
    return np.array(bins)


@dataclass(frozen=True, eq=False)
class Degrees:
    """The share of nodes whose degree is at least so much, of those that have links."""

    view: str
    degree: Array  # ascending
    share: Array
    without: int  # nodes without links
    nodes: int


def degrees(data: PairData, *, points: int = 200) -> list[Degrees]:
    """The weighted degrees of training on both sides; within a view there is one side only."""
    sides = list(zip(data.pair, data.training.degrees(), strict=True))
    found = []
    for view, degree in sides[: 1 if data.training.within else 2]:
        linked = np.sort(degree[degree > 0])
        values, first = np.unique(linked, return_index=True)
        share = 1 - first / max(1, len(linked))
        if len(values) > points:  # evenly on the logarithmic axis, both ends among them
            wanted = np.geomspace(values[0], values[-1], points)
            keep = np.unique(np.minimum(np.searchsorted(values, wanted), len(values) - 1))
            keep = np.union1d(keep, [0, len(values) - 1])
            values, share = values[keep], share[keep]
        found.append(Degrees(view, values, share, len(degree) - len(linked), len(degree)))
    return found


def similarities(data: PairData, rng: np.random.Generator) -> dict[str, Array]:
    """Similarities g of linked, held-out and other pairs, at most ``DRAWN`` of each."""
    found = {"training": _of_links(data, data.training, rng)}
    if data.held_out is not None:
        found["held out"] = _of_links(data, data.held_out, rng)
    i, j = _unlinked(data, rng)
    found["not linked"] = _products(data, i, j)
    return {name: g for name, g in found.items() if len(g)}


def _of_links(data: PairData, links: Links, rng: np.random.Generator) -> Array:
    some = rng.permutation(len(links))[:DRAWN]
    return _products(data, links.rows[some], links.cols[some])


def _products(data: PairData, i: Array, j: Array) -> Array:
    products: Array = np.einsum(
        "nk,nk->n", data.Y[i].astype(np.float64), data.Y_other[j].astype(np.float64)
    )
    return products


def _unlinked(data: PairData, rng: np.random.Generator) -> tuple[Array, Array]:
    """Uniform pairs that no link joins, in training or held out."""
    n, m = data.training.shape
    i, j = rng.integers(n, size=DRAWN), rng.integers(m, size=DRAWN)
    if data.training.within:
        i, j = np.minimum(i, j), np.maximum(i, j)
        i, j = i[i < j], j[i < j]
    free = np.ones(len(i), dtype=bool)
    for links in (data.training, data.held_out):
        if links is not None:
            linked = links.rows.astype(np.int64) * m + links.cols
            free &= ~np.isin(i * m + j, linked)
    return i[free], j[free]
