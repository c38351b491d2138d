"""Retrieval examples: a few entities of every view pair, and their best partners."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmvge.graph import Links, find_ids
from pmvge.model import PMvGE
from pmvge.report.summary import PairData

QUERIES = 6  # examples of a view pair
STRONGEST = 3  # known links that are shown
KNOWN, HELD_OUT, NEW = "training", "held out", "new"


@dataclass(frozen=True)
class Partner:
    """A partner of a query: its position, its score, and the status of the link."""

    position: int
    expected: float  # the expected weight; of similar entities the similarity
    status: str  # KNOWN, HELD_OUT or NEW


@dataclass(frozen=True)
class Example:
    """A query: its position, its numbers of links, and its best partners.

    ``partners`` have no training link; ``known`` are those with the strongest training links.
    """

    position: int
    training: int
    held_out: int
    partners: list[Partner]
    known: list[Partner]


def examples(
    model: PMvGE, data: PairData, k: int, rng: np.random.Generator, *, queries: int = QUERIES
) -> list[Example]:
    """Return the k best partners of a few rows; rows with held-out links are preferred."""
    (a, b), rows = data.pair, _queries(data, queries, rng)
    links = [(_partners(data.training, i), _partners(data.held_out, i)) for i in rows.tolist()]
    # Training links are left out below; held-out links are not.
    most = k + max((len(known) for known, _ in links), default=0)
    ids, mu = model.search(a, ids=model.ids_[a][rows], among=b, k=most, exclude="self")
    at = find_ids(model.ids_[b], ids.ravel()).reshape(ids.shape)
    at[np.isnan(mu)] = -1  # no partner; -1 may also be an id
    chosen = []
    for row, (i, (known, held)) in enumerate(zip(rows.tolist(), links, strict=True)):
        expected = dict(zip(at[row].tolist(), mu[row].tolist(), strict=True))
        partners = [
            Partner(j, weight, HELD_OUT if j in held else NEW)
            for j, weight in expected.items()
            if j >= 0 and j not in known
        ]
        strongest = sorted(known, key=lambda j: (-known[j], -expected.get(j, 0.0), j))[:STRONGEST]
        shown = [Partner(j, expected.get(j, math.nan), KNOWN) for j in strongest]
        chosen.append(Example(i, len(known), len(held), partners[:k], shown))
    return chosen


def similar(
    model: PMvGE, view: str, k: int, *, queries: int = QUERIES
) -> list[tuple[int, list[Partner]]]:
    """Return the k most similar entities of a view, for those with the most links.

    They are those of :meth:`PMvGE.similar <pmvge.PMvGE.similar>`.
    """
    degree = np.zeros(len(model.ids_[view]))
    for pair, links in (model.links_.training if model.links_ else {}).items():
        for end, values in zip(pair, links.degrees(), strict=True):
            degree += values if end == view else 0
    rows = np.argsort(-degree, kind="stable")[:queries]
    ids, scores = model.similar(view, ids=model.ids_[view][rows], k=k)
    at = find_ids(model.ids_[view], ids.ravel()).reshape(ids.shape)
    found = []
    for i, near, g in zip(rows, at, scores, strict=True):
        partners = [Partner(int(j), float(g[n]), NEW) for n, j in enumerate(near)]
        found.append((int(i), [partner for partner in partners if not np.isnan(partner.expected)]))
    return found


def _queries(data: PairData, queries: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return sorted rows; those with held-out and training links first, then those with one."""
    held, known = (_linked(links) for links in (data.held_out, data.training))
    chosen: list[int] = []
    for rows in (np.intersect1d(held, known), held, known):
        candidates = np.setdiff1d(rows, chosen)
        chosen += rng.permutation(candidates)[: queries - len(chosen)].tolist()
    others = np.setdiff1d(np.arange(min(data.training.shape[0], 10 * queries)), chosen)
    chosen += others[: queries - len(chosen)].tolist()
    return np.array(sorted(chosen), dtype=np.int64)


def _linked(links: Links | None) -> NDArray[np.int64]:
    """Return the rows that have links."""
    if links is None:
        return np.empty(0, np.int64)
    ends = np.union1d(links.rows, links.cols) if links.within else np.unique(links.rows)
    return ends.astype(np.int64)


def _partners(links: Links | None, i: int) -> dict[int, float]:
    """Return the partners of a row, and the weights of their links."""
    if links is None:
        return {}
    start, stop = np.searchsorted(links.rows, [i, i + 1])  # links are sorted by row
    partners = zip(links.cols[start:stop].tolist(), links.weights[start:stop].tolist(), strict=True)
    found = dict(partners)
    if links.within:
        other = links.cols == i
        found |= zip(links.rows[other].tolist(), links.weights[other].tolist(), strict=True)
    return found
