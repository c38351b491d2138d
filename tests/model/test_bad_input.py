"""Invalid parameters, encoders, graphs and rows are refused with a message."""

import inspect
import math
import re

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from pmvge import EncoderSpec, MultiViewGraph, PMvGE
from pmvge.checks import NotFitted
from pmvge.errors import GraphError, InputError, NotInductive, ParameterError
from pmvge.training import Trainer


def tables():
    rng = np.random.default_rng(0)
    views = {
        "image": rng.normal(size=(20, 4)),
        "word": sparse.random_array((10, 6), density=0.5, format="csr", rng=0),
        "tag": 5,
        "user": 3,
    }
    links = {
        ("image", "tag"): (np.arange(20), np.arange(20) % 5),
        ("image", "word"): (np.arange(20), np.arange(20) % 10),
        ("image", "image"): ([0, 1], [1, 2]),
        ("user", "image"): ([0, 1, 2], [0, 1, 2]),
    }
    return views, links, {"tag": list("abcde")}


@pytest.fixture(scope="module")
def graph():
    return MultiViewGraph(*tables())


@pytest.fixture(scope="module")
def model(graph):
    settings = {"hidden_sizes": (4,), "max_steps": 2, "random_state": 0, "progress": False}
    return PMvGE(3, **settings).fit(graph)


@pytest.fixture
def no_training(monkeypatch):
    def refuse(*_):
        raise AssertionError("training began")

    monkeypatch.setattr(Trainer, "run", refuse)
    monkeypatch.setattr(Trainer, "train_step", refuse)


# -- settings -------------------------------------------------------------------------------

NUMBERS = ["one", None, math.nan, [1], True]
RATES = [-0.1, 1, 1.5, math.nan, "half"]

