"""Metrics against loops over pairs and against scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.metrics import mean_poisson_deviance

from pmvge.evaluation import (
    expected_over_observed,
    link_auc,
    link_average_precision,
    poisson_deviance,
)

SHAPE = (3, 4)
WEIGHTS = arrays.arrays(np.float64, SHAPE, elements=st.sampled_from([0.0, 0.0, 1.0, 2.5]))
SCORES = arrays.arrays(np.float64, SHAPE, elements=st.integers(-3, 3))
MEANS = arrays.arrays(np.float64, SHAPE, elements=st.floats(0.01, 100))


@given(WEIGHTS, SCORES)
def test_auc_is_the_chance_that_a_linked_pair_scores_higher(W, scores) -> None:
    linked, unlinked = scores[W > 0], scores[W == 0]
    assume(len(linked) and len(unlinked))
    wins = sum((p > q) + 0.5 * (p == q) for p in linked for q in unlinked)
    assert link_auc(W, scores) == pytest.approx(wins / (len(linked) * len(unlinked)))


@given(WEIGHTS, st.permutations(range(12)))
def test_average_precision_is_the_mean_precision_at_the_linked_pairs(W, order) -> None:
    linked = [bool(w) for w in W.ravel()]
    assume(any(linked))
    scores = np.empty(12)
    scores[list(order)] = -np.arange(12)
    hits, precisions = 0, []
    for rank, index in enumerate(order, start=1):
        hits += linked[index]
        if linked[index]:
            precisions.append(hits / rank)
    expected = sum(precisions) / len(precisions)
    assert link_average_precision(W, scores.reshape(SHAPE)) == pytest.approx(expected)


def test_expected_over_observed_is_a_ratio_of_totals() -> None:
    W, mu = np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
    assert expected_over_observed(W, mu) == 1.5
    assert expected_over_observed(W, W) == 1


def test_totals_are_added_in_double_precision() -> None:
    big = np.full(2**20, 0.1, np.float32)
    big[0] = 2**26
    expected = math.fsum(big.astype(float))
    assert expected_over_observed(np.ones(1, np.float32), big) == pytest.approx(expected, rel=1e-12)
    assert expected_over_observed(big, np.ones(1, np.float32)) == pytest.approx(
        1 / expected, rel=1e-12
    )


@given(WEIGHTS, MEANS)
def test_poisson_deviance_agrees_with_scikit_learn(W, mu) -> None:
    expected = mean_poisson_deviance(W.ravel(), mu.ravel())
    assert poisson_deviance(W, mu) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_poisson_deviance_of_the_weights_themselves_is_zero(dtype) -> None:
    W = np.array([[1, 2], [7, 3]], dtype)
    assert poisson_deviance(W, W) == 0
