"""PMvGE as a recommender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from pmvge.experiments.recipe import model_settings
from pmvge.experiments.recommender.base import Array, Recommender, linked_columns, view_pairs
from pmvge.graph import Features, MultiViewGraph, Pair
from pmvge.model import PMvGE


class Ours(Recommender):
    """PMvGE. ``features=False`` leaves out the features of both views.

    ``further`` lists other view pairs whose links are used, too, such as "artist,tag", and
    ``linked_features`` those whose links are features, in place of others: an artist has a column
    for each tag, and rows have length 1. Unseen entities are then not placed by features.
    """

    def __init__(
        self,
        *,
        features: bool = True,
        further: Sequence[str] = (),
        linked_features: Sequence[str] = (),
        **settings: Any,
    ) -> None:
        super().__init__(**model_settings({"effects": "auto", **settings}))
        self._features = features
        self._further = view_pairs(further)
        self._linked_features = view_pairs(linked_features)
        self.new_queries = self.new_candidates = features and not linked_features
        self.first_links = self.settings["effects"] in ("auto", "vector")

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Fit a model."""
        used = [key for key in graph.links if key in (pair, *self._further)]
        views = {
            view: self._features_of(graph, view)
            for view in graph.views
            if any(view in key for key in used)
        }
        tables = {key: graph.links[key] for key in used}
        # Linked or not, as for the other methods.
        links = {key: (each.rows, each.cols, np.ones(len(each))) for key, each in tables.items()}
        graph = MultiViewGraph(views, links, {view: graph.ids[view] for view in views})
        self._pair = pair
        self._model = PMvGE(**self.settings, random_state=seed, progress=False).fit(graph)

    def _features_of(self, graph: MultiViewGraph, view: str) -> Features | int:
        """Return the features of a view, or its size if it has none."""
        columns = linked_columns(graph, view, self._linked_features)
        if columns:
            return sparse.csr_array(normalize(sparse.hstack(columns)))
        X = graph.views[view]
        return graph.sizes[view] if X is None or not self._features else X

    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return query vectors, of unseen entities with first links by fold-in."""
        view, other = self._pair
        if links is None:
            return self._model.vectors(view, X, among=other, side="query")
        entries = links.tocoo()
        first = {other: (entries.row, self._model.ids_[other][entries.col], entries.data)}
        if not self._features:
            X = None
        Y = self._model.vectors(view, X, links=first, among=other, side="query")
        return np.pad(Y, ((0, links.shape[0] - len(Y)), (0, 0)))  # last rows without links

    def candidates(self, X: Features | None = None) -> Array:
        """Return candidate vectors."""
        view, other = self._pair
        return self._model.vectors(other, X, among=view, side="candidate")
