"""The linear methods are special cases of each other, checked on random data."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.linalg import eigh, subspace_angles

from pmvge import MultiViewGraph, PMvGE
from pmvge.baselines import CCA, CDMCA, HIMFAC, LPP, MCCA, SGE, CvGE
from pmvge.baselines.cdmca import quadratic_pmvge
from pmvge.errors import GraphError, ParameterError


def correlated_views(seed: int, n: int = 120, widths: tuple[int, ...] = (6, 5)) -> list[np.ndarray]:
    """Return views of the same n entities, with three common directions."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3)) * [2.0, 1.0, 0.6]
    return [Z @ rng.normal(size=(3, p)) + rng.normal(size=(n, p)) + 3 for p in widths]


def one_to_one(views: list[np.ndarray]) -> MultiViewGraph:
    rows = np.arange(len(views[0]))
    names = "abc"[: len(views)]
    return MultiViewGraph(
        dict(zip(names, views, strict=True)),
        {(d, e): (rows, rows) for d in names for e in names if d < e},
    )


def many_to_many(seed: int, within: bool = False) -> MultiViewGraph:
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(40, 5)), rng.normal(size=(30, 4))
    W = rng.poisson(np.exp(0.7 * A[:, :2] @ B[:, :2].T - 1))
    links = {("a", "b"): W}
    if within:
        links["a", "a"] = np.triu(rng.poisson(np.exp(0.5 * A @ A.T - 2)), 1)
    return MultiViewGraph({"a": A, "b": B}, links)


def assert_same_up_to_scale(ours, theirs, views, scale):
    """Check that every axis equals the other model's times one factor, up to its sign."""
    left = np.vstack([ours[v] for v in views]).astype(float)
    right = np.vstack([theirs[v] for v in views]).astype(float)
    signs = np.sign((left * right).sum(0))
    np.testing.assert_allclose(
        left, scale * signs * right, rtol=1e-3, atol=1e-4 * np.abs(left).max()
    )


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_cca_is_two_view_cdmca_with_one_to_one_links(shrinkage):
    graph = one_to_one(correlated_views(0))
    cca = CCA(4, shrinkage=shrinkage).fit(graph).embeddings_
    cdmca = CDMCA(4, shrinkage=shrinkage).fit(graph).embeddings_
    assert_same_up_to_scale(cca, cdmca, "ab", np.sqrt(2))  # each view has variance 1, not both


@pytest.mark.parametrize("shrinkage", [0.0, 0.2])
def test_cca_on_one_row_per_link_is_cdmca_on_many_to_many_links(shrinkage):
    graph = many_to_many(1)
    cca = CCA(3, shrinkage=shrinkage).fit(graph).embeddings_
    cdmca = CDMCA(3, shrinkage=shrinkage).fit(graph).embeddings_
    assert_same_up_to_scale(cca, cdmca, "ab", np.sqrt(2))


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_mcca_is_cdmca_with_one_to_one_links_between_all_views(shrinkage):
    graph = one_to_one(correlated_views(2, widths=(6, 5, 7)))
    mcca = MCCA(4, shrinkage=shrinkage).fit(graph).embeddings_
    cdmca = CDMCA(4, shrinkage=shrinkage).fit(graph).embeddings_
    assert_same_up_to_scale(mcca, cdmca, "abc", np.sqrt(3))


@pytest.mark.parametrize("within", [False, True])
def test_cvge_is_two_view_cdmca(within):
    graph = many_to_many(3, within)
    cvge, cdmca = CvGE(4).fit(graph), CDMCA(4).fit(graph)
    for view in "ab":
        np.testing.assert_array_equal(cvge.embeddings_[view], cdmca.embeddings_[view])


