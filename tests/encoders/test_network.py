"""The network of all encoders: choice per view, sharing, input scale, user-defined modules."""

import copy
import weakref

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.special import erf, expit
from torch import nn

from pmvge import EncoderSpec, MultiViewGraph, PMvGE
from pmvge.encoders import (
    MLP,
    Identity,
    Lookup,
    MultiViewEncoder,
    ViewSchema,
    choose_encoders,
    embed_rows,
    embedding,
    schemas_of,
    set_input_scale,
)
from pmvge.encoders.embedding import encode_chunks
from pmvge.errors import InputError
from pmvge.graph import take

DEFAULTS = EncoderSpec("mlp", (8,), "relu", "identity", False, 0.0, None, True)


@pytest.fixture(scope="module")
def graph():
    """Dense a and b of one dimension, sparse s, images, and featureless t."""
    rng = np.random.default_rng(0)
    views = {
        "a": rng.normal(3, 2, size=(30, 4)),
        "b": rng.normal(size=(20, 4)),
        "s": sparse.random_array((25, 40), density=0.2, format="csr", rng=1),
        "image": rng.normal(size=(9, 1, 3, 3)),
        "t": 6,
    }
    ring = {other: np.arange(30) % n for other, n in {"b": 20, "s": 25, "image": 9, "t": 6}.items()}
    return MultiViewGraph(views, {("a", v): (np.arange(30), j) for v, j in ring.items()})


def make(graph, encoder="mlp", n_out=4, similarity="inner", defaults=DEFAULTS, dropped=()):
    torch.manual_seed(0)
    schemas = schemas_of(graph)
    choices = choose_encoders(encoder, defaults, schemas, dropped=dropped)
    return MultiViewEncoder(choices, schemas, n_out, similarity), choices


def fit(graph, encoder, **settings):
    defaults = {"hidden_sizes": (8,), "batch_size": 16, "max_steps": 20, "learning_rate": 0.01}
    defaults |= {"effects": "none", "similarity": "cosine"}
    return PMvGE(4, encoder=encoder, random_state=0, progress=False, **defaults | settings).fit(
        graph
    )


# -- choosing -------------------------------------------------------------------------------


def test_schemas_have_the_shapes_of_the_views(graph):
    assert schemas_of(graph) == {
        "a": ViewSchema(30, (4,), sparse=False),
        "b": ViewSchema(20, (4,), sparse=False),
        "image": ViewSchema(9, (1, 3, 3), sparse=False),
        "s": ViewSchema(25, (40,), sparse=True),
        "t": ViewSchema(6, None, sparse=False),
    }


@pytest.mark.parametrize("name", ["mlp", "linear"])
def test_one_name_applies_to_all_views_with_features(graph, name):
    _, choices = make(graph, name)
    assert {view: choice.kind for view, choice in choices.items()} == {
        "a": name, "b": name, "image": name, "s": name, "t": "lookup",
    }  # fmt: skip


def test_views_that_are_not_named_get_the_default(graph):
    own = nn.Linear(4, 4)
    _, choices = make(graph, {"a": "linear", "b": own, "s": EncoderSpec(hidden_sizes=(3, 2))})
    assert choices["a"].kind == "linear"
    assert choices["b"] is own
    assert (choices["s"].kind, choices["s"].hidden_sizes) == ("mlp", (3, 2))
    assert choices["image"].kind == "mlp"
    assert choices["t"].kind == "lookup"


@pytest.mark.parametrize(
    ("setting", "given", "rate", "dropped_rate"),
    [(None, None, 0.0, 0.5), (0.2, None, 0.2, 0.2), (None, 0.1, 0.1, 0.1), (0.2, 0.0, 0.0, 0.0)],
)
def test_input_dropout_depends_on_the_view_unless_it_is_set(
    graph, setting, given, rate, dropped_rate
):
    spec = EncoderSpec(input_dropout=given)
    defaults = EncoderSpec(input_dropout=setting).or_else(DEFAULTS)
    _, choices = make(graph, {"a": spec, "s": spec}, defaults=defaults, dropped={"s"})
    assert choices["a"].input_dropout == rate
    assert choices["s"].input_dropout == dropped_rate


