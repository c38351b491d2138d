"""The contract that every method keeps, and the list of methods."""

from __future__ import annotations

import gc
import inspect
import random
import re
import subprocess
import sys
import weakref
from functools import cache

import numpy as np
import pytest
import torch
from docstring_parser import DocstringStyle, parse
from scipy import sparse
from sklearn.base import clone

from pmvge import MultiViewGraph, PmvgeError, baselines
from pmvge.baselines import Baseline
from pmvge.baselines.base import COMMON_CHECKS
from pmvge.checks import NotFitted
from pmvge.errors import GraphError, InputError, NotInductive, ParameterError
from pmvge.experiments import METHODS, card, cards
from pmvge.experiments.methods import FLAGS

# The paper's table 1 (Okuno, Hada and Shimodaira 2018): views, then MM, NL, Ind, Lik.
TABLE_1 = {
    "CCA": (2, 0, 0, 1, 0),
    "DCCA": (2, 0, 1, 1, 0),
    "MCCA": ("D", 0, 0, 1, 0),
    "SGE": (0, 1, 0, 0, 0),
    "LINE": (0, 1, 0, 0, 1),
    "LPP": (1, 1, 0, 1, 0),
    "CvGE": (2, 1, 0, 1, 0),
    "CDMCA": ("D", 1, 0, 1, 0),
    "DeepWalk": (0, 1, 0, 0, 1),
    "SBM": (1, 1, 0, 1, 1),
    "GCN": (1, 1, 1, 0, 1),
    "GraphSAGE": (1, 1, 1, 1, 1),
    "IDW": (1, 1, 1, 1, 1),
    "PMvGE": ("D", 1, 1, 1, 1),
}
IN_TEXT = {
    "KernelCCA", "HIMFAC", "Node2Vec", "GNN", "ChebNet", "Isomap", "LLE", "MDS",
    "FactorizationMachine",
}  # fmt: skip

QUICK = {  # parameters for short fits
    "max_steps": 10,
    "batch_size": 32,
    "hidden_sizes": (8,),
    "n_walks": 2,
    "walk_length": 10,
    "window": 3,
    "n_starts": 2,
    "patience": None,
    "effects": "none",  # the paper's model: vectors are functions of features
}
SIZES = (24, 20, 16)  # entities of each view
N = SIZES[0]
DENSITY = 0.25  # mean weight of a link
EVERY = pytest.mark.parametrize("name", METHODS)


def make(name: str, K: int = 4, **settings: object):
    """Return a method with parameters for short fits, and a seed if it has one."""
    method = METHODS[name]
    known = inspect.signature(method).parameters
    quick = {key: value for key, value in QUICK.items() if key in known}
    seed = {"random_state": 0} if "random_state" in known else {}
    return method(K, **{**quick, **seed, **settings})


def rows(n: int, p: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, p))


def graph_of(n_views: int, seed: int = 0, **changed: object) -> MultiViewGraph:
    """Return a graph with features of different widths, and links between all views."""
    rng = np.random.default_rng(seed)
    sizes = SIZES[:n_views]
    views = {
        name: rows(n, 5 + k, seed + k)
        for k, (name, n) in enumerate(zip("abc", sizes, strict=False))
    }
    views |= changed
    if n_views == 1:
        links = {("a", "a"): np.triu(rng.poisson(DENSITY, (N, N)), 1)}
    else:
        names = list(views)
        links = {
            (d, e): rng.poisson(DENSITY, (sizes[i], sizes[i + 1 + k]))
            for i, d in enumerate(names)
            for k, e in enumerate(names[i + 1 :])
        }
    return MultiViewGraph(views, links)


def suitable(name: str, **changed: object) -> MultiViewGraph:
    """Return a graph that the method accepts."""
    return graph_of(views_of(name), **changed)


def views_of(name: str) -> int:
    """Return the largest number of views, at most 3, that the method accepts."""
    return {0: 3, 1: 1, 2: 2, "D": 3}[METHODS[name].n_views]


@cache
def fitted(name: str):
    """Return a fitted model for tests that do not change it."""
    return make(name).fit(suitable(name))


# -- list of methods -----------------------------------------------------------------------


