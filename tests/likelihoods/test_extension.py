"""Families defined outside the package: registered, fitted, searched, saved and reported."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import optimize, special
from torch import nn

from pmvge import MultiViewGraph, PMvGE
from pmvge.encoders import EncoderSpec, MultiViewEncoder, choose_encoders, schemas_of
from pmvge.errors import GraphError, ParameterError
from pmvge.likelihoods import (
    FAMILIES,
    Family,
    build_family,
    check_family,
    family_name,
    register_family,
)
from pmvge.model.fitting.trainer import _has_unused_parameters, make_trainer
from pmvge.report import write_report


class Linked(Family):
    """w is 0 or 1: linked with probability 1 - exp(-mu)."""

    def zero(self, eta, pair):
        return -eta.exp()

    def at_link(self, w, eta, pair):
        return torch.log(-torch.expm1(-eta.exp()))

    def expected(self, eta):
        return -torch.expm1(-eta.exp())

    def saturated(self, w, pair):
        return torch.zeros_like(w)

    def check_weights(self, where, weights):
        wrong = weights[weights != 1]
        if len(wrong):
            raise GraphError(f"{where}: expected weights of 1, got {wrong[0]:g}")


class Dispersed(Family):
    """Negative binomial counts of mean mu, with a learned log size for each view pair."""

    def __init__(self, pairs=()):
        super().__init__(pairs)
        self.log_size = nn.Parameter(torch.full((len(self.pairs),), 0.5))

    def zero(self, eta, pair):
        log_size = self.log_size[self.index[pair]]
        return -log_size.exp() * nn.functional.softplus(eta - log_size)

    def at_link(self, w, eta, pair):
        log_size = self.log_size[self.index[pair]]
        log_total = torch.logaddexp(eta, log_size)
        size = log_size.exp()
        constant = torch.lgamma(w + size) - torch.lgamma(size)
        return constant + size * (log_size - log_total) + w * (eta - log_total)


TOYS = {"linked": Linked, "dispersed": Dispersed}
SETTINGS = {
    "effects": "none",
    "hidden_sizes": (6,),
    "max_steps": 60,
    "batch_size": 32,
    "random_state": 0,
}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register the toys for the duration of a test."""
    for name, toy in TOYS.items():
        monkeypatch.setitem(FAMILIES, name, toy)


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(40, 4)), rng.normal(size=(25, 5))
    across = np.nonzero(rng.random((40, 25)) < 0.25 / (1 + np.exp(-2 * X[:, :1] * T[:, 0])))
    within = np.nonzero(np.triu(rng.random((40, 40)) < 0.1, 1))
    ids = {"a": [f"a{n}" for n in range(40)], "b": [f"b{n}" for n in range(25)]}
    return MultiViewGraph({"a": X, "b": T}, {("a", "b"): across, ("a", "a"): within}, ids)


def model_of(name, **settings):
    return PMvGE(3, family=name, progress=False, **{**SETTINGS, **settings})


def terms(model, graph, pair):
    """Return w and g of all entity pairs of a view pair."""
    a, b = pair
    Y = {view: y.astype(np.float64) for view, y in model.embeddings_.items()}
    g, W = Y[a] @ Y[b].T, graph.links[pair].matrix().toarray()
    cells = np.triu_indices(len(g), 1) if a == b else np.indices(g.shape).reshape(2, -1)
    return W[cells[0], cells[1]], g[cells[0], cells[1]]


def log_likelihood_of(model, pair, w, eta):
    """The log-likelihood of a view pair in numpy."""
    if isinstance(model.family_, Linked):
        return np.where(w > 0, np.log(-np.expm1(-np.exp(eta))), -np.exp(eta)).sum()
    size = np.exp(model.family_.log_size.detach().double().numpy())
    size = size[model.family_.pairs.index(pair)]
    log_total = np.log(size + np.exp(eta))
    constant = special.gammaln(w + size) - special.gammaln(size)
    return (constant + size * (np.log(size) - log_total) + w * (eta - log_total)).sum()


