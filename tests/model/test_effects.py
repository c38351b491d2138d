"""Models with effects: what entities get, in every combination of views and settings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from pmvge import EncoderSpec, MultiViewGraph, PMvGE
from pmvge.errors import InputError, ParameterError
from pmvge.training import check_precision

SETTINGS = {
    "n_components": 3,
    "hidden_sizes": (6,),
    "batch_size": 16,
    "max_steps": 30,
    "patience": None,
    "random_state": 0,
    "effects": "vector",
    "learning_rate": 0.01,
    "progress": False,
}
IDS = [f"u{i:02}" for i in range(40)]


def tables():
    """Dense, sparse and featureless views; the last 5 entities of each have no links."""
    rng = np.random.default_rng(0)
    views = {
        "user": rng.normal(size=(40, 4)),
        "film": sparse.random_array((30, 12), density=0.3, format="csr", rng=rng),
        "tag": 20,
    }
    links = {
        ("user", "film"): (rng.integers(35, size=150), rng.integers(25, size=150)),
        ("user", "user"): (rng.integers(17, size=60), 17 + rng.integers(18, size=60)),
        ("tag", "film"): (rng.integers(15, size=90), rng.integers(25, size=90), rng.random(90)),
    }
    return views, links


@pytest.fixture(scope="module")
def graph():
    return MultiViewGraph(*tables(), ids={"user": IDS})


def fit(graph, **settings):
    return PMvGE(**SETTINGS | settings).fit(graph)


@pytest.fixture(scope="module")
def model(graph):
    return fit(graph, similarity="inner")


class Squares(nn.Module):
    """A user-defined module."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x.square())


def effects_of(model, view):
    return model._fitted.network.effects_of(view).weight.detach().numpy()


def check(model, graph):
    """Check everything that holds for every model with effects."""
    K, outputs = model.n_components, model._fitted.outputs
    for view, kind in model._fitted.effects.items():
        Y = outputs[view]
        assert np.isfinite(Y).all()
        np.testing.assert_array_equal(model.embeddings_[view], Y[:, :K])
        if kind == "none":
            assert Y.shape[1] == K
            continue
        effects = effects_of(model, view)
        assert np.abs(effects[:-5]).max() > 0
        assert not effects[-5:].any()  # no links
        np.testing.assert_allclose(Y[:, K:].mean(0, dtype=float), 0, atol=1e-5)
        X = graph.views[view]
        if X is not None:
            new = model.embed(view, X)
            np.testing.assert_allclose(model.embeddings_[view][-5:], new[-5:], atol=1e-5)
            if kind == "vector":
                assert not np.allclose(model.embeddings_[view][:-5], new[:-5], atol=1e-3)
        elif kind == "vector":
            assert not model.embeddings_[view][-5:].any()


SETTINGS_TO_CHECK = {
    "inner": {"similarity": "inner"},
    "cosine": {"similarity": "cosine"},
    "biases": {"effects": "bias"},
    "by view": {"effects": {"user": "bias", "film": "none", "tag": "vector"}},
    "one view": {"effects": {"tag": "vector"}, "similarity": "inner"},
    "given prior": {"effects_prior": {"user": 0.5, "tag": (0.1, 2.0)}},
    "paper": {"scheme": "paper"},
    "early stopping": {"patience": 2, "max_steps": 60},
    "activation of outputs": {"output_activation": "tanh"},
    "batch normalisation": {"batch_norm": True},
    "linear": {"encoder": {"user": "linear"}},
    "whole blocks": {"batch_size": 1000},
}


@pytest.mark.parametrize("settings", SETTINGS_TO_CHECK.values(), ids=SETTINGS_TO_CHECK.keys())
def test_models_with_effects(graph, settings):
    model = fit(graph, **settings)
    if "patience" in settings:  # entities may lose all their links to the held-out part
        assert all(np.isfinite(Y).all() for Y in model._fitted.outputs.values())
        return
    check(model, graph)


def test_user_defined_modules_have_biases_linear_in_their_vectors(graph):
    model = fit(graph, encoder={"user": Squares()}, similarity="inner")
    check(model, graph)
    network, X = model._fitted.network, graph.views["user"]
    outputs = network("user", torch.tensor(X).float()).detach().numpy()
    y = np.column_stack([outputs[:, :3], np.ones(len(X))])
    coefficients, _, rank, _ = np.linalg.lstsq(y, outputs[:, 3:], rcond=None)
    assert rank == 4
    np.testing.assert_allclose(y @ coefficients, outputs[:, 3:], atol=1e-4)
    assert np.ptp(outputs[:, 3:], axis=0).min() > 1e-2


