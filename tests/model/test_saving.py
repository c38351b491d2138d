"""Saving and loading models."""

import hashlib
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from pmvge import EncoderSpec, MultiViewGraph, PMvGE, storage
from pmvge.checks import NotFitted
from pmvge.errors import StorageError
from pmvge.model import read_consistently

SETTINGS = {
    "n_components": 4,
    "hidden_sizes": (8,),
    "batch_size": 16,
    "max_steps": 30,
    "random_state": 0,
    "progress": False,
}


class Own(nn.Module):
    """A user-defined module with buffers besides its weights."""

    def __init__(self, n_in=4):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_in, 6), nn.BatchNorm1d(6), nn.Linear(6, 4))

    def forward(self, x):
        return self.layers(x.flatten(1))


class Tied(nn.Module):
    """A module with one matrix under two names."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def make_graph(names=("a", "b", "s", "t"), ids=None):
    """Return a graph with two dense views of equal width, a sparse and a featureless view."""
    rng = np.random.default_rng(0)
    a, b, s, t = names
    views = {
        a: rng.normal(size=(30, 4)),
        b: rng.normal(size=(20, 4)),
        s: sparse.random_array((25, 40), density=0.2, format="csr", rng=1),
        t: 6,
    }
    links = {
        (a, other): (np.arange(30), np.arange(30) % n, 1 + np.arange(30) % 3)
        for other, n in ((b, 20), (s, 25), (t, 6))
    }
    return MultiViewGraph(views, links, ids)


@pytest.fixture(scope="module")
def graph():
    return make_graph()


def fit(graph, **settings):
    return PMvGE(**SETTINGS | settings).fit(graph)


def assert_same(loaded, model, graph):
    assert loaded.view_names_ == model.view_names_
    assert np.array_equal(loaded.alpha_, model.alpha_)
    assert loaded.alpha_error_ == model.alpha_error_
    assert loaded.history_.to_records() == model.history_.to_records()
    for view in model.view_names_:
        assert np.array_equal(loaded.embeddings_[view], model.embeddings_[view])
        assert np.array_equal(loaded.ids_[view], model.ids_[view])
        assert loaded.ids_[view].dtype.kind == model.ids_[view].dtype.kind
        X = graph.views[view]
        new = graph.ids[view][::-1] if X is None else X[::-1] * 1.5
        assert np.array_equal(loaded.embed(view, new), model.embed(view, new))
    assert loaded.log_likelihood(graph) == model.log_likelihood(graph)


# -- round trips ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"similarity": "inner", "batch_norm": True, "dropout": 0.2, "hidden_sizes": (6, 5)},
        {"similarity": "cosine", "encoder": "linear", "standardize": False},
        {"scheme": "paper", "patience": None, "activation": "gelu"},
        {"encoder": {"a": "identity", "b": EncoderSpec("mlp", [3], "tanh", "sigmoid")}},
        {"encoder": {"b": EncoderSpec(shared_with="a"), "t": "lookup"}},
        {"encoder": EncoderSpec(hidden_sizes=(5, 3), input_dropout=0.1)},
    ],
    ids=str,
)
def test_a_loaded_model_is_bitwise_equal(graph, tmp_path, settings):
    model = fit(graph, **settings)
    model.save(tmp_path / "model")
    loaded = PMvGE.load(str(tmp_path / "model"))
    assert_same(loaded, model, graph)
    ours, theirs = loaded.get_params(), model.get_params()
    for name in ours.keys() - {"encoder"}:
        assert ours[name] == theirs[name]
        assert type(ours[name]) is type(theirs[name])
    assert np.array_equal(loaded.fit(graph).embeddings_["a"], model.embeddings_["a"])


def test_the_encoder_parameter_is_saved(graph, tmp_path):
    encoder = {"a": EncoderSpec("mlp", (3, 2), dropout=0.1), "b": "linear"}
    fit(graph, encoder=encoder).save(tmp_path)
    assert PMvGE.load(tmp_path).encoder == encoder


@pytest.mark.parametrize(
    ("name", "value", "back"),
    [
        ("n_components", np.int64(4), 4),
        ("hidden_sizes", [8, 4], (8, 4)),
        ("learning_rate", np.float32(0.5), 0.5),
        ("random_state", np.random.default_rng(0), None),
        ("checkpoint_dir", Path("somewhere"), "somewhere"),
        ("device", torch.device("cpu"), "cpu"),
        ("validation_fraction", np.float64(0.25), 0.25),
    ],
)
def test_parameters_of_any_accepted_type_can_be_saved(
    graph, tmp_path, monkeypatch, name, value, back
):
    monkeypatch.chdir(tmp_path)
    model = fit(graph, **{name: value})
    model.save("model")
    loaded = PMvGE.load("model")
    assert loaded.get_params()[name] == back
    assert_same(loaded, model, graph)


@pytest.mark.parametrize(
    "names",
    [
        ("a.b", "a/b", "a b", "a\\b"),
        ("画像", "タグ", "ü", "😀"),
        (".", "..", "model.json", "-"),
        ("%61", "a", "A", "weights"),
        ("x" * 300 + "1", "x" * 300 + "2", "画" * 60 + "1", "画" * 60 + "2"),
    ],
    ids=["signs", "unicode", "paths", "escapes", "long"],
)
def test_views_may_have_any_name(tmp_path, names):
    graph = make_graph(names)
    model = fit(graph)
    model.save(tmp_path / "model")
    assert_same(PMvGE.load(tmp_path / "model"), model, graph)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]  # no files outside the folder


@pytest.mark.parametrize(
    "ids",
    [
        {"a": [f"image {i}" for i in range(30)], "t": ["ä", "", "b\n", "c", "日本", "x" * 50]},
        {"a": np.arange(30) * 10**15 - 5, "t": [3, 1, 2, -7, 2**62, 0]},
        {"t": np.array(list("uvwxyz"))},
    ],
    ids=["strings", "integers", "letters"],
)
def test_integer_and_string_ids_are_saved(tmp_path, ids):
    graph = make_graph(ids=ids)
    model = fit(graph)
    model.save(tmp_path)
    loaded = PMvGE.load(tmp_path)
    assert_same(loaded, model, graph)
    found, _ = loaded.search("a", graph.views["a"], among="t", k=6)
    assert set(found.ravel().tolist()) == set(ids["t"])


def test_a_model_can_be_saved_over_another(graph, tmp_path):
    small = MultiViewGraph({"x": 4, "y": 3}, {("x", "y"): ([0, 1], [1, 2])})
    models = [(fit(graph), graph), (fit(small), small), (fit(graph, random_state=1), graph)]
    for model, its_graph in models:
        model.save(tmp_path)
        assert_same(PMvGE.load(tmp_path), model, its_graph)
        assert len(list(tmp_path.iterdir())) == 2 + len(its_graph.views)


def test_a_loaded_model_can_be_saved_again(graph, tmp_path):
    model = fit(graph)
    model.save(tmp_path / "one")
    PMvGE.load(tmp_path / "one").save(tmp_path / "two")
    ours, theirs = (sorted(p.name for p in (tmp_path / n).iterdir()) for n in ("one", "two"))
    assert ours == theirs  # file names are hashes of the content


def test_a_model_that_is_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(NotFitted, match="not fitted yet"):
        PMvGE().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_folder_holds_no_code(graph, tmp_path):
    fit(graph, encoder={"a": Own()}).save(tmp_path)
    suffixes = sorted(path.suffix for path in tmp_path.iterdir())
    assert suffixes == [".json", *[".parquet"] * 4, ".safetensors"]
    for path in tmp_path.iterdir():
        assert b"cpickle" not in path.read_bytes().lower()
        assert path.read_bytes()[:1] != b"\x80"  # the first byte of a pickle


# -- saves during a read --------------------------------------------------------------------


@pytest.fixture
def two(graph):
    return fit(graph), fit(graph, random_state=1)


def test_a_save_during_a_read_repeats_the_read(two, tmp_path):
    old, new = two
    old.save(tmp_path)
    seeds = []

    def read(folder):
        model = PMvGE.load(folder)
        seeds.append(model.random_state)
        new.save(folder)
        return model.random_state, PMvGE.load(folder).random_state

    assert read_consistently(tmp_path, read) == (1, 1)
    assert seeds == [0, 1]


def test_files_removed_by_a_save_repeat_the_read(two, tmp_path):
    old, new = two
    old.save(tmp_path)

    def read(folder):
        _, parts = storage.read(folder, "model")
        new.save(folder)
        return storage.read_tensors(parts["weights.safetensors"])

    assert read_consistently(tmp_path, read).keys() == new._fitted.network.state_dict().keys()


def test_load_repeats_the_read_if_files_were_removed(two, tmp_path, monkeypatch):
    old, new = two
    old.save(tmp_path)
    read_tensors = storage.read_tensors
    saved = []

    def after_a_save(path):
        if not saved:
            saved.append(new.save(tmp_path))
        return read_tensors(path)

    monkeypatch.setattr(storage, "read_tensors", after_a_save)
    assert PMvGE.load(tmp_path).random_state == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_is_refused_without_reading_it(two, tmp_path):
    two[0].save(tmp_path)
    (tmp_path / "model.json").unlink()
    os.mkfifo(tmp_path / "model.json")
    with pytest.raises(StorageError, match="is not a file"):
        PMvGE.load(tmp_path)


def test_errors_of_an_unchanged_folder_are_raised_at_once(two, tmp_path):
    two[0].save(tmp_path)
    next(tmp_path.glob("weights*")).unlink()
    reads = []

    def read(folder):
        reads.append(folder)
        return PMvGE.load(folder)

    with pytest.raises(StorageError, match=r"damaged model: weights-.* is missing"):
        read_consistently(tmp_path, read)
    with pytest.raises(StorageError, match=r"gone: not a pmvge model"):
        read_consistently(tmp_path / "gone", read)
    assert len(reads) == 2


@pytest.mark.parametrize("error", [None, StorageError("damaged")])
def test_endless_saves_are_an_error(two, tmp_path, error):
    two[0].save(tmp_path)
    turns = itertools.cycle([two[1], two[0]])

    def read(folder):
        next(turns).save(folder)
        if error:
            raise error

    with pytest.raises(StorageError, match="the model changed during all 5 attempts to read it"):
        read_consistently(tmp_path, read)


# -- user-defined modules -------------------------------------------------------------------


def test_user_defined_modules_are_passed_to_load(graph, tmp_path):
    model = fit(graph, encoder={"a": Own(), "s": Own(40)})
    model.save(tmp_path)
    fresh = {"a": Own(), "s": Own(40)}
    before = fresh["a"].layers[0].weight.clone()
    loaded = PMvGE.load(tmp_path, encoders=fresh)
    assert_same(loaded, model, graph)
    assert torch.equal(fresh["a"].layers[0].weight, before)  # the weights are loaded into a copy
    assert loaded.encoder["a"] is fresh["a"]


def test_a_missing_module_is_named_with_its_import_path(graph, tmp_path):
    fit(graph, encoder={"a": Own(), "s": Own(40)}).save(tmp_path)
    path = rf"{Own.__module__}\.Own".replace("..", r"\..")
    with pytest.raises(StorageError, match=rf"encoder of view 'a'.*{path}.*load\(path, encoders="):
        PMvGE.load(tmp_path)
    with pytest.raises(StorageError, match="encoder of view 's' is a user-defined module"):
        PMvGE.load(tmp_path, encoders={"a": Own()})


@pytest.mark.parametrize("wrong", [nn.Linear(4, 4), Own(5)])
def test_a_module_with_other_weights_is_refused(graph, tmp_path, wrong):
    fit(graph, encoder={"a": Own()}).save(tmp_path)
    with pytest.raises(StorageError, match="the weights do not fit the encoders"):
        PMvGE.load(tmp_path, encoders={"a": wrong})


def test_a_module_for_an_unknown_view_is_refused(graph, tmp_path):
    fit(graph, encoder={"a": Own()}).save(tmp_path)
    with pytest.raises(StorageError, match="encoders: unknown view 'A': expected one of 'a'"):
        PMvGE.load(tmp_path, encoders={"a": Own(), "A": Own()})


@pytest.mark.parametrize("given", [("a",), ("a", "b")])
def test_a_shared_module_stays_shared(graph, tmp_path, given):
    module = Own()
    model = fit(graph, encoder={"a": module, "b": module})
    model.save(tmp_path)
    loaded = PMvGE.load(tmp_path, encoders={view: Own() for view in given})
    assert_same(loaded, model, graph)
    X = graph.views["a"]
    assert np.array_equal(loaded.embed("a", X), loaded.embed("b", X))
    again = loaded.fit(graph)
    assert np.array_equal(again.embed("a", X), again.embed("b", X))


def test_one_module_for_all_views_is_restored(tmp_path):
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(9, 4)), "b": rng.normal(size=(9, 4))}
    graph = MultiViewGraph(views, {("a", "b"): (np.arange(9), np.arange(9))})
    model, fresh = fit(graph, encoder=Own()), Own()
    model.save(tmp_path)
    loaded = PMvGE.load(tmp_path, encoders={"a": fresh})
    assert_same(loaded, model, graph)
    assert loaded.encoder is fresh


def test_tied_weights_are_restored(graph, tmp_path):
    model = fit(graph, encoder={"a": Tied()})
    model.save(tmp_path)
    assert_same(PMvGE.load(tmp_path, encoders={"a": Tied()}), model, graph)


# -- damage that has a valid checksum -------------------------------------------------------


def tamper(folder, change):
    path = folder / "model.json"
    manifest = json.loads(path.read_text())
    del manifest["checksum"]
    change(manifest)
    text = json.dumps(manifest, sort_keys=True)
    manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest))


def set_to(value, *path):
    def change(manifest):
        *parents, last = path
        for key in parents:
            manifest = manifest[key]
        manifest[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (set_to([5], "views", "a", "row_shape"), "the weights do not fit the encoders"),
        (set_to([41], "views", "s", "row_shape"), "the weights do not fit the encoders"),
        (set_to(7, "views", "t", "n"), "the weights do not fit the encoders"),
        (set_to(5, "n_components"), "the weights do not fit the encoders"),
        (set_to("cosine", "similarity"), "the weights do not fit the encoders"),
        (set_to([9], "views", "a", "encoder", "spec", "hidden_sizes"), "the weights do not fit"),
        (set_to(31, "views", "a", "n"), r"view 'a': expected shape \(31, 4\), got \(30, 4\)"),
        (set_to(None, "views", "a", "row_shape"), "featureless view takes the encoder 'lookup'"),
        (set_to("magic", "views", "a", "encoder", "spec", "kind"), "unknown encoder 'magic'"),
        (set_to(-1, "views", "a", "row_shape"), "damaged model"),
        (set_to([-4], "views", "a", "row_shape"), "damaged model"),
        (set_to({}, "views", "a"), "damaged model"),
        (set_to([], "views"), "damaged model"),
        (set_to([{"pair": ["a"]}], "alpha"), "damaged model"),
        (set_to([{}], "history"), "damaged model"),
        (set_to("x", "seed"), "damaged model"),
        (set_to({}, "parameters"), "damaged model"),
        (lambda manifest: manifest.pop("n_components"), "damaged model"),
        (lambda manifest: manifest["files"].pop("weights.safetensors"), "damaged model"),
        (lambda manifest: manifest["files"].pop("embeddings-a.parquet"), "damaged model"),
    ],
)
def test_changed_manifests_are_refused(graph, tmp_path, change, says):
    fit(graph, similarity="inner").save(tmp_path)
    tamper(tmp_path, lambda manifest: None)
    PMvGE.load(tmp_path)  # a recomputed checksum is accepted
    tamper(tmp_path, change)
    with pytest.raises(StorageError, match=says):
        PMvGE.load(tmp_path)


@pytest.mark.parametrize("part", ["weights.safetensors", "embeddings-a.parquet"])
@pytest.mark.parametrize("data", [b"", b"x" * 1000, None], ids=["empty", "noise", "half"])
def test_damaged_data_files_are_refused(graph, tmp_path, part, data):
    fit(graph).save(tmp_path)
    entry = json.loads((tmp_path / "model.json").read_text())["files"][part]
    path = tmp_path / entry["name"]
    data = path.read_bytes()[: entry["bytes"] // 2] if data is None else data
    path.write_bytes(data)
    with pytest.raises(StorageError, match="do not match its checksum"):
        PMvGE.load(tmp_path)
    tamper(tmp_path, set_to(hashlib.sha256(data).hexdigest(), "files", part, "sha256"))
    with pytest.raises(StorageError, match=r"damaged|not a Parquet file"):
        PMvGE.load(tmp_path)


@pytest.mark.parametrize("name", ["missing", "empty", "file"])
def test_a_path_without_a_model_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=rf"{name}: not a pmvge model: there is no model\.json"):
        PMvGE.load(tmp_path / name)


def test_a_newer_format_is_refused(graph, tmp_path):
    fit(graph).save(tmp_path)
    tamper(tmp_path, set_to(99, "format"))
    with pytest.raises(StorageError, match="written by a newer pmvge: format 99"):
        PMvGE.load(tmp_path)
