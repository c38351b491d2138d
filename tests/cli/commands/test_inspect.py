"""``pmvge inspect``: what is in a model folder."""

import json

import pytest

from pmvge import PMvGE


def test_inspect_as_json(run, model, truth):
    facts = json.loads(run("inspect", model, "--json").out)
    assert facts["n_components"] == 8
    assert {view: entry["n"] for view, entry in facts["views"].items()} == {
        "films": 60, "users": 100, "genre": 8
    }  # fmt: skip
    assert facts["views"]["genre"]["encoder"] == "lookup"
    assert facts["alpha"]["users,films"]["alpha"] == pytest.approx(truth.alpha, rel=1e-5)
    assert facts["training"]["steps"] == 20
    assert facts["changed_settings"] == {
        "n_components": 8,
        "max_steps": 20,
        "random_state": 0,
        "effects": "none",
        "similarity": "cosine",
        "schedule": "constant",
        "weight_decay": 1.0,  # chosen by fit
    }
    held = PMvGE.load(model).links_.held_out["users", "films"]
    links = facts["links"]["users,films"]
    assert links["held_out"] == len(held) == round(0.1 * (truth.W > 0).sum())
    assert links["links"] + links["held_out"] == (truth.W > 0).sum()
    assert links["weight"] + held.total == truth.W.sum()
    columns = {"age": "numbers", "country": "category", "likes": "words"}
    assert set(facts["tables"]["users"]) == set(columns)
    assert facts["tables"]["genre"] == {}


def test_inspect_prints_tables(run, model):
    printed = run("inspect", model).out
    assert f"{model}: pmvge model, K = 8\n" in printed
    for word in ("users", "films", "genre", "lookup", "films - genre", "held out", "exact"):
        assert word in printed
    assert "training: History: 20 steps" in printed
    line = (
        "settings that differ from the defaults or were chosen for the data: "
        "effects = none, max_steps = 20, n_components = 8, random_state = 0, "
        "schedule = constant, similarity = cosine, weight_decay = 1.0"
    )
    assert line in " ".join(printed.split())


def test_a_model_without_its_links_can_be_inspected(run, model, tmp_path):
    PMvGE.load(model).save(tmp_path, links=False)
    facts = json.loads(run("inspect", tmp_path, "--json").out)
    assert facts["links"] == {}
    assert set(facts["alpha"]) == {"users,films", "films,genre"}
    assert "films - genre" in run("inspect", tmp_path).out
