"""Numerical stress: training gives finite results, or raises DivergedError.

Every difficult graph is fitted with every scheme, similarity and kind of view, for a few steps.
``make stress`` sets PMVGE_STRESS for more steps and larger graphs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import DivergedError

FULL = bool(os.environ.get("PMVGE_STRESS"))
HUB = 1_000_000 if FULL else 10_000  # links of one entity
KINDS = ("dense", "sparse", "featureless")
SETTINGS: dict[str, Any] = {
    "n_components": 4,
    "hidden_sizes": (8,),
    "effects": "none",
    "schedule": "constant",
    "similarity": "cosine",
    "dropout": 0.3,
    "weight_decay": 0.0,
    "batch_size": 16,
    "max_steps": 200 if FULL else 6,
    "random_state": 0,
    "progress": False,
}

Views = dict[str, Any]
Case = tuple[Views, dict[tuple[str, str], Any], dict[str, Any]]  # views, links, settings


def rows(kind: str, X: NDArray[np.float64]) -> Any:
    """Return features as a view of the kind; the number of entities if featureless."""
    return {"dense": X, "sparse": sparse.csr_array(X), "featureless": len(X)}[kind]


def features(n: int, p: int = 5, seed: int = 0) -> NDArray[np.float64]:
    """Draw normal features, a third of them set to 0."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) * (rng.random((n, p)) > 1 / 3)


