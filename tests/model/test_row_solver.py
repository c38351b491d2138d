"""Effects of new rows, against scipy's optimiser and against gradients by autograd."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy import optimize, special

from pmvge.likelihoods import Family, Poisson
from pmvge.model.fold_in import row_solver
from pmvge.model.fold_in.row_solver import RowLikelihood, Rows, maximize
from pmvge.similarities import (
    Cosine,
    Difference,
    Euclidean,
    Inner,
    Shifted,
    Similarity,
    Weighted,
    WithBiases,
)

N, M, K = 6, 30, 3
PAIR = ("a", "b")
LOG_ALPHA, PRECISION = -1.0, 6.0


class Linked(Family):
    """w is 0 or 1: linked with probability 1 - exp(-mu)."""

    def zero(self, eta, pair):
        return -eta.exp()

    def at_link(self, w, eta, pair):
        return torch.log(-torch.expm1(-eta.exp()))


class Dispersed(Family):
    """Negative binomial counts of mean mu and size 2."""

    def zero(self, eta, pair):
        return -2 * torch.nn.functional.softplus(eta - np.log(2))

    def at_link(self, w, eta, pair):
        return w * eta - (w + 2) * torch.logaddexp(eta, torch.tensor(np.log(2)))


class Compressed(Similarity):
    """g = 2 arsinh<y, y'>: an increasing function of the inner product."""

    linear: ClassVar[bool] = False

    def outer(self, product):
        return 2 * torch.asinh(product)


FAMILIES = {"poisson": Poisson, "linked": Linked, "dispersed": Dispersed}
SIMILARITIES = {
    "inner": Inner,
    "cosine": Cosine,
    "shifted": Shifted,
    "weighted": Weighted,
    "difference": Difference,
    "euclidean": Euclidean,
    "compressed": Compressed,
}


def problem(
    *,
    family="poisson",
    similarity="inner",
    exposure=None,
    featureless=False,
    precision=PRECISION,
):
    rng = np.random.default_rng(0)
    base = SIMILARITIES[similarity](K).double().requires_grad_(False)
    if similarity == "weighted":
        base.theta.copy_(torch.tensor([0.1, -0.05, 0.2]))
    compared = WithBiases(base, K, {"a": [PAIR], "b": [PAIR]}).for_pair(*PAIR)
    W = rng.poisson(0.4, size=(N, M)).astype(float)
    W = np.minimum(W, 1) if family == "linked" else W * (1 + (W > 1))
    candidates = compared.candidate(torch.from_numpy(rng.normal(size=(M, K + 1))))
    likelihood = RowLikelihood(
        PAIR,
        FAMILIES[family]([PAIR]),
        compared,
        LOG_ALPHA,
        candidates,
        torch.from_numpy(W),
        None,
        exposure,
    )
    f = np.zeros((N, K)) if featureless else rng.normal(size=(N, K))
    return Rows(
        torch.from_numpy(f),
        torch.from_numpy(rng.normal(size=(N, 1))),
        K,
        torch.tensor([precision] * K + [2.0], dtype=torch.float64),
        base,
        featureless,
        [likelihood],
    )


def log_posterior(rows, i, theta, *, level=None):
    """Return the objective of row i in plain numpy; with a level, zeros are observed."""
    part = rows.likelihoods[0]
    y = rows.f[i].numpy() + theta[:K]
    eta = LOG_ALPHA + part.candidates[:, :K].numpy() @ y + part.candidates[:, -1].numpy()
    eta = eta + rows.bias[i].item() + theta[K]
    w = part.weights[i].numpy()
    prior = -0.5 * (PRECISION * theta[:K] @ theta[:K] + 2 * theta[K] ** 2)
    if level is None:
        return w @ eta - w.sum() * special.logsumexp(eta) + prior
    eta = eta + level
    if isinstance(part.family, Linked):
        return np.where(w > 0, np.log(-np.expm1(-np.exp(eta))), -np.exp(eta)).sum() + prior
    if isinstance(part.family, Dispersed):
        return (w * eta - (w + 2) * np.logaddexp(eta, np.log(2))).sum() + prior
    return (w * eta - np.exp(eta)).sum() + prior


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("exposure", [0.5, 1.0])
def test_observed_zeros_give_the_optimum_of_scipy(family, exposure):
    rows = problem(family=family, exposure=exposure)
    found = maximize(rows).numpy()
    for i in range(N):
        best = optimize.minimize(
            lambda t, i=i: -log_posterior(rows, i, t, level=np.log(exposure)), np.zeros(K + 1)
        )
        np.testing.assert_allclose(found[i], best.x, atol=1e-4)
        assert log_posterior(rows, i, found[i], level=np.log(exposure)) >= -best.fun - 1e-9


