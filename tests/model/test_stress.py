"""Numbers under stress: training ends with finite results, or with the error that says why not.

The matrix below is every trouble in every scheme, similarity and kind of view, in a few steps each.
``make stress`` sets PMVGE_STRESS, which makes the large ones as large as they may get.
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
HUB = 1_000_000 if FULL else 10_000  # links of one node
KINDS = ("dense", "sparse", "featureless")
SETTINGS: dict[str, Any] = {
    "n_components": 4,
    "hidden_sizes": (8,),
    "batch_size": 16,
    "max_steps": 200 if FULL else 6,
    "random_state": 0,
    "progress": False,
}

Views = dict[str, Any]
Case = tuple[Views, dict[tuple[str, str], Any], dict[str, Any]]  # views, links, settings


def rows(kind: str, X: NDArray[np.float64]) -> Any:
    """Features as a view of the kind; without any, the number of nodes."""
    return {"dense": X, "sparse": sparse.csr_array(X), "featureless": len(X)}[kind]


def features(n: int, p: int = 5, seed: int = 0) -> NDArray[np.float64]:
    """Numbers around 0, a third of them 0."""
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
    """Links between two views, and within the first."""
    X, Z = features(40) * scale, features(25, 3, 1) * scale
    X, Z = (part if change is None else change(part) for part in (X, Z))
    between, within = pairs(40, 25, 120), pairs(20, 20, 60, 1)
    w = np.ones(120) if weights is None else np.resize(weights, 120)
    links = {
        ("a", "b"): (*between, w),
        ("a", "a"): (within[0], 20 + within[1], w[:60]),
    }
    return {"a": rows(kind, X), "b": rows(kind, Z)}, links, settings


# -- the troubles ---------------------------------------------------------------------------


def tiny_weights(kind: str) -> Case:
    return two_views(kind, weights=1e-12)


def huge_weights(kind: str) -> Case:
    return two_views(kind, weights=1e12)


def weights_of_all_sizes(kind: str) -> Case:
    return two_views(kind, weights=10.0 ** np.linspace(-12, 12, 120))


def tiny_features(kind: str) -> Case:
    return two_views(kind, scale=1e-6)


def huge_features(kind: str) -> Case:
    return two_views(kind, scale=1e6)


def tiny_features_as_they_are(kind: str) -> Case:
    return two_views(kind, scale=1e-6, standardize=False)


def huge_features_as_they_are(kind: str) -> Case:
    return two_views(kind, scale=1e6, standardize=False)


def a_hub(kind: str) -> Case:
    """One node with all the links there are, each to another node."""
    X, n = features(3), HUB
    other = {"dense": features(n, 2), "sparse": None, "featureless": n}[kind]
    if other is None:
        other = sparse.csr_array((np.ones(n), (np.arange(n), np.arange(n) % 7)), shape=(n, 7))
    links = {("a", "b"): (np.zeros(n, dtype=int), np.arange(n))}
    return {"a": rows(kind, X), "b": other}, links, {}


def duplicates(kind: str) -> Case:
    """Every row of a table three times, every node like every other of its view."""
    i, j = (np.tile(part, 3) for part in pairs(40, 25, 100))
    X, Z = np.tile(features(1), (40, 1)), np.tile(features(1, 3, 1), (25, 1))
    return {"a": rows(kind, X), "b": rows(kind, Z)}, {("a", "b"): (i, j)}, {}


def constant_columns(kind: str) -> Case:
    return two_views(kind, change=lambda X: np.hstack([np.full_like(X, 7.5), X[:, :1]]))


def only_constant_columns(kind: str) -> Case:
    return two_views(kind, change=lambda X: np.full_like(X, -3e4))


def rows_of_zeros(kind: str) -> Case:
    return two_views(kind, change=lambda X: X * (np.arange(len(X)) % 2)[:, None])


def nothing_but_zeros(kind: str) -> Case:
    return two_views(kind, change=np.zeros_like)


def a_single_link(kind: str) -> Case:
    links = {("a", "b"): ([3], [2], [1.0])}
    return {"a": rows(kind, features(8)), "b": rows(kind, features(5, 3, 1))}, links, {}


def views_of_one_node(kind: str) -> Case:
    views = {"a": rows(kind, features(1) + 1.0), "b": rows(kind, features(1, 3, 1) + 1.0)}
    return views, {("a", "b"): ([0], [0], [2.0])}, {}


def twenty_views(kind: str) -> Case:
    """Of 210 pairs of views, 20 are known."""
    views = {f"v{d:02}": rows(kind, features(6 + d, 2 + d, d)) for d in range(20)}
    names = sorted(views)
    links = {(names[d], names[d + 1]): pairs(6 + d, 7 + d, 30, d) for d in range(19)} | {
        (names[0], names[19]): pairs(6, 25, 30)
    }
    return views, links, {}


def more_components_than_dimensions(kind: str) -> Case:
    return two_views(kind, n_components=96)


def far_too_fast(kind: str) -> Case:
    return two_views(kind, learning_rate=1e3, clip_norm=None)


def absurdly_fast(kind: str) -> Case:
    return two_views(kind, learning_rate=1e30, clip_norm=None, weights=1e6)


TROUBLES = (
    tiny_weights, huge_weights, weights_of_all_sizes, tiny_features, huge_features,
    tiny_features_as_they_are, huge_features_as_they_are, a_hub, duplicates, constant_columns,
    only_constant_columns, rows_of_zeros, nothing_but_zeros, a_single_link, views_of_one_node,
    twenty_views, more_components_than_dimensions, far_too_fast, absurdly_fast,
)  # fmt: skip
# These may end in the error that training diverged; all others have finite results.
MAY_DIVERGE = {huge_features_as_they_are, far_too_fast, absurdly_fast}
MATRIX = list(product(TROUBLES, ("block", "paper"), ("inner", "cosine"), KINDS))


def fitted(
    case: Case, scheme: str = "block", similarity: str = "cosine", **more: Any
) -> tuple[PMvGE, MultiViewGraph]:
    views, links, settings = case
    graph = MultiViewGraph(views, links)
    both = {"scheme": scheme, "similarity": similarity}
    return PMvGE(**SETTINGS | both | settings | more).fit(graph), graph


def nodes(graph: MultiViewGraph, view: str) -> Any:
    X = graph.views[view]
    return graph.ids[view] if X is None else X


def assert_finite(model: PMvGE, graph: MultiViewGraph) -> None:
    for view, Y in model.embeddings_.items():
        assert Y.shape == (graph.sizes[view], model.n_components)
        assert np.isfinite(Y).all(), view
        assert np.isfinite(model.embed(view, nodes(graph, view))).all(), view
    assert np.isfinite([*model.log_alpha_.values()]).all()
    assert np.isfinite([record.loss for record in model.history_]).all()
    a, b = next(iter(graph.links))
    ids, expected = model.search(a, nodes(graph, a)[:1], among=b, k=1)
    assert ids[0, 0] in graph.ids[b]
    assert expected[0, 0] >= 0


def assert_calibrated(model: PMvGE, graph: MultiViewGraph) -> None:
    """Alpha makes the expected weights of a pair add up to the weight that was seen."""
    for (a, b), links in graph.links.items():
        expected = model.intensity(a, nodes(graph, a), b, nodes(graph, b))
        within = np.triu(expected, 1) if a == b else expected
        assert within.sum() == pytest.approx(links.total, rel=1e-3), (a, b)


@pytest.mark.parametrize(
    ("trouble", "scheme", "similarity", "kind"),
    MATRIX,
    ids=["-".join([one[0].__name__, *one[1:]]) for one in MATRIX],
)
def test_results_are_finite_or_the_error_says_why(
    trouble: Callable[[str], Case], scheme: str, similarity: str, kind: str
) -> None:
    if trouble in MAY_DIVERGE:
        with suppress(DivergedError):
            assert_finite(*fitted(trouble(kind), scheme, similarity))
        return
    model, graph = fitted(trouble(kind), scheme, similarity)
    assert_finite(model, graph)
    assert_calibrated(model, graph)


def test_some_of_them_do_diverge() -> None:
    for trouble in MAY_DIVERGE:
        with pytest.raises(DivergedError, match=r"training diverged.* smaller learning_rate"):
            fitted(trouble("dense"), "paper", "inner")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("similarity", ["inner", "cosine"])
@pytest.mark.parametrize("scheme", ["block", "paper"])
def test_the_last_step_counts_too(scheme: str, similarity: str, kind: str) -> None:
    """No loss is computed after it, but what it leads to is looked at."""
    case = two_views(kind, learning_rate=1e38, clip_norm=None, max_steps=1, patience=None)
    with pytest.raises(DivergedError, match=r"training diverged.* not finite"):
        fitted(case, scheme, similarity)


def test_weights_may_be_measured_in_any_unit() -> None:
    """The profile likelihood does not know the unit: only alpha does, by that very factor."""
    models = [fitted(two_views("dense", weights=unit))[0] for unit in (1.0, 2.0**-40, 2.0**40)]
    for model, unit in zip(models[1:], (2.0**-40, 2.0**40), strict=True):
        for view, Y in model.embeddings_.items():
            np.testing.assert_array_equal(Y, models[0].embeddings_[view])
        np.testing.assert_allclose(model.alpha_, unit * models[0].alpha_, rtol=1e-12)


def test_features_may_be_measured_in_any_unit() -> None:
    """Standardised, they are the same numbers up to rounding."""
    models = [fitted(two_views("dense", scale=unit))[0] for unit in (1.0, 2.0**-20, 2.0**20)]
    for model in models[1:]:
        for view, Y in model.embeddings_.items():
            np.testing.assert_allclose(Y, models[0].embeddings_[view], rtol=1e-3, atol=1e-4)
