"""Retrieval examples: a few entities of every view pair, and their best partners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmvge.graph import Links, find_ids
from pmvge.model import PMvGE
from pmvge.report.summary import PairData

QUERIES = 6  # examples of a view pair
KNOWN, HELD_OUT, NEW = "training", "held out", "new"


@dataclass(frozen=True)
class Partner:
    """A partner of a query: its position, the expected weight, and the status of the link."""

    position: int
    expected: float
    status: str  # KNOWN, HELD_OUT or NEW


@dataclass(frozen=True)
class Example:
    """A query: its position, its numbers of links, and its best partners."""

    position: int
    training: int
    held_out: int
    partners: list[Partner]


def examples(
    model: PMvGE, data: PairData, k: int, rng: np.random.Generator, *, queries: int = QUERIES
) -> list[Example]:
    """Return the k best partners of a few rows; rows with held-out links are preferred."""
    (a, b), rows = data.pair, _queries(data, queries, rng)
    ids, mu = model.search(a, ids=model.ids_[a][rows], among=b, k=k, exclude="self")
    at = find_ids(model.ids_[b], ids.ravel()).reshape(ids.shape)
    chosen = []
    for row, i in enumerate(rows.tolist()):
        known, held = _partners(data.training, i), _partners(data.held_out, i)
        partners = [
            Partner(j, weight, KNOWN if j in known else HELD_OUT if j in held else NEW)
            for j, weight in zip(at[row].tolist(), mu[row].tolist(), strict=True)
            if j >= 0
        ]
        chosen.append(Example(i, len(known), len(held), partners))
    return chosen


def _queries(data: PairData, queries: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return sorted rows; those with held-out links are preferred, then those with links."""
    chosen: list[int] = []
    for links in (data.held_out, data.training):
        if links is not None:
            ends = np.union1d(links.rows, links.cols) if links.within else np.unique(links.rows)
            candidates = np.setdiff1d(ends, chosen)
            chosen += rng.permutation(candidates)[: queries - len(chosen)].tolist()
    others = np.setdiff1d(np.arange(min(data.training.shape[0], 10 * queries)), chosen)
    chosen += others[: queries - len(chosen)].tolist()
    return np.array(sorted(chosen), dtype=np.int64)


def _partners(links: Links | None, i: int) -> set[int]:
    if links is None:
        return set()
    start, stop = np.searchsorted(links.rows, [i, i + 1])  # links are sorted by row
    partners = set(links.cols[start:stop].tolist())
    return partners | set(links.rows[links.cols == i].tolist()) if links.within else partners
