"""Effects of entities: look-up, entities without links, the penalty, and the choice by view."""

import numpy as np
import pytest
import torch

from pmvge.encoders import Effects, Zero, choose_effects, choose_priors
from pmvge.errors import ParameterError

VIEWS = {"user": True, "film": True, "tag": False}  # which have links


def filled(n=6, n_vector=3, n_biases=2, seed=0):
    effects = Effects(n, n_vector, n_biases)
    torch.manual_seed(seed)
    torch.nn.init.normal_(effects.weight)
    return effects


def test_effects_start_at_zero_except_vectors_without_features():
    assert not Effects(5, 3, 2).weight.any()
    weight = Effects(2000, 3, 2, featureless=True).weight.detach()
    assert float(weight[:, :3].std()) == pytest.approx(0.01, rel=0.1)
    assert not weight[:, 3:].any()


def test_rows_are_split_into_vectors_and_biases():
    effects = filled()
    rows = effects(torch.tensor([4, 1, 4]))
    np.testing.assert_array_equal(rows.detach(), effects.weight.detach()[[4, 1, 4]])
    e, b = effects.split(rows)
    assert (e.shape, b.shape) == ((3, 3), (3, 2))
    assert torch.equal(torch.cat([e, b], 1), rows)


def test_new_entities_have_no_effects():
    effects = filled()
    rows = effects.of_known(torch.tensor([2, -1, 0])).detach()
    np.testing.assert_array_equal(rows[1], np.zeros(5))
    np.testing.assert_array_equal(rows[[0, 2]], effects.weight.detach()[[2, 0]])


def test_entities_without_links_have_effects_0_and_gradient_0():
    effects = filled()
    linked = torch.tensor([True, False, True, True, False, True])
    effects.hold_unlinked(linked)
    assert not effects.weight[~linked].any()
    effects(torch.arange(6)).sum().backward()
    np.testing.assert_array_equal(effects.weight.grad, np.outer(linked, np.ones(5)))


def test_the_penalty_is_minus_the_log_density_of_the_prior():
    effects = filled()
    effects.prior.copy_(torch.tensor([0.4, 1.7]))
    index, weights = [3, 0, 3], [0.5, 2.0, 0.25]
    expected = 0.0
    for i, weight in zip(index, weights, strict=True):
        row = effects.weight.detach()[i].tolist()
        for value, deviation in zip(row, [0.4] * 3 + [1.7] * 2, strict=True):
            expected += weight * value**2 / (2 * deviation**2)
    found = effects.penalty(effects(torch.tensor(index)), torch.tensor(weights))
    assert float(found.detach()) == pytest.approx(expected, rel=1e-5)


def test_biases_alone_have_a_penalty():
    effects = filled(n_vector=0)
    effects.prior.copy_(torch.tensor([0.1, 2.0]))
    found = effects.penalty(effects(torch.arange(6)), torch.ones(6))
    assert float(found.detach()) == pytest.approx(float(effects.weight.detach().square().sum()) / 8)


def test_the_encoder_of_vectors_that_are_effects_is_zero():
    assert torch.equal(Zero(3)(torch.arange(2)), torch.zeros(2, 3))


def test_effects_are_chosen_for_all_views_or_by_view():
    assert choose_effects("bias", VIEWS) == {"user": "bias", "film": "bias", "tag": "none"}
    chosen = choose_effects({"film": "auto"}, VIEWS)
    assert chosen == {"user": "none", "film": "vector", "tag": "none"}
    chosen = choose_effects("auto", VIEWS, ["user"])  # a fixed view
    assert chosen == {"user": "none", "film": "vector", "tag": "none"}
    for none in (None, {"film": None}, "none"):
        assert set(choose_effects(none, VIEWS).values()) == {"none"}


@pytest.mark.parametrize(
    ("effects", "message"),
    [
        ({"usr": "bias"}, r"effects: unknown view 'usr': expected one of .* did you mean 'user'\?"),
        ("biases", r"view 'user': effects: unknown effects 'biases': expected one of 'auto', 'n"),
        ({"film": 3}, "view 'film': effects: unknown effects 3"),
        (["bias"], "unknown effects"),
    ],
)
def test_unknown_effects_are_refused(effects, message):
    with pytest.raises(ParameterError, match=message):
        choose_effects(effects, VIEWS)


def test_priors_are_numbers_pairs_or_learned():
    kinds = {"user": "vector", "film": "bias", "tag": "none"}
    assert choose_priors(None, kinds) == {"user": None, "film": None}
    assert choose_priors(2, kinds) == {"user": (2.0, 2.0), "film": (2.0, 2.0)}
    assert choose_priors(np.float32(0.5), kinds)["film"] == (0.5, 0.5)
    assert choose_priors({"user": (0.5, np.int64(3))}, kinds) == {"user": (0.5, 3.0), "film": None}


@pytest.mark.parametrize(
    "prior",
    [0, -1.0, np.nan, np.inf, 1e30, 1e-20, True, "1", (1.0,), (1, 2, 3), (1, 0), [1, None]],
)
@pytest.mark.parametrize("view", ["user", "tag"], ids=["with effects", "without effects"])
def test_priors_that_are_not_positive_numbers_are_refused(prior, view):
    kinds = {"user": "vector", "film": "bias", "tag": "none"}
    message = rf"effects_prior: view '{view}': expected a positive number, or \(sigma, tau\), got"
    with pytest.raises(ParameterError, match=message):
        choose_priors({view: prior}, kinds)


def test_a_prior_of_an_unknown_view_is_refused():
    with pytest.raises(ParameterError, match="effects_prior: unknown view 'films'"):
        choose_priors({"films": 1.0}, {"user": "vector", "film": "bias"})
