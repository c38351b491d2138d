"""The interface of recommenders: fit to a graph, then vectors whose inner products rank pairs.

``queries`` are vectors of entities of the first view, ``candidates`` of the second. Both place
unseen entities where the method can: from features, or from first links.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.graph import Features, MultiViewGraph, Pair

Array = NDArray[Any]


class Recommender(ABC):
    """A method with settings. ``fit`` comes first."""

    libraries: ClassVar[tuple[str, ...]] = ()  # part of the extra ``bench``
    new_queries: bool = False  # whether it places unseen entities of the first view by features
    new_candidates: bool = False  # and those of the second view
    first_links: bool = False  # whether it places unseen entities of the first view by first links

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Fit the method to the links of a view pair."""

    @abstractmethod
    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return vectors of the training entities, or of unseen ones by features or first links."""

    @abstractmethod
    def candidates(self, X: Features | None = None) -> Array:
        """Return vectors of the training entities, or of unseen ones by features."""


def link_matrix(graph: MultiViewGraph, pair: Pair) -> sparse.csr_matrix:
    """Return links of weight 1 as the class that implicit and LightFM take."""
    return sparse.csr_matrix(graph.links[pair].matrix() > 0, dtype=np.float32)


def view_pairs(names: Sequence[str]) -> list[Pair]:
    """Return view pairs that are written as "artist,tag"."""
    pairs = []
    for name in names:
        first, second = name.split(",")
        pairs.append((first, second))
    return pairs


def linked_columns(
    graph: MultiViewGraph, view: str, pairs: Sequence[Pair]
) -> list[sparse.csr_array]:
    """Return which entities of other views each entity is linked to, 0 or 1, for each view pair.

    Within a view the columns are those of its own entities. Pairs of other views are left out.
    """
    found = []
    for first, second in pairs:
        if view in (first, second):
            matrix = (graph.links[first, second].matrix() > 0).astype(np.float32)
            found.append(matrix if first == view else matrix.T.tocsr())
    return found