def test_identity_encoders_add_effects_to_the_features():
    views, links = tables()
    X = views["user"][:, :3]
    graph = MultiViewGraph({**views, "user": X}, links)
    model = fit(graph, encoder={"user": "identity"}, similarity="inner")
    check(model, graph)
    found = model.embeddings_["user"] - X
    np.testing.assert_allclose(found, effects_of(model, "user")[:, :3], atol=1e-6)


@pytest.mark.parametrize("kind", ["spec", "module"])
def test_views_that_share_an_encoder_have_effects_of_their_own(kind):
    views, links = tables()
    rng = np.random.default_rng(1)
    views = {**views, "film": rng.normal(size=(30, 4))}
    module = Squares()
    encoders = {
        "spec": {"film": EncoderSpec(shared_with="user")},
        "module": {"user": module, "film": module},
    }
    graph = MultiViewGraph(views, links)
    model = fit(graph, encoder=encoders[kind], similarity="inner")
    check(model, graph)
    X = views["film"]
    np.testing.assert_array_equal(model.embed("user", X), model.embed("film", X))


def test_low_precision(graph):
    try:
        check_precision("bfloat16", torch.device("cpu"))
    except ParameterError:
        pytest.skip("products in bfloat16 fail on this machine")
    check(fit(graph, precision="bfloat16"), graph)


# -- known and new entities -----------------------------------------------------------------


def test_rows_with_a_given_id_are_known_entities(model, graph):
    X = graph.views["user"]
    known = model.embed("user", X[:10], ids=IDS[:10])
    np.testing.assert_allclose(known, model.embeddings_["user"][:10], atol=1e-6)
    mixed = model.embed("user", X[:4], ids=["u00", "new", "u02", "other"])
    np.testing.assert_allclose(mixed[[0, 2]], known[[0, 2]], atol=1e-6)
    np.testing.assert_allclose(mixed[[1, 3]], model.embed("user", X[:4])[[1, 3]], atol=1e-6)
    assert not np.allclose(model.embed("user", X[:10]), known, atol=1e-3)


def test_effects_follow_the_id_and_not_the_features(model, graph):
    X = graph.views["user"]
    swapped = model.embed("user", X[[1]], ids=["u00"]) - model.embed("user", X[[1]])
    np.testing.assert_allclose(swapped[0], effects_of(model, "user")[0, :3], atol=1e-6)


def test_default_ids_identify_no_row(model, graph):
    X = graph.views["film"][:10]
    new = model.embed("film", X)
    np.testing.assert_array_equal(model.embed("film", X, ids=np.arange(10)), new)
    assert not np.allclose(model.embed("film", ids=np.arange(10)), new, atol=1e-3)


# -- biases and alpha -----------------------------------------------------------------------


def similarities(model, a, b):
    """Return g (n, m) by a double loop, from vectors, biases and the order of view pairs."""
    outputs, pairs, K = model._fitted.outputs, [*model.log_alpha_], model.n_components
    pair = (a, b) if (a, b) in pairs else (b, a)

    def bias(view, row):
        own = [p for p in pairs if view in p]
        return float(outputs[view][row, K + own.index(pair)]) if view in effects else 0.0

    effects = {v for v, kind in model._fitted.effects.items() if kind != "none"}
    n, m = len(outputs[a]), len(outputs[b])
    g = np.empty((n, m))
    for i, j in itertools.product(range(n), range(m)):
        product = float(outputs[a][i, :K].astype(float) @ outputs[b][j, :K].astype(float))
        g[i, j] = product + bias(a, i) + bias(b, j)
    return g


@pytest.mark.parametrize("effects", ["vector", {"user": "bias", "tag": "vector"}])
def test_alpha_and_log_likelihood_against_double_loops(effects):
    ids = {"user": IDS, "film": np.arange(30), "tag": np.arange(20)}  # all are known by their ids
    graph = MultiViewGraph(*tables(), ids=ids)
    model, total = fit(graph, effects=effects, similarity="inner"), 0.0
    for (a, b), links in graph.links.items():
        g = similarities(model, a, b)
        cells = np.triu(np.ones_like(g), 1) if a == b else np.ones_like(g)
        log_alpha = np.log(links.weights.sum()) - np.log((np.exp(g) * cells).sum())
        assert model.log_alpha_of(a, b) == pytest.approx(log_alpha, abs=1e-5)
        eta = g + log_alpha
        total += links.weights @ eta[links.rows, links.cols] - (np.exp(eta) * cells).sum()
    assert model.log_likelihood(graph) == pytest.approx(total, rel=1e-4)