@pytest.mark.parametrize("name", TOYS)
def test_fit_search_evaluate_save_load_and_report(name, graph, tmp_path):
    model = model_of(name, similarity="inner").fit(graph)
    assert type(model.family_) is TOYS[name]
    total = 0.0
    for pair in graph.links:
        w, g = terms(model, graph, pair)
        at = optimize.minimize_scalar(
            lambda a, w=w, g=g, pair=pair: -log_likelihood_of(model, pair, w, a + g),
            bounds=(-15, 5),
            options={"xatol": 1e-9},
        )
        assert model.log_alpha_[pair] == pytest.approx(at.x, abs=1e-4)
        total -= at.fun
    assert model.log_likelihood(graph) == pytest.approx(total, rel=1e-5)

    X, T = graph.views["a"], graph.views["b"]
    eta = model.embeddings_["a"] @ model.embeddings_["b"].T + model.log_alpha_["a", "b"]
    mu = -np.expm1(-np.exp(eta)) if name == "linked" else np.exp(eta)
    np.testing.assert_allclose(model.intensity("a", X, "b", T), mu, rtol=1e-4)
    ids, found = model.search("a", X[:5], among="b", k=4)
    best = np.argsort(-mu[:5], axis=1)[:, :4]
    np.testing.assert_array_equal(ids, model.ids_["b"][best])
    np.testing.assert_allclose(found, np.take_along_axis(mu[:5], best, 1), rtol=1e-4)

    results = model.evaluate()
    assert 0 < results["overall"]["deviance"] < 2
    assert "poisson_deviance" not in results["overall"]

    model.save(tmp_path / "model")
    loaded = PMvGE.load(tmp_path / "model")
    assert type(loaded.family_) is TOYS[name]
    assert loaded.family_.pairs == model.family_.pairs
    for (key, value), (other, same) in zip(
        model.family_.state_dict().items(), loaded.family_.state_dict().items(), strict=True
    ):
        assert key == other
        torch.testing.assert_close(value, same, rtol=0, atol=0)
    np.testing.assert_array_equal(loaded.search("a", X[:5], among="b", k=4)[1], found)
    assert loaded.log_likelihood(graph) == model.log_likelihood(graph)
    assert loaded.describe()["family"] == name
    page = write_report(tmp_path / "report.html", loaded)
    assert page.stat().st_size > 100_000


def test_training_increases_the_likelihood_and_learns_each_parameter(graph):
    short, long = (
        model_of("dispersed", max_steps=n, patience=None, learning_rate=0.01).fit(graph)
        for n in (1, 150)
    )
    assert long.log_likelihood(graph) > short.log_likelihood(graph) + 10
    assert bool(((long.family_.log_size.detach() - 0.5).abs() > 0.05).all())


def test_a_resumed_fit_has_the_same_bits(graph, tmp_path):
    settings = {"checkpoint_steps": 10, "patience": None, "schedule": "constant"}
    whole = model_of("dispersed", max_steps=40, **settings).fit(graph)
    folder = tmp_path / "checkpoint"
    model_of("dispersed", max_steps=20, checkpoint_dir=folder, **settings).fit(graph)
    resumed = model_of("dispersed", max_steps=40, checkpoint_dir=folder, **settings)
    resumed.fit(graph, resume=True)
    np.testing.assert_array_equal(resumed.embeddings_["a"], whole.embeddings_["a"])
    np.testing.assert_array_equal(
        resumed.family_.log_size.detach(), whole.family_.log_size.detach()
    )
    assert resumed.log_alpha_ == whole.log_alpha_


def dispersed_network(graph):
    spec = EncoderSpec("mlp", (6,), "relu", "identity", False, 0.0, 0.0, False)
    schemas = schemas_of(graph)
    family = build_family("dispersed", tuple(graph.links))
    choices = choose_encoders("mlp", spec, schemas)
    return MultiViewEncoder(choices, schemas, 3, "inner", family)


def test_training_and_validation_use_the_family_and_its_measure(graph):
    """Blocks of all entities and links: the validation is the exact gain over a constant model."""
    heavy = graph.with_links(
        {
            pair: replace(links, weights=1.0 + np.arange(len(links)) % 4)
            for pair, links in graph.links.items()
        }
    )
    network = dispersed_network(heavy).eval()
    settings = model_of("dispersed").get_params(deep=False)
    device = torch.device("cpu")
    trainer = make_trainer(settings, network, heavy, heavy, device, 0)
    assert next(iter(trainer.batches)).batch.measure == "uniform"
    with torch.no_grad():
        found = trainer.validate()
        Y = {v: network(v, torch.tensor(X).float()).numpy() for v, X in heavy.views.items()}
    gain, fitted = 0.0, SimpleNamespace(embeddings_=Y, family_=network.family)
    for pair in heavy.links:
        w, g = terms(fitted, heavy, pair)
        best = [
            optimize.minimize_scalar(
                lambda a, eta=eta, w=w, pair=pair: -log_likelihood_of(fitted, pair, w, a + eta),
                bounds=(-15, 5),
            ).fun
            for eta in (g, 0 * g)
        ]
        gain += best[1] - best[0]
    assert found == pytest.approx(gain / heavy.n_links, rel=1e-3)


