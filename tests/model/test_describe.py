"""PMvGE.describe and PMvGE.label."""

from __future__ import annotations

import json

import numpy as np
import pytest
from torch import nn

from pmvge import EncoderSpec, MultiViewGraph, PMvGE
from pmvge.errors import InputError


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    graph = MultiViewGraph(
        {"a": rng.normal(size=(20, 3)), "b": 6, "c": rng.normal(size=(4, 2))},
        {("a", "b"): rng.poisson(1.0, size=(20, 6)), ("a", "c"): ([0, 1, 2], [0, 1, 2])},
        ids={"b": list("uvwxyz")},
    )
    encoders = {"a": EncoderSpec(hidden_sizes=(5,)), "c": nn.Linear(2, 3)}
    return PMvGE(3, encoder=encoders, max_steps=4, random_state=1, progress=False).fit(graph)


def test_the_description_is_plain_data_of_the_model(model):
    facts = json.loads(json.dumps(model.describe()))
    assert facts["n_components"] == 3
    assert (facts["similarity"], facts["family"]) == ("inner", "poisson")
    assert facts["views"]["a"] == {
        "n": 20,
        "features": "3",
        "encoder": "mlp 5",
        "given_ids": False,
        "labels": [],
        "columns": [],
        "name": None,
        "effects": facts["views"]["a"]["effects"],
    }
    assert facts["views"]["a"]["effects"]["kind"] == "vector"
    assert facts["views"]["b"]["given_ids"] is True
    assert facts["views"]["c"]["encoder"] == "Linear"
    links = facts["links"]["a,b"]
    training, held = (part["a", "b"] for part in (model.links_.training, model.links_.held_out))
    assert (links["links"], links["held_out"]) == (len(training), len(held))
    assert (links["weight"], links["held_out_weight"]) == (training.total, held.total)
    assert facts["alpha"]["a,b"]["alpha"] == pytest.approx(model.alpha_[0, 1])
    assert facts["alpha"]["a,b"]["pair"] == ["a", "b"]
    assert facts["training"]["steps"] == 4
    assert facts["settings"]["encoder"] == {"a": {"hidden_sizes": [5]}, "c": "Linear"}
    assert facts["settings"].keys() == model.get_params(deep=False).keys()
    assert facts["changed_settings"].keys() == {
        "n_components",
        "encoder",
        "max_steps",
        "random_state",
        "similarity",
        "weight_decay",
    }


def test_a_saved_model_has_the_same_description(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = PMvGE.load(tmp_path / "model", encoders={"c": nn.Linear(2, 3)})
    assert loaded.describe() == model.describe()
    model.save(tmp_path / "bare", links=False)
    bare = PMvGE.load(tmp_path / "bare", encoders={"c": nn.Linear(2, 3)})
    assert bare.describe() == {**model.describe(), "links": {}}


def test_labels_are_saved_and_do_not_replace_others(model, tmp_path):
    model.label({"b": {"kind": list("xxyyzz")}}).label({"b": {"year": [1, 2, 3, 4, 5, 6]}})
    assert model.describe()["views"]["b"]["labels"] == ["kind", "year"]
    model.save(tmp_path / "model", links=False)
    loaded = PMvGE.load(tmp_path / "model", encoders={"c": nn.Linear(2, 3)})
    assert loaded.labels_["b"]["year"].tolist() == ["1", "2", "3", "4", "5", "6"]
    assert loaded.labels_["b"]["kind"].tolist() == list("xxyyzz")


def test_invalid_labels_are_refused(model):
    with pytest.raises(InputError, match="labels: unknown view 'd'"):
        model.label({"d": {"kind": ["x"]}})
    with pytest.raises(InputError, match=r"labels 'kind' of view 'b': expected 6 values.*\(1,\)"):
        model.label({"b": {"kind": ["x"]}})
