"""The same seed gives bitwise equal results, and `fit` changes no global state."""

import gc
import hashlib
import inspect
import os
import random
import subprocess
import sys
import weakref
from functools import partial

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from torch import nn

from pmvge import EncoderSpec, MultiViewGraph, PMvGE
from pmvge.errors import DivergedError

SETTINGS = {
    "n_components": 4,
    "hidden_sizes": (8,),
    "dropout": 0.3,
    "batch_norm": True,
    "batch_size": 16,
    "max_steps": 40,
    "random_state": 7,
    "progress": False,
}


def tables(seed=0):
    """Return a dense, a sparse and a featureless view with weighted links."""
    rng = np.random.default_rng(seed)
    views = {
        "b": rng.normal(size=(30, 4)),
        "a": sparse.random_array((20, 25), density=0.2, format="csr", rng=seed),
        "c": 6,
    }
    links = {
        ("b", "c"): (rng.integers(30, size=50), rng.integers(6, size=50), rng.random(50)),
        ("b", "a"): (rng.integers(30, size=80), rng.integers(20, size=80), rng.random(80)),
        ("b", "b"): (rng.integers(15, size=40), 15 + rng.integers(15, size=40), rng.random(40)),
    }
    return views, links


def fit(graph, **settings):
    return PMvGE(**SETTINGS | settings).fit(graph)


def bits(model):
    """Return a hash of everything that was learned."""
    digest = hashlib.sha256()
    for view in sorted(model.embeddings_):
        digest.update(model.embeddings_[view].tobytes())
    digest.update(model.alpha_.tobytes())
    history = [(r.step, r.epoch, r.loss, r.validation, r.learning_rate) for r in model.history_]
    digest.update(repr(history).encode())
    return digest.hexdigest()


# -- seeds ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["block", "paper"])
@pytest.mark.parametrize("similarity", ["inner", "cosine"])
def test_results_are_determined_by_the_seed(scheme, similarity):
    graph, settings = MultiViewGraph(*tables()), {"scheme": scheme, "similarity": similarity}
    first = bits(fit(graph, **settings))
    assert bits(fit(graph, **settings)) == first
    assert bits(fit(graph, **settings, random_state=8)) != first


def test_the_seed_determines_the_initial_weights():
    graph, settings = MultiViewGraph(*tables()), {"max_steps": 1, "learning_rate": 1e-12}
    first, other = (fit(graph, **settings, random_state=seed).embeddings_ for seed in (7, 8))
    assert not np.allclose(first["b"], other["b"], atol=1e-3)


def test_generators_in_the_same_state_give_the_same_bits():
    graph = MultiViewGraph(*tables())
    kinds = (np.random.default_rng, np.random.RandomState)
    for kind in kinds:
        assert bits(fit(graph, random_state=kind(3))) == bits(fit(graph, random_state=kind(3)))
    generator = np.random.default_rng(3)
    first = bits(fit(graph, random_state=generator))
    assert bits(fit(graph, random_state=generator)) != first  # its state has changed


def test_without_a_seed_fits_differ():
    graph = MultiViewGraph(*tables())
    assert bits(fit(graph, random_state=None)) != bits(fit(graph, random_state=None))


def test_two_processes_give_the_same_bits(tmp_path):
    views, links = tables()
    np.savez(tmp_path / "b.npz", **{"b": views["b"]}, **{"".join(k): v for k, v in links.items()})
    sparse.save_npz(tmp_path / "a.npz", views["a"])
    script = f"""
import numpy as np, torch
from scipy import sparse
from pmvge import MultiViewGraph, PMvGE
torch.set_num_threads(1)
saved = np.load("b.npz")
views = {{"a": sparse.load_npz("a.npz"), "b": saved["b"], "c": 6}}
links = {{tuple(k): (*saved[k][:2].astype(int), saved[k][2]) for k in saved if len(k) == 2}}
model = PMvGE(**{SETTINGS!r}).fit(MultiViewGraph(views, links))
for view in "abc":
    model.embeddings_[view].tofile(view)
"""
    # Another hash seed changes the order of sets.
    environment = os.environ | {"PYTHONHASHSEED": "12345"}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True)
    model = fit(MultiViewGraph(views, links))
    for view, Y in model.embeddings_.items():
        assert (tmp_path / view).read_bytes() == Y.tobytes()


PROJECT = """
[views.user]
source = "users.csv"
id = "user"
features = { age = "numeric", town = "category" }

[views.film]
source = "films.csv"
id = "film"
features = { plot = "text" }
labels = ["kind"]

[views.tag]

[[links]]
views = ["user", "film"]
source = "seen.csv"
columns = ["user", "film"]
weight = "times"

[[links]]
views = ["film", "tag"]
source = "tags.csv"
columns = ["film", "tag"]
"""


