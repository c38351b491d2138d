"""The base class of all methods, with ``fit``, ``embeddings_`` and ``embed``.

A method sets five flags, the columns of the paper's table 1, and implements two functions: ``_fit``
maps a validated graph to vectors, ``_embed`` maps validated rows of features to vectors. The base
class validates parameters, graphs and new rows, and pads vectors to K columns.
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
from pmvge.checks import Check, NotFitted, flag, integer, pick_seed, real, sizes
from pmvge.errors import GraphError, InputError, NotInductive, ParameterError, choose
from pmvge.graph import Features, Ids, MultiViewGraph, check_rows, known_positions

Vectors = NDArray[Any]  # (n, at most K), of any float type
# Checks of parameters that several methods share; a method adds its own in ``checks``.
COMMON_CHECKS: dict[str, Check] = {
    "n_components": integer(1),
    "hidden_sizes": sizes,
    "dropout": real(0, 1),
    "batch_size": integer(2),
    "n_negatives": integer(1),
    "max_steps": integer(1),
    "learning_rate": real(0, open_low=True),
    "weight_decay": real(0),
    "shrinkage": real(0, 1, closed_high=True),
    "center": flag,
    "progress": flag,
    "random_state": lambda name, value: None,  # checked by pick_seed
}


class Baseline(BaseEstimator, ABC):
    """Base class of methods that embed the entities of a graph.

    The class attributes ``n_views``, ``many_to_many``, ``nonlinear``, ``inductive`` and
    ``likelihood_based`` are the columns of the paper's table 1.

    Attributes
    ----------
    embeddings_
        ``{view: (n, K)}``, float32: the vectors of the training entities. Columns beyond the rank
        of the data are 0, and so are the vectors of entities without any information.
    ids_
        ``{view: (n,)}``: the ids of the training entities.
    view_names_
        The names of the views.
    """

    n_views: ClassVar[Literal[0, 1, 2, "D"]]  # 0: uses links only and ignores features
    many_to_many: ClassVar[bool]
    nonlinear: ClassVar[bool]
    inductive: ClassVar[bool]
    likelihood_based: ClassVar[bool]

    needs_features: ClassVar[bool] = False  # False: entities of a view without features are one-hot
    needs_links: ClassVar[bool] = True
    within_view: ClassVar[bool] = True  # whether links within a view are accepted
    embeds_isolated: ClassVar[bool] = False  # True: vectors of entities without links are kept
    libraries: ClassVar[tuple[str, ...]] = ()  # required; part of the extra ``baselines``
    checks: ClassVar[Mapping[str, Check]] = {}

    embeddings_: dict[str, NDArray[np.float32]]
    ids_: dict[str, Ids]
    view_names_: tuple[str, ...]

    # -- implemented by methods ---------------------------------------------------------------

    @abstractmethod
    def _fit(self, graph: MultiViewGraph, seed: int) -> Mapping[str, Vectors]:
        """Fit the method and return the vectors of each view's entities, (n, at most K)."""

    def _embed(self, view: str, X: Features) -> Vectors:
        """Return the vectors of new rows, (n, at most K). Inductive methods implement it."""
        raise NotImplementedError

    # -- called by users ----------------------------------------------------------------------

    def fit(self, graph: MultiViewGraph) -> Self:
        """Fit the method to a graph, and return ``self``.

        Raise :class:`~pmvge.errors.ParameterError` for an invalid parameter and
        :class:`~pmvge.errors.GraphError` for a graph that the method does not accept.
        """
        self._reset()
        self._check_parameters()
        self._check_graph(graph)
        for library in self.libraries:
            self._check_library(library)
        vectors = self._fit(graph, pick_seed(getattr(self, "random_state", 0)))
        self.embeddings_ = {view: self._pad(vectors[view]) for view in graph.view_names}
        self._zero_unlinked(graph)
        self.ids_ = {view: ids.copy() for view, ids in graph.ids.items()}
        self.view_names_ = graph.view_names
        self._row_shapes = {view: graph.input_shape(view) for view in graph.view_names}
        return self

    def embed(self, view: str, X: Any) -> NDArray[np.float32]:
        """Return the vectors (n, K) of entities of a view, from their features X (n, ...).

        For a view without features, X is a list of ids from training. Raise
        :class:`~pmvge.errors.NotInductive` if the method is not inductive or an id was not in
        training, and :class:`~pmvge.errors.InputError` if X does not match the rows in training.
        """
        if not hasattr(self, "embeddings_"):
            raise NotFitted(f"this {self._name} is not fitted yet: call fit(graph) first")
        choose("view", view, self.view_names_, error=InputError)
        if not self.inductive:
            raise NotInductive(
                f"{self._name} is not inductive and cannot embed new rows; embeddings_ has the "
                "vectors of the training entities"
            )
        return self._embed_checked(view, X)

    def _embed_checked(self, view: str, X: Any) -> NDArray[np.float32]:
        shape = self._row_shapes[view]
        if shape is None:
            return self.embeddings_[view][known_positions(view, self.ids_[view], X)]
        rows = flat(check_rows(view, X, shape))
        if not rows.shape[0]:  # scikit-learn raises for arrays without rows
            return np.empty((0, self.n_components), np.float32)
        return self._pad(self._embed(view, rows))

    # -- validation ---------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _reset(self) -> None:
        """Remove all fitted attributes: a failed fit must not leave those of an earlier fit."""
        for name in set(vars(self)) - set(self.get_params(deep=False)):
            delattr(self, name)

    def _zero_unlinked(self, graph: MultiViewGraph) -> None:
        """Set the vectors of entities without links and without used features to 0."""
        if self.embeds_isolated:
            return
        nodes = flatten(graph)
        isolated = nodes.split(nodes.degrees == 0)
        for view, X in graph.views.items():
            if X is None or self.n_views == 0:
                self.embeddings_[view][isolated[view]] = 0

    def _pad(self, Y: Vectors) -> NDArray[np.float32]:
        """Return vectors with exactly K columns, padded with 0."""
        padded = np.zeros((len(Y), self.n_components), np.float32)
        padded[:, : Y.shape[1]] = Y
        return padded

    def _check_parameters(self) -> None:
        checks = COMMON_CHECKS | dict(self.checks)
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
            raise GraphError(f"{name}: expected a graph with {takes}, got {D}: {named}")
        if self.needs_features:
            for view, X in graph.views.items():
                if X is None:
                    raise GraphError(
                        f"{name}: expected features in every view, but view {view!r} has none; "
                        "SGE, LINE and DeepWalk need links only"
                    )
        if not self.needs_links:
            return
        if graph.total_weight <= 0:
            raise GraphError(f"{name}: expected a graph with links, got none")
        if not self.within_view:
            for a, b in graph.links:
                if a == b:
                    raise GraphError(
                        f"{name}: expected links between views only, got links within {a!r}; "
                        "CDMCA accepts both"
                    )

    def _check_library(self, library: str) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings that the import itself raises
                import_module(library)
        except ImportError as error:
            package = library.replace("_", "-")
            raise InputError(
                f"{self._name} needs {package}: pip install 'pmvge[baselines]'"
            ) from error


def flat(X: Features) -> Features:
    """Return rows of any shape as rows of vectors, (n, p)."""
    return X.reshape(len(X), math.prod(X.shape[1:])) if isinstance(X, np.ndarray) else X


def input_rows(graph: MultiViewGraph) -> dict[str, Features]:
    """Return each view's features as (n, p); a view without features becomes one-hot."""
    return {
        view: sparse.eye_array(graph.sizes[view], format="csr", dtype=np.float32)
        if X is None
        else flat(X)
        for view, X in graph.views.items()
    }
