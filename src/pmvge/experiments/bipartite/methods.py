"""Methods that predict links between two sides from similarities within each side.

A method is fitted to links between training entities, and scores pairs of entities that may be
unseen. An entity is given by its similarities to the training entities of its side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from pmvge.errors import InputError, choose
from pmvge.experiments.bipartite.forest import (
    check_interpreter,
    forest_scores,
    missing_interpreter,
)
from pmvge.experiments.recipe import model_settings
from pmvge.graph import MultiViewGraph
from pmvge.model import PMvGE

Array = NDArray[Any]
NEIGHBOURS, LINK_WEIGHT, STEPS = 5, 5.0, 100  # of NRLMF


@dataclass(frozen=True, eq=False)
class Problem:
    """Similarities and links of training entities, and the entities to score.

    ``new_rows`` (t, n) are similarities of unseen rows to the n training rows; None means that the
    training rows are scored. Columns likewise.
    """

    rows: Array  # (n, n)
    columns: Array  # (m, m)
    links: Array  # (n, m)
    new_rows: Array | None = None
    new_columns: Array | None = None

    @property
    def scored_rows(self) -> Array:
        """Return similarities of the scored rows to the training rows."""
        return self.rows if self.new_rows is None else self.new_rows

    @property
    def scored_columns(self) -> Array:
        """Return similarities of the scored columns to the training columns."""
        return self.columns if self.new_columns is None else self.new_columns


class Predictor(ABC):
    """A method with settings."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def scores(self, problem: Problem, seed: int) -> Array:
        """Fit the method, and return scores (rows, columns) of the pairs to score."""

    @classmethod
    def needs(cls) -> str:
        """Return what is missing to run the method and how to get it; "" if nothing is."""
        return ""

    @classmethod
    def check(cls) -> None:
        """Raise InputError if the method cannot run."""
        if missing := cls.needs():
            raise InputError(missing)


class Degrees(Predictor):
    """Rank pairs by the numbers of links of their entities; an unseen one has an average number."""

    def scores(self, problem: Problem, seed: int) -> Array:
        """Return the products of the numbers of links."""
        left, right = problem.links.sum(1), problem.links.sum(0)
        if problem.new_rows is not None:
            left = np.full(len(problem.new_rows), left.mean())
        if problem.new_columns is not None:
            right = np.full(len(problem.new_columns), right.mean())
        return np.outer(left, right)


class KroneckerRidge(Predictor):
    r"""Ridge regression of links with the product of both similarities as the kernel.

    With the eigenvalues :math:`\kappa, \kappa'` and eigenvectors U, V of both similarity matrices
    (negative eigenvalues are set to 0),

    .. math:: A = U \Bigl[ \frac{(U^\top W V)_{kl}}{\kappa_k \kappa'_l + \lambda} \Bigr] V^\top,
              \qquad \hat w_{ij} = k_i^\top A k'_j.
    """

    def scores(self, problem: Problem, seed: int) -> Array:
        """Return the predicted weights."""
        (kappa, U), (kappa_other, V) = (_eigen(S) for S in (problem.rows, problem.columns))
        shrunk = (U.T @ problem.links @ V) / (
            np.outer(kappa, kappa_other) + float(self.settings["penalty"])
        )
        return np.asarray(problem.scored_rows @ (U @ shrunk @ V.T) @ problem.scored_columns.T)