def test_every_method_of_the_paper_is_exported():
    assert set(METHODS) >= set(TABLE_1) | IN_TEXT
    assert set(baselines.__all__) == set(METHODS) - {"PMvGE"} | {"Baseline", "leading_axes"}
    exported = map(vars(baselines).get, baselines.__all__)
    concrete = {c.__name__ for c in exported if isinstance(c, type) and c is not Baseline}
    assert concrete == set(METHODS) - {"PMvGE"}


def test_flags_equal_table_1_of_the_paper():
    printed = {
        card.name: (card.n_views, *(getattr(card, flag) for flag in FLAGS)) for card in cards()
    }
    assert {name: printed[name] for name in TABLE_1} == TABLE_1
    assert list(printed)[: len(TABLE_1)] == list(TABLE_1)  # in the order of the paper


@EVERY
def test_docstrings_have_all_sections(name):
    described = card(name)
    assert 2 <= len(re.findall(r"[.!?](?=\s|$)", described.what)) <= 4, described.what
    assert described.choose.startswith("Choose it")
    assert len(re.findall(r"[.!?](?=\s|$)", described.choose)) <= 3
    assert described.objective
    assert re.search(r"\b(19|20)\d\d\b", described.references)
    docstring = parse(inspect.getdoc(METHODS[name]), DocstringStyle.NUMPYDOC)
    documented = {name.strip() for p in docstring.params for name in p.arg_name.split(",")}
    assert set(inspect.signature(METHODS[name]).parameters) <= documented


@EVERY
def test_flags_have_valid_types(name):
    method = METHODS[name]
    assert method.n_views in (0, 1, 2, "D")
    for flag in FLAGS:
        assert isinstance(getattr(method, flag), bool)


# -- flags describe the behaviour -----------------------------------------------------------


@EVERY
def test_every_entity_has_a_vector(name):
    graph = suitable(name)
    model = fitted(name)
    assert tuple(model.embeddings_) == graph.view_names == model.view_names_
    for view, n in graph.sizes.items():
        Y = model.embeddings_[view]
        assert Y.shape == (n, 4)
        assert Y.dtype == np.float32
        assert np.isfinite(Y).all()
        np.testing.assert_array_equal(model.ids_[view], graph.ids[view])
    assert any(Y.any() for Y in model.embeddings_.values())


@EVERY
def test_inductive_methods_embed_unseen_rows_and_others_raise(name):
    model = fitted(name)
    new = rows(7, 5, seed=99)
    if METHODS[name].inductive:
        Y = model.embed("a", new)
        assert Y.shape == (7, 4)
        assert Y.dtype == np.float32
        assert np.isfinite(Y).all()
        assert Y.any()
        single = model.embed("a", new[2:3])  # a row's vector does not depend on other rows
        np.testing.assert_allclose(single, Y[2:3], rtol=1e-4, atol=1e-5)
    else:
        with pytest.raises(NotInductive, match=name):
            model.embed("a", new)


USES_NEIGHBOURS = {"GraphSAGE"}  # training nodes have neighbours, new rows have none
APPROXIMATE = {"Isomap", "LLE", "SBM"}  # maps for new rows approximate the training vectors


@pytest.mark.parametrize(
    "name", [n for n in METHODS if METHODS[n].inductive and n not in USES_NEIGHBOURS | APPROXIMATE]
)
def test_embedding_training_rows_again_gives_the_same_vectors(name):
    graph, model = suitable(name), fitted(name)
    for view in graph.view_names:
        np.testing.assert_allclose(
            model.embed(view, graph.views[view]), model.embeddings_[view], rtol=1e-3, atol=1e-4
        )


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].inductive and n != "SBM"])
def test_maps_are_affine_if_and_only_if_the_method_is_linear(name):
    """SBM, which chooses a block, is left out: the paper's table lists it as linear."""
    model = fitted(name)
    X, Z = (2 * rows(8, 5, seed) for seed in (5, 6))
    middle = model.embed("a", (X + Z) / 2)
    mean = (model.embed("a", X) + model.embed("a", Z)) / 2
    difference = np.abs(middle - mean).max() / np.abs(mean).max()
    assert (difference > 1e-3) == METHODS[name].nonlinear