def test_sparse_views_have_dropout_and_no_decay_only_if_they_are_linked_to_themselves(graph):
    def chosen(links):
        views = {view: graph.views[view] for view in ("a", "s")}
        model = fit(MultiViewGraph(views, links), "mlp", weight_decay=None)
        choices = model._check_fitted().choices
        rates = {view: (spec.dropout, spec.input_dropout) for view, spec in choices.items()}
        return rates, model.describe()["settings"]["weight_decay"]

    plain = {"a": (0.0, 0.0), "s": (0.0, 0.0)}
    between, within = graph.links["a", "s"].matrix(), sparse.eye_array(25, k=1)
    assert chosen({("a", "s"): between}) == (plain, 1.0)
    ring = sparse.eye_array(30, k=1)
    assert chosen({("a", "s"): between, ("a", "a"): ring + ring.T}) == (plain, 1.0)
    found = chosen({("a", "s"): between, ("s", "s"): within + within.T})
    assert found == (plain | {"s": (0.5, 0.5)}, 0.0)


def test_every_kind_of_encoder_is_built(graph):
    built, _ = make(graph, {"a": "identity", "b": "linear"})
    kinds = {view: type(built.encoder_of(view)) for view in graph.view_names}
    assert kinds == {"a": Identity, "b": MLP, "image": MLP, "s": MLP, "t": Lookup}


# -- sharing --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["spec", "module", "first by spec"])
def test_views_share_one_encoder(graph, how):
    module = nn.Linear(4, 4)
    encoder = {
        "spec": {"b": EncoderSpec(shared_with="a")},
        "first by spec": {"a": EncoderSpec(shared_with="b")},
        "module": {"a": module, "b": module},
    }[how]
    built, _ = make(graph, encoder)
    assert built.encoder_of("a") is built.encoder_of("b")
    assert len(built.encoders) == 4
    X = graph.views["a"]
    model = fit(graph, encoder)
    assert np.array_equal(model.embed("a", X), model.embed("b", X))


def test_encoders_of_one_kind_are_not_shared_unless_asked(graph):
    model, X = fit(graph, "linear"), graph.views["a"]
    assert not np.allclose(model.embed("a", X), model.embed("b", X))


def test_submodules_that_two_modules_share_stay_shared(graph):
    trunk = nn.Linear(4, 8)
    encoder = {view: nn.Sequential(trunk, nn.Tanh(), nn.Linear(8, 4)) for view in "ab"}
    built, _ = make(graph, encoder)
    assert built.encoder_of("a")[0] is built.encoder_of("b")[0]
    assert built.encoder_of("a")[2] is not built.encoder_of("b")[2]
    assert built.encoder_of("a")[0] is not trunk


# -- input scale ----------------------------------------------------------------------------


def test_dense_columns_are_standardised_and_sparse_rows_scaled(graph):
    built, choices = make(graph)
    set_input_scale(built, graph, choices)
    built.eval()
    X = graph.views["a"]
    normal = built.encoder_of("a").input(torch.from_numpy(X.astype(np.float32))).numpy()
    np.testing.assert_allclose(normal, (X - X.mean(0)) / X.std(0), rtol=1e-4, atol=1e-4)
    S = graph.views["s"].toarray()
    expected = S / np.sqrt((S**2).sum(1).mean())
    scaled = built.encoder_of("s").input(take(graph.views["s"], slice(None), torch.device("cpu")))
    np.testing.assert_allclose(scaled.to_dense(), expected, rtol=1e-5)


@pytest.mark.parametrize("view", ["a", "s"])
def test_rows_are_not_scaled_without_standardize(graph, view):
    built, choices = make(graph, {view: EncoderSpec(standardize=False)})
    set_input_scale(built, graph, choices)
    X = graph.views[view]
    x = torch.from_numpy((X if view == "a" else X.toarray()).astype(np.float32))
    assert torch.equal(built.eval().encoder_of(view).input(x), x)