SETTINGS = {
    "n_components": ([0, -3, 2.5, *NUMBERS], "n_components: expected an integer >= 1, got {}"),
    "encoder": (
        ["mpl", "", 3, None, ["mlp"], {"image": 3}, {"image": nn.Linear}],
        r"view 'image': encoder: (unknown encoder {}: expected one of 'mlp', 'linear', 'lookup', "
        "'identity'|expected a name, an EncoderSpec or a torch.nn.Module, got )",
    ),
    "hidden_sizes": (
        [64, None, "ab", (0,), (-1,), (2.5,), (8, "x"), (True,)],
        "hidden_sizes: expected (a tuple of integers|an integer) >= 1, got ",
    ),
    "activation": (
        ["rleu", None, 3],
        "unknown activation {}: expected one of 'tanh', 'relu', 'gelu', 'sigmoid', 'identity'",
    ),
    "output_activation": (
        ["softmax", None],
        "unknown output_activation {}: expected one of 'tanh', 'relu', 'gelu', 'sigmoid', 'ident",
    ),
    "batch_norm": (["yes", 1, None], "batch_norm: expected True or False, got {}"),
    "dropout": (RATES, r"dropout must lie in \[0, 1\), got {}"),
    "input_dropout": (RATES, r"input_dropout must lie in \[0, 1\), got {}"),
    "standardize": (["yes", 0, None], "standardize: expected True or False, got {}"),
    "effects": (
        ["vectors", "", 3],
        "unknown effects {}: expected one of 'auto', 'none', 'bias', 'vector'",
    ),
    "effects_prior": (
        [0, -1.0, float("nan"), float("inf"), True, "x", (1.0,), (1.0, 0.0), {"image": -1.0}],
        "effects_prior: view 'image': expected a positive number, or .sigma, tau., got ",
    ),
    "pair_weights": (["equal", 3, [1.0]], "pair_weights: expected None, 'balanced' or .*, got {}"),
    "family": (["poison", "", None, 3], "unknown family {}: expected one of 'poisson'"),
    "similarity": (
        ["cosin", "", None, 3],
        "unknown similarity {}: expected one of 'auto', 'inner', 'cosine'",
    ),
    "scheme": (["blok", None], "unknown scheme {}: expected one of 'block', 'paper'"),
    "batch_size": ([1, 0, 2.0, *NUMBERS], "batch_size: expected an integer >= 2, got {}"),
    "negative_rate": ([0, -1, math.inf, *NUMBERS], r"negative_rate: .* in \(0, inf\), got {}"),
    "tau": ([0, -1, math.inf, "one"], r"tau: expected a number in \(0, inf\), got {}"),
    "max_epochs": ([0, -1, math.inf, "one"], r"max_epochs: expected a number in \(0, inf\), got"),
    "max_steps": ([0, -1, 2.5, "one"], "max_steps: expected an integer >= 1, got {}"),
    "learning_rate": ([0, -1, *NUMBERS], r"learning_rate: .* number in \(0, inf\), got {}"),
    "schedule": (
        ["cosinus", None],
        "unknown schedule {}: expected one of 'auto', 'constant', 'step', 'cosine'",
    ),
    "decay_every": ([0, 1.5, *NUMBERS], "decay_every: expected an integer >= 1, got {}"),
    "decay_factor": ([0, -1, *NUMBERS], r"decay_factor: .* number in \(0, inf\), got {}"),
    "weight_decay": (
        [-1, "one", math.nan, [1], True],
        r"weight_decay: expected a number in \[0, inf\), got {}",
    ),
    "clip_norm": ([0, -1, "one"], r"clip_norm: expected a number in \(0, inf\), got {}"),
    "validation_fraction": (
        [0, 1, 1.5, *NUMBERS],
        r"validation_fraction: expected a number in \(0, 1\), got {}",
    ),
    "patience": ([0, -1, 1.5, "one"], "patience: expected an integer >= 1, got {}"),
    "checkpoint_dir": ([3, ["folder"]], "checkpoint_dir: expected a path, got {}"),
    "checkpoint_steps": ([0, 1.5, "one"], "checkpoint_steps: expected an integer >= 1, got {}"),
    "checkpoint_seconds": ([-1, "one"], r"checkpoint_seconds: .* number in \[0, inf\), got {}"),
    "device": (
        ["gpu", 3.5, None, "cuda:99"],
        "device: expected 'auto' or an available device among 'cpu', 'cuda' and 'mps', got {}",
    ),
    "precision": (
        ["float16", 32, None],
        "unknown precision {}: expected one of 'float32', 'bfloat16'",
    ),
    "random_state": (
        [-1, "seed", 1.5, [1], True, 2**64],
        r"random_state: expected (an integer >= 0|a number in \[0, .*\)), got {}",
    ),
    "progress": (["yes", 1, None], "progress: expected True or False, got {}"),
}


def test_all_parameters_are_tested_here():
    assert set(SETTINGS) == set(inspect.signature(PMvGE).parameters)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [(name, value, says) for name, (values, says) in SETTINGS.items() for value in values],
)
@pytest.mark.usefixtures("no_training")
def test_fit_refuses_invalid_parameters(graph, name, value, says):
    model = PMvGE(**{"n_components": 3, "progress": False, name: value})
    with pytest.raises(ParameterError, match=says.replace("{}", re.escape(repr(value)))):
        model.fit(graph)


@pytest.mark.parametrize("name", ["mpl", "lineer", "lokup", "identety"])
def test_the_closest_encoder_is_suggested(graph, name):
    with pytest.raises(ParameterError, match=r"did you mean '(mlp|linear|lookup|identity)'\?"):
        PMvGE(encoder=name).fit(graph)


# -- encoders -------------------------------------------------------------------------------


class Zeros(nn.Module):
    """Returns zeros of shape (rows, *shape), or only *shape."""

    def __init__(self, *shape, rows=True):
        super().__init__()
        self.shape, self.rows = shape, rows

    def forward(self, x):
        return torch.zeros(*([len(x)] if self.rows else []), *self.shape)


