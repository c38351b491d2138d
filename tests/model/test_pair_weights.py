r"""Factors of view pairs, against a fit to scaled weights.

For Poisson weights the profile likelihood of :math:`\lambda w` is :math:`\lambda` times that of w,
up to a constant. So a fit with the factor :math:`\lambda_{de}` is a fit to the weights
:math:`\lambda_{de} w`, except that alpha is in the units of w.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import ParameterError
from pmvge.model.pair_weights import choose_pair_weights
from pmvge.sampling import BlockSampler

FACTORS = {("a", "b"): 0.25, ("b", "c"): 8.0}
QUICK = {"n_components": 3, "random_state": 0, "progress": False, "max_steps": 60}


def simulate(scale=None):
    """Return a graph of three views; ``scale`` multiplies the weights of each view pair."""
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(40, 4)), "b": 25, "c": 12}
    means = {("a", "b"): np.exp(rng.normal(size=(40, 25))), ("b", "c"): np.full((25, 12), 0.3)}
    counts = {pair: rng.poisson(mean).astype(float) for pair, mean in means.items()}
    links = {pair: W * (scale or {}).get(pair, 1.0) for pair, W in counts.items()}
    ids = {view: [f"{view}{n}" for n in range(size)] for view, size in (("b", 25), ("c", 12))}
    return MultiViewGraph(views, links, ids=ids)


@pytest.fixture(scope="module", params=["none", "vector"])
def both(request):
    """A model with factors, and a model of scaled weights; batches are samples."""
    settings = {**QUICK, "effects": request.param, "batch_size": 16, "patience": None}
    weighted = PMvGE(**settings, pair_weights=FACTORS).fit(simulate())
    return weighted, PMvGE(**settings).fit(simulate(FACTORS))


def test_a_factor_is_a_scale_of_weights(both):
    weighted, scaled = both
    for view, Y in weighted.embeddings_.items():
        np.testing.assert_allclose(Y, scaled.embeddings_[view], atol=2e-4)
    if weighted.effects == "vector":
        for view, entry in weighted.describe()["views"].items():
            other = scaled.describe()["views"][view]["effects"]
            assert entry["effects"]["sigma"] == pytest.approx(other["sigma"], rel=1e-3), view
            assert entry["effects"]["tau"] == pytest.approx(other["tau"], rel=1e-3), view


def test_alpha_stays_in_the_units_of_the_weights(both):
    weighted, scaled = both
    graph = simulate()
    for (a, b), factor in FACTORS.items():
        total = graph.links[a, b].total
        mu = weighted.intensity(a, None, b, None)
        assert mu.sum() == pytest.approx(total, rel=1e-4)
        assert weighted.alpha_weight_[a, b] == total
        gap = scaled.log_alpha_[a, b] - weighted.log_alpha_[a, b]
        assert gap == pytest.approx(math.log(factor), abs=1e-3)


@pytest.mark.parametrize("both", ["vector"], indirect=True)
def test_first_links_count_as_in_training(both):
    weighted, scaled = both
    X = np.random.default_rng(1).normal(size=(3, 4))
    rows, partners, w = [0, 0, 1], ["b1", "b7", "b3"], np.array([60.0, 40.0, 90.0])
    own = weighted.fold_in("a", X, links={"b": (rows, partners, w)})
    other = scaled.fold_in("a", X, links={"b": (rows, partners, w * FACTORS["a", "b"])})
    np.testing.assert_allclose(own, other, atol=5e-4)
    plain = weighted.embed("a", X)
    assert np.abs(own[:2] - plain[:2]).max() > 0.01
    np.testing.assert_array_equal(own[2], plain[2])


def test_early_stopping_uses_the_same_factors():
    """The gain on held-out links is the mean over view pairs, by their shares with factors."""
    settings = {**QUICK, "max_steps": 50, "batch_size": 16}
    weighted = PMvGE(**settings, pair_weights=FACTORS).fit(simulate())
    scaled = PMvGE(**settings).fit(simulate(FACTORS))
    plain = PMvGE(**settings).fit(simulate())
    checks = [[record.validation for record in m.history_] for m in (weighted, scaled, plain)]
    assert checks[0] == pytest.approx(checks[1], rel=1e-2)
    assert checks[0] != pytest.approx(checks[2], rel=1e-2)


def test_view_pairs_are_drawn_in_proportion_to_measure_times_factor():
    graph = simulate()
    for measure, size in (("weight", lambda links: links.total), ("uniform", len)):
        sampler = BlockSampler(
            graph,
            n_links=4,
            n_uniform=4,
            rng=np.random.default_rng(0),
            measure=measure,
            pair_weights=FACTORS,
        )
        expected = {pair: FACTORS[pair] * size(links) for pair, links in graph.links.items()}
        assert sampler.total == pytest.approx(sum(expected.values()))
        drawn = [batch.pair for batch in itertools.islice(sampler, 4000)]
        share = expected["a", "b"] / sampler.total
        error = math.sqrt(share * (1 - share) / 4000)
        assert drawn.count(("a", "b")) / 4000 == pytest.approx(share, abs=4 * error)
        totals = {batch.pair: batch.total for batch in sampler.each_pair()}
        assert totals == pytest.approx(expected)


MEASURES = {("a", "b"): 990.0, ("c", "b"): 10.0, ("c", "c"): 0.0}
COUNTS = {("a", "b"): 400, ("c", "b"): 4, ("c", "c"): 0}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [1.0, 1.0, 1.0]),
        ("balanced", [400 / 990, 40 / 10, 1.0]),  # shares of sqrt(400) to sqrt(4)
        ({("a", "b"): 0.1}, [0.1, 1.0, 1.0]),
        ({("b", "c"): 3, "b,a": 0.5}, [0.5, 3.0, 1.0]),
    ],
)
def test_settings_are_factors(given, expected):
    settings = {"pair_weights": given, "scheme": "block"}
    found = choose_pair_weights(settings, MEASURES, COUNTS)
    assert [found.get(pair, 1.0) for pair in MEASURES] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"pair_weights": "equal"}, "pair_weights: expected None, 'balanced' or"),
        ({"pair_weights": {("a", "b"): 0.0}}, "pair_weights: a,b: expected a number in"),
        ({"pair_weights": {("a", "b"): "x"}}, "pair_weights: a,b: expected a number in"),
        ({"pair_weights": {("a", "c"): 1.0}}, "pair_weights: unknown view pair 'a,c'"),
        ({"pair_weights": "balanced", "scheme": "paper"}, "expected None with scheme='paper'"),
    ],
)
def test_invalid_settings_are_errors(settings, says):
    with pytest.raises(ParameterError, match=says):
        PMvGE(**QUICK, **settings).fit(simulate())


@pytest.mark.parametrize("given", ["balanced", FACTORS])
def test_factors_are_saved(given, tmp_path):
    model = PMvGE(**{**QUICK, "max_steps": 2}, effects="vector", pair_weights=given).fit(simulate())
    model.save(tmp_path)
    loaded = PMvGE.load(tmp_path)
    links = {"b": ([0], ["b3"], [50.0])}
    X = np.ones((1, 4))
    np.testing.assert_array_equal(
        model.fold_in("a", X, links=links), loaded.fold_in("a", X, links=links)
    )
    assert loaded.describe()["settings"]["pair_weights"] == (
        "balanced" if given == "balanced" else {"a,b": 0.25, "b,c": 8.0}
    )
    again = PMvGE(**loaded.get_params()).fit(simulate())  # saved parameters can be fitted again
    np.testing.assert_array_equal(again.embeddings_["c"], model.embeddings_["c"])


def test_balanced_factors_of_families_by_view_pair():
    """Links of each view pair have the measure of its family: weights, or 1 for each link."""
    graph = simulate()
    settings = {**QUICK, "max_steps": 30, "patience": None, "pair_weights": "balanced"}
    model = PMvGE(**settings, family={("b", "a"): "negative_binomial"}).fit(graph)
    first, second = graph.links.values()
    largest = max(len(first), len(second))
    found = [model._fitted.alpha_of(*pair).pair_weight for pair in graph.links]
    assert found[0] == pytest.approx(math.sqrt(len(first) * largest) / len(first))
    assert found[1] == pytest.approx(math.sqrt(len(second) * largest) / second.total)