def test_unscaled_views_are_not_standardised_unless_a_spec_is_given(graph):
    given = {"b": "linear", "image": EncoderSpec(hidden_sizes=(3,)), "t": "lookup"}
    unscaled = choose_encoders(given, DEFAULTS, schemas_of(graph), unscaled={"a", "b", "image"})
    assert {view: spec.standardize for view, spec in unscaled.items()} == {
        "a": False,
        "b": False,
        "image": True,
        "s": True,
        "t": True,
    }
    assert (unscaled["a"].kind, unscaled["b"].kind) == ("mlp", "linear")


@pytest.mark.parametrize(("standardize", "same"), [(True, True), (False, False)])
def test_units_of_a_column_matter_only_without_standardize(graph, standardize, same):
    views = dict(graph.views) | {"a": graph.views["a"] * [1, 1000, 1, 0.001], "t": 6}
    links = {pair: (part.rows, part.cols) for pair, part in graph.links.items()}
    scaled = MultiViewGraph(views, links)
    settings = {"standardize": standardize, "max_steps": 5, "patience": None}
    ours, theirs = (fit(g, "mlp", **settings).embeddings_["a"] for g in (graph, scaled))
    assert np.allclose(ours, theirs, rtol=1e-2, atol=1e-3) == same


def test_shared_encoders_use_the_statistics_of_the_owner(graph):
    built, choices = make(graph, {"b": EncoderSpec(shared_with="a")})
    set_input_scale(built, graph, choices)
    X = graph.views["a"]
    np.testing.assert_allclose(built.encoder_of("b").input.scale, 1 / X.std(0), rtol=1e-5)


# -- rows to vectors ------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["a", "s", "image", "t"])
def test_the_size_of_chunks_does_not_change_the_vectors(graph, monkeypatch, view):
    built, _ = make(graph, {"image": nn.Sequential(nn.Flatten(), nn.Linear(9, 4))})
    X = graph.views[view]
    n = graph.sizes[view]
    every = np.arange(n)
    expected = embed_rows(built, view, X, every, 4)
    monkeypatch.setattr(embedding, "CHUNK_ROWS", 4)
    np.testing.assert_allclose(embed_rows(built, view, X, every, 4), expected, rtol=1e-5, atol=1e-6)
    some = every[::-2].copy()
    np.testing.assert_allclose(
        embed_rows(built, view, X, some, 4), expected[some], rtol=1e-5, atol=1e-6
    )
    assert expected.shape == (n, 4)
    assert expected.dtype == np.float32
    assert embed_rows(built, view, X, every[:0], 4).shape == (0, 4)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu"])
@pytest.mark.parametrize("similarity", ["inner", "cosine"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_embed_rows_equals_the_formula(activation, similarity, dtype):
    """Two hidden layers and standardised rows, compared with numpy in float64."""
    X = np.random.default_rng(0).normal(3, 2, size=(50, 4)).astype(dtype)
    views = MultiViewGraph({"a": X, "t": 2}, {("a", "t"): (np.arange(50), np.arange(50) % 2)})
    spec = EncoderSpec(
        "mlp", (8, 6), activation, "identity", True, 0.3, 0.1, True
    )  # embed_rows must not apply dropout
    built, choices = make(views, "mlp", similarity=similarity, defaults=spec)
    set_input_scale(built, views, choices)
    y = (X.astype(np.float64) - X.mean(0, np.float64)) / X.std(0, dtype=np.float64)
    act = {
        "relu": lambda v: np.maximum(v, 0),
        "tanh": np.tanh,
        "sigmoid": expit,
        "gelu": lambda v: v * (1 + erf(v / np.sqrt(2))) / 2,
    }[activation]
    first, norm, _, _, second, _, _, _, last = built.encoder_of("a").layers
    with torch.no_grad():
        norm.running_mean.uniform_(-1, 1)
    for layer in (first, second):
        y = y @ layer.weight.detach().double().numpy() + layer.bias.detach().double().numpy()
        if layer is first:
            y = y - norm.running_mean.double().numpy()
        y = act(y / np.sqrt(1 + norm.eps))
    y = y @ last.weight.detach().double().numpy() + last.bias.detach().double().numpy()
    if similarity == "cosine":
        y *= np.sqrt(2) / np.linalg.norm(y, axis=1, keepdims=True)  # the scale starts at 2
    expected = embed_rows(built, "a", X, None, 4)
    np.testing.assert_allclose(expected, y, rtol=2e-5, atol=2e-6)
    alone = np.vstack([embed_rows(built, "a", X[i : i + 1], None, 4) for i in range(50)])
    np.testing.assert_allclose(alone, expected, rtol=1e-5, atol=1e-6)


def test_embed_rows_does_not_change_its_input(graph):
    """In-place activations must not overwrite the rows."""
    X = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
    before = X.copy()
    for encoder, similarity in (("identity", "inner"), ("identity", "cosine"), ("mlp", "cosine")):
        built, _ = make(graph, {"a": encoder}, similarity=similarity)
        embed_rows(built, "a", X, None, 4)
        assert np.array_equal(X, before)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "gelu", "identity"])
