"""The model card: its numbers, bad input, and the file beside a saved model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from pmvge import MultiViewGraph, PMvGE
from pmvge.checks import NotFitted

HOSTILE = "<script>alert(1)</script> | `x` *y*\n# 🎬 " + "z" * 10_000


def fitted(names: tuple[str, str] = ("users", "films"), **settings: Any) -> PMvGE:
    rng = np.random.default_rng(0)
    a, b = names
    X = rng.normal(size=(40, 3))
    links = (rng.random((40, 15)) < 0.3).astype(float)
    graph = MultiViewGraph({a: X, b: 15}, {(a, b): links})
    model = PMvGE(4, max_steps=20, random_state=0, progress=False, **settings)
    return model.fit(graph, hold_out=0.2)


def test_the_card_has_data_scores_settings_and_limits() -> None:
    model = fitted()
    card, results = model.card(), model.evaluate()
    headings = re.findall(r"^#+ (.+)$", card, re.MULTILINE)
    assert headings == ["Model card", "Data", "Scores", "Settings", "Limits", "Use"]
    (held_out,) = model.links_.held_out.values()
    assert f"| {len(held_out)} |" in card
    for part in (results, results["popularity"], results["features_only"]):
        assert f"{part['pairs']['users,films']['roc_auc']:.3f}" in card
        assert f"{part['pairs']['users,films']['ndcg@10']:.3f}" in card
    assert "- n_components = `4`" in card
    assert "not calibrated" in card
    assert "New entities of films have no features" in card
    assert "also used for early stopping" in card


def test_the_card_has_the_dropout_that_was_chosen_for_sparse_views() -> None:
    X = sparse.random_array((40, 9), density=0.3, rng=np.random.default_rng(0))
    ring = np.eye(40, k=1) + np.eye(40, k=-1)
    links = {("users", "films"): np.eye(40, 15), ("users", "users"): ring}
    graph = MultiViewGraph({"users": X, "films": 15}, links)
    settings: dict[str, Any] = {"max_steps": 2, "random_state": 0, "progress": False}
    card = PMvGE(4, **settings).fit(graph).card()
    assert "- dropout = `0.5 (users)`\n- input_dropout = `0.5 (users)`" in card
    assert "dropout = `0.2`" in PMvGE(4, dropout=0.2, **settings).fit(graph).card()


def test_the_code_of_the_card_runs(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path / "m")
    (code,) = re.findall(r"```python\n(.*?)```", model.card(), re.DOTALL)
    found: dict[str, Any] = {}
    exec(code.replace("FOLDER", str(tmp_path / "m")), found)
    assert found["ids"].shape == (40, 10)


def test_save_writes_the_card_and_load_does_not_read_it(tmp_path: Path) -> None:
    model = fitted()
    model.save(tmp_path)
    path = tmp_path / "model_card.md"
    assert path.read_text(encoding="utf-8") == model.card()
    path.write_text("my own words")
    assert PMvGE.load(tmp_path).card() == model.card()
    path.unlink()
    PMvGE.load(tmp_path).save(tmp_path, links=False)
    text = path.read_text(encoding="utf-8")
    assert "and the training links" in model.card()
    assert "and the training links" not in text
    assert "There are no held-out links" in PMvGE.load(tmp_path).card()


def test_names_of_views_are_text() -> None:
    card = fitted((HOSTILE, "b`\n```")).label({HOSTILE: {HOSTILE: ["x"] * 40}}).card()
    assert "<" not in card.partition("```python")[0]
    assert card.count("```") == 2
    assert len(card) < 10_000
    assert [line for line in card.splitlines() if line.startswith("# ")] == ["# Model card"]
    rows = [line for line in card.splitlines() if line.startswith("|")]
    cells = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
    assert {*cells} <= {5, 6}  # the pipes of names are escaped


def test_a_small_graph_without_held_out_links_and_effects() -> None:
    graph = MultiViewGraph({"a": 3, "b": 1}, {("a", "a"): (np.array([0]), np.array([1]))})
    model = PMvGE(2, max_steps=3, progress=False, effects="none").fit(graph, hold_out=0)
    card = model.card()
    assert "There are no held-out links" in card
    assert "| b | 1 | none |" in card


def test_a_card_needs_a_fitted_model() -> None:
    with pytest.raises(NotFitted):
        PMvGE().card()
