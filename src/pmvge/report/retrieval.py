"""Retrieval examples: a few entities of every view pair, and their best partners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmvge.graph import Links
from pmvge.likelihoods import expected_weight
from pmvge.report.summary import PairData
from pmvge.search import top_k

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
    data: PairData, k: int, rng: np.random.Generator, *, queries: int = QUERIES
) -> list[Example]:
    """Return the k best partners of a few rows; rows with held-out links are preferred."""
    query_rows = _queries(data, queries, rng)
    within = data.training.within
    at, product = top_k(data.query[query_rows], data.candidate, k + within)
    mu = expected_weight(data.similarity.outer_array(product), data.log_alpha)
    known = [_partners(data.training, int(i)) for i in query_rows]
    held = [_partners(data.held_out, int(i)) for i in query_rows]
    chosen = []
    for row, i in enumerate(query_rows.tolist()):
        partners = [
            Partner(
                j,
                weight,
                KNOWN if j in known[row] else HELD_OUT if j in held[row] else NEW,
            )
            for j, weight in zip(at[row].tolist(), mu[row].tolist(), strict=True)
            if not (within and j == i)
        ]
        chosen.append(Example(i, len(known[row]), len(held[row]), partners[:k]))
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
