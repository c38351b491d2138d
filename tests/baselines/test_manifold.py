"""Isomap, locally linear embedding and multidimensional scaling: features alone."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist, squareform
from scipy.stats import spearmanr
from sklearn import manifold

from pmvge import MultiViewGraph
from pmvge.baselines import LLE, MDS, Isomap
from pmvge.errors import GraphError, NotInductive, ParameterError


def graph_of(X):
    return MultiViewGraph({"row": X}, {("row", "row"): ([0], [1])})


def fitted(method, X):
    return method.fit(graph_of(X)).embeddings_["row"]


def spiral(n, turns=2.0):
    """Return points at equal steps along a spiral, and their positions along it."""
    fine = np.linspace(1.0, 1 + 2 * np.pi * turns, 20_000)
    curve = np.column_stack([fine * np.cos(fine), fine * np.sin(fine)])
    length = np.concatenate([[0.0], np.linalg.norm(np.diff(curve, axis=0), axis=1).cumsum()])
    position = np.linspace(0, length[-1], n)
    return np.column_stack([np.interp(position, length, axis) for axis in curve.T]), position


@pytest.mark.parametrize("method", [Isomap(1, n_neighbors=4), LLE(1, n_neighbors=6)])
def test_a_spiral_is_unrolled(method):
    X, position = spiral(300)
    y = fitted(method, X).ravel()
    assert abs(spearmanr(y, position).statistic) > 0.999
    # A linear projection does not unroll it.
    first = np.linalg.svd(X - X.mean(axis=0))[0][:, 0]
    assert abs(spearmanr(first, position).statistic) < 0.5


def test_isomap_keeps_lengths_along_the_spiral():
    X, position = spiral(400)
    y = fitted(Isomap(1, n_neighbors=2), X).ravel().astype(float)
    assert np.ptp(y) == pytest.approx(position[-1], rel=0.01)


def test_isomap_unrolls_a_swiss_roll():
    rng = np.random.default_rng(0)
    angle, height = 1.5 * np.pi * (1 + 2 * rng.random(600)), 21 * rng.random(600)
    X = np.column_stack([angle * np.cos(angle), height, angle * np.sin(angle)])
    length = (angle * np.sqrt(1 + angle**2) + np.arcsinh(angle)) / 2  # of the arc up to there
    Y = fitted(Isomap(2, n_neighbors=8), X)
    assert abs(spearmanr(Y[:, 0], length).statistic) > 0.98
    assert abs(spearmanr(Y[:, 1], height).statistic) > 0.9


@pytest.mark.parametrize("method", [Isomap(2, n_neighbors=8), LLE(2, n_neighbors=8)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_embedding_training_rows_again_gives_the_same_vectors(method, kind):
    X = np.random.default_rng(0).random((200, 3))
    method.fit(graph_of(kind(X)))
    Y = method.embeddings_["row"]
    away = np.linalg.norm(method.embed("row", kind(X)) - Y, axis=1)
    assert np.median(away) < 0.02 * np.median(pdist(Y))
    # New rows are close to their neighbours.
    near = method.embed("row", kind(X + 1e-3))
    assert np.median(np.linalg.norm(near - Y, axis=1)) < 0.05 * np.median(pdist(Y))


def same_up_to_sign(Y, Z, **tolerance):
    np.testing.assert_allclose(np.abs(Y), np.abs(Z), **tolerance)
    np.testing.assert_allclose(Y @ Y.T, Z @ Z.T, **tolerance)


def test_isomap_equals_scikit_learns():
    X = np.random.default_rng(0).normal(size=(120, 5))
    theirs = manifold.Isomap(n_neighbors=9, n_components=3, eigen_solver="dense").fit(X[:100])
    ours = Isomap(3, n_neighbors=9).fit(graph_of(X[:100]))
    same_up_to_sign(ours.embeddings_["row"], theirs.embedding_, atol=1e-4)
    same_up_to_sign(ours.embed("row", X[100:]), theirs.transform(X[100:]), atol=1e-4)


def test_lle_equals_scikit_learns_with_variance_one():
    X = np.random.default_rng(0).normal(size=(120, 5))
    theirs = manifold.LocallyLinearEmbedding(
        n_neighbors=9, n_components=3, reg=0.01, eigen_solver="dense"
    ).fit(X[:100])
    ours = LLE(3, n_neighbors=9, reg=0.01, random_state=0).fit(graph_of(X[:100]))
    Y = ours.embeddings_["row"]
    same_up_to_sign(Y, 10 * theirs.embedding_, atol=1e-4)
    same_up_to_sign(ours.embed("row", X[100:]), 10 * theirs.transform(X[100:]), atol=1e-4)
    np.testing.assert_allclose(Y.T @ Y / 100, np.eye(3), atol=1e-5)
    np.testing.assert_allclose(Y.mean(axis=0), 0, atol=1e-5)


def test_lle_gives_the_same_result_with_both_eigensolvers(monkeypatch):
    X = np.random.default_rng(0).random((150, 3))
    Y = fitted(LLE(2, n_neighbors=10, random_state=0), X)
    monkeypatch.setattr("pmvge.baselines.manifold.DENSE_ROWS", 0)
    same_up_to_sign(fitted(LLE(2, n_neighbors=10, random_state=0), X), Y, atol=1e-3)


def test_lle_uses_the_dense_eigensolver_if_arpack_fails(monkeypatch):
    """With pairs of nearest neighbours, shift-invert divides by 0."""
    X = 10.0 * np.arange(20)[:, None] + np.tile([[0.0], [1.0]], (10, 1))
    Y = fitted(LLE(1, n_neighbors=1, random_state=0), X)
    monkeypatch.setattr("pmvge.baselines.manifold.DENSE_ROWS", 0)
    with pytest.raises(ValueError, match="ARPACK"):
        manifold.LocallyLinearEmbedding(n_neighbors=1, n_components=1, eigen_solver="arpack").fit(X)
    np.testing.assert_array_equal(fitted(LLE(1, n_neighbors=1, random_state=0), X), Y)


def test_lle_raises_if_reg_is_too_small():
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 2)), 8, axis=0) * 1e-3
    with pytest.raises(ParameterError, match="larger reg"):
        fitted(LLE(1, n_neighbors=20, reg=1e-300, random_state=0), X)


@pytest.mark.parametrize("metric", [True, False])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_mds_reproduces_points_in_the_plane(metric, kind):
    rng = np.random.default_rng(0)
    plane = rng.random((40, 2))
    X = plane @ np.linalg.qr(rng.normal(size=(6, 6)))[0][:2]
    Y = fitted(MDS(2, metric=metric, random_state=0), kind(X)).astype(float)
    if metric:
        np.testing.assert_allclose(pdist(Y), pdist(plane), atol=1e-4)
    else:  # only the order is kept, the scale is free
        assert np.corrcoef(pdist(Y), pdist(plane))[0, 1] > 0.999


def test_mds_keeps_distances_far_from_the_origin():
    plane = np.random.default_rng(0).random((40, 2))
    Y = fitted(MDS(2, random_state=0), plane + 1e7)
    np.testing.assert_allclose(pdist(Y), pdist(plane), atol=1e-4)


def test_nonmetric_mds_keeps_the_order_of_distances():
    """With steps at right angles, distances are the roots of those on a line, in the same order."""
    line = np.sort(np.random.default_rng(0).random(30))
    steps = np.tril(np.ones((30, 29)), -1) * np.sqrt(np.diff(line))
    np.testing.assert_allclose(pdist(steps) ** 2, pdist(line[:, None]), atol=1e-12)
    settings = {"random_state": 0, "max_iter": 300, "tol": 1e-9}
    kruskal = MDS(1, metric=False, **settings).fit(graph_of(steps))
    assert kruskal.stress_ < 0.02
    assert MDS(1, **settings).fit(graph_of(steps)).stress_ > 0.2
    assert abs(spearmanr(kruskal.embeddings_["row"].ravel(), line).statistic) > 0.999


def test_mds_lowers_the_stress_of_the_principal_components():
    X = np.random.default_rng(0).normal(size=(60, 10))
    mds = MDS(2, random_state=0, max_iter=300, tol=1e-8).fit(graph_of(X))
    Y = mds.embeddings_["row"].astype(float)

    def stress(Z):
        return np.sqrt(((pdist(Z) - pdist(X)) ** 2).sum() / (pdist(Z) ** 2).sum())

    U, s, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    assert mds.stress_ == pytest.approx(stress(Y), rel=1e-4)
    assert mds.stress_ < 0.9 * stress(U[:, :2] * s[:2])
    # It is as low as from many random starts.
    found = manifold.smacof(
        squareform(pdist(X)), n_components=2, n_init=8, random_state=0, normalized_stress=True
    )
    assert mds.stress_ < 1.03 * found[1]


@pytest.mark.parametrize("metric", [True, False])
def test_mds_equals_scikit_learns_from_the_principal_components(metric):
    X = np.random.default_rng(0).normal(size=(50, 6))
    U, s, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    settings = {"metric": metric, "max_iter": 20, "eps": 1e-5, "normalized_stress": True}
    theirs, stress = manifold.smacof(squareform(pdist(X)), init=U[:, :2] * s[:2], **settings)
    ours = MDS(2, metric=metric, max_iter=20, random_state=0).fit(graph_of(X))
    np.testing.assert_allclose(pdist(ours.embeddings_["row"]), pdist(theirs), atol=1e-4)
    assert ours.stress_ == pytest.approx(stress, rel=1e-5)


def test_enough_dimensions_keep_all_distances():
    X = np.random.default_rng(0).normal(size=(30, 4))
    mds = MDS(10, random_state=0).fit(graph_of(X))
    np.testing.assert_allclose(pdist(mds.embeddings_["row"]), pdist(X), rtol=1e-4)
    assert (mds.embeddings_["row"][:, 4:] == 0).all()
    assert mds.stress_ < 1e-6
    assert mds.n_iter_ <= 3


METHODS = [
    Isomap(50),
    Isomap(3, n_neighbors=2),
    LLE(50, random_state=0),
    LLE(3, n_neighbors=2, random_state=0),
    MDS(50, random_state=0),
    MDS(3, metric=False, random_state=0),
]


def degenerate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    return {
        "copies": np.repeat(X[:3], 10, axis=0),
        "all one": np.ones((12, 3)),
        "all one, sparse": sparse.csr_array(np.ones((12, 3))),
        "no entry": sparse.csr_array((12, 3)),
        "apart": np.vstack([X, X + 100, X - 1000]),
        "two rows": X[:2],
        "wide": sparse.csr_array(rng.poisson(0.3, size=(8, 40))),
        "integers": rng.integers(0, 2, size=(20, 5)),
        "tiny": 1e-25 * X,
        "huge": 1e30 * X,
        "images": rng.normal(size=(12, 3, 2)),
    }


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("X", degenerate().values(), ids=degenerate().keys())
def test_degenerate_rows_have_finite_vectors(method, X):
    Y = fitted(method, X)
    assert Y.shape == (X.shape[0], method.n_components)
    assert np.isfinite(Y).all()
    if method.inductive:
        assert np.isfinite(method.embed("row", X[:2])).all()
        assert method.embed("row", X[:0]).shape == (0, method.n_components)


def test_isomap_joins_components_at_their_distance():
    corners = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    Y = fitted(Isomap(2, n_neighbors=2), np.repeat(corners, 10, axis=0))
    np.testing.assert_allclose(pdist(Y[::10]), [3, 4, 5], rtol=1e-5)
    np.testing.assert_allclose(Y, np.repeat(Y[::10], 10, axis=0), atol=1e-5)


def test_isomap_leaves_out_axes_of_negative_eigenvalues():
    """The centre of a cross is at distance 1 from all ends, which are 2 apart."""
    cross = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1], [0.0, 1e-3]])
    Y = fitted(Isomap(20, n_neighbors=1), cross)
    used = np.abs(Y).max(axis=0) > 1e-6
    assert 2 <= used.sum() < 6
    assert not used[6:].any()


@pytest.mark.parametrize("method", [Isomap(2), LLE(2), MDS(2)])
def test_a_single_row_has_the_vector_0(method):
    X = np.ones((1, 3))
    graph = MultiViewGraph.trusted({"row": 1}, {"row": X}, {"row": np.arange(1)}, {}, given_ids=())
    assert (method.fit(graph).embeddings_["row"] == 0).all()
    if method.inductive:
        assert (method.embed("row", X) == 0).all()
    else:
        with pytest.raises(NotInductive):
            method.embed("row", X)


@pytest.mark.parametrize("method", [Isomap(2), LLE(2), MDS(2)])
def test_a_view_without_features_is_refused(method):
    with pytest.raises(GraphError, match="expected features in every view"):
        method.fit(MultiViewGraph({"row": 4}, {("row", "row"): ([0], [1])}))


@pytest.mark.parametrize("method", [Isomap(2), LLE(2, random_state=0), MDS(2, random_state=0)])
def test_links_are_ignored(method):
    X = np.random.default_rng(0).normal(size=(40, 3))
    other = MultiViewGraph({"row": X}, {("row", "row"): ([3, 5], [7, 9], [2.0, 8.0])})
    Y = fitted(method, X)
    np.testing.assert_array_equal(method.fit(other).embeddings_["row"], Y)
