"""The advice in docs/settings.md, row by row, on problems that have the symptom.

All settings are passed explicitly: the tests do not depend on the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import DivergedError, NotInductive
from pmvge.graph import hold_out_links

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"
SETTINGS: dict[str, Any] = {
    "n_components": 100,
    "encoder": "mlp",
    "hidden_sizes": (256,),
    "dropout": 0.3,
    "input_dropout": 0.0,
    "effects": "none",
    "effects_prior": None,
    "similarity": "cosine",
    "scheme": "block",
    "pair_weights": None,
    "batch_size": 512,
    "negative_rate": 1.0,
    "learning_rate": 2e-3,
    "schedule": "constant",
    "weight_decay": 0.0,
    "max_steps": 1000,
    "validation_fraction": 0.1,
    "patience": 5,
    "random_state": 0,
    "progress": False,
}
ROWS: dict[str, Callable[..., None]] = {}


def row(symptom: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a test as that of a row of the page, by the row's first cell."""

    def register(test: Callable[..., None]) -> Callable[..., None]:
        ROWS[symptom] = test
        return test

    return register


def fit(graph: MultiViewGraph, **settings: Any) -> PMvGE:
    return PMvGE(**{**SETTINGS, **settings}).fit(graph)


@cache
def scores(problem: tuple[MultiViewGraph, MultiViewGraph], **settings: Any) -> dict[str, Any]:
    """Fit to the first graph, and return scores on the links of the second."""
    model = fit(problem[0], **settings)
    results = model.evaluate(problem[1])
    checks = [record.validation for record in model.history_]
    return {
        "overall": results["overall"],
        "pairs": results["pairs"],
        "ndcg": results["overall"]["ndcg@10"],
        "popularity": results["popularity"]["overall"]["ndcg@10"],
        "warned": bool(results["warnings"]),
        "checks": checks,
        "best": max(checks),
    }


def split(graph: MultiViewGraph, seed: int) -> tuple[MultiViewGraph, MultiViewGraph]:
    return hold_out_links(graph, 0.2, np.random.default_rng(seed + 1))


@cache
def many_links(seed: int = 0) -> tuple[MultiViewGraph, MultiViewGraph]:
    """Return 600 users and 300 items without features, 18 training links a user."""
    return split(featureless(seed, 600, 300, 30, 0.5), seed)


@cache
def few_links(seed: int = 0) -> tuple[MultiViewGraph, MultiViewGraph]:
    """Return 300 users and 150 items without features, 3 training links a user."""
    graph = featureless(seed, 300, 150, 12, 0.9)
    ones = {pair: (links.rows, links.cols) for pair, links in graph.links.items()}
    return split(graph.with_links(ones), seed)


def featureless(seed: int, n: int, m: int, degree: float, strength: float) -> MultiViewGraph:
    """Return popular and unpopular items, and users of different tastes."""
    rng = np.random.default_rng(seed)
    z, t = rng.normal(size=(n, 4)), rng.normal(size=(m, 4))
    mu = rng.gamma(0.7, size=m) * np.exp(strength * z @ t.T)
    W = rng.poisson(np.minimum(mu * degree * n / mu.sum(), 3)).astype(float)
    return MultiViewGraph({"user": n, "item": m}, {("user", "item"): W})


@cache
def with_features(seed: int = 0) -> tuple[MultiViewGraph, MultiViewGraph]:
    """Return 200 users and 100 items with 300 noisy features each."""
    rng = np.random.default_rng(seed)
    z, t = rng.normal(size=(200, 4)), rng.normal(size=(100, 4))
    A, B = rng.normal(size=(4, 300)), rng.normal(size=(4, 300))
    X = z @ A / 2 + 2 * rng.normal(size=(200, 300))
    Y = t @ B / 2 + 2 * rng.normal(size=(100, 300))
    mu = rng.gamma(2.0, size=100) * np.exp(0.6 * z @ t.T)
    W = rng.poisson(np.minimum(mu * 10 * 200 / mu.sum(), 3)).astype(float)
    return split(MultiViewGraph({"user": X, "item": Y}, {("user", "item"): W}), seed)


def overfits(checks: list[float]) -> bool:
    """Whether the best check is one of the first two, and the last one is much worse."""
    return int(np.argmax(checks)) <= 1 and checks[-1] < max(checks) - 0.5


# -- all views ----------------------------------------------------------------------------------


@row("validation still rising at the last step, or when the rate began to decay")
@pytest.mark.slow
def test_more_steps() -> None:
    settings = {"similarity": "inner", "n_components": 16}
    short = scores(many_links(), **settings, max_steps=150)
    assert short["checks"][-1] == short["best"]
    longer = scores(many_links(), **settings, max_steps=600)
    assert longer["best"] > short["best"] + 0.2
    assert longer["ndcg"] > short["ndcg"] + 0.03


@row("a warning that few links hold most of the weight")
@pytest.mark.parametrize("effects", ["none", "vector"])
@pytest.mark.slow
def test_logarithms_of_heavy_weights(effects: str) -> None:
    recall = {}
    for transform in (None, np.log1p):
        rng = np.random.default_rng(0)
        graph = featureless(0, 300, 150, 20, 0.6)
        links = graph.links["user", "item"]
        w = rng.lognormal(5, 2.5, len(links))  # plays: their number says little about taste
        table = (links.rows, links.cols, w if transform is None else transform(w))
        problem = split(graph.with_links({("user", "item"): table}), 0)
        found = scores(problem, similarity="inner", effects=effects, n_components=32)
        recall[transform] = found["overall"]["recall@10"]
    assert recall[np.log1p] > 1.25 * recall[None]