@pytest.mark.parametrize(
    ("encoder", "says"),
    [
        (
            {"image": nn.Linear(4, 2)},
            r"view 'image': encoder: expected an output of shape \(2, 3\), with n_components "
            r"columns, got \(2, 2\)",
        ),
        (
            {"image": Zeros(3, 3)},
            r"view 'image': encoder: expected .* \(2, 3\), .* got \(2, 3, 3\)",
        ),
        ({"image": Zeros(1, 3, rows=False)}, r"'image': .* shape \(2, 3\), .* got \(1, 3\)"),
        ({"image": Zeros()}, r"'image': .* shape \(2, 3\), .* got \(2,\)"),
        ({"tag": Zeros(2)}, r"'tag': .* shape \(2, 3\), .* got \(2, 2\)"),
        ({"image": nn.Linear(5, 3)}, r"view 'image': encoder: failed on 2 rows of shape \(4,\): "),
        ({"word": nn.Linear(5, 3)}, r"view 'word': encoder: failed on 2 rows of shape \(6,\): "),
        ({"image": "identity"}, "'identity' keeps the 4 columns, but n_components is 3"),
        ({"image": "lookup"}, "view 'image': encoder: 'lookup' is for featureless views"),
        (
            {"tag": "mlp"},
            "'tag': encoder: a featureless view takes the encoder 'lookup', got 'mlp'",
        ),
        ({"tog": "lookup"}, "encoder: unknown view 'tog': expected .*; did you mean 'tag'"),
        ({"image": EncoderSpec("mpl")}, "view 'image': encoder: unknown encoder 'mpl'"),
        ({"image": EncoderSpec(activation="x")}, "view 'image': encoder: unknown activation 'x'"),
        ({"image": EncoderSpec(output_activation=3)}, "unknown output_activation 3"),
        ({"image": EncoderSpec(hidden_sizes=8)}, "'image': .* hidden_sizes must be positive"),
        ({"image": EncoderSpec(hidden_sizes=(8, 0))}, r"positive integers, got \(8, 0\)"),
        ({"image": EncoderSpec(batch_norm="no")}, "batch_norm must be True or False, got 'no'"),
        ({"image": EncoderSpec(standardize=1)}, "standardize must be True or False, got 1"),
        ({"image": EncoderSpec(dropout=1.0)}, r"'image': encoder: dropout must lie in \[0, 1\)"),
        ({"image": EncoderSpec(input_dropout="x")}, "'image': encoder: input_dropout must lie in"),
        (
            {"image": EncoderSpec(shared_with="word")},
            r"view 'image': shared_with: expected rows like those of 'word' \(\(6,\), sparse=True\)"
            r", got \(\(4,\), sparse=False\)",
        ),
        ({"image": EncoderSpec(shared_with="imag")}, "shared_with: unknown view 'imag'"),
        ({"image": EncoderSpec(shared_with="image")}, "a view cannot share with itself"),
        ({"tag": EncoderSpec(shared_with="user")}, "view 'tag': shared_with: expected rows like"),
        (
            {"image": EncoderSpec(shared_with="word"), "word": EncoderSpec(shared_with="image")},
            "has no encoder of its own, it shares one too",
        ),
    ],
)
@pytest.mark.usefixtures("no_training")
def test_fit_refuses_invalid_encoders(graph, encoder, says):
    with pytest.raises(ParameterError, match=says):
        PMvGE(3, encoder=encoder, progress=False).fit(graph)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("scheme", ["block", "paper"])
@pytest.mark.parametrize("own", [True, False])
def test_batch_norm_needs_two_entities(own, scheme):
    single = MultiViewGraph({"a": np.ones((1, 4)), "b": 3}, {("a", "b"): ([0, 0], [0, 1])})
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    settings = {"encoder": {"a": module}} if own else {"batch_norm": True}
    with pytest.raises(ParameterError, match=r"view 'a': batch norm.* at least two rows.* has one"):
        PMvGE(3, scheme=scheme, progress=False, **settings).fit(single)


@pytest.mark.usefixtures("no_training")
def test_the_papers_scheme_needs_links_and_uniform_pairs(graph):
    with pytest.raises(ParameterError, match="batch_size=4 with negative_rate=100 leaves no links"):
        PMvGE(3, scheme="paper", batch_size=4, negative_rate=100, progress=False).fit(graph)


