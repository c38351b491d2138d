"""A fit to tables standardises the features of a view unless its table says otherwise."""

import json

import numpy as np
import pytest
from torch import nn

from pmvge import EncoderSpec, PMvGE
from pmvge.errors import CheckpointMismatch
from pmvge.tables import LinkTable, ViewTable, check_saved_tables, graph_from_frames

SETTINGS = {
    "n_components": 3,
    "hidden_sizes": (6,),
    "batch_size": 16,
    "max_steps": 8,
    "random_state": 1,
    "progress": False,
}
AS_IS = EncoderSpec(kind="mlp", standardize=False)


def graph_of(*, standardize: bool):
    """Return a graph of dense views a and b, sparse view s and featureless view u."""
    rng = np.random.default_rng(0)
    n = 30
    names = {"id": np.arange(n), "x": rng.normal(5, 3, n), "y": rng.normal(0, 10, n)}
    numbers = {"x": "numeric", "y": "numeric"}
    views = {
        "a": ViewTable(names, "id", numbers, standardize=standardize),
        "b": ViewTable(names, "id", numbers),
        "s": ViewTable(names, "id", numbers, standardize=standardize, sparse=True),
        "u": ViewTable(standardize=standardize),
    }
    links = {
        ("a", view): LinkTable(
            {"i": rng.integers(n, size=90), "j": rng.integers(n, size=90)}, ("i", "j")
        )
        for view in "bsu"
    }
    return graph_from_frames(views, links)


def bits(model):
    weights = {k: t.numpy().tobytes() for k, t in model._fitted.network.state_dict().items()}
    return {v: Y.tobytes() for v, Y in model.embeddings_.items()}, weights, model.alpha_.tobytes()


@pytest.mark.parametrize(
    ("encoder", "explicit"),
    [
        ("mlp", {"a": AS_IS}),
        (
            "linear",
            {"a": EncoderSpec(kind="linear", standardize=False), "b": "linear", "s": "linear"},
        ),
        ({}, {"a": AS_IS}),
        ({"b": "linear", "u": "lookup"}, {"a": AS_IS, "b": "linear"}),
        ({"a": "linear"}, {"a": EncoderSpec(kind="linear", standardize=False)}),
        ({"a": EncoderSpec(standardize=True)}, {"a": "mlp"}),
        ({"a": EncoderSpec(hidden_sizes=(4,))}, {"a": EncoderSpec(hidden_sizes=(4,))}),
        ({"s": EncoderSpec(standardize=False)}, {"a": AS_IS, "s": AS_IS}),
    ],
    ids=str,
)
def test_views_that_are_not_standardised_equal_those_of_an_explicit_spec(encoder, explicit):
    graph = graph_of(standardize=False)
    found = PMvGE(encoder=encoder, **SETTINGS).fit(graph)
    unrecorded = graph.with_tables({})
    assert bits(found) == bits(PMvGE(encoder=explicit, **SETTINGS).fit(unrecorded))
    assert found.encoder == encoder


def test_a_module_gets_the_numbers_of_the_table():
    graph = graph_of(standardize=False)
    model = PMvGE(encoder={"a": nn.Linear(2, 3)}, **SETTINGS).fit(graph)
    layer = model._fitted.network.encoder_of("a")
    expected = layer(layer.weight.new_tensor(graph.views["a"]))
    found = model.embed("a", graph.views["a"])
    scale = np.linalg.norm(found, axis=1, keepdims=True)
    expected = expected.detach().numpy()
    expected *= scale / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_standardised_views_do_not_depend_on_the_record():
    graph = graph_of(standardize=True)
    assert graph.unscaled_views == frozenset()
    found = PMvGE(**SETTINGS).fit(graph)
    assert bits(found) == bits(PMvGE(**SETTINGS).fit(graph.with_tables({})))


def test_the_numbers_of_an_unscaled_view_reach_the_encoder_unchanged():
    model = PMvGE(**SETTINGS).fit(graph_of(standardize=False))
    layers = {view: model._fitted.network.encoder_of(view).input for view in "as"}
    assert layers["a"].scale.tolist() == [1, 1]
    assert layers["a"].shift.tolist() == [0, 0]
    assert float(layers["s"].scale) != 1  # sparse rows are scaled by one factor in any case


def test_a_saved_model_keeps_the_record_and_models_without_it_load(tmp_path):
    model = PMvGE(**SETTINGS).fit(graph_of(standardize=False))
    model.save(tmp_path / "m")
    loaded = PMvGE.load(tmp_path / "m")
    assert bits(loaded) == bits(model)
    recorded = {view: entry["standardize"] for view, entry in loaded.tables_["views"].items()}
    assert recorded == {"a": False, "b": True, "s": False, "u": False}
    tables = json.loads(json.dumps(dict(loaded.tables_)))
    for entry in tables["views"].values():
        del entry["standardize"]
    assert check_saved_tables(tables) == tables
    tables["views"]["a"]["standardize"] = "no"
    with pytest.raises(ValueError, match="a: standardize: invalid value 'no'"):
        check_saved_tables(tables)


def test_a_checkpoint_of_a_standardised_view_is_not_resumed_without(tmp_path):
    """Categories have the same features in both cases; only the encoder differs."""
    rng = np.random.default_rng(0)
    table = {"id": np.arange(20), "kind": rng.choice(["x", "y"], 20)}
    links = LinkTable({"i": np.arange(20), "j": np.arange(20) % 4}, ("i", "j"))
    settings = {**SETTINGS, "checkpoint_dir": str(tmp_path / "c")}
    for standardize in (True, False):
        view = ViewTable(table, "id", {"kind": "category"}, standardize=standardize)
        graph = graph_from_frames({"a": view, "u": None}, {("a", "u"): links})
        if standardize:
            PMvGE(**settings).fit(graph)
        else:
            with pytest.raises(CheckpointMismatch):
                PMvGE(**settings).fit(graph, resume=True)