def write_project(folder, seed):
    """Write the same tables and project, with rows, keys and tables shuffled by the seed."""
    rng, order = np.random.default_rng(0), np.random.default_rng(seed)
    towns, words = ["Bonn", "Rome", "Oslo", "Kyiv", "Lima"], ["war", "love", "sea", "ship", "moon"]
    pairs = rng.integers((30, 20), size=(150, 2))  # some of them several times
    lines = {
        "users.csv,user,age,town": [f"u{i},{rng.integers(90)},{towns[i % 5]}" for i in range(30)],
        "films.csv,film,plot,kind": [
            f"f{j},{' '.join(rng.choice(words, 3))},k{j % 2}" for j in range(20)
        ],
        "seen.csv,user,film,times": [f"u{i},f{j},{rng.random()}" for i, j in pairs],
        "tags.csv,film,tag": [f"f{j},{words[j % 3]}" for j in range(20)],
    }
    for heading, rows in lines.items():
        name, header = heading.split(",", 1)
        order.shuffle(rows)
        (folder / name).write_text("\n".join([header, *rows]) + "\n")
    parts = PROJECT.strip().split("\n\n")
    order.shuffle(parts)
    (folder / "pmvge.toml").write_text("\n\n".join(parts))


def answers(model):
    """Return a hash of the vectors of training entities and of new rows."""
    digest = hashlib.sha256()
    for _, Y in sorted(model.embeddings_.items()):
        digest.update(Y.tobytes())
    for view, width in (("user", 6), ("film", 5)):
        digest.update(model.embed(view, np.eye(width, dtype=np.float32)).tobytes())
    return digest.hexdigest()


def test_processes_with_other_hash_seeds_write_the_same_model(tmp_path):
    """The order of rows, keys and tables does not matter either."""
    script = f"""
import hashlib, numpy as np, torch
from pmvge import PMvGE
from pmvge.tables import read_graph
torch.set_num_threads(1)
{inspect.getsource(answers)}
model = PMvGE(**{SETTINGS!r}).fit(read_graph("pmvge.toml"))
model.save("model")
print(answers(model))
"""
    running = []
    for seed in "12":
        (tmp_path / seed).mkdir()
        write_project(tmp_path / seed, int(seed))
        start = partial(subprocess.Popen, cwd=tmp_path / seed, stdout=subprocess.PIPE, text=True)
        environment = os.environ | {"PYTHONHASHSEED": seed}
        running.append(start([sys.executable, "-c", script], env=environment))
    hashes = [process.communicate()[0].strip() for process in running]
    assert (tmp_path / "1" / "seen.csv").read_text() != (tmp_path / "2" / "seen.csv").read_text()
    assert hashes[0] == hashes[1]
    models = [PMvGE.load(tmp_path / seed / "model") for seed in "12"]
    assert [answers(model) for model in models] == hashes
    # File names are hashes of the content, except model.json, which holds times.
    written = [{path.name for path in (tmp_path / seed / "model").iterdir()} for seed in "12"]
    assert written[0] == written[1]
    assert bits(models[0]) == bits(models[1])


# -- order ----------------------------------------------------------------------------------


def test_the_order_of_views_pairs_and_links_does_not_matter():
    views, links = tables()
    rng = np.random.default_rng(1)
    shuffled = {}
    for pair, table in reversed(links.items()):
        order = rng.permutation(len(table[0]))
        shuffled[pair] = tuple(part[order] for part in table)
    rows, cols, weights = shuffled["b", "b"]
    flip = (rows + cols) % 2 == 0  # undirected: both orders of a pair are the same link
    shuffled["b", "b"] = (np.where(flip, cols, rows), np.where(flip, rows, cols), weights)
    other = MultiViewGraph(dict(reversed(views.items())), shuffled)
    assert bits(fit(other)) == bits(fit(MultiViewGraph(views, links)))


def test_the_order_of_encoders_does_not_matter():
    graph = MultiViewGraph(*tables())
    encoder = {"a": "linear", "b": EncoderSpec(hidden_sizes=(5,)), "c": "lookup"}
    backwards = dict(reversed(encoder.items()))
    assert bits(fit(graph, encoder=encoder)) == bits(fit(graph, encoder=backwards))


def test_repeated_links_add_up():
    graph = MultiViewGraph({"a": 5, "b": 4}, {("a", "b"): ([0, 1, 2, 3], [0, 1, 2, 3], [2] * 4)})
    twice = MultiViewGraph({"a": 5, "b": 4}, {("a", "b"): ([0, 1, 2, 3] * 2, [0, 1, 2, 3] * 2)})
    assert bits(fit(graph)) == bits(fit(twice))