@EVERY
@pytest.mark.parametrize("n_views", [1, 2, 3])
def test_methods_accept_their_number_of_views_only(name, n_views):
    takes = METHODS[name].n_views
    graph = graph_of(n_views)
    if takes in (0, "D", n_views):
        if name == "MCCA" and n_views == 1:
            with pytest.raises(GraphError, match="MCCA: expected links between views only"):
                make(name).fit(graph)
        else:
            make(name).fit(graph)
        return
    with pytest.raises(
        GraphError, match=f"{name}: expected a graph with {takes} views?, got {n_views}"
    ):
        make(name).fit(graph)


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].n_views == 0])
def test_a_zero_view_method_ignores_features(name):
    with_features = make(name).fit(graph_of(3)).embeddings_
    without = make(name).fit(graph_of(3, a=N, c=sparse.csr_array(rows(SIZES[2], 9, 1)))).embeddings_
    for view in "abc":
        np.testing.assert_array_equal(with_features[view], without[view])


@pytest.mark.parametrize("name", [n for n in METHODS if METHODS[n].n_views != 0])
def test_other_methods_use_features(name):
    if name == "SBM":
        pytest.skip("blocks depend on links only; features give the block of a new row")
    other = make(name).fit(suitable(name, a=rows(N, 5, seed=77) ** 3))
    assert not np.allclose(fitted(name).embeddings_["a"], other.embeddings_["a"], atol=1e-3)


NEEDS_FEATURES = {"Isomap", "LLE", "MDS"}


@EVERY
def test_a_view_without_features_is_one_hot_or_refused(name):
    graph = suitable(name, a=N)
    if name in NEEDS_FEATURES:
        with pytest.raises(
            GraphError, match=f"{name}: expected features in every view, but view 'a'"
        ):
            make(name).fit(graph)
        return
    model = make(name).fit(graph)
    assert np.isfinite(model.embeddings_["a"]).all()
    if METHODS[name].inductive:
        np.testing.assert_array_equal(model.embed("a", [3, 5]), model.embeddings_["a"][[3, 5]])
        with pytest.raises(NotInductive, match="only ids from training"):
            model.embed("a", [3, 400])


# -- reproducible results -------------------------------------------------------------------


@EVERY
def test_the_same_seed_gives_the_same_bits_and_keeps_global_generators(name):
    graph, model = suitable(name), make(name)
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    random.seed(3)
    before = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), random.getstate()  # noqa: NPY002
    assert model.fit(graph) is model
    after = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), random.getstate()  # noqa: NPY002
    assert before == after
    first = model.embeddings_
    torch.manual_seed(4)
    again = make(name).fit(graph).embeddings_
    refitted = model.fit(graph_of(len(graph.view_names), seed=9)).fit(graph).embeddings_
    for view in graph.view_names:
        np.testing.assert_array_equal(again[view], first[view])
        np.testing.assert_array_equal(refitted[view], first[view])


@pytest.mark.parametrize(
    "name", [n for n in METHODS if "random_state" in inspect.signature(METHODS[n]).parameters]
)
def test_random_state_accepts_a_generator_and_none(name):
    graph = suitable(name)
    for state in (None, np.random.default_rng(0)):
        make(name, random_state=state).fit(graph)
    with pytest.raises(ParameterError, match="random_state"):
        make(name, random_state="seven").fit(graph)


@EVERY
def test_a_failed_fit_removes_the_state_of_the_fit_before(name):
    model = make(name).fit(suitable(name))
    with pytest.raises(GraphError):
        model.fit(np.eye(3))
    if name != "PMvGE":  # PMvGE keeps the earlier fit
        with pytest.raises(NotFitted):
            model.embed("a", np.ones((1, 5)))