@pytest.mark.parametrize("similarity", ["inner", "cosine"])
@pytest.mark.parametrize("view", ["a", "s", "image", "t"])
def test_embed_rows_is_the_forward_pass_of_training(graph, activation, similarity, view):
    """Equal bits with gradients and without, where activations are computed in place."""
    spec = EncoderSpec("mlp", (8, 6), activation, activation, True, 0.3, 0.1, True)
    built, choices = make(graph, similarity=similarity, defaults=spec)
    set_input_scale(built, graph, choices)
    X, every = graph.views[view], np.arange(graph.sizes[view])
    x = torch.from_numpy(every) if X is None else take(X, every, torch.device("cpu"))
    y = built.eval()(view, x)
    assert y.requires_grad
    found = embed_rows(built, view, X, every if X is None else None, 4)
    assert found.tobytes() == y.detach().numpy().tobytes()


def test_activations_of_a_users_module_are_not_computed_in_place(graph):
    """A module may use the input of an activation again."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x):
            return x.float() + self.act(x.float())

    built, _ = make(graph, {"a": Residual()})
    X = graph.views["a"]
    np.testing.assert_array_equal(
        embed_rows(built, "a", X, None, 4), X.astype(np.float32) + np.maximum(X, 0, dtype="f4")
    )


@pytest.mark.parametrize("similarity", ["inner", "cosine"])
def test_bfloat16_is_for_the_products_of_an_encoder_only(graph, similarity):
    built, _ = make(graph, {"a": nn.Linear(4, 4).bfloat16()}, similarity=similarity)
    x = torch.ones(3, 4, dtype=torch.bfloat16)
    with torch.no_grad():
        f, y = built.encoder_of("a")(x), built("a", x)
    assert (f.dtype, y.dtype) == (torch.bfloat16, torch.float32)
    expected = f.double().numpy()
    if similarity == "cosine":
        expected *= np.sqrt(2) / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("view", ["a", "t"])
def test_progress_is_reported_after_each_chunk(graph, monkeypatch, view):
    monkeypatch.setattr(embedding, "CHUNK_ROWS", 4)
    built, _ = make(graph)
    calls, n = [], graph.sizes[view]
    on_progress = lambda done, total: calls.append((done, total))  # noqa: E731
    embed_rows(built, view, graph.views[view], np.arange(n), 4, on_progress=on_progress)
    assert calls == [(min(done, n), n) for done in range(4, n + 4, 4)]


def test_at_most_two_chunks_are_in_memory(graph, monkeypatch):
    """The chunk that is being copied, and the one before it."""
    seen, most = [], []

    def watched(*args, **options):
        for part in usual(*args, **options):
            seen.append(weakref.ref(part))
            most.append(sum(reference() is not None for reference in seen))
            yield part

    usual = embedding.encode_chunks
    built, _ = make(graph)
    expected = embed_rows(built, "a", graph.views["a"], None, 4)
    monkeypatch.setattr(embedding, "CHUNK_ROWS", 2)
    monkeypatch.setattr(embedding, "encode_chunks", watched)
    found = embed_rows(built, "a", graph.views["a"], None, 4)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert len(most) == 15
    assert max(most) <= 2


def test_chunks_of_wide_rows_are_smaller(graph, monkeypatch):
    """Thousands of images may not fit into memory. Sparse rows are not expanded by an MLP."""
    sizes = []
    module = nn.Sequential(nn.Flatten(), nn.Linear(9, 4))
    module.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    monkeypatch.setattr(embedding, "CHUNK", 18)
    built, _ = make(graph, {"image": module, "s": nn.Linear(40, 4)})
    embed_rows(built, "image", graph.views["image"], None, 4)
    assert sizes == [2, 2, 2, 2, 1]
    parts = {
        view: [len(part) for part in encode_chunks(built, view, graph.views[view], None)]
        for view in ("a", "s")
    }
    assert parts == {"a": [4] * 7 + [2], "s": [1] * 25}
    built, _ = make(graph)
    assert [len(part) for part in encode_chunks(built, "s", graph.views["s"], None)] == [25]


def test_gradients_are_enabled_again_between_chunks(graph, monkeypatch):
    monkeypatch.setattr(embedding, "CHUNK_ROWS", 4)
    built, _ = make(graph)
    assert all(torch.is_grad_enabled() for _ in encode_chunks(built, "a", graph.views["a"], None))


def test_a_user_defined_module_gets_dense_rows_of_a_sparse_view(graph):
    built, _ = make(graph, {"s": nn.Linear(40, 4)})
    layer, S = built.encoder_of("s"), graph.views["s"].toarray().astype(np.float32)
    with torch.no_grad():
        expected = layer(torch.from_numpy(S)).numpy()
    np.testing.assert_allclose(
        embed_rows(built, "s", graph.views["s"], None, 4), expected, rtol=1e-5, atol=1e-6
    )


def test_fit_does_not_change_a_user_defined_module(graph):
    module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 4))
    module.eval()
    before = copy.deepcopy(module.state_dict())
    first = fit(graph, {"a": module}).embeddings_["a"]
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert not module.training
    assert all(p.grad is None for p in module.parameters())
    assert np.array_equal(
        fit(graph, {"a": module}).embeddings_["a"], first
    )  # starts from the same weights


@pytest.mark.parametrize("ids", [[10, 11, 12, 13, 14, 15], ["ab", "cd", "ef", "gh", "ij", "kl"]])
def test_embed_takes_one_id_or_a_list_of_ids(graph, ids):
    links = {("a", "t"): (np.arange(30), np.arange(30) % 6)}
    named = MultiViewGraph({"a": graph.views["a"], "t": 6}, links, {"t": ids})
    model = fit(named, "linear")
    assert np.array_equal(model.embed("t", ids[2]), model.embeddings_["t"][[2]])
    assert np.array_equal(model.embed("t", ids[::-1]), model.embeddings_["t"][::-1])


def test_an_identity_encoder_returns_its_rows_after_training(graph):
    model = fit(graph, {"a": "identity"}, similarity="inner")
    np.testing.assert_allclose(model.embeddings_["a"], graph.views["a"], rtol=1e-6)


@pytest.mark.parametrize("kind", ["identity", "frozen"])
def test_no_step_is_made_without_parameters(graph, kind):
    X = graph.views["a"]
    pair = MultiViewGraph({"a": X, "b": X}, {("a", "b"): (np.arange(30), np.arange(30))})
    module = nn.Linear(4, 4).requires_grad_(False)
    model = fit(
        pair, "identity" if kind == "identity" else {"a": module, "b": module}, similarity="inner"
    )
    assert len(model.history_) == 0
    g = model.embeddings_["a"].astype(np.float64) @ model.embeddings_["b"].T
    assert model.alpha_[0, 1] == pytest.approx(30 / np.exp(g).sum())


@pytest.mark.parametrize("scheme", ["block", "paper"])
def test_a_pair_of_fixed_encoders_does_not_stop_the_training_of_others(graph, scheme):
    rng = np.random.default_rng(0)
    links = {
        ("a", "b"): (rng.integers(30, size=60), rng.integers(20, size=60)),
        ("a", "t"): (np.arange(30), np.arange(30) % 6),
    }
    fixed = MultiViewGraph({"a": graph.views["a"], "b": graph.views["b"], "t": 6}, links)
    encoder = {"a": "identity", "b": "identity"}
    settings = {"similarity": "inner", "scheme": scheme, "standardize": False, "patience": None}
    model = fit(fixed, encoder, **settings)
    start = fit(fixed, encoder, **settings, max_steps=1)
    assert len(model.history_) == 1
    assert np.array_equal(model.embeddings_["b"], start.embeddings_["b"])
    assert not np.array_equal(model.embeddings_["t"], start.embeddings_["t"])


# -- sequences and images -------------------------------------------------------------------


class Recurrent(nn.Module):
    """A GRU over token sequences padded with 0; the state after the last token is read out."""

    def __init__(self, n_tokens, n_out):
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, 8, padding_idx=0)
        self.gru = nn.GRU(8, 16, batch_first=True)
        self.out = nn.Linear(16, n_out)

    def forward(self, x):
        states, _ = self.gru(self.tokens(x))
        last = (x != 0).sum(1).clamp(min=1) - 1
        return self.out(states[torch.arange(len(x)), last])


def sentences(topics, rng):
    """Random tokens from 1 to 9, after a first token 10 + topic."""
    X = np.zeros((len(topics), 7), dtype=np.int64)
    for row, topic in zip(X, topics, strict=True):
        length = rng.integers(3, 8)
        row[:length] = rng.integers(1, 10, size=length)
        row[0] = 10 + topic
    return X


def images(topics, rng):
    """A bar in 8 x 8 pixels, at a random position: vertical, horizontal or diagonal."""
    shapes = [np.ones((3, 1)), np.ones((1, 3)), np.eye(3), np.eye(3)[::-1]]
    X = rng.normal(0, 0.2, size=(len(topics), 1, 8, 8))
    for picture, topic in zip(X[:, 0], topics, strict=True):
        shape = shapes[topic]
        top, left = (rng.integers(9 - size) for size in shape.shape)
        picture[top : top + shape.shape[0], left : left + shape.shape[1]] += 2 * shape
    return X


def test_an_rnn_and_a_cnn_learn_a_common_space():
    rng = np.random.default_rng(0)
    topics = np.arange(320) % 4
    graph = MultiViewGraph(
        {"sentence": sentences(topics, rng), "image": images(topics, rng), "topic": 4},
        {(view, "topic"): (np.arange(320), topics) for view in ("sentence", "image")},
    )
    torch.manual_seed(0)
    convolutional = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(12, 6)
    )
    model = PMvGE(
        6,
        encoder={"sentence": Recurrent(14, 6), "image": convolutional},
        similarity="cosine",
        batch_size=64,
        max_steps=250,
        learning_rate=0.01,
        random_state=0,
        progress=False,
    ).fit(graph)
    with pytest.raises(InputError, match="view 'sentence': its encoder failed on these rows"):
        model.embed("sentence", np.ones((2, 7)))  # tokens are integers
    assert model.history_.best.validation > 0.7  # the maximum is log 4 = 1.39
    new = np.arange(80) % 4
    X = {"sentence": sentences(new, rng), "image": images(new, rng)}
    for view, rows in X.items():
        ids, _ = model.search(view, rows, among="topic", k=1)
        assert (ids[:, 0] == new).mean() > 0.8, view
    # Sentences and images have no links between them, only links to the topics.
    ids, _ = model.search("sentence", X["sentence"], among="image", k=1, by="similarity")
    assert (topics[ids[:, 0]] == new).mean() > 0.8