# -- graphs ---------------------------------------------------------------------------------


def without_links(graph):
    return graph.subgraph({"image": [6, 8], "tag": [0], "word": [0], "user": [0]})


def validation(what):
    views, links, ids = tables()
    if what == "nodes":
        views["tag"], ids = 6, None
    if what == "ids":
        ids["tag"] = list("vwxyz")
    if what == "views":
        views["extra"] = 2
    if what == "pair":
        links["tag", "word"] = ([0], [0])
    return MultiViewGraph(views, links, ids)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize("value", [None, np.eye(3), {"image": np.eye(3)}, "graph"])
def test_fit_takes_a_graph(graph, value):
    with pytest.raises(
        GraphError, match=f"fit: expected a MultiViewGraph, got {type(value).__name__}"
    ):
        PMvGE(3).fit(value)
    if value is not None:
        with pytest.raises(GraphError, match="validation: expected a MultiViewGraph, got"):
            PMvGE(3).fit(graph, value)


@pytest.mark.usefixtures("no_training")
def test_fit_refuses_graphs_without_links(graph):
    with pytest.raises(GraphError, match="fit: the graph has no links at all"):
        PMvGE(3).fit(without_links(graph))
    empty = graph.with_links({pair: part.select(slice(0)) for pair, part in graph.links.items()})
    with pytest.raises(GraphError, match="validation: the graph has no links at all"):
        PMvGE(3).fit(graph, empty)


@pytest.mark.usefixtures("no_training")
@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("nodes", "validation: expected held-out links on the same views and ids"),
        ("ids", "validation: expected held-out links on the same views and ids"),
        ("views", "validation: expected held-out links on the same views and ids"),
        ("pair", r"validation: links \('tag', 'word'\) are not a pair of the training graph"),
    ],
)
def test_validation_has_the_same_entities_and_view_pairs(graph, what, says):
    with pytest.raises(GraphError, match=says):
        PMvGE(3).fit(graph, validation(what))


@pytest.mark.usefixtures("no_training")
def test_resume_needs_checkpoint_dir(graph):
    with pytest.raises(ParameterError, match=r"fit\(resume=True\) needs checkpoint_dir"):
        PMvGE(3).fit(graph, resume=True)


# -- fitted models --------------------------------------------------------------------------

NAN = np.array([[0.0, 1, 2, 3], [4, math.nan, 6, math.inf]])


@pytest.mark.parametrize(
    ("view", "X", "error", "says"),
    [
        ("imge", np.ones((1, 4)), InputError, "view 'imge': expected one of 'image', 'tag', 'u"),
        (None, np.ones((1, 4)), InputError, "unknown view None"),
        (["image"], np.ones((1, 4)), InputError, r"unknown view \['image'\]"),
        ("image", np.ones((2, 5)), InputError, r"view 'image': .* shape \(4,\), got \(5,\)"),
        ("image", np.ones((2, 2, 2)), InputError, r"'image': .* shape \(4,\), got \(2, 2\)"),
        ("image", np.ones(4), InputError, r"view 'image': expected an array of shape .* \(4,\)"),
        ("image", sparse.eye_array(5), InputError, r"'image': .* shape \(4,\), got \(5,\)"),
        ("word", sparse.eye_array(5), InputError, r"view 'word': .* shape \(6,\), got \(5,\)"),
        ("word", np.ones((2, 5)), InputError, r"view 'word': .* shape \(6,\), got \(5,\)"),
        ("image", NAN, InputError, r"'image': .* got 2 that .* first is nan at \[1, 1\]"),
        ("image", torch.from_numpy(NAN), InputError, r"'image': .* first is nan at \[1, 1\]"),
        ("image", NAN[:, [0, 3, 2, 0]], InputError, r"got 1 that .* first is inf at \[1, 1\]"),
        ("image", [["a"] * 4], InputError, "view 'image': expected real numbers, got dtype <U1"),
        ("image", [[1, 2], [3]], InputError, "view 'image': expected rows of equal length"),
        ("image", None, InputError, "view 'image': expected X, ids or both, got neither"),
        (
            "tag",
            ["a", "z"],
            NotInductive,
            "view 'tag': only ids from training .* got 1 unknown, such as 'z'",
        ),
        (
            "tag",
            [0, 1],
            NotInductive,
            "view 'tag': only ids from training .* got 2 unknown, such as 0",
        ),
        ("tag", "z", NotInductive, "got 1 unknown, such as 'z'"),
        ("user", [1, 3], NotInductive, "view 'user': only ids from training .* such as 3"),
        ("user", ["1"], NotInductive, "view 'user': only ids from training .* such as '1'"),
        ("user", [[1], [1, 2]], InputError, "view 'user': ids: expected a list of ids"),
        ("user", np.ones((2, 3)), InputError, "view 'user': ids: expected a 1-d list"),
        ("user", [1.5], InputError, "view 'user': ids: ids must be integers or strings"),
        ("user", None, InputError, "view 'user': expected X, ids or both, got neither"),
    ],
)
def test_embed_refuses_invalid_rows(model, view, X, error, says):
    with pytest.raises(error, match=says):
        model.embed(view, X)