def test_rows_of_one_link_add_up_to_the_same_bits_in_any_order():
    """Rounding depends on the order of summation, so links are sorted first."""
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(5, size=(2, 400))
    weights = rng.random(400)
    graphs = []
    for order in (np.arange(400), rng.permutation(400)):
        table = (rows[order], 5 + cols[order], weights[order])
        links = {("a", "b"): (rows[order], cols[order], weights[order]), ("c", "c"): table}
        graphs.append(MultiViewGraph({"a": 5, "b": 5, "c": 10}, links))
    assert weights.cumsum()[-1] != weights[order].cumsum()[-1]
    for pair, links in graphs[0].links.items():
        assert links.weights.tobytes() == graphs[1].links[pair].weights.tobytes()
    first, second = (fit(graph) for graph in graphs)
    assert bits(first) == bits(second)
    assert first.alpha_weight_["a", "b"] == pytest.approx(weights.sum(), rel=1e-12)


# -- global state ---------------------------------------------------------------------------


def global_state():
    return (
        torch.get_rng_state().tolist(),
        str(np.random.get_state()),  # noqa: NPY002
        random.getstate(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        np.geterr(),
    )


def test_fit_changes_no_global_state():
    before = global_state()
    fit(MultiViewGraph(*tables()))
    assert global_state() == before


def test_a_failing_fit_changes_no_global_state():
    before = global_state()
    with pytest.raises(DivergedError):
        fit(
            MultiViewGraph(*tables()),
            scheme="paper",
            similarity="inner",
            learning_rate=1e3,
            clip_norm=None,
        )
    assert global_state() == before


def test_the_global_generator_does_not_affect_a_fit():
    graph = MultiViewGraph(*tables())
    first = bits(fit(graph))
    torch.rand(100)
    assert bits(fit(graph)) == first


@pytest.mark.parametrize("encoder", ["mlp", "identity"])
def test_a_fitted_model_keeps_no_reference_to_the_data(encoder):
    rng = np.random.default_rng(0)
    X, S = rng.normal(size=(30, 4)).astype(np.float32), sparse.eye_array(20, 4, format="csr")
    graph = MultiViewGraph({"x": X, "s": S}, {("x", "s"): (np.arange(20), np.arange(20))})
    watched = [X, S.data, graph, graph.views["s"].data, graph.links["x", "s"].rows, graph.ids["x"]]
    references = [weakref.ref(part) for part in watched]
    model = fit(graph, encoder=encoder)
    del X, S, graph, watched
    gc.collect()
    assert [reference() for reference in references] == [None] * 6
    assert model.embeddings_["x"].shape == (30, 4)


# -- the estimator --------------------------------------------------------------------------


def test_parameters_are_stored_unchanged():
    encoder = {"a": nn.Linear(3, 4), "b": EncoderSpec("linear")}
    model = PMvGE(**SETTINGS, encoder=encoder)
    parameters = model.get_params()
    assert parameters["encoder"] is encoder
    assert {name: parameters[name] for name in SETTINGS} == SETTINGS


def test_set_params_takes_effect_at_the_next_fit():
    graph = MultiViewGraph(*tables())
    model = fit(graph).set_params(n_components=3, similarity="inner")
    assert model.embeddings_["b"].shape == (30, 4)
    assert bits(model.fit(graph)) == bits(fit(graph, n_components=3, similarity="inner"))
    with pytest.raises(ValueError, match="Invalid parameter 'components'"):
        model.set_params(components=3)


def test_a_clone_has_the_parameters_and_is_not_fitted():
    views, links = tables()
    graph = MultiViewGraph(views, links)
    module = nn.Linear(4, 4)
    model = fit(graph, encoder={"b": module, "a": EncoderSpec("linear")})
    copied = clone(model)
    assert not hasattr(copied, "embeddings_")
    assert copied.get_params()["encoder"]["b"] is not module
    assert bits(copied.fit(graph)) == bits(model)


def test_a_clone_keeps_modules_shared():
    rng = np.random.default_rng(0)
    module = nn.Linear(4, 4)
    views = {"a": rng.normal(size=(9, 4)), "b": rng.normal(size=(9, 4))}
    graph = MultiViewGraph(views, {("a", "b"): (np.arange(9), np.arange(9))})
    model = clone(PMvGE(**SETTINGS, encoder={"a": module, "b": module})).fit(graph)
    assert np.array_equal(model.embed("a", views["a"]), model.embed("b", views["a"]))


def test_a_second_fit_replaces_the_first():
    first, second = (
        MultiViewGraph(*tables(0)),
        MultiViewGraph({"x": 5, "y": 4}, {("x", "y"): ([0, 1], [1, 2])}),
    )
    model = PMvGE(**SETTINGS).fit(first).fit(second)
    assert bits(model) == bits(fit(second))
    assert model.view_names_ == ("x", "y")
    assert set(model.embeddings_) == set(model.ids_) == {"x", "y"}
    assert model.alpha_.shape == (2, 2)


def test_a_failing_fit_keeps_the_earlier_one():
    graph = MultiViewGraph(*tables())
    model = fit(graph)
    before = bits(model)
    with pytest.raises(ValueError, match="n_components"):
        model.set_params(n_components=0).fit(graph)
    assert bits(model) == before


def test_fit_returns_the_estimator():
    model = PMvGE(**SETTINGS)
    assert model.fit(MultiViewGraph(*tables())) is model