def test_parameters_of_a_family_are_used_by_every_batch(graph):
    """DistributedDataParallel is not told to look for unused parameters."""
    links = graph.links["a", "a"]
    one_view = MultiViewGraph({"a": graph.views["a"]}, {("a", "a"): (links.rows, links.cols)})
    assert not _has_unused_parameters(dispersed_network(one_view), one_view, [])


# -- bad input ------------------------------------------------------------------------------


def test_an_unknown_family_lists_the_known_ones(graph):
    message = r"unknown family 'linkd': expected one of 'poisson', .*, 'linked', 'dispersed'"
    with pytest.raises(ParameterError, match=message):
        PMvGE(family="linkd").fit(graph)
    with pytest.raises(ParameterError, match=message):
        build_family("linkd", ())


def test_a_name_is_taken_once():
    register_family("linked", Linked)  # again: no change
    with pytest.raises(ParameterError, match="'poisson': the name is taken by Poisson"):
        register_family("poisson", Linked)
    assert FAMILIES["poisson"] is not Linked
    with pytest.raises(ParameterError, match="expected a subclass of Family"):
        register_family("linear", nn.Linear)
    for name in ("", 3):
        with pytest.raises(ParameterError, match=f"expected a name .* got {name!r}"):
            register_family(name, Linked)


def test_a_registered_name_can_be_built(monkeypatch):
    monkeypatch.delitem(FAMILIES, "linked")
    register_family("linked", Linked)
    family = build_family("linked", (("a", "b"),))
    assert type(family) is Linked
    assert family.pairs == (("a", "b"),)
    assert family_name(family) == "linked"


def test_a_family_without_a_name_cannot_be_saved():
    class Unregistered(Linked):
        pass

    with pytest.raises(ParameterError, match="Unregistered: expected a registered one"):
        family_name(Unregistered())


def test_weights_that_a_family_cannot_have_are_an_error_before_training(graph):
    heavy = MultiViewGraph({"a": 3, "b": 3}, {("a", "b"): ([0, 1], [1, 2], [1.0, 2.5])})
    message = r"links \('a', 'b'\): family 'linked': expected weights of 1, got 2.5"
    with pytest.raises(GraphError, match=message):
        model_of("linked").fit(heavy)
    links = heavy.links["a", "b"]
    training, validation = (heavy.with_links({("a", "b"): links.select([k])}) for k in (0, 1))
    with pytest.raises(GraphError, match=message):
        model_of("linked").fit(training, validation)


def test_the_papers_scheme_takes_poisson_only(graph):
    with pytest.raises(ParameterError, match="scheme 'paper': expected family 'poisson', got 'li"):
        model_of("linked", scheme="paper").fit(graph)
    check_family(build_family("poisson", ()), graph, scheme="paper")


class Summed(Linked):
    def zero(self, eta, pair):
        return super().zero(eta, pair).sum()


class Unbounded(Linked):
    def at_link(self, w, eta, pair):
        return torch.log(eta)


class Shifted(Linked):
    def zero(self, eta, pair):
        return super().zero(eta, pair) - 1


class Offset(Linked):
    def expected(self, eta):
        return eta.exp() + 0.5


class Detached(Linked):
    def zero(self, eta, pair):
        return super().zero(eta.detach(), pair)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Summed, r"expected zero to be elementwise, with shape \(5, 5\), got \(\)"),
        (Unbounded, "expected at_link to be finite, got "),
        (Shifted, r"expected zero\(-inf\) = 0, got -1"),
        (Offset, r"expected expected\(-inf\) = 0, got 0.5"),
        (Detached, "expected zero to be differentiable in eta"),
    ],
)
def test_a_broken_contract_is_an_error_before_training(broken, message, monkeypatch, graph):
    monkeypatch.setitem(FAMILIES, "broken", broken)
    with pytest.raises(ParameterError, match=f"family 'broken': {message}"):
        model_of("broken").fit(graph)


def test_methods_that_a_family_must_define():
    class Empty(Family):
        pass

    eta = torch.zeros(1)
    with pytest.raises(NotImplementedError):
        Empty().zero(eta, ("a", "b"))
    with pytest.raises(NotImplementedError):
        Empty().at_link(eta, eta, ("a", "b"))


@pytest.mark.parametrize("name", [*FAMILIES, *TOYS])
def test_registered_families_keep_the_contract(name, graph):
    check_family(build_family(name, tuple(graph.links)), graph, None)