def test_himfac_minimises_distances_where_cdmca_maximises_inner_products():
    """HIMFAC's problem, X^T L X psi = theta X^T D X psi, is solved by brute force."""
    graph = many_to_many(4, within=True)
    model = HIMFAC(3, shrinkage=0.0).fit(graph)
    W = np.zeros((70, 70))
    links = graph.links["a", "b"].matrix().toarray()
    W[:40, 40:], W[40:, :40] = links, links.T
    W[:40, :40] = graph.links["a", "a"].matrix().toarray()
    d = W.sum(1)
    X = np.zeros((70, 9))
    for rows, columns, view in (
        (slice(0, 40), slice(0, 5), "a"),
        (slice(40, 70), slice(5, 9), "b"),
    ):
        x = graph.views[view]
        X[rows, columns] = x - d[rows] @ x / d[rows].sum()
    theta, psi = eigh(X.T @ (np.diag(d) - W) @ X, X.T @ np.diag(d) @ X)
    np.testing.assert_allclose(1 - model.eigenvalues_, theta[:3], atol=1e-9)
    Y = np.vstack([model.embeddings_[v] for v in "ab"])
    for k in range(3):
        want = X @ psi[:, k]
        np.testing.assert_allclose(Y[:, k], np.sign(want @ Y[:, k]) * want, atol=1e-5)


def test_lpp_is_one_view_cdmca():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 5))
    W = np.triu(rng.poisson(np.exp(X @ X.T / 5)), 1)
    graph = MultiViewGraph({"node": X}, {("node", "node"): W})
    for settings in ({}, {"shrinkage": 0.5}, {"center": False}):
        lpp, cdmca = LPP(4, **settings).fit(graph), CDMCA(4, **settings).fit(graph)
        np.testing.assert_array_equal(lpp.embeddings_["node"], cdmca.embeddings_["node"])


@pytest.mark.parametrize("parts", [1, 3])
def test_sge_is_lpp_on_one_hot_vectors(parts):
    rng = np.random.default_rng(6)
    blocks = [
        np.triu(rng.random((20, 20)) < 0.4, 1) * rng.uniform(1, 2, (20, 20)) for _ in range(parts)
    ]
    W = sparse.block_diag(blocks).toarray()
    n = len(W)
    links = {("node", "node"): W}
    sge = SGE(5, random_state=0).fit(MultiViewGraph({"node": n}, links))
    D = np.diag((W + W.T).sum(1))
    for X in (n, np.eye(n), sparse.eye_array(n, format="csr")):  # an int: one-hot by definition
        lpp = LPP(5, shrinkage=0.0).fit(MultiViewGraph({"node": X}, links))
        np.testing.assert_allclose(lpp.eigenvalues_, 1 - sge.eigenvalues_, atol=1e-8)
        Y, Z = (m.embeddings_["node"].astype(float) for m in (sge, lpp))
        # Equal eigenvalues leave a rotation free: compare the projections on the axes' span.
        np.testing.assert_allclose(Y @ Y.T @ D, Z @ Z.T @ D, atol=1e-4)


# -- supplement C ---------------------------------------------------------------------------


def two_views_and_all_pairs(seed: int) -> MultiViewGraph:
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(30, 4)) + 1, rng.normal(size=(25, 3))
    C = rng.normal(size=(7, 2))
    A_, B_ = A @ C[:4], B @ C[4:]
    return MultiViewGraph(
        {"a": A, "b": B},
        {
            ("a", "b"): rng.poisson(np.exp(0.3 * A_ @ B_.T)),
            ("a", "a"): np.triu(rng.poisson(np.exp(0.3 * A_ @ A_.T)), 1),
            ("b", "b"): np.triu(rng.poisson(np.exp(0.3 * B_ @ B_.T)), 1),
        },
    )


def test_approximate_pmvge_is_modified_cdmca_with_scaled_axes():
    graph = two_views_and_all_pairs(0)
    cdmca = CDMCA(4, constraint="nodes", shrinkage=0.0).fit(graph)
    solution = quadratic_pmvge(graph, 4, alpha=0.7)
    np.testing.assert_allclose(solution.gamma, cdmca.eigenvalues_ / 0.7, rtol=1e-9)
    for view in "ab":
        scaled = cdmca.weights_[view] * np.sqrt(solution.gamma)
        np.testing.assert_allclose(solution.weights[view], scaled, atol=1e-12)
        np.testing.assert_array_equal(solution.means[view], cdmca.means_[view])


