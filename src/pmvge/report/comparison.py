"""Compare expected with observed weights: calibration, degrees, and similarities of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.evaluation import MAX_PAIRS, Reliability, reliability_bins
from pmvge.graph import Links
from pmvge.report.summary import PairData

MAX_SIMILARITIES = 20_000  # sampled for each distribution
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Calibration:
    """The reliability diagram of a view pair."""

    bins: Reliability
    held_out: bool  # True: observed weights are held-out links; False: training links
    rows: tuple[int, int, str]  # rows used, rows in total, and their view


def calibration(
    data: PairData, rng: np.random.Generator, *, budget: int = MAX_PAIRS
) -> Calibration:
    r"""Return mean expected and observed weights of pairs, in bins of :math:`\mu_{ij}`.

    Held-out links are compared with :math:`\mu` times the exposure, over all pairs, those with
    training links included. Leaving them out would bias the comparison: among pairs with large
    :math:`\mu` mainly held-out ones would remain, and a perfect model would seem to expect too
    little.
    """
    bins = reliability_bins(
        data.query,
        data.candidate,
        data.training if data.held_out is None else data.held_out,
        log_alpha=data.log_alpha,
        exposure=1.0 if data.held_out is None else data.exposure,
        similarity=data.similarity,
        family=data.family,
        rng=rng,
        max_pairs=budget,
    )
    n, m = len(data.query), len(data.candidate)
    rows = (bins.n_sampled, max(n, m), data.pair[0 if n >= m else 1])
    return Calibration(bins, data.held_out is not None, rows)


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