def pairs(n: int, m: int, size: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return rng.integers(n, size=size), rng.integers(m, size=size)


def two_views(
    kind: str,
    *,
    scale: float = 1.0,
    weights: Any = None,
    change: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    **settings: Any,
) -> Case:
    """Return links between two views, and within the first."""
    X, Z = features(40) * scale, features(25, 3, 1) * scale
    X, Z = (part if change is None else change(part) for part in (X, Z))
    between, within = pairs(40, 25, 120), pairs(20, 20, 60, 1)
    w = np.ones(120) if weights is None else np.resize(weights, 120)
    links = {
        ("a", "b"): (*between, w),
        ("a", "a"): (within[0], 20 + within[1], w[:60]),
    }
    return {"a": rows(kind, X), "b": rows(kind, Z)}, links, settings


# -- difficult graphs -----------------------------------------------------------------------


def tiny_weights(kind: str) -> Case:
    return two_views(kind, weights=1e-12)


def huge_weights(kind: str) -> Case:
    return two_views(kind, weights=1e12)


def weights_of_all_magnitudes(kind: str) -> Case:
    return two_views(kind, weights=10.0 ** np.linspace(-12, 12, 120))


def tiny_features(kind: str) -> Case:
    return two_views(kind, scale=1e-6)


def huge_features(kind: str) -> Case:
    return two_views(kind, scale=1e6)


def tiny_unscaled_features(kind: str) -> Case:
    return two_views(kind, scale=1e-6, standardize=False)


def huge_unscaled_features(kind: str) -> Case:
    return two_views(kind, scale=1e6, standardize=False)


def a_hub(kind: str) -> Case:
    """Return links from one entity to every entity of the other view."""
    X, n = features(3), HUB
    other = {"dense": features(n, 2), "sparse": None, "featureless": n}[kind]
    if other is None:
        other = sparse.csr_array((np.ones(n), (np.arange(n), np.arange(n) % 7)), shape=(n, 7))
    links = {("a", "b"): (np.zeros(n, dtype=int), np.arange(n))}
    return {"a": rows(kind, X), "b": other}, links, {}


def duplicates(kind: str) -> Case:
    """Return links that are repeated three times, and views of equal entities."""
    i, j = (np.tile(part, 3) for part in pairs(40, 25, 100))
    X, Z = np.tile(features(1), (40, 1)), np.tile(features(1, 3, 1), (25, 1))
    return {"a": rows(kind, X), "b": rows(kind, Z)}, {("a", "b"): (i, j)}, {}


def constant_columns(kind: str) -> Case:
    return two_views(kind, change=lambda X: np.hstack([np.full_like(X, 7.5), X[:, :1]]))


def only_constant_columns(kind: str) -> Case:
    return two_views(kind, change=lambda X: np.full_like(X, -3e4))


def rows_of_zeros(kind: str) -> Case:
    return two_views(kind, change=lambda X: X * (np.arange(len(X)) % 2)[:, None])


def only_zeros(kind: str) -> Case:
    return two_views(kind, change=np.zeros_like)


def a_single_link(kind: str) -> Case:
    links = {("a", "b"): ([3], [2], [1.0])}
    return {"a": rows(kind, features(8)), "b": rows(kind, features(5, 3, 1))}, links, {}


def views_of_one_entity(kind: str) -> Case:
    views = {"a": rows(kind, features(1) + 1.0), "b": rows(kind, features(1, 3, 1) + 1.0)}
    return views, {("a", "b"): ([0], [0], [2.0])}, {}


def twenty_views(kind: str) -> Case:
    """Return links of 20 out of 210 view pairs."""
    views = {f"v{d:02}": rows(kind, features(6 + d, 2 + d, d)) for d in range(20)}
    names = sorted(views)
    links = {(names[d], names[d + 1]): pairs(6 + d, 7 + d, 30, d) for d in range(19)} | {
        (names[0], names[19]): pairs(6, 25, 30)
    }
    return views, links, {}


def more_components_than_dimensions(kind: str) -> Case:
    return two_views(kind, n_components=96)


def large_learning_rate(kind: str) -> Case:
    return two_views(kind, learning_rate=1e3, clip_norm=None)


def huge_learning_rate(kind: str) -> Case:
    return two_views(kind, learning_rate=1e30, clip_norm=None, weights=1e6)


CASES = (
    tiny_weights, huge_weights, weights_of_all_magnitudes, tiny_features, huge_features,
    tiny_unscaled_features, huge_unscaled_features, a_hub, duplicates, constant_columns,
    only_constant_columns, rows_of_zeros, only_zeros, a_single_link, views_of_one_entity,
    twenty_views, more_components_than_dimensions, large_learning_rate, huge_learning_rate,
)  # fmt: skip
# These may raise DivergedError; all others must give finite results.
MAY_DIVERGE = {huge_unscaled_features, large_learning_rate, huge_learning_rate}
MATRIX = list(product(CASES, ("block", "paper"), ("inner", "cosine"), KINDS))


def fitted(
    case: Case, scheme: str = "block", similarity: str = "cosine", **more: Any
) -> tuple[PMvGE, MultiViewGraph]:
    views, links, settings = case
    graph = MultiViewGraph(views, links)
    both = {"scheme": scheme, "similarity": similarity}
    return PMvGE(**SETTINGS | both | settings | more).fit(graph), graph


def rows_or_ids(graph: MultiViewGraph, view: str) -> Any:
    X = graph.views[view]
    return graph.ids[view] if X is None else X


def assert_finite(model: PMvGE, graph: MultiViewGraph) -> None:
    for view, Y in model.embeddings_.items():
        assert Y.shape == (graph.sizes[view], model.n_components)
        assert np.isfinite(Y).all(), view
        assert np.isfinite(model.embed(view, rows_or_ids(graph, view))).all(), view
    assert np.isfinite([*model.log_alpha_.values()]).all()
    assert np.isfinite([record.loss for record in model.history_]).all()
    a, b = next(iter(graph.links))
    ids, expected = model.search(a, rows_or_ids(graph, a)[:1], among=b, k=1)
    assert ids[0, 0] in graph.ids[b]
    assert expected[0, 0] >= 0


def assert_calibrated(model: PMvGE, graph: MultiViewGraph) -> None:
    """The expected weights of a view pair add up to its observed weight."""
    for (a, b), links in graph.links.items():
        expected = model.intensity(a, rows_or_ids(graph, a), b, rows_or_ids(graph, b))
        within = np.triu(expected, 1) if a == b else expected
        assert within.sum() == pytest.approx(links.total, rel=1e-3), (a, b)


@pytest.mark.parametrize(
    ("make", "scheme", "similarity", "kind"),
    MATRIX,
    ids=["-".join([make.__name__, *rest]) for make, *rest in MATRIX],
)
def test_results_are_finite_or_training_diverges(
    make: Callable[[str], Case], scheme: str, similarity: str, kind: str
) -> None:
    if make in MAY_DIVERGE:
        with suppress(DivergedError):
            assert_finite(*fitted(make(kind), scheme, similarity))
        return
    model, graph = fitted(make(kind), scheme, similarity)
    assert_finite(model, graph)
    assert_calibrated(model, graph)


def test_some_cases_diverge() -> None:
    for make in MAY_DIVERGE:
        with pytest.raises(DivergedError, match=r"training diverged.* smaller learning_rate"):
            fitted(make("dense"), "paper", "inner")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("similarity", ["inner", "cosine"])
@pytest.mark.parametrize("scheme", ["block", "paper"])
def test_the_last_step_is_checked(scheme: str, similarity: str, kind: str) -> None:
    """No loss is computed after the last step, but the vectors are checked."""
    case = two_views(kind, learning_rate=1e38, clip_norm=None, max_steps=1, patience=None)
    with pytest.raises(DivergedError, match=r"training diverged.* not finite"):
        fitted(case, scheme, similarity)


def test_vectors_do_not_depend_on_the_unit_of_weights() -> None:
    """The profile likelihood is independent of the unit; alpha is proportional to it."""
    models = [fitted(two_views("dense", weights=unit))[0] for unit in (1.0, 2.0**-40, 2.0**40)]
    for model, unit in zip(models[1:], (2.0**-40, 2.0**40), strict=True):
        for view, Y in model.embeddings_.items():
            np.testing.assert_array_equal(Y, models[0].embeddings_[view])
        np.testing.assert_allclose(model.alpha_, unit * models[0].alpha_, rtol=1e-12)


def test_vectors_do_not_depend_on_the_unit_of_features() -> None:
    """Standardised features are the same up to rounding."""
    models = [fitted(two_views("dense", scale=unit))[0] for unit in (1.0, 2.0**-20, 2.0**20)]
    for model in models[1:]:
        for view, Y in model.embeddings_.items():
            np.testing.assert_allclose(Y, models[0].embeddings_[view], rtol=1e-3, atol=1e-4)
