"""Encoders, compared with the same networks in torch.nn or numpy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch import nn

from pmvge import EncoderSpec, MultiViewGraph, PMvGE
from pmvge.encoders import MLP, Dropout, Identity, Lookup, Normalize, batch_norms
from pmvge.encoders.layers import Affine
from pmvge.encoders.modules import build_encoder
from pmvge.encoders.specs import ACTIVATIONS
from pmvge.graph import SparseRows, take

CPU = torch.device("cpu")
FUNCTIONS = {
    "tanh": torch.tanh,
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
    "identity": lambda x: x,
}
DEFAULTS = EncoderSpec(
    kind="mlp",
    hidden_sizes=(7,),
    activation="tanh",
    output_activation="identity",
    batch_norm=False,
    dropout=0.0,
    input_dropout=0.0,
    standardize=False,
)


def build(n_out=3, row_shape=(5,), n_rows=10, is_sparse=False, **settings):
    torch.manual_seed(0)
    return build_encoder(
        "view 'x': encoder",
        EncoderSpec(**settings).or_else(DEFAULTS),
        n_rows=n_rows,
        row_shape=row_shape,
        sparse=is_sparse,
        n_out=n_out,
    )


def affine_layers(encoder):
    return [module for module in encoder.modules() if isinstance(module, Affine)]


def rows(n=12, shape=(5,), seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, *shape)).astype(np.float32))


def sparse_matrix(n=12, p=30, density=0.2, seed=0):
    return sparse.random_array((n, p), density=density, format="csr", rng=seed, dtype=np.float32)


def sparse_rows(matrix):
    return take(sparse.csr_array(matrix), slice(None), CPU)


# -- the spec -------------------------------------------------------------------------------


def test_or_else_replaces_only_none():
    spec = EncoderSpec(hidden_sizes=(), dropout=0.0, batch_norm=False).or_else(
        EncoderSpec("linear", (9,), "relu", "tanh", True, 0.4, 0.6, True)
    )
    assert spec == EncoderSpec("linear", (), "relu", "tanh", False, 0.0, 0.6, True)


# -- linear and mlp -------------------------------------------------------------------------


@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("hidden_sizes", [(), (7,), (7, 4), (6, 5, 4, 3)])
def test_an_mlp_is_a_chain_of_products_and_activations(hidden_sizes, activation):
    encoder = build(hidden_sizes=hidden_sizes, activation=activation)
    layers = affine_layers(encoder)
    x = rows()
    assert [layer.weight.shape for layer in layers] == list(
        zip((5, *hidden_sizes), (*hidden_sizes, 3), strict=True)
    )
    y = x
    for number, layer in enumerate(layers):
        y = y @ layer.weight + layer.bias
        if number < len(layers) - 1:
            y = FUNCTIONS[activation](y)
    torch.testing.assert_close(encoder(x), y)


@pytest.mark.parametrize("activation", FUNCTIONS)
def test_output_activation_is_applied_to_the_output(activation):
    plain, encoder = build(), build(output_activation=activation)
    torch.testing.assert_close(encoder(rows()), FUNCTIONS[activation](plain(rows())))


def test_every_activation_is_tested():
    assert set(FUNCTIONS) == set(ACTIVATIONS)


def test_linear_ignores_hidden_sizes_and_output_activation():
    encoder = build(kind="linear", hidden_sizes=(7,), output_activation="relu")
    (layer,) = affine_layers(encoder)
    torch.testing.assert_close(encoder(rows()), rows() @ layer.weight + layer.bias)


def test_rows_of_any_shape_are_flattened():
    encoder = build(row_shape=(2, 3, 4))
    x = rows(shape=(2, 3, 4))
    torch.testing.assert_close(encoder(x), encoder(x.reshape(12, 24)))
    assert encoder(x).shape == (12, 3)


def test_integer_rows_are_converted_to_float():
    encoder, x = build(), torch.arange(10).reshape(2, 5)
    torch.testing.assert_close(encoder(x), encoder(x.float()))


def test_batch_norm_is_between_product_and_activation():
    encoder = build(hidden_sizes=(7, 4), batch_norm=True).train()
    expected = nn.Sequential(
        nn.Linear(5, 7),
        nn.BatchNorm1d(7),
        nn.Tanh(),
        nn.Linear(7, 4),
        nn.BatchNorm1d(4),
        nn.Tanh(),
        nn.Linear(4, 3),
    ).train()
    linear = [module for module in expected if isinstance(module, nn.Linear)]
    for ours, theirs in zip(affine_layers(encoder), linear, strict=True):
        theirs.weight.data, theirs.bias.data = ours.weight.data.T, ours.bias.data
    x = rows()
    torch.testing.assert_close(encoder(x), expected(x))  # batch statistics
    torch.testing.assert_close(encoder.eval()(x), expected.eval()(x))  # running statistics


@pytest.mark.parametrize("hidden_sizes", [(50,), (50, 40)])
def test_dropout_follows_every_hidden_activation_only(hidden_sizes):
    encoder = build(hidden_sizes=hidden_sizes, activation="sigmoid", dropout=0.5).train()
    seen = []
    for layer in affine_layers(encoder):
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    y = encoder(rows(200))
    first, *hidden = seen
    assert (first != 0).all()  # no dropout on the input
    for h in hidden:  # a sigmoid is never 0, so that zeros come from dropout
        assert float((h == 0).float().mean()) == pytest.approx(0.5, abs=0.03)
    expected = hidden[-1] @ affine_layers(encoder)[-1].weight + affine_layers(encoder)[-1].bias
    torch.testing.assert_close(y, expected)  # no dropout on the output


def test_dropout_is_off_in_eval_mode():
    encoder = build(dropout=0.5, input_dropout=0.5).eval()
    torch.testing.assert_close(encoder(rows()), build()(rows()))


# -- dropout --------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
def test_dropout_zeroes_its_rate_and_keeps_the_mean(rate):
    torch.manual_seed(0)
    x = torch.ones(30_000, 8)  # one column for each byte of a random word
    y = Dropout(rate).train()(x)
    kept = y[y != 0]
    rounded = round(rate * 256) / 256
    spread = 5 * math.sqrt(rounded * (1 - rounded) / len(x))
    zeros = (y == 0).double().mean(0)
    np.testing.assert_allclose(zeros, rounded, atol=spread)
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - rounded)))
    # Neighbouring entries are dropped independently.
    both = ((y[:, :-1] == 0) & (y[:, 1:] == 0)).double().mean(0)
    np.testing.assert_allclose(both, rounded**2, atol=spread)


@given(st.floats(0, 1, exclude_max=True))
def test_the_dropout_rate_is_rounded_to_a_256th_below_1(rate):
    threshold = Dropout(rate).threshold
    assert 0 <= threshold <= 255
    assert abs(threshold / 256 - rate) <= (1 / 512 if threshold < 255 else 1 / 256)


@given(st.integers(0, 40))
def test_dropout_works_for_any_number_of_entries(n):
    y = Dropout(0.5).train()(torch.ones(n))
    assert y.shape == (n,)
    assert set(y.tolist()) <= {0.0, 2.0}


def test_dropout_drops_gradients_of_dropped_entries():
    torch.manual_seed(0)
    x = torch.ones(100, requires_grad=True)
    y = Dropout(0.5).train()(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


@pytest.mark.parametrize("module", [Dropout(0.0).train(), Dropout(0.5).eval()])
def test_dropout_without_effect_draws_no_random_numbers(module):
    state = torch.get_rng_state()
    assert torch.equal(module(torch.ones(9)), torch.ones(9))
    assert torch.equal(torch.get_rng_state(), state)


def test_input_dropout_on_dense_rows_keeps_their_expectation():
    torch.manual_seed(0)
    normalize, x = Normalize(5, 0.25, sparse=False).train(), rows(1)
    mean = torch.stack([normalize(x) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, x, rtol=0, atol=5 * float(x.abs().max()) * 0.6 / 63)
    assert torch.equal(normalize.eval()(x), x)


def test_input_dropout_on_sparse_rows_changes_stored_entries_only():
    torch.manual_seed(0)
    x = sparse_rows(sparse_matrix())
    normalize = Normalize(30, 0.5, sparse=True).train()
    y = normalize(x)
    assert torch.equal(y.columns, x.columns)
    assert torch.equal(y.offsets, x.offsets)
    assert y.shape == x.shape
    dropped = y.values == 0
    assert 0 < int(dropped.sum()) < len(dropped)
    torch.testing.assert_close(y.values[~dropped], 2 * x.values[~dropped])
    mean = torch.stack([normalize(x).values for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, x.values, rtol=0, atol=5 / 63)
    assert torch.equal(normalize.eval()(x).values, x.values)


# -- sparse rows ----------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(1, 9), st.floats(0, 1), st.integers(0, 99))
def test_affine_on_sparse_rows_equals_numpy_forward_and_backward(n, p, density, seed):
    X = sparse_matrix(n, p, density, seed)
    torch.manual_seed(seed)
    layer, G = Affine(p, 4), torch.randn(n, 4)
    y = layer(sparse_rows(X))
    y.backward(G)
    D = X.toarray().astype(np.float64)
    W, b = (t.detach().double().numpy() for t in (layer.weight, layer.bias))
    np.testing.assert_allclose(y.detach(), D @ W + b, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.weight.grad, D.T @ G.double().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.bias.grad, G.double().numpy().sum(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["mlp", "linear"])
def test_sparse_and_dense_rows_give_the_same_output(kind):
    X = sparse_matrix()
    on_sparse = build(row_shape=(30,), is_sparse=True, kind=kind)
    on_dense = build(row_shape=(30,), kind=kind)
    dense = torch.from_numpy(X.toarray())
    torch.testing.assert_close(on_sparse(sparse_rows(X)), on_dense(dense))
    # Each encoder also accepts the other kind of rows.
    torch.testing.assert_close(on_sparse(dense), on_dense(sparse_rows(X)))


def test_sparse_rows_to_dense_equals_scipy():
    X = sparse_matrix()
    np.testing.assert_array_equal(sparse_rows(X).to_dense(), X.toarray())


def test_two_million_columns_stay_sparse(monkeypatch):
    def refuse(*_):
        raise AssertionError("a sparse view was made dense")

    n, p = 400, 2_000_000
    rng = np.random.default_rng(0)
    side = np.arange(n) % 2
    at = (np.repeat(np.arange(n), 3), rng.integers(p // 2, size=(n, 3)).ravel())
    X = sparse.csr_array((np.ones(3 * n), at), shape=(n, p))
    X += sparse.csr_array((np.ones(n), (np.arange(n), side)), shape=(n, p))
    monkeypatch.setattr(SparseRows, "to_dense", refuse)
    for name in ("toarray", "todense"):
        monkeypatch.setattr(sparse.csr_array, name, refuse)
    graph = MultiViewGraph({"x": X, "side": 2}, {("x", "side"): (np.arange(n), side)})
    settings = {"hidden_sizes": (2,), "batch_size": 32, "max_steps": 3, "patience": None}
    model = PMvGE(2, random_state=0, progress=False, **settings).fit(graph)
    assert model.embed("x", X[:5]).shape == (5, 2)


# -- lookup, identity, and helpers ----------------------------------------------------------


def test_lookup_has_one_vector_per_entity():
    encoder = build(kind="lookup", row_shape=None, n_rows=6)
    assert isinstance(encoder, Lookup)
    assert torch.equal(encoder(torch.tensor([4, 0, 4])), encoder.weight[[4, 0, 4]])
    assert encoder.weight.shape == (6, 3)


def test_lookup_starts_small_and_random():
    weights = build(kind="lookup", row_shape=None, n_rows=5000).weight.detach().numpy()
    assert 0.001 < weights.std() < 0.2
    assert abs(weights.mean()) < 0.05 * weights.std()


def test_identity_returns_the_rows_and_has_no_parameters():
    encoder = build(kind="identity", n_out=5)
    assert isinstance(encoder, Identity)
    assert not list(encoder.parameters())
    assert torch.equal(encoder(rows()), rows())
    X = sparse_matrix()
    np.testing.assert_array_equal(Identity()(sparse_rows(X)), X.toarray())
    assert build(kind="identity", n_out=6, row_shape=(2, 3))(rows(shape=(2, 3))).shape == (12, 6)


@pytest.mark.parametrize(
    ("encoder", "n"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), 1),
        (nn.Sequential(nn.BatchNorm2d(2), nn.Sequential(nn.BatchNorm3d(2))), 2),
        (nn.LayerNorm(3), 0),
        (MLP(3, 2, DEFAULTS, sparse=False), 0),
    ],
)
def test_batch_norms_are_found_at_any_depth(encoder, n):
    assert len(batch_norms(encoder)) == n