def test_search_ranks_by_similarities_with_biases(model):
    for view, among in (("user", "film"), ("film", "user"), ("film", "tag"), ("user", "user")):
        g = similarities(model, view, among)
        ids, scores = model.search(view, among=among, k=4, by="similarity")
        found = -np.sort(-g, axis=1)[:, :4]
        np.testing.assert_allclose(scores, found, atol=1e-5)
        _, mu = model.search(view, among=among, k=4)
        np.testing.assert_allclose(mu, np.exp(found + model.log_alpha_of(view, among)), rtol=1e-4)
        names = list(model.ids_[among])
        best = [[g[i, names.index(name)] for name in row] for i, row in enumerate(ids)]
        np.testing.assert_allclose(best, found, atol=1e-5)


def test_intensity_of_known_and_new_entities(model, graph):
    X, films = graph.views["user"][:4], np.arange(5)
    expected = np.exp(model.log_alpha_of("user", "film") + similarities(model, "user", "film"))
    known = model.intensity("user", None, "film", None, ids=IDS[:4], ids_other=films)
    np.testing.assert_allclose(known, expected[:4, :5], rtol=1e-4)
    np.testing.assert_allclose(model.intensity("user", None, "film", None), expected, rtol=1e-4)
    mixed = model.intensity("user", X, "film", None, ids=[IDS[0], "new", *IDS[2:4]])
    np.testing.assert_allclose(mixed[[0, 2, 3]], expected[[0, 2, 3]], rtol=1e-4)
    new = model.intensity("user", X, "film", None)
    np.testing.assert_allclose(mixed[1], new[1], rtol=1e-4)
    assert not np.allclose(new[0], mixed[0], rtol=1e-2)


@pytest.mark.parametrize("effects", ["vector", {"user": "bias"}, {"film": "bias"}])
def test_vectors_need_the_view_of_the_partners_where_a_side_has_biases(graph, effects):
    model = fit(graph, effects=effects)
    for view in ("user", "film"):
        with pytest.raises(InputError, match=f"view '{view}' have biases.*expected among"):
            model.vectors(view)
    query = model.vectors("user", among="film")
    candidate = model.vectors("film", among="user", side="candidate")
    np.testing.assert_allclose(query @ candidate.T, similarities(model, "user", "film"), atol=1e-4)


def test_evaluate_ranks_by_similarities_with_biases(graph):
    model = PMvGE(**SETTINGS | {"similarity": "inner"}).fit(graph, hold_out=0.2)
    result = model.evaluate()["pairs"]["user,film"]
    held, kept = (part["user", "film"] for part in (model.links_.held_out, model.links_.training))
    g = similarities(model, "user", "film")
    allowed, linked = np.ones(g.shape, bool), np.zeros(g.shape, bool)
    allowed[kept.rows, kept.cols] = False
    linked[held.rows, held.cols] = True
    above = g[linked & allowed][:, None] > g[~linked & allowed]
    assert result["roc_auc"] == pytest.approx(above.mean(), abs=1e-6)


def test_centring_biases_keeps_expected_weights(graph, monkeypatch):
    from pmvge.model.fitting import fit as fitting

    centred = fit(graph, similarity="inner")
    monkeypatch.setattr(fitting, "centre_biases", lambda *_: None)
    plain = fit(graph, similarity="inner")
    assert abs(plain.log_alpha_of("user", "film") - centred.log_alpha_of("user", "film")) > 1e-3
    for a, b in graph.links:
        eta = [similarities(m, a, b) + m.log_alpha_of(a, b) for m in (centred, plain)]
        np.testing.assert_allclose(*eta, atol=1e-4)


# -- saving and resuming --------------------------------------------------------------------