# Another value of parameters that are not numbers, or for which half of the default gives the same
# result on small graphs.
OTHER = {
    "effects": "vector",
    "activation": "tanh", "constraint": "nodes", "encoder": "linear", "hidden_sizes": (5,),
    "kernel": "laplacian", "order": "first", "output_activation": "tanh", "scheme": "paper",
    "similarity": "cosine", "gamma": 0.01, "landmarks": 7, "fanout": 1, "n_neighbors": 3,
    "input_dropout": 0.5, "weight_decay": 0.3, "n_negatives": 3, "window": 1, "p": 9.0, "q": 9.0,
    "isolation": 0.9, "max_iter": 1, "batch_norm": True, "hierarchical_softmax": True,
    "normalize": True, "n_components": 3, "state_size": 7, "n_walks": 1, "tolerance": 0.5,
    "clip_norm": 1e-3, "random_state": 1, "ridge": 0.5, "learning_rate": 0.05, "dropout": 0.7,
    "schedule": "constant", "pair_weights": "balanced",
}  # fmt: skip
WITHOUT_EFFECT = {
    "progress", "device", "checkpoint_dir", "checkpoint_steps", "checkpoint_seconds",
    "precision",  # depends on the machine
    "family",  # there is one; others are tested in tests/likelihoods
    "effects_prior",  # for effects only
    "tol", "n_starts",  # tested with the SBM and MDS
    # PMvGE uses these only with early stopping, the paper's scheme, or another schedule:
    "tau", "max_epochs", "decay_every", "decay_factor", "validation_fraction", "patience",
}  # fmt: skip
EXACT = {  # results do not depend on the start, or all entities of a view are used
    ("SGE", "random_state"), ("MDS", "random_state"), ("LLE", "random_state"),
    ("KernelCCA", "random_state"), ("PMvGE", "negative_rate"),
}  # fmt: skip


@EVERY
def test_every_parameter_changes_the_result(name):
    graph = suitable(name)
    fixed = {"max_iter": 30} if "max_iter" in make(name).get_params(deep=False) else {}
    before = make(name, **fixed).fit(graph).embeddings_["a"]
    for key, value in make(name, **fixed).get_params(deep=False).items():
        if key in WITHOUT_EFFECT or (name, key) in EXACT:
            continue
        if key in OTHER and (name, key) != ("ChebNet", "order"):
            other = OTHER[key]
        else:
            other = not value if isinstance(value, bool) else type(value)(value / 2)
        after = make(name, **fixed).set_params(**{key: other}).fit(graph).embeddings_["a"]
        same = after.shape == before.shape and np.allclose(after, before, atol=1e-6)
        assert not same, (key, value, other)


@EVERY
def test_clone(name):
    model = fitted(name)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "embeddings_")
    assert copy.set_params(n_components=2).get_params()["n_components"] == 2
    assert model.get_params()["n_components"] == 4


@EVERY
def test_no_reference_to_the_graph_is_kept(name):
    graph = suitable(name)
    model = make(name).fit(graph)
    reference = weakref.ref(graph)
    del graph
    if reference() is not None:
        gc.collect()  # it takes long, and is needed only for reference cycles
    assert reference() is None
    assert model.embeddings_


@EVERY
def test_fit_prints_nothing(name, capfd):
    make(name).fit(suitable(name))
    assert capfd.readouterr() == ("", "")


# -- unusual graphs -------------------------------------------------------------------------