def test_intensity_needs_an_observed_view_pair(model):
    says = r"'tag' and 'user' were not observed .* \('image', 'tag'\), .* by='similarity'"
    with pytest.raises(InputError, match=says):
        model.intensity("tag", ["a"], "user", [0])
    with pytest.raises(InputError, match=r"'tag' and 'tag' were not observed .* by='similarity'"):
        model.search("tag", ["a"], among="tag")
    ids, _ = model.search("tag", ["a"], among="user", k=2, by="similarity")
    assert ids.shape == (1, 2)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"among": "tog"}, "unknown view 'tog': expected one of 'image', 'tag'"),
        (
            {"by": "cosine"},
            "search: by: unknown ranking 'cosine': expected one of 'intensity', 'similarity'",
        ),
        ({"k": 0}, "k: expected a positive integer, got 0"),
        ({"k": 2.5}, "k: expected a positive integer, got 2.5"),
        ({"among": "image", "candidates": np.ones((2, 3))}, r"'image': .* \(4,\), got \(3,\)"),
        ({"candidates": ["q"]}, "view 'tag': only ids from training .* such as 'q'"),
    ],
)
def test_search_refuses_invalid_arguments(model, changes, says):
    with pytest.raises(ValueError, match=says):
        model.search("image", np.ones((1, 4)), **{"among": "tag"} | changes)


def test_log_likelihood_needs_known_views_pairs_and_ids(model):
    views, links, _ = tables()
    cases = [
        ({"extra": 2}, {("image", "extra"): ([0], [0])}, InputError, "unknown view 'extra'"),
        ({}, {("tag", "word"): ([0], [0])}, InputError, "'tag' and 'word' were not observed"),
        ({"tag": np.eye(5)}, {}, InputError, "view 'tag': has features .* had none in training"),
        ({"image": 20}, {}, InputError, "view 'image': has no features .* but had in training"),
        ({}, {}, NotInductive, "view 'tag': only ids from training"),  # without the ids of the tags
    ]
    for more_views, more_links, error, says in cases:
        with pytest.raises(error, match=says):
            model.log_likelihood(MultiViewGraph(views | more_views, links | more_links))


@pytest.mark.parametrize(
    "call",
    [
        lambda model, graph: model.embed("image", np.ones((1, 4))),
        lambda model, graph: model.intensity("image", np.ones((1, 4)), "tag", ["a"]),
        lambda model, graph: model.search("image", np.ones((1, 4)), among="tag"),
        lambda model, graph: model.log_likelihood(graph),
        lambda model, graph: model.score(graph),
        lambda model, graph: model.embed_graph(graph),
        lambda model, graph: model.save("nowhere"),
    ],
    ids=["embed", "intensity", "search", "log_likelihood", "score", "embed_graph", "save"],
)
def test_methods_need_a_fitted_model(graph, call):
    with pytest.raises(NotFitted, match=r"not fitted yet: call fit\(graph\) first"):
        call(PMvGE(3), graph)