class NeighbourhoodFactorization(Predictor):
    r"""Logistic matrix factorisation, regularised by neighbours (Liu et al., 2016).

    A link counts c = 5 times. Factors U, V maximise

    .. math:: \sum_{ij} \bigl[ c w_{ij} \eta_{ij} - (1 + c w_{ij} - w_{ij}) \log(1 + e^{\eta_{ij}})
              \bigr] - \tfrac{\lambda}{2} (|U|^2 + |V|^2)
              - \tfrac{\beta}{2} [\mathrm{tr}(U^\top L U) + \mathrm{tr}(V^\top L' V)],
              \quad \eta = U V^\top,

    by AdaGrad, with L the Laplacian of the similarities of an entity to its 5 nearest ones. An
    unseen entity has the mean factors of its 5 nearest training entities that have links, weighted
    by similarity.
    """

    def scores(self, problem: Problem, seed: int) -> Array:
        """Return the scores of the pairs."""
        W, K = problem.links, int(self.settings["n_components"])
        rng = np.random.default_rng(seed)
        U, V = (rng.normal(0, K**-0.5, (n, K)) for n in W.shape)
        L, L_other = (_laplacian(S, NEIGHBOURS) for S in (problem.rows, problem.columns))
        squares = [np.full_like(U, 1e-8), np.full_like(V, 1e-8)]
        for _ in range(STEPS):
            for side, own in enumerate((U, V)):
                gradient = (
                    self.gradient(U, V, W, L) if own is U else self.gradient(V, U, W.T, L_other)
                )
                squares[side] += gradient**2
                own += float(self.settings["rate"]) * gradient / np.sqrt(squares[side])
        left = self._place(U, problem.new_rows, W.sum(1))
        return np.asarray(left @ self._place(V, problem.new_columns, W.sum(0)).T)

    def gradient(self, own: Array, other: Array, links: Array, laplacian: Array) -> Array:
        """Return the gradient of the objective in the factors of one side."""
        weight = 1 + (LINK_WEIGHT - 1) * links
        excess = LINK_WEIGHT * links - weight * expit(own @ other.T)
        ridge, beta = float(self.settings["ridge"]), float(self.settings["neighbour_weight"])
        return np.asarray(excess @ other - ridge * own - beta * (laplacian @ own))

    def _place(self, factors: Array, similarities: Array | None, degrees: Array) -> Array:
        """Return the factors of training entities, or of unseen ones from their neighbours."""
        if similarities is None:
            return factors
        linked = np.where(degrees > 0, np.maximum(similarities, 0), 0.0)
        weights = _nearest(linked, NEIGHBOURS)
        totals = weights.sum(1, keepdims=True)
        return np.asarray(weights @ factors / np.where(totals > 0, totals, 1))


class Forest(Predictor):
    """Extra-trees of bipartite_learn on both sides at once, in another environment.

    Settings are parameters of the library. ``max_features`` is the share of the features of each
    side that a split may choose from.
    """

    def scores(self, problem: Problem, seed: int) -> Array:
        """Return the predicted weights."""
        settings = dict(self.settings)
        share = settings.pop("max_features", None)
        return forest_scores(
            problem.rows,
            problem.columns,
            problem.links,
            problem.scored_rows,
            problem.scored_columns,
            {
                **settings,
                "max_row_features": share,
                "max_col_features": share,
                "random_state": seed,
            },
        )

    @classmethod
    def needs(cls) -> str:
        """Return what to do if the interpreter is not given."""
        return missing_interpreter()

    @classmethod
    def check(cls) -> None:
        """Raise InputError if the interpreter is not given or cannot import the library."""
        check_interpreter()


class Ours(Predictor):
    """PMvGE; features of an entity are its similarities to the training entities."""

    def scores(self, problem: Problem, seed: int) -> Array:
        """Return the similarities g of the model."""
        views = {
            "row": problem.rows.astype(np.float32),
            "column": problem.columns.astype(np.float32),
        }
        graph = MultiViewGraph(views, {("row", "column"): problem.links})
        model = PMvGE(**model_settings(self.settings), random_state=seed, progress=False).fit(graph)
        new, new_other = (
            None if each is None else each.astype(np.float32)
            for each in (problem.new_rows, problem.new_columns)
        )
        query = model.vectors("row", new, among="column").astype(np.float64)
        candidate = model.vectors("column", new_other, among="row", side="candidate")
        return np.asarray(query @ candidate.T)


PREDICTORS: dict[str, type[Predictor]] = {
    "degrees": Degrees,
    "Kronecker ridge": KroneckerRidge,
    "NRLMF": NeighbourhoodFactorization,
    "forest": Forest,
    "PMvGE": Ours,
}


def make_predictor(method: str, settings: Mapping[str, Any]) -> Predictor:
    """Return a method by name; raise ParameterError if the name is unknown."""
    return predictor_class(method)(**settings)


def predictor_class(method: str) -> type[Predictor]:
    """Return the class of a method; raise ParameterError if the name is unknown."""
    return PREDICTORS[choose("method", method, PREDICTORS)]


def _eigen(S: Array) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh((S + S.T) / 2)
    return np.maximum(values, 0), vectors


def _nearest(S: Array, k: int) -> Array:
    """Return similarities (t, n) with all but the k largest of each row set to 0."""
    kept = np.zeros_like(S)
    columns = np.argsort(-S, axis=1, kind="stable")[:, :k]
    np.put_along_axis(kept, columns, np.take_along_axis(S, columns, 1), 1)
    return kept


def _laplacian(S: Array, k: int) -> Array:
    """Return the Laplacian of the similarities to the k nearest others, symmetrised."""
    others = np.maximum(S, 0)
    np.fill_diagonal(others, 0)
    A = _nearest(others, k)
    A = (A + A.T) / 2
    return np.asarray(np.diag(A.sum(1)) - A)
