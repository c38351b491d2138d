"""Learned priors of effects: near the truth, never at their bounds, and as good as a good grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from pmvge import MultiViewGraph, PMvGE
from pmvge.distributed import SINGLE_PROCESS
from pmvge.model.fitting import priors

SETTINGS = {
    "encoder": {"user": "linear", "film": "identity"},
    "standardize": False,
    "similarity": "inner",
    "batch_size": 256,
    "learning_rate": 5e-3,
    "schedule": "cosine",
    "max_steps": 1000,
    "patience": None,
    "random_state": 0,
    "progress": False,
}

EFFECTS = {"user": "vector"}


def simulate(sigma, tau, *, n=500, m=150, K=3, seed=0, features=True):
    """Links to films with known vectors; features explain a part of the vectors of users."""
    rng = np.random.default_rng(seed)
    X, films = rng.normal(size=(n, K)), rng.normal(size=(m, K))
    users = (0.5 * X if features else 0.0) + sigma * rng.normal(size=(n, K))
    mu = np.exp(users @ films.T + tau * rng.normal(size=(n, 1)))
    W = rng.poisson(mu * 15 * n / mu.sum())
    return MultiViewGraph({"user": X if features else n, "film": films}, {("user", "film"): W})


def learned(model, view):
    return model._fitted.network.effects_of(view).prior.tolist()


def fit(graph, **settings):
    return PMvGE(3, **SETTINGS | {"effects": EFFECTS} | settings).fit(graph)


@pytest.mark.slow
@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize(("sigma", "tau"), [(0.3, 0.8), (0.7, 0.3)])
def test_the_learned_priors_are_near_the_truth(sigma, tau, features):
    graph = simulate(sigma, tau, features=features)
    encoder = SETTINGS["encoder"] if features else {"film": "identity"}
    found = learned(fit(graph, encoder=encoder), "user")
    assert found[0] == pytest.approx(sigma, rel=0.25)
    assert found[1] == pytest.approx(tau, rel=0.4)


@pytest.mark.slow
def test_tau_is_learned_for_biases_alone():
    graph = simulate(0.0, 0.8)
    assert learned(fit(graph, effects={"user": "bias"}), "user")[1] == pytest.approx(0.8, rel=0.25)


@pytest.mark.slow
def test_sigma_becomes_small_where_features_explain_everything():
    # Gradients of small batches have noise, which effects follow.
    sigma, tau = learned(fit(simulate(0.0, 0.0), batch_size=2048), "user")
    assert priors.BOUNDS[0] < sigma < 0.15
    assert priors.BOUNDS[0] < tau < 0.2


def grouped(seed=0):
    """Three views without features and two view pairs, with links within three groups.

    Half of the users have no links of the second view pair.
    """
    rng = np.random.default_rng(seed)
    group = {view: rng.integers(3, size=n) for view, n in (("a", 200), ("b", 80), ("c", 60))}
    links = {}
    for pair, n in ((("a", "b"), 200), (("a", "c"), 100)):
        same = group[pair[0]][:n, None] == group[pair[1]]
        W = rng.poisson(np.where(same, 0.25, 0.03))
        links[pair] = (*np.nonzero(W), W[np.nonzero(W)])
    return MultiViewGraph({view: len(groups) for view, groups in group.items()}, links)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["block", "paper"])
@pytest.mark.parametrize("similarity", ["inner", "cosine"])
def test_priors_of_featureless_views_neither_collapse_nor_explode(similarity, scheme):
    model = PMvGE(
        8, similarity=similarity, scheme=scheme, effects="vector", batch_size=256, max_steps=600,
        learning_rate=5e-3, schedule="cosine", patience=None, random_state=0, progress=False,
    ).fit(grouped())  # fmt: skip
    for view in "abc":
        sigma, tau = learned(model, view)
        assert 0.1 < sigma < 2, view
        assert 0.005 < tau < 2, view  # the levels are equal


def held_out_gain(model):
    """The mean log-probability of held-out links among all pairs that are not in training."""
    ((pair, kept),) = model.links_.training.items()
    held = model.links_.held_out[pair]
    g = model.vectors(pair[0], among=pair[1]).astype(float)
    g = g @ model.vectors(pair[1], among=pair[0], side="candidate").astype(float).T
    observed = held.weights @ g[held.rows, held.cols] / held.weights.sum()
    g[kept.rows, kept.cols] = -np.inf
    return observed - logsumexp(g)


@pytest.mark.slow
def test_a_learned_prior_predicts_as_well_as_the_true_one():
    graph = simulate(0.5, 0.5)

    def gain(prior):
        model = PMvGE(3, **SETTINGS | {"max_steps": 600}, effects_prior=prior, effects=EFFECTS)
        return held_out_gain(model.fit(graph, hold_out=0.1))

    narrow, true, learned = gain((0.05, 0.5)), gain((0.5, 0.5)), gain(None)
    assert true > narrow + 0.1  # the prior matters
    assert learned > true - 0.03


# -- the update -----------------------------------------------------------------------------


def test_one_update_against_loops(monkeypatch):
    """From given effects, with all entities and partners in the samples."""
    graph = simulate(0.4, 0.4, n=40, m=20)
    (pair,) = graph.links
    monkeypatch.setattr(priors, "EVERY", 10**9)
    model = fit(graph, max_steps=100)
    monkeypatch.undo()
    network, links = model._fitted.network, graph.links[pair]
    effects = network.effects_of("user")
    W = np.zeros((40, 20))
    if pair[0] == "user":
        W[links.rows, links.cols] = links.weights
    else:
        W[links.cols, links.rows] = links.weights
    sigma, tau = effects.prior.double().tolist()
    weight = effects.weight.detach().double().numpy()
    drawn = np.random.default_rng(0)
    update = priors.PriorUpdate(
        network,
        graph,
        ["user"],
        drawn,
        torch.device("cpu"),
        SINGLE_PROCESS,
        dict.fromkeys(graph.links, "weight"),
        10**9,
    )
    update(priors.EVERY)
    partners = update.views["user"].partners[0][1].numpy()
    films = graph.views["film"]
    outer = [np.outer(y, y) for y in np.column_stack([films[partners], np.ones(len(partners))])]
    A = np.mean(outer, axis=0)
    squares, gammas = [], []
    for i in np.flatnonzero(W.sum(1)):
        mu = max(0.0, W[i].sum() - weight[i, 3] / tau**2)
        precision = np.diag([sigma**-2] * 3 + [tau**-2])
        inverse = np.linalg.inv(mu * A + precision)
        squares.append([weight[i, :3] @ weight[i, :3], weight[i, 3] ** 2])
        gammas.append([3 - np.trace(inverse[:3, :3]) / sigma**2, 1 - inverse[3, 3] / tau**2])
    expected = np.sqrt(np.mean(squares, axis=0) / np.mean(gammas, axis=0))
    limits = np.array([sigma, tau]) / 2, np.array([sigma, tau]) * 2
    np.testing.assert_allclose(effects.prior, np.clip(expected, *limits), rtol=1e-4)


@pytest.mark.parametrize(("stars", "expected"), [(1.0, 1.0), (3.0, 3 - 30 / 200), (0.5, 1.0)])
def test_the_dispersion_is_the_weight_of_one_event(stars, expected):
    graph = MultiViewGraph(
        {"a": 10, "b": 20}, {("a", "b"): (np.arange(10), np.arange(10), np.full(10, stars))}
    )
    network = PMvGE(2, effects="vector", max_steps=1, progress=False).fit(graph)._fitted.network
    cpu, rng = torch.device("cpu"), np.random.default_rng(0)
    measures = dict.fromkeys(graph.links, "weight")
    update = priors.PriorUpdate(network, graph, "ab", rng, cpu, SINGLE_PROCESS, measures, 10)
    assert update.views["a"].dispersion == pytest.approx(expected)


@pytest.mark.slow
def test_stars_have_the_prior_of_single_links():
    """Links of weight 5 say no more than links of weight 1, but their effects have more noise."""
    sigmas = []
    for weight in (1, 5):
        graph = simulate(0.0, 0.0)
        (pair,) = graph.links
        links = graph.links[pair]
        once = graph.with_links({pair: replace(links, weights=np.full(len(links), float(weight)))})
        sigmas.append(learned(fit(once), "user")[0])
    assert sigmas[1] < 2 * sigmas[0]


def test_given_priors_are_not_changed():
    graph = simulate(0.4, 0.4, n=40, m=20)
    model = fit(graph, max_steps=60, effects_prior=(0.25, 3.0))
    assert learned(model, "user") == [0.25, 3.0]
    mixed = fit(graph, max_steps=60, effects="bias", effects_prior={"film": 0.5})
    assert learned(mixed, "film") == [0.5, 0.5]
    assert learned(mixed, "user") != learned(mixed, "film")