@row("a small link table has no effect next to a large one")
@pytest.mark.parametrize("effects", ["none", "vector"])
@pytest.mark.slow
def test_balanced_view_pairs(effects: str) -> None:
    rng = np.random.default_rng(0)
    z, t, u = (rng.normal(size=(n, 4)) for n in (300, 150, 20))
    watched, described = np.exp(0.5 * z @ t.T), np.exp(t @ u.T)
    W = 10.0 * rng.poisson(watched * 20_000 / watched.sum())
    T = rng.poisson(described * 600 / described.sum()).astype(float)
    links = {("user", "item"): W, ("item", "tag"): T}
    problem = split(MultiViewGraph({"user": 300, "item": 150, "tag": 20}, links), 0)
    settings = {"similarity": "inner", "n_components": 16, "effects": effects}
    before = scores(problem, **settings)["pairs"]
    after = scores(problem, **settings, pair_weights="balanced")["pairs"]
    assert before["item,tag"]["roc_auc"] < 0.6
    assert after["item,tag"]["roc_auc"] > 0.75
    assert after["user,item"]["roc_auc"] > before["user,item"]["roc_auc"] - 0.01


@row("`DivergedError`")
def test_diverged() -> None:
    settings = {"similarity": "inner", "clip_norm": None, "max_steps": 150, "n_components": 16}
    unstable = {**settings, "scheme": "paper", "learning_rate": 0.5}
    with pytest.raises(DivergedError):
        fit(few_links()[0], **unstable)
    for remedy in ({"learning_rate": 0.002}, {"scheme": "block"}):
        assert np.isfinite(fit(few_links()[0], **{**unstable, **remedy}).history_[-1].loss)


@row("E/O far below 1 on links of the same kind")
@pytest.mark.slow
def test_expected_over_observed() -> None:
    def ratio(**settings: Any) -> float:
        return float(scores(few_links(), **settings)["overall"]["expected_over_observed"])

    assert ratio(learning_rate=0.01) < 0.3
    assert 0.7 < ratio(learning_rate=0.002) < 1.1
    assert 0.7 < ratio(learning_rate=0.01, effects="vector") < 1.1


# -- views with features ------------------------------------------------------------------------


@row("with features: best validation at one of the first checks, then worse")
@pytest.mark.parametrize(
    "remedy", [{"dropout": 0.5}, {"input_dropout": 0.5}, {"learning_rate": 0.0005}], ids=str
)
@pytest.mark.slow
def test_overfitting_of_encoders(remedy: dict[str, Any]) -> None:
    gains = []
    for seed in (0, 1):
        before, after = (scores(with_features(seed), n_components=32, **s) for s in ({}, remedy))
        assert overfits(before["checks"])
        gains.append(after["best"] - before["best"])
    assert min(gains) > 0.02


# -- views without features ---------------------------------------------------------------------


@row("without features: best validation at one of the first checks, then worse")
@pytest.mark.parametrize(
    "remedy",
    [
        {"effects": "vector"},
        {"similarity": "inner"},
        {"learning_rate": 0.0005},
        {"batch_size": 2048},
    ],
    ids=str,
)
@pytest.mark.slow
def test_overfitting_of_free_vectors(remedy: dict[str, Any]) -> None:
    before, after = scores(many_links()), scores(many_links(), **remedy)
    assert overfits(before["checks"])
    assert after["best"] > before["best"] + 0.1
    assert after["ndcg"] > before["ndcg"] + 0.05


@row('without features: not ahead of the popularity list, with `effects = "none"`')
@pytest.mark.parametrize("remedy", [{"effects": "vector"}, {"similarity": "inner"}], ids=str)
@pytest.mark.slow
def test_not_ahead_of_popularity_without_effects(remedy: dict[str, Any]) -> None:
    before, after = scores(many_links()), scores(many_links(), **remedy)
    assert before["warned"]
    assert not after["warned"]
    assert after["ndcg"] > after["popularity"] + 0.05


@row("without features: a new entity is an error")
def test_new_entities_need_links() -> None:
    graph, _ = few_links()
    model = fit(graph, effects="vector", effects_prior=0.5, max_steps=50)
    with pytest.raises(NotInductive):
        model.search("user", ids=[10**6], among="item")
    best, _ = model.search("user", links={"item": ([0], [3], [2.0])}, among="item", k=3)
    assert best.shape == (1, 3)


def test_settings_of_encoders_do_nothing_without_features() -> None:
    graph, _ = few_links()
    before = fit(graph, max_steps=30)
    ignored = {"dropout": 0.9, "input_dropout": 0.9, "hidden_sizes": (3,), "encoder": "linear"}
    after = fit(graph, max_steps=30, **ignored)
    for view, Y in before.embeddings_.items():
        np.testing.assert_array_equal(Y, after.embeddings_[view])


# -- the page -----------------------------------------------------------------------------------


def test_every_row_of_the_page_has_a_test() -> None:
    section = PAGE.read_text().split("## Symptoms")[1].split("\n#")[0]
    rows = re.findall(r"^\| (.+?) \|", section, re.MULTILINE)
    symptoms = [cell for cell in rows if cell not in ("symptom", "---")]
    assert sorted(symptoms) == sorted(ROWS)