@pytest.mark.parametrize("similarity", ["inner", "cosine"])
def test_a_loaded_model_gives_the_same_results(graph, tmp_path, similarity):
    model = fit(graph, similarity=similarity)
    model.save(tmp_path / "model")
    loaded = PMvGE.load(tmp_path / "model")
    for view, Y in model._fitted.outputs.items():
        np.testing.assert_array_equal(loaded._fitted.outputs[view], Y)
        before, after = (m._fitted.network.effects_of(view) for m in (model, loaded))
        assert torch.equal(before.weight, after.weight)
        assert torch.equal(before.prior, after.prior)
    X = graph.views["user"]
    for of in (
        lambda m: m.embed("user", X, ids=IDS[::-1]),
        lambda m: m.search("user", X, ids=IDS, among="film")[1],
        lambda m: m.intensity("user", X, "film", graph.views["film"]),
        lambda m: m.alpha_,
        lambda m: m.log_likelihood(graph),
    ):
        np.testing.assert_array_equal(of(loaded), of(model))


def same(a, b):
    return all(
        np.array_equal(Y, b._fitted.outputs[view]) for view, Y in a._fitted.outputs.items()
    ) and all(
        torch.equal(value, b._fitted.network.state_dict()[name])
        for name, value in a._fitted.network.state_dict().items()
    )


def lazy_graph():
    """Entities without features that are enough for lazy updates."""
    rng = np.random.default_rng(0)
    links = (rng.integers(2000, size=900), rng.integers(20, size=900))
    return MultiViewGraph({"a": 2000, "b": rng.normal(size=(20, 3))}, {("a", "b"): links})


@pytest.mark.parametrize("scheme", ["block", "paper"])
@pytest.mark.parametrize("lazy", [False, True], ids=["ordinary", "lazy"])
def test_a_resumed_fit_gives_the_same_bits(graph, tmp_path, scheme, lazy):
    """The run is resumed between two updates of the priors."""
    data = lazy_graph() if lazy else graph
    settings = {"scheme": scheme, "max_steps": 80, "checkpoint_seconds": None}
    settings["schedule"] = "constant"
    expected = fit(data, **settings)
    settings["checkpoint_dir"] = tmp_path
    fit(data, **settings | {"max_steps": 37})
    resumed = PMvGE(**SETTINGS | settings).fit(data, resume=True)
    assert resumed.history_[-1].step == 80
    assert same(resumed, expected)


def test_equal_seeds_give_equal_bits(graph):
    assert same(fit(graph), fit(graph))
    assert not same(fit(graph), fit(graph, random_state=1))


def test_effects_none_is_the_model_without_effects(graph):
    plain, empty = fit(graph, effects="none"), fit(graph, effects={})
    assert same(plain, empty)
    assert not plain._fitted.network.bias_pairs
    names = plain._fitted.network.state_dict()
    assert not any(name.startswith(("effects.", "shift_", "heads.")) for name in names)


# -- invalid input --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"effects": {"usr": "bias"}}, "unknown view 'usr'"),
        ({"effects": "vectors"}, "unknown effects 'vectors'"),
        ({"effects": {"user": "many"}}, "view 'user': effects: unknown effects 'many'"),
        ({"effects_prior": 0}, "expected a positive number"),
        ({"effects_prior": -1.0}, "expected a positive number"),
        ({"effects_prior": float("nan")}, "expected a positive number"),
        ({"effects_prior": (1.0, float("inf"))}, "expected a positive number"),
        ({"effects_prior": (1.0, 1.0, 1.0)}, "expected a positive number"),
        ({"effects_prior": {"usr": 1.0}}, "unknown view 'usr'"),
        ({"effects_prior": {"user": "wide"}}, "view 'user': expected a positive number"),
    ],
)
def test_invalid_settings_are_refused_before_training(graph, tmp_path, settings, message):
    folder = tmp_path / "checkpoint"
    with pytest.raises(ParameterError, match=message):
        fit(graph, **settings, checkpoint_dir=folder, max_steps=10**9)
    assert not folder.exists()


def test_a_narrow_prior_does_not_stop_the_encoders(graph):
    """The prior's gradient is large; it is clipped apart from that of the encoders."""
    vectors = [
        fit(graph, effects_prior=1e-6, clip_norm=clip_norm, similarity="inner").embed(
            "user", graph.views["user"]
        )
        for clip_norm in (10.0, None)
    ]
    clipped, free = vectors
    assert np.linalg.norm(clipped - free) < 0.1 * np.linalg.norm(free)
