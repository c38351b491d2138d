"""Affinities of the entities of all views, from their nearest ones of their own and other views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

PARTNER_SHARE = 0.6  # of the affinity of an entity that goes to its partners


class Relation(NamedTuple):
    """The nearest entities of view ``other`` of each entity of view ``view``.

    ``nearest`` (n, k) are positions in ``other``, -1 where there are fewer than k. They are
    "similar" ones, by their vectors, or "partners", by expected weights.
    """

    view: str
    other: str
    nearest: NDArray[np.int64]
    kind: Literal["similar", "partners"]


def affinities(
    sizes: Mapping[str, int], relations: Sequence[Relation], share: float = PARTNER_SHARE
) -> sparse.csr_array:
    """Return a symmetric matrix (N, N) with sum 1 over the entities of all views, in order.

    Each entity gives the same total to its nearest ones: ``share`` to partners, divided equally
    among the linked views, and the rest to similar entities, to all of them the same; everything to
    one kind if it has no other. So an entity that is the partner of many has no more to give than
    others. The matrix is the mean of what two entities give to each other.
    """
    starts = _starts(sizes)
    N = sum(sizes.values())
    rows, columns, values = [], [], []
    for relation, weights in zip(relations, relation_weights(relations, share), strict=True):
        given = weights > 0
        rows.append(np.nonzero(given)[0] + starts[relation.view])
        columns.append(relation.nearest[given] + starts[relation.other])
        values.append(weights[given])
    ends = tuple(np.concatenate(part) if part else np.empty(0, int) for part in (rows, columns))
    P = sparse.csr_array((np.concatenate([*values, np.empty(0)]), ends), shape=(N, N))
    P = sparse.csr_array(P + P.T)
    total = P.sum()
    return P / total if total > 0 else P


def relation_weights(
    relations: Sequence[Relation], share: float = PARTNER_SHARE
) -> list[NDArray[np.float64]]:
    """Return what each entity gives to its nearest ones, (n, k) for each relation; 0 for -1."""
    totals: dict[tuple[str, str], int] = {}
    for view, _, nearest, kind in relations:
        parts = nearest.shape[1] if kind == "similar" else 1
        totals[view, kind] = totals.get((view, kind), 0) + parts
    weights = []
    for view, _, nearest, kind in relations:
        part = share if kind == "partners" else 1 - share
        if (view, "similar" if kind == "partners" else "partners") not in totals:
            part = 1.0
        part *= (nearest.shape[1] if kind == "similar" else 1) / max(1, totals[view, kind])
        there = nearest >= 0
        weights.append(part * there / np.maximum(there.sum(axis=1, keepdims=True), 1))
    return weights


def _starts(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the row of the first entity of each view."""
    firsts = np.cumsum([0, *sizes.values()])[:-1]
    return {view: int(first) for view, first in zip(sizes, firsts, strict=True)}