def test_profiled_poisson_rows_are_multinomial():
    rows = problem()
    found = maximize(rows).numpy()
    for i in range(N):
        best = optimize.minimize(lambda t, i=i: -log_posterior(rows, i, t), np.zeros(K + 1))
        np.testing.assert_allclose(found[i], best.x, atol=1e-4)
    assert np.abs(found[:, K]).max() < 1e-12  # nothing is known about the level


@pytest.mark.parametrize("family", ["linked", "dispersed"])
def test_other_families_are_maximal_in_a_free_level(family):
    rows = problem(family=family)
    found = maximize(rows).numpy()
    for i in range(N):

        def loss(t, i=i):
            return -log_posterior(rows, i, np.append(t[:K], 0.0), level=t[K])

        best = optimize.minimize(loss, np.zeros(K + 1))
        np.testing.assert_allclose(found[i, :K], best.x[:K], atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("unlinked", [[2], range(N)], ids=["one row", "all rows"])
def test_a_view_pair_without_links_of_a_row_changes_nothing(family, unlinked):
    rows = problem(family=family)
    part = rows.likelihoods[0]
    weights = part.weights.clone()
    weights[list(unlinked)] = 0
    other = replace(part, weights=weights)
    found = maximize(replace(rows, likelihoods=[part, other]))
    alone = maximize(rows)
    np.testing.assert_allclose(found[list(unlinked)], alone[list(unlinked)], atol=1e-9)
    assert not maximize(replace(rows, likelihoods=[other]))[list(unlinked)].any()


# -- any similarity ----------------------------------------------------------------------------


def differentiable(rows, theta):
    """Return the objective of all rows as a function that torch differentiates."""
    part = rows.likelihoods[0]
    e, b = theta[:, :K], theta[:, K:]
    y = rows.similarity.from_effects(e) if rows.featureless else rows.similarity(rows.f, e)
    C = part.candidates  # with the two coordinates of biases at the end
    product = rows.similarity.query(y) @ C[:, :-2].T + rows.bias + b + C[:, -1]
    eta = LOG_ALPHA + rows.similarity.outer(product)
    w = part.weights
    fit = (w * eta).sum(1) - w.sum(1) * eta.logsumexp(1)
    if part.exposure is not None:
        fit = (w * eta).sum(1) - part.exposure * eta.exp().sum(1)
    return fit - 0.5 * (rows.precision * theta.square()).sum(1)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("exposure", [None, 1.0])
@pytest.mark.parametrize("featureless", [False, True])
def test_steps_never_lower_the_objective_and_end_at_gradient_zero(
    similarity, exposure, featureless
):
    # A narrow prior: with cosine, no e is best if links turn f by more than 90 degrees.
    rows = problem(
        similarity=similarity, exposure=exposure, featureless=featureless, precision=40.0
    )
    values = []
    for steps in (*range(8), 1000):
        theta = maximize(rows, steps)
        values.append(differentiable(rows, theta))
    start = differentiable(rows, torch.zeros_like(theta))
    torch.testing.assert_close(values[0], start)
    assert (torch.stack(values).diff(dim=0) >= -1e-9).all()
    assert (values[-1] > start).all()
    theta = theta.requires_grad_()
    (gradient,) = torch.autograd.grad(differentiable(rows, theta).sum(), theta)
    assert gradient.abs().max() < 1e-4
    _, own, H = rows.expand(theta.detach())
    torch.testing.assert_close(own, gradient, atol=1e-6, rtol=0)
    assert (torch.linalg.eigvalsh(H) > 0).all()


def test_vectors_are_finite_where_links_turn_the_direction_round():
    rows = problem(similarity="cosine", precision=0.01)
    theta = maximize(rows)
    assert theta.isfinite().all()
    assert (rows.objective(theta) > rows.objective(torch.zeros_like(theta))).all()
    radius = rows.outputs(theta)[:, :K].norm(dim=1)
    torch.testing.assert_close(radius, torch.full_like(radius, 2**0.5))


@pytest.mark.parametrize("exposure", [None, 1.0])
def test_the_matrix_of_inner_products_is_the_exact_curvature(exposure):
    rows = problem(exposure=exposure)
    theta = torch.from_numpy(np.random.default_rng(1).normal(size=(N, K + 1)))
    _, _, H = rows.expand(theta)
    for i in range(N):
        one = rows.take(torch.tensor([i]))
        exact = torch.autograd.functional.hessian(
            lambda t, one=one: differentiable(one, t[None]).sum(), theta[i]
        )
        torch.testing.assert_close(H[i], -exact)


def test_rows_far_from_their_optimum_converge(monkeypatch):
    rows = problem(exposure=1.0)
    part = rows.likelihoods[0]
    part.weights[0, :3] = 1e4  # full steps would overflow
    steps = []
    usual = Rows.expand
    monkeypatch.setattr(Rows, "expand", lambda self, t: steps.append(1) or usual(self, t))
    theta = maximize(rows)
    assert len(steps) < row_solver.MAX_STEPS
    _, gradient, H = rows.expand(theta)
    assert torch.linalg.solve(H, gradient).abs().max() < 1e-6