def test_approximate_pmvge_maximises_the_quadratic_likelihood():
    """The quadratic likelihood is summed over all pairs of entities."""
    graph = two_views_and_all_pairs(1)
    solution = quadratic_pmvge(graph, 3)
    alpha = solution.alpha
    n = graph.n_nodes
    W = np.zeros((n, n))
    W[:30, 30:] = graph.links["a", "b"].matrix().toarray()
    W[:30, :30] = np.triu(graph.links["a", "a"].matrix().toarray())
    W[30:, 30:] = np.triu(graph.links["b", "b"].matrix().toarray())
    W = torch.from_numpy(W + W.T)
    assert alpha == pytest.approx(float(W.sum()) / n**2)
    X = torch.zeros(n, 7, dtype=torch.float64)
    X[:30, :4] = torch.from_numpy(graph.views["a"] - graph.views["a"].mean(0))
    X[30:, 4:] = torch.from_numpy(graph.views["b"] - graph.views["b"].mean(0))

    def quadratic(psi: torch.Tensor) -> torch.Tensor:
        g = X @ psi @ psi.T @ X.T
        return 0.5 * alpha * (-0.5 * g**2 + (W / alpha - 1) * g).sum()

    psi = torch.from_numpy(np.vstack([solution.weights["a"], solution.weights["b"]]))
    psi.requires_grad_()
    best = quadratic(psi)
    (slope,) = torch.autograd.grad(best, psi)
    assert slope.abs().max() < 1e-8 * float(best.detach().abs())
    generator = torch.Generator().manual_seed(0)
    for size in (0.01, 0.1, 1.0):
        step = torch.randn(psi.shape, generator=generator, dtype=torch.float64)
        assert quadratic(psi.detach() + size * psi.detach().abs().mean() * step) < best


def test_approximate_pmvge_errors():
    graph = two_views_and_all_pairs(3)
    for alpha in (0, -1.0, float("nan"), "x"):
        with pytest.raises(ParameterError, match="quadratic_pmvge: alpha: expected a number"):
            quadratic_pmvge(graph, 2, alpha=alpha)
    for K in (0, -1, 1.5):
        with pytest.raises(ParameterError, match="quadratic_pmvge: n_components: expected an int"):
            quadratic_pmvge(graph, K)
    with pytest.raises(GraphError, match="expected a MultiViewGraph, got int"):
        quadratic_pmvge(3, 2)


def subspace_angle(A: np.ndarray, B: np.ndarray, X: np.ndarray) -> float:
    """Return the largest principal angle, in degrees, between the spans of X A and X B."""
    return float(np.degrees(subspace_angles(X @ A, X @ B)[0]))


def test_the_likelihood_estimate_approaches_the_closed_form_for_weak_signals():
    """Weights equal their expectation, so the difference comes from the curvature of exp only."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(150, 6))
    X -= X.mean(0)
    truth = np.linalg.qr(rng.normal(size=(6, 2)))[0] * [1.0, 0.8]
    start = rng.normal(size=(2, 6))
    angles = []
    for strength in (0.7, 0.35, 0.175):
        Y = strength * X @ truth
        graph = MultiViewGraph({"node": X}, {("node", "node"): np.triu(np.exp(Y @ Y.T), 1)})
        linear = torch.nn.Linear(6, 2, bias=False)
        linear.weight.data = torch.from_numpy(0.1 * strength * start).float()
        model = PMvGE(
            2,
            encoder={"node": linear},
            similarity="inner",
            batch_size=150**2,
            max_steps=600,
            learning_rate=0.03 * strength,
            schedule="cosine",
            patience=None,
            effects="none",
            weight_decay=0.0,
            random_state=0,
        ).fit(graph)
        mle = np.linalg.lstsq(X, model.embeddings_["node"], rcond=None)[0]
        assert subspace_angle(mle, truth, X) < 0.1  # the truth is found
        angles.append(subspace_angle(mle, quadratic_pmvge(graph, 2).weights["node"], X))
    assert angles[0] > 3 * angles[1]
    assert angles[1] > 1.3 * angles[2]
    assert angles[2] < 2
