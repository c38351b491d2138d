"""CCA, MCCA, kernel CCA and DCCA against cca-zoo, brute force and simulated data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from cca_zoo import linear, nonparametric
from scipy import sparse

from pmvge import MultiViewGraph
from pmvge.baselines import CCA, CDMCA, DCCA, MCCA, CvGE, KernelCCA
from pmvge.baselines.base import input_rows
from pmvge.baselines.dcca import draw_rows, total_correlation
from pmvge.baselines.moments import link_moments
from pmvge.errors import GraphError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # torch.jit, inside lightning
    from cca_zoo.deep.objectives import CCALoss


def linked_views(seed: int, sparse_rows: bool = False) -> MultiViewGraph:
    """Return a graph of two views with many-to-many links of small integer weights."""
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(40, 5)) + 2, rng.normal(size=(30, 4)) - 1
    W = rng.poisson(np.exp(0.8 * (A[:, :2] - 2) @ (B[:, :2] + 1).T - 1))
    return MultiViewGraph(
        {"a": sparse.csr_array(A) if sparse_rows else A, "b": B}, {("b", "a"): W.T}
    )


def repeated_rows(graph: MultiViewGraph) -> list[np.ndarray]:
    """Return aligned rows of each view, one per unit of link weight."""
    links = graph.links["b", "a"]
    count = links.weights.astype(int)
    return [
        graph.views["a"][np.repeat(links.cols, count)],
        graph.views["b"][np.repeat(links.rows, count)],
    ]


def correlations(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.array([np.corrcoef(A[:, k], B[:, k])[0, 1] for k in range(A.shape[1])])


def test_cca_is_cca_zoo_on_one_row_per_unit_of_weight():
    graph = linked_views(0)
    rows = repeated_rows(graph)
    ours = CCA(3, shrinkage=0.0).fit(graph)
    theirs = linear.CCA(3).fit(rows)
    A, B = ours.embed("a", rows[0]), ours.embed("b", rows[1])
    np.testing.assert_allclose(correlations(A, B), correlations(*theirs.transform(rows)), rtol=1e-5)
    for mine, other in zip((A, B), theirs.transform(rows), strict=True):
        assert (np.abs(correlations(mine, other)) > 1 - 1e-6).all()


def test_cca_of_sparse_rows_is_that_of_dense_rows():
    dense = CCA(3).fit(linked_views(1)).embeddings_
    thin = CCA(3).fit(linked_views(1, sparse_rows=True)).embeddings_
    for view in "ab":
        np.testing.assert_allclose(thin[view], dense[view], atol=1e-5)


def test_mcca_is_cca_zoo_on_aligned_rows():
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(100, 3))
    views = [Z @ rng.normal(size=(3, p)) + rng.normal(size=(100, p)) + p for p in (4, 6, 5)]
    rows = np.arange(100)
    graph = MultiViewGraph(
        dict(zip("abc", views, strict=True)),
        {("a", "b"): (rows, rows), ("a", "c"): (rows, rows), ("b", "c"): (rows, rows)},
    )
    ours = MCCA(3, shrinkage=0.0).fit(graph).embeddings_
    theirs = linear.MCCA(3).fit(views).transform(views)
    for view, other in zip("abc", theirs, strict=True):
        assert (np.abs(correlations(ours[view], other)) > 1 - 1e-4).all()


def test_mcca_accepts_links_of_some_view_pairs_only():
    graph = linked_views(3)
    rng = np.random.default_rng(3)
    C = rng.normal(size=(20, 3))
    both = MultiViewGraph(
        {"a": graph.views["a"], "b": graph.views["b"], "c": C},
        {
            ("a", "b"): graph.links["b", "a"].transposed().matrix(),
            ("b", "c"): rng.poisson(np.exp(graph.views["b"][:, :3] @ C.T / 2)),
        },
    )
    model = MCCA(2, shrinkage=0.1).fit(both)
    reference = CDMCA(2, shrinkage=0.1).fit(both)
    for view in "abc":
        assert (
            np.abs(correlations(model.embeddings_[view], reference.embeddings_[view])) > 0.9999
        ).all()


def test_kernel_cca_is_cca_zoo_on_aligned_rows():
    rng = np.random.default_rng(4)
    t = rng.uniform(0, 2 * np.pi, 80)
    X = np.c_[np.cos(t), np.sin(t)] + 0.1 * rng.normal(size=(80, 2))
    Y = np.c_[np.cos(2 * t), np.sin(2 * t)] + 0.1 * rng.normal(size=(80, 2))
    rows = np.arange(80)
    graph = MultiViewGraph({"a": X, "b": Y}, {("a", "b"): (rows, rows)})
    s = 0.2
    ours = KernelCCA(3, kernel="rbf", gamma=0.5, shrinkage=s).fit(graph)
    # Shrinkage s is relative to the mean variance t, cca-zoo's c is absolute:
    # s t / (1 - s) = c / (1 - c).
    theirs = []
    for view in (X, Y):
        K = np.exp(-0.5 * ((view[:, None] - view) ** 2).sum(-1))
        H = np.eye(80) - 1 / 80
        t = np.trace(H @ K @ H) / 80 / 79
        ratio = s * t / (1 - s)
        theirs.append(ratio / (1 + ratio))
    other = nonparametric.KCCA(3, kernel="rbf", gamma=0.5, shrinkage=theirs).fit([X, Y])
    for mine, view in zip("ab", other.transform([X, Y]), strict=True):
        assert (np.abs(correlations(ours.embeddings_[mine], view)) > 0.999).all()


def test_kernel_cca_with_a_linear_kernel_is_cvge():
    graph = linked_views(5)
    kernel = KernelCCA(3, kernel="linear", shrinkage=0.0).fit(graph)
    plain = CvGE(3, shrinkage=0.0).fit(graph)
    np.testing.assert_allclose(kernel.eigenvalues_, plain.eigenvalues_, rtol=1e-6)
    for view in "ab":
        assert (
            np.abs(correlations(kernel.embeddings_[view], plain.embeddings_[view])) > 0.9999
        ).all()


def circle_views(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two views of the same angle that have no linear correlation."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(0, 2 * np.pi, n)
    mix = np.random.default_rng(0)
    return (
        np.c_[np.cos(t), np.sin(t)] @ mix.normal(size=(2, 8)) + 0.1 * rng.normal(size=(n, 8)),
        np.c_[np.cos(2 * t), np.sin(3 * t)] @ mix.normal(size=(2, 6))
        + 0.1 * rng.normal(size=(n, 6)),
    )


@pytest.mark.parametrize(
    "method", [KernelCCA(2, random_state=0), DCCA(2, max_steps=200, random_state=0)]
)
def test_nonlinear_methods_find_correlations_of_unseen_rows_that_cca_misses(method):
    X, Y = circle_views(800, seed=1)
    rows = np.arange(800)
    graph = MultiViewGraph({"a": X, "b": Y}, {("a", "b"): (rows, rows)})
    new = circle_views(400, seed=2)
    linear_one = CCA(2).fit(graph)
    assert correlations(linear_one.embed("a", new[0]), linear_one.embed("b", new[1])).max() < 0.3
    method.fit(graph)
    assert correlations(method.embed("a", new[0]), method.embed("b", new[1])).min() > 0.8


# -- components ---------------------------------------------------------------------------


def test_total_correlation_is_cca_zoos_loss():
    rng = np.random.default_rng(6)
    Z = rng.normal(size=(50, 3))
    x, y = (torch.tensor(Z @ rng.normal(size=(3, 4)) + rng.normal(size=(50, 4))) for _ in range(2))
    ours = total_correlation(x, y, ridge=1e-12)
    theirs = -CCALoss(reg_covar=1e-10)([x, y])
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=0)


def test_total_correlation_has_a_gradient_where_eigenvalues_coincide():
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    x[:, 3:] = 0  # two constant outputs

    def slope(loss) -> torch.Tensor:
        z = x.clone().requires_grad_()
        return torch.autograd.grad(loss(z), z)[0]

    assert torch.isfinite(slope(lambda z: total_correlation(z, x, ridge=0.01))).all()
    # cca-zoo's loss uses eigenvectors, whose gradient does not exist here.
    assert not torch.isfinite(slope(lambda z: CCALoss(reg_covar=0.01)([z, x]))).all()


def test_links_are_drawn_in_proportion_to_their_weights():
    links = MultiViewGraph(
        {"a": 2, "b": 3}, {("a", "b"): ([0, 0, 1], [0, 2, 1], [1.0, 5.0, 4.0])}
    ).links
    batch = next(draw_rows(links["a", "b"], 20_000, np.random.default_rng(0)))
    np.testing.assert_allclose(np.bincount(batch) / 20_000, [0.1, 0.5, 0.4], atol=0.015)


@pytest.mark.parametrize("by_weight", [True, False])
@pytest.mark.parametrize("center", [True, False])
def test_moments_are_sums_over_links_and_nodes(by_weight, center):
    rng = np.random.default_rng(7)
    A, B = rng.normal(size=(6, 3)), sparse.random_array((5, 4), density=0.5, rng=rng, format="csr")
    graph = MultiViewGraph(
        {"a": A, "b": B, "c": 2},
        {
            ("a", "b"): rng.poisson(1.0, (6, 5)),
            ("a", "a"): np.triu(rng.poisson(1.0, (6, 6)), 1),
            ("c", "b"): rng.poisson(2.0, (2, 5)),
        },
    )
    moments = link_moments(graph, input_rows(graph), by_weight=by_weight, center=center)
    X = {"a": A, "b": B.toarray(), "c": np.eye(2)}
    weight = {view: np.zeros(len(rows)) for view, rows in X.items()}
    ends = [
        (a, i, b, j, w)
        for (a, b), links in graph.links.items()
        for i, j, w in zip(links.rows, links.cols, links.weights, strict=True)
    ]
    for a, i, b, j, w in ends:
        weight[a][i] += w
        weight[b][j] += w
    counts = weight if by_weight else {view: np.ones(len(rows)) for view, rows in X.items()}
    mean = {v: counts[v] @ X[v] / counts[v].sum() if center else 0 * X[v][0] for v in X}
    G, H = np.zeros((9, 9)), np.zeros((9, 9))

    def coded(view: str, i: int) -> np.ndarray:
        row = np.zeros(9)
        row[moments.columns[view]] = X[view][i] - mean[view]
        return row

    for view, rows in X.items():
        for i in range(len(rows)):
            G += counts[view][i] * np.outer(coded(view, i), coded(view, i))
    for a, i, b, j, w in ends:
        H += w * np.outer(coded(a, i), coded(b, j)) + w * np.outer(coded(b, j), coded(a, i))
    np.testing.assert_allclose(moments.G, G, atol=1e-10)
    np.testing.assert_allclose(moments.H, H, atol=1e-10)


def test_methods_on_aligned_rows_refuse_links_within_a_view():
    rng = np.random.default_rng(8)
    graph = MultiViewGraph(
        {"a": rng.normal(size=(5, 2)), "b": rng.normal(size=(4, 2))},
        {("a", "b"): np.ones((5, 4)), ("a", "a"): ([0], [1])},
    )
    for method in (CCA, DCCA, MCCA, KernelCCA):
        with pytest.raises(
            GraphError, match=f"{method.__name__}: expected links between views only"
        ):
            method(2).fit(graph)
