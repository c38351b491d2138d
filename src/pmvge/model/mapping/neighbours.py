"""The most similar entities and the top partners of a model's entities, for its map."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.graph import Pair
from pmvge.maps import Relation
from pmvge.model.fitted import Fitted
from pmvge.progress import OnProgress, share_progress
from pmvge.search import ExactIndex

SIMILAR = 15  # entities of the same view
PARTNERS = 10  # entities of a linked view
PLACED_BY = 5  # similar entities that place an entity outside the sample
Rows = NDArray[np.int64]
Kind = Literal["similar", "partners"]


def partner_count(n: int) -> int:
    """Return how many of n entities of a view count as top partners.

    They are 10, or a tenth of a view with fewer than 100 entities, and at least one.
    """
    return min(PARTNERS, max(1, n // 10))


def linked_pairs(fitted: Fitted) -> list[Pair]:
    """Return the observed view pairs in both orders; a view linked to itself once."""
    return [pair for given in fitted.alpha for pair in dict.fromkeys([given, given[::-1]])]


class Neighbours:
    """Search for the nearest entities in a sample ``{view: positions}`` of the entities."""

    def __init__(self, fitted: Fitted, sample: dict[str, Rows]) -> None:
        self._fitted, self._sample = fitted, sample
        self._indexes: dict[tuple[str, str, str], ExactIndex] = {}

    def of_sample(self, on_progress: OnProgress | None = None) -> list[Relation]:
        """Return the relations between all entities of the sample."""
        sizes = {view: len(rows) for view, rows in self._sample.items()}
        shares = share_progress(sizes, on_progress)
        return [
            relation
            for view, rows in self._sample.items()
            for relation in self._find(view, rows, SIMILAR, own=True, on_progress=shares[view])
        ]

    def of_others(self, view: str, rows: Rows) -> list[Relation]:
        """Return the relations of entities outside the sample to entities of the sample."""
        return self._find(view, rows, PLACED_BY, own=False)

    def _find(
        self,
        view: str,
        rows: Rows,
        k: int,
        *,
        own: bool,
        on_progress: OnProgress | None = None,
    ) -> list[Relation]:
        sizes = {other: len(at) for other, at in self._sample.items()}
        partners = [other for a, other in linked_pairs(self._fitted) if a == view]
        wanted: dict[tuple[str, Kind], int] = {(view, "similar"): k}
        wanted |= {(other, "partners"): partner_count(sizes[other]) for other in partners}
        if not set(partners) - {view}:  # no links to other views: placed by the vectors alone
            wanted |= {(other, "similar"): 1 for other in sizes if other != view}
        shares = share_progress({key: sizes[key[0]] for key in wanted}, on_progress)
        relations = []
        for (other, kind), number in wanted.items():
            nearest = self.nearest(
                view,
                rows,
                other,
                number,
                partners=kind == "partners",
                own=own and view == other,
                on_progress=shares[other, kind],
            )
            relations.append(Relation(view, other, nearest, kind))
        return relations

    def nearest(
        self,
        view: str,
        rows: Rows,
        other: str,
        k: int,
        *,
        partners: bool = True,
        own: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Rows:
        """Return the nearest k entities of view ``other``, as positions in its sample (n, k).

        They are the partners with the largest expected weights, or else the most similar ones by
        their vectors. ``own`` leaves out the entity itself; ``rows`` are then the whole sample.
        Positions are -1 where there are fewer than k.
        """
        key = (view, other, "partners" if partners else "similar")
        if key not in self._indexes:
            self._indexes[key] = ExactIndex(
                self._vectors(view, other, self._sample[other], partners, "candidate")
            )
        queries = self._vectors(view, other, rows, partners, "query")
        itself = sparse.csr_array(sparse.eye_array(len(rows))) if own else None
        return self._indexes[key].top_k(queries, k, itself, on_progress=on_progress)[0]

    def _vectors(
        self, view: str, other: str, rows: Rows, partners: bool, side: str
    ) -> NDArray[Any]:
        """Return vectors whose inner products rank entities of ``other`` for those of ``view``."""
        fitted = self._fitted
        similarity = fitted.vector_similarity
        if partners:
            similarity = fitted.pair_similarity.for_pair(view, other)
        if side == "query":
            return similarity.query_array(fitted.outputs[view][rows])
        return similarity.candidate_array(fitted.outputs[other][rows])
