"""The contract of every method: settings in the constructor, ``fit``, ``embeddings_``, ``embed``.

A method declares what it can do in five flags, the columns of the paper's table 1, and implements
two steps: ``_fit``, from a checked graph to vectors, and ``_embed``, from checked rows to vectors.
Everything else happens here, once: checks of settings, of the graph and of new rows, and vectors of
K columns whatever the method found.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator

from pmvge.baselines.flattening import flatten
from pmvge.checks import Check, NotFitted, flag, pick_seed, real, sizes, whole
from pmvge.errors import GraphError, InputError, NotInductive, ParameterError
from pmvge.graph import Features, Ids, MultiViewGraph, check_rows, trained_positions

Vectors = NDArray[Any]  # (n, K) float32, or on its way there
# The checks of settings that mean the same in every method; a method adds its own in ``checks``.
COMMON: dict[str, Check] = {
    "n_components": whole(1),
    "hidden_sizes": sizes,
    "dropout": real(0, 1),
    "batch_size": whole(2),
    "n_negatives": whole(1),
    "max_steps": whole(1),
    "learning_rate": real(0, open_low=True),
    "weight_decay": real(0),
    "shrinkage": real(0, 1, closed_high=True),
    "center": flag,
    "progress": flag,
    "random_state": lambda name, value: None,  # looked at by pick_seed
}


class Baseline(BaseEstimator, ABC):
    """A method that embeds the nodes of a graph, with the flags of the paper's table 1.

    Attributes
    ----------
    embeddings_
        ``{view: (n, K)}`` of the training nodes, float32. What a method has no use for (directions
        beyond the rank of the data, nodes that it knows nothing about) is 0.
    ids_
        ``{view: (n,)}``, their ids.
    view_names_
        The views.
    """

    n_views: ClassVar[Literal[0, 1, 2, "D"]]  # 0: links alone, features are not looked at
    many_to_many: ClassVar[bool]
    nonlinear: ClassVar[bool]
    inductive: ClassVar[bool]
    likelihood_based: ClassVar[bool]

    needs_features: ClassVar[bool] = False  # else a view without features is a one-hot one
    needs_links: ClassVar[bool] = True
    within_view: ClassVar[bool] = True  # whether links within a view are of use
    knows_isolated: ClassVar[bool] = False  # whether having no links says something
    libraries: ClassVar[tuple[str, ...]] = ()  # of the extra ``baselines``
    checks: ClassVar[Mapping[str, Check]] = {}

    embeddings_: dict[str, NDArray[np.float32]]
    ids_: dict[str, Ids]
    view_names_: tuple[str, ...]

    # -- what a method implements -----------------------------------------------------------

    @abstractmethod
    def _fit(self, graph: MultiViewGraph, seed: int) -> Mapping[str, Vectors]:
        """Learn, and return the vectors of each view's nodes, (n, at most K)."""

    def _embed(self, view: str, X: Features) -> Vectors:
        """The vectors of new rows, (n, at most K). Inductive methods have it."""
        raise NotImplementedError

    # -- what a user calls ------------------------------------------------------------------

    def fit(self, graph: MultiViewGraph) -> Self:
        """Learn the vectors of the graph's nodes."""
        self._forget()
        self._check_settings()
        self._check_graph(graph)
        for library in self.libraries:
            self._check_library(library)
        vectors = self._fit(graph, pick_seed(getattr(self, "random_state", 0)))
        self.embeddings_ = {view: self._finish(vectors[view]) for view in graph.view_names}
        self._clear_unknown(graph)
        self.ids_ = {view: ids.copy() for view, ids in graph.ids.items()}
        self.view_names_ = graph.view_names
        self._row_shapes = {view: graph.input_shape(view) for view in graph.view_names}
        return self

    def embed(self, view: str, X: Any) -> NDArray[np.float32]:
        """Embed entities of a view from their features: (n, ...) to (n, K).

        For a featureless view X are ids that were in training. A method that is not inductive
        raises :class:`~pmvge.errors.NotInductive`.
        """
        if not hasattr(self, "embeddings_"):
            raise NotFitted(f"this {self._name} is not fitted yet: call fit(graph) first")
        if not isinstance(view, str) or view not in self._row_shapes:
            known = ", ".join(map(repr, self.view_names_))
            raise InputError(f"unknown view {view!r}: expected one of {known}")
        if not self.inductive:
            raise NotInductive(
                f"{self._name} has no map from features to vectors, so it cannot embed new rows; "
                "the vectors of the training nodes are in embeddings_"
            )
        return self._embed_known(view, X)

    def _embed_known(self, view: str, X: Any) -> NDArray[np.float32]:
        shape = self._row_shapes[view]
        if shape is None:
            return self.embeddings_[view][trained_positions(view, self.ids_[view], X)]
        rows = flat(check_rows(view, X, shape))
        if not rows.shape[0]:  # scikit-learn, for one, refuses
            return np.empty((0, self.n_components), np.float32)
        return self._finish(self._embed(view, rows))

    # -- checks, once -----------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _forget(self) -> None:
        """Nothing of an earlier fit is left, whether this one succeeds or not."""
        for name in set(vars(self)) - set(self.get_params(deep=False)):
            delattr(self, name)

    def _clear_unknown(self, graph: MultiViewGraph) -> None:
        """A node without links and without features that are looked at has the vector 0."""
        if self.knows_isolated:
            return
        nodes = flatten(graph)
        isolated = nodes.split(nodes.degrees == 0)
        for view, X in graph.views.items():
            if X is None or self.n_views == 0:
                self.embeddings_[view][isolated[view]] = 0

    def _finish(self, Y: Vectors) -> NDArray[np.float32]:
        """Vectors of exactly K columns: what the data had no rank for is 0."""
        padded = np.zeros((len(Y), self.n_components), np.float32)
        padded[:, : Y.shape[1]] = Y
        return padded

    def _check_settings(self) -> None:
        checks = COMMON | dict(self.checks)
        for name, value in self.get_params(deep=False).items():
            try:
                checks[name](name, value)
            except ParameterError as error:
                raise ParameterError(f"{self._name}: {error}") from error

    def _check_graph(self, graph: Any) -> None:
        if not isinstance(graph, MultiViewGraph):
            raise GraphError(f"fit: expected a MultiViewGraph, got {type(graph).__name__}")
        name, D = self._name, len(graph.view_names)
        named = ", ".join(map(repr, graph.view_names))
        if self.n_views in (1, 2) and self.n_views != D:
            takes = "1 view" if self.n_views == 1 else "2 views"
            raise GraphError(f"{name} takes {takes}, got {D}: {named}")
        if self.needs_features:
            for view, X in graph.views.items():
                if X is None:
                    raise GraphError(
                        f"{name} needs features, but view {view!r} has none; "
                        "SGE, LINE or DeepWalk embed by links alone"
                    )
        if not self.needs_links:
            return
        if graph.total_weight <= 0:
            raise GraphError("fit: the graph has no links at all: there is nothing to learn from")
        if not self.within_view:
            for a, b in graph.links:
                if a == b:
                    raise GraphError(
                        f"{name} takes links between views only, got links within {a!r}; "
                        "CDMCA takes both"
                    )

    def _check_library(self, library: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a library warns of itself is no concern here
                import_module(library)
        except ImportError as error:
            package = library.replace("_", "-")
            raise InputError(
                f"{self._name} needs {package}: pip install 'pmvge[baselines]'"
            ) from error


def flat(X: Features) -> Features:
    """Rows of any shape as vectors."""
    return X.reshape(len(X), math.prod(X.shape[1:])) if isinstance(X, np.ndarray) else X


def inputs(graph: MultiViewGraph) -> dict[str, Features]:
    """Each view's rows as vectors; the nodes of a featureless view are one-hot (0-view)."""
    return {
        view: sparse.eye_array(graph.sizes[view], format="csr", dtype=np.float32)
        if X is None
        else flat(X)
        for view, X in graph.views.items()
    }