def two_parts(n_views: int) -> MultiViewGraph:
    """Return a graph of two components, with three entities without links in every view."""
    graph = graph_of(n_views)
    links = {}
    for (d, e), old in graph.links.items():
        half = [graph.sizes[view] // 2 for view in (d, e)]
        linked = (old.rows < half[0]) == (old.cols < half[1])
        last = (old.rows >= graph.sizes[d] - 3) | (old.cols >= graph.sizes[e] - 3)
        links[d, e] = old.select(linked & ~last)
    return graph.with_links(links)


@EVERY
def test_disconnected_graphs_and_isolated_entities_have_finite_vectors(name):
    graph = two_parts(views_of(name))
    for Y in make(name).fit(graph).embeddings_.values():
        assert np.isfinite(Y).all()


@pytest.mark.parametrize("name", [n for n in METHODS if n not in {"PMvGE", "SBM"} | NEEDS_FEATURES])
def test_an_entity_without_links_and_features_has_the_vector_0(name):
    graph = two_parts(views_of(name))
    bare = MultiViewGraph(
        {**graph.views, "a": graph.sizes["a"]},
        {pair: links.matrix() for pair, links in graph.links.items()},
    )
    Y = make(name).fit(bare).embeddings_["a"]
    assert not Y[-3:].any()
    assert Y[:-3].any()


@EVERY
def test_more_components_than_rank(name):
    graph = suitable(name)
    for view, Y in make(name, K=60).fit(graph).embeddings_.items():
        assert Y.shape == (graph.sizes[view], 60)
        assert np.isfinite(Y).all()


@EVERY
def test_duplicate_rows_and_constant_columns(name):
    X = rows(N, 5, 0)
    X[:, 2] = 7.0
    X[N // 2 :] = X[: N // 2]
    for Y in make(name).fit(suitable(name, a=X)).embeddings_.values():
        assert np.isfinite(Y).all()


@EVERY
def test_sparse_integer_and_image_features(name):
    words = sparse.csr_array(np.random.default_rng(1).random((N, 9)) < 0.3, dtype=np.int32)
    for X in (
        words,
        np.random.default_rng(2).integers(0, 5, (N, 4)),
        rows(N, 12, 3).reshape(N, 3, 4),
    ):
        model = make(name).fit(suitable(name, a=X))
        assert np.isfinite(model.embeddings_["a"]).all()
        if METHODS[name].inductive:
            assert np.isfinite(model.embed("a", X[:5])).all()


@EVERY
def test_a_single_link_is_enough(name):
    graph = suitable(name)
    links = {pair: old.select(np.arange(len(old)) < 1) for pair, old in graph.links.items()}
    for Y in make(name).fit(graph.with_links(links)).embeddings_.values():
        assert np.isfinite(Y).all()


# -- errors --------------------------------------------------------------------------------


@EVERY
def test_fit_checks_every_parameter(name):
    graph = suitable(name)
    for key in METHODS[name]().get_params(deep=False):
        with pytest.raises(PmvgeError, match=key) as caught:
            make(name).set_params(**{key: object()}).fit(graph)
        assert isinstance(caught.value, ParameterError)
    with pytest.raises(ParameterError, match="n_components: expected an integer >= 1, got 0"):
        METHODS[name](0).fit(graph)


@pytest.mark.parametrize("name", [n for n in METHODS if n != "PMvGE"])
def test_every_parameter_has_a_check(name):
    method = METHODS[name]
    known = set(inspect.signature(method).parameters)
    assert set(method.checks) <= known
    assert known <= set(method.checks) | set(COMMON_CHECKS)


@EVERY
def test_fit_refuses_other_types_than_graphs(name):
    with pytest.raises(GraphError, match="expected a MultiViewGraph, got ndarray"):
        make(name).fit(np.eye(3))


@EVERY
def test_methods_that_need_links_refuse_a_graph_without_any(name):
    graph = suitable(name)
    empty = graph.with_links({p: old.select(old.weights < 0) for p, old in graph.links.items()})
    if name in NEEDS_FEATURES:
        make(name).fit(empty)
    else:
        with pytest.raises(GraphError, match="links"):
            make(name).fit(empty)


@EVERY
def test_embed_errors(name):
    with pytest.raises(NotFitted, match=name):
        make(name).embed("a", np.ones((1, 5)))
    model = fitted(name)
    with pytest.raises(InputError, match="unknown view 'z': expected one of 'a'"):
        model.embed("z", np.ones((1, 5)))
    if METHODS[name].inductive:
        with pytest.raises(InputError, match=r"expected rows of shape \(5,\), got \(7,\)"):
            model.embed("a", np.ones((2, 7)))
        with pytest.raises(InputError, match="NaN"):
            model.embed("a", np.full((2, 5), np.nan))
        assert model.embed("a", np.empty((0, 5))).shape == (0, 4)


# -- without the extra ----------------------------------------------------------------------

WITHOUT = """
import sys
for library in ("cca_zoo", "gensim", "torch_geometric"):
    sys.modules[library] = None
import numpy as np
from pmvge import MultiViewGraph, baselines
from pmvge.errors import InputError
from pmvge.experiments.methods import METHODS, cards
assert len(cards()) == len(METHODS)
for method in METHODS.values():
    if getattr(method, "libraries", ()):
        n = {0: 1, 1: 1, 2: 2, "D": 2}[method.n_views]
        views = {v: np.eye(4) for v in "ab"[:n]}
        pair = ("a", "a" if n == 1 else "b")
        try:
            method(2).fit(MultiViewGraph(views, {pair: ([0, 1], [2, 3])}))
        except InputError as error:
            print(method.__name__, error)
"""


@pytest.mark.slow
def test_without_the_extra_fit_says_what_to_install():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=120
    )
    messages = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    wanted = {name for name, method in METHODS.items() if getattr(method, "libraries", ())}
    assert set(messages) == wanted
    assert {"CCA", "DeepWalk", "GCN"} <= wanted
    for name, message in messages.items():
        assert re.fullmatch(rf"{name} needs [\w-]+: pip install 'pmvge\[baselines\]'", message)
