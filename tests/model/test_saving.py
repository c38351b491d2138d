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
from pmvge.errors import InputError, StorageError
from pmvge.likelihoods import FAMILIES, build_family, family_name
from pmvge.model.saving import model_folder as saving

SETTINGS = {
    "n_components": 4,
    "hidden_sizes": (8,),
    "effects": "none",
    "schedule": "constant",
    "similarity": "cosine",
    "dropout": 0.3,
    "weight_decay": 0.0,
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
        n_files = 3 + len(its_graph.views) + len(its_graph.links)  # manifest, weights, card
        assert len(list(tmp_path.iterdir())) == n_files


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
    assert suffixes == [".json", ".md", *[".parquet"] * 7, ".safetensors"]
    for path in tmp_path.iterdir():
        assert b"cpickle" not in path.read_bytes().lower()
        assert path.read_bytes()[:1] != b"\x80"  # the first byte of a pickle


# -- saves during a read --------------------------------------------------------------------


@pytest.fixture
def two(graph):
    return fit(graph), fit(graph, random_state=1)


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


def test_a_save_after_the_files_were_read_does_not_matter(two, tmp_path, monkeypatch):
    """The model that is loaded is the old one as a whole."""
    old, new = two
    old.save(tmp_path)
    read_links = saving.links_from_files

    def before_a_save(*arguments):
        found = read_links(*arguments)
        new.save(tmp_path)
        return found

    monkeypatch.setattr(saving, "links_from_files", before_a_save)
    loaded = PMvGE.load(tmp_path)
    assert loaded.random_state == 0
    assert_same(loaded, old, make_graph())


def test_endless_saves_are_an_error(two, tmp_path, monkeypatch):
    two[0].save(tmp_path)
    turns = itertools.cycle([two[1], two[0]])
    read_tensors = storage.read_tensors

    def after_a_save(path):
        next(turns).save(tmp_path)
        return read_tensors(path)

    monkeypatch.setattr(storage, "read_tensors", after_a_save)
    with pytest.raises(StorageError, match="the model changed during all 5 attempts to read it"):
        PMvGE.load(tmp_path)


# -- programming errors ---------------------------------------------------------------------


@pytest.mark.parametrize("error", [TypeError, AttributeError, KeyError, ValueError, RuntimeError])
@pytest.mark.parametrize(
    "name",
    ["Fitted", "MultiViewEncoder", "build_family", "parse_manifest", "links_from_files"],
)
def test_programming_errors_are_not_called_damage(two, tmp_path, monkeypatch, name, error):
    def bug(*_, **__):
        raise error("a bug")

    two[0].save(tmp_path)
    monkeypatch.setattr(saving, name, bug)
    with pytest.raises(error, match="a bug"):
        PMvGE.load(tmp_path)


def test_programming_errors_of_the_estimator_are_not_called_damage(two, tmp_path, monkeypatch):
    def bug(*_):
        raise ValueError("a bug")

    two[0].save(tmp_path)
    monkeypatch.setattr(PMvGE, "_set_fitted", bug)
    with pytest.raises(ValueError, match=r"^a bug$"):
        PMvGE.load(tmp_path)


# -- what is saved --------------------------------------------------------------------------


def test_given_ids_are_saved(tmp_path):
    """Also ids that look like default ones."""
    model = fit(make_graph(ids={"a": np.arange(30), "t": list("uvwxyz")}))
    model.save(tmp_path)
    assert json.loads((tmp_path / "model.json").read_text())["given_ids"] == ["a", "t"]
    assert PMvGE.load(tmp_path)._fitted.given_ids == {"a", "t"}
    tamper(tmp_path, lambda manifest: manifest.pop("given_ids"))
    assert PMvGE.load(tmp_path)._fitted.given_ids == {"t"}  # format 1 does not say


def test_ids_of_tables_are_given_ids(tmp_path):
    tables = {"views": {}, "links": []}
    model = fit(make_graph())
    model.save(tmp_path)
    assert PMvGE.load(tmp_path)._fitted.given_ids == frozenset()
    tamper(tmp_path, lambda manifest: manifest.pop("given_ids"))
    assert PMvGE.load(tmp_path)._fitted.given_ids == frozenset()
    tamper(tmp_path, set_to(tables, "tables"))
    assert PMvGE.load(tmp_path)._fitted.given_ids == {"a", "b", "s", "t"}


def test_the_family_is_saved_by_its_name(graph, tmp_path):
    fit(graph).save(tmp_path)
    assert json.loads((tmp_path / "model.json").read_text())["family"] == "poisson"
    tamper(tmp_path, lambda manifest: manifest.pop("family"))
    tamper(tmp_path, lambda manifest: manifest["parameters"].pop("family"))
    loaded = PMvGE.load(tmp_path)
    assert (family_name(loaded.family_), loaded.family) == ("poisson", "poisson")


class Scaled(type(build_family("poisson", []))):
    """A family with a parameter for each view pair."""

    def __init__(self, pairs):
        super().__init__(pairs)
        self.scale = nn.Parameter(torch.arange(1.0, 1 + len(pairs)))


def test_parameters_of_a_family_are_saved(graph, tmp_path, monkeypatch):
    monkeypatch.setitem(FAMILIES, "scaled", Scaled)
    model = fit(graph, family="scaled")
    with torch.no_grad():
        model.family_.scale.mul_(10)
    model.save(tmp_path)
    loaded = PMvGE.load(tmp_path)
    assert type(loaded.family_) is Scaled
    assert torch.equal(loaded.family_.scale, model.family_.scale)
    with torch.no_grad():
        model.family_.scale[1] = torch.nan
    model.save(tmp_path)
    with pytest.raises(StorageError, match="damaged model: weights of 'family' are not finite"):
        PMvGE.load(tmp_path)
    monkeypatch.delitem(FAMILIES, "scaled")
    with pytest.raises(
        StorageError, match="call register_family before load: unknown family 'scaled'"
    ):
        PMvGE.load(tmp_path)


def test_saved_parameters_are_those_of_the_fit(graph, tmp_path):
    model = fit(graph, random_state=np.random.default_rng(3))
    model.set_params(max_steps=7).save(tmp_path)
    loaded = PMvGE.load(tmp_path)
    assert loaded.max_steps == SETTINGS["max_steps"]
    assert loaded.random_state == model._fitted.seed
    assert np.array_equal(loaded.fit(graph).embeddings_["a"], model.embeddings_["a"])


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


def test_an_encoder_that_is_not_a_module_is_refused(graph, tmp_path):
    fit(graph, encoder={"a": Own()}).save(tmp_path)
    message = "load: encoders: expected a torch.nn.Module for view 'a', got str"
    with pytest.raises(InputError, match=message):
        PMvGE.load(tmp_path, encoders={"a": "mlp"})


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
        (set_to(1, "parameters", "n_compoments"), "unknown parameter 'n_compoments'.*did you"),
        (set_to([0], "parameters", "hidden_sizes"), "hidden_sizes: expected a positive integer"),
        (set_to({"views": 1}, "parameters", "encoder"), "views: expected an object, got 1"),
        (set_to({"module": "x.Y"}, "parameters", "encoder"), "encoder: expected the setting of"),
        (set_to(1, "views", "a", "encoder", "spec", "size"), "spec: unknown setting 'size'"),
        (set_to(3, "views", "a", "encoder", "spec"), "spec: expected an object, got 3"),
        (set_to(3, "views", "a", "encoder", "spec", "shared_with"), "shared_with: expected a str"),
        (set_to({"same_as": "a"}, "views", "a", "encoder"), "expected an object with 'module'"),
        (set_to(1, "views", "a", "sparse"), "sparse: expected true or false, got 1"),
        (set_to([2**40] * 2, "views", "a", "row_shape"), "fewer than 2.63 columns"),
        (lambda m: m["views"].update({"\ud800": m["views"]["t"]}), "view's name in Unicode"),
        (set_to("gone", "family"), "register_family before load: unknown family 'gone'"),
        (set_to(None, "family"), "family: expected a string or an object, got None"),
        (
            set_to("gone", "similarity"),
            "register_similarity before load: unknown similarity 'gone'",
        ),
        (set_to(["x"], "given_ids"), "given_ids: unknown view 'x'"),
        (set_to("a", "given_ids"), "given_ids: expected a list, got 'a'"),
        (set_to(["a", "x"], "alpha", 0, "pair"), "alpha: unknown view 'x'"),
        (set_to(10**400, "alpha", 0, "weight"), "weight: expected a finite number, got 1000"),
        (set_to(float("nan"), "alpha", 0, "log_alpha"), "log_alpha: expected a finite number"),
        (set_to("9" * 5000, "seed"), "seed: expected a number, got '999"),
        (set_to({"views": []}, "tables"), "damaged model: tables: "),
        (set_to([], "background"), "background: expected an object or null"),
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
