"""Early stopping: held-out links, patience, and the best weights."""

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.model.fitting import fit_inputs


@pytest.fixture(scope="module")
def graph():
    """A graph of 60 links: with 20 links per step, an epoch has 3 steps."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 4)), rng.normal(size=(30, 3))
    order = np.argsort(-(a[:, :1] * b[:, 0] + 0.3 * rng.normal(size=(40, 30))).ravel())[:60]
    links = {("a", "b"): (order // 30, order % 30, rng.integers(1, 4, size=60))}
    return MultiViewGraph({"a": a, "b": b}, links)


def pmvge(**settings):
    defaults = {
        "hidden_sizes": (8,),
        "dropout": 0.0,
        "batch_size": 20,
        "max_steps": 30,
        "learning_rate": 0.01,
        "similarity": "inner",
        "effects": "none",
        "schedule": "constant",  # keeps the best weights
        "weight_decay": 0.0,
        "random_state": 0,
        "progress": False,
    }
    return PMvGE(4, **defaults | settings)


def gain(held, Y):
    """Return the gain in profile likelihood over g = 0 per unit of weight, from all pairs."""
    total = 0.0
    for (a, b), links in held.links.items():
        g = Y[a].astype(np.float64) @ Y[b].astype(np.float64).T
        W = links.matrix().toarray()
        total += (W * g).sum() - W.sum() * np.log(np.exp(g).mean())
    return total / held.total_weight


def noise(seed):
    """A graph of random links, on which validation gets worse after a few checks."""
    rng = np.random.default_rng(seed)
    views = {"a": np.random.default_rng(0).normal(size=(40, 8)), "b": 30, "c": 12}
    rows = rng.integers(40, size=80)
    links = {
        ("a", "b"): (rows, rng.integers(30, size=80), rng.integers(1, 4, size=80)),
        ("a", "c"): (rows, rng.integers(12, size=80)),
    }
    return MultiViewGraph(views, links)


@pytest.mark.parametrize("scheme", ["block", "paper"])
@pytest.mark.parametrize("patience", [1, 3])
def test_the_best_weights_are_restored_when_patience_runs_out(scheme, patience):
    train, held = noise(1), noise(2)
    model = pmvge(scheme=scheme, patience=patience, max_steps=1000, batch_norm=True)
    history = model.fit(train, validation=held).history_
    best = history.best
    assert gain(held, model.embeddings_) == pytest.approx(best.validation, rel=1e-4, abs=1e-5)
    assert best.validation == max(record.validation for record in history)
    assert history[-1].step == best.step + patience * 25 < 1000
    assert history[-1].validation < best.validation - 1e-3


def test_the_best_weights_are_restored_at_the_last_step_too():
    train, held = noise(1), noise(2)
    model = pmvge(patience=100, max_steps=110).fit(train, validation=held)
    assert [record.step for record in model.history_] == [25, 50, 75, 100, 110]
    assert model.history_.best.step < 110
    assert gain(held, model.embeddings_) == pytest.approx(model.history_.best.validation, rel=1e-4)


def test_links_held_out_for_validation_are_not_trained_on(graph, monkeypatch):
    seen = []

    def record(*arguments):
        seen.append(fitting_hold_out(*arguments))
        return seen[-1]

    fitting_hold_out = fit_inputs.hold_out_links
    monkeypatch.setattr(fit_inputs, "hold_out_links", record)
    model = pmvge(validation_fraction=0.25, max_steps=60).fit(graph)
    ((kept, held),) = seen
    assert (kept.n_links, held.n_links) == (45, 15)
    assert gain(held, model.embeddings_) == pytest.approx(model.history_.best.validation, rel=1e-4)
    # alpha is computed from all links, including the held-out ones.
    Z = np.exp(model.embeddings_["a"].astype(np.float64) @ model.embeddings_["b"].T).sum()
    assert model.alpha_[0, 1] == pytest.approx(graph.total_weight / Z, rel=1e-5)


def test_held_out_links_depend_on_the_seed(graph, monkeypatch):
    held, hold_out = [], fit_inputs.hold_out_links

    def record(*arguments):
        kept, out = hold_out(*arguments)
        held.append(out.links["a", "b"].rows.tolist())
        return kept, out

    monkeypatch.setattr(fit_inputs, "hold_out_links", record)
    for seed in (0, 0, 1):
        pmvge(validation_fraction=0.25, max_steps=1, random_state=seed).fit(graph)
    assert held[0] == held[1] != held[2]


def test_alpha_counts_the_links_of_a_validation_graph():
    train, held = noise(1), noise(2)
    model = pmvge().fit(train, validation=held)
    Z = np.exp(model.embeddings_["a"].astype(np.float64) @ model.embeddings_["b"].T).sum()
    total = train.links["a", "b"].total + held.links["a", "b"].total
    assert model.alpha_[0, 1] == pytest.approx(total / Z, rel=1e-5)


def test_without_patience_nothing_is_held_out_and_all_steps_are_made(graph, monkeypatch):
    monkeypatch.setattr(fit_inputs, "hold_out_links", None)  # must not be called
    history = pmvge(patience=None, max_steps=60).fit(graph).history_
    assert [record.step for record in history] == [25, 50, 60]
    assert all(record.validation is None for record in history)
    assert history.best is None


def test_a_single_link_cannot_be_held_out():
    graph = MultiViewGraph({"a": 3, "b": 2}, {("a", "b"): ([0], [1])})
    history = pmvge(patience=1, max_steps=60).fit(graph).history_
    assert history[-1].step == 60
    assert history.best is None
