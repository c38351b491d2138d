"""The stochastic block model: simulated blocks are found, and the bound never falls."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score

from pmvge import MultiViewGraph
from pmvge.baselines import SBM
from pmvge.baselines.flattening import flatten
from pmvge.baselines.variational_em import fit_blocks, greedy_partition, update_memberships
from pmvge.errors import InputError, NotInductive

PLANTED = {
    "assortative": ([[0.2, 0.02, 0.02], [0.02, 0.2, 0.02], [0.02, 0.02, 0.2]], [80, 60, 60]),
    "disassortative": ([[0.01, 0.15], [0.15, 0.01]], [80, 80]),
    "mixed": ([[0.3, 0.02, 0.1], [0.02, 0.02, 0.2], [0.1, 0.2, 0.01]], [80, 80, 60]),
    "ring": (0.01 + 0.2 * np.roll(np.eye(5), 1, 0) + 0.2 * np.roll(np.eye(5), -1, 0), [50] * 5),
    "one block": ([[0.1]], [50]),
}


def planted(beta, sizes, seed=0, features=None):
    """Return a random graph of blocks with rates beta, and the blocks of its nodes."""
    rng = np.random.default_rng(seed)
    blocks = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    i, j = np.triu_indices(len(blocks), 1)
    weights = rng.poisson(np.asarray(beta)[blocks[i], blocks[j]]).astype(float)
    linked = weights > 0
    links = {("node", "node"): (i[linked], j[linked], weights[linked])}
    view = len(blocks) if features is None else features(blocks, rng)
    return MultiViewGraph({"node": view}, links), blocks


def noisy(blocks, rng):
    return 3 * np.eye(7)[blocks] + rng.normal(size=(len(blocks), 7))


def dense(graph):
    return flatten(graph).W.toarray()


def bound_by_loops(W, tau, beta, pi):
    n, C = tau.shape
    total = 0.0
    for i in range(n):
        for k in range(C):
            if tau[i, k] > 0:
                total += tau[i, k] * (np.log(pi[k]) - np.log(tau[i, k]))
        for j in range(i):
            for k in range(C):
                for m in range(C):
                    mean = beta[k, m]
                    term = W[i, j] * np.log(mean) if W[i, j] and mean else 0.0
                    total += tau[i, k] * tau[j, m] * (term - mean)
    return total


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", PLANTED)
def test_planted_blocks_are_found(kind, seed):
    beta, sizes = PLANTED[kind]
    graph, blocks = planted(beta, sizes, seed)
    sbm = SBM(len(sizes), random_state=seed).fit(graph)
    assert adjusted_rand_score(blocks, sbm.blocks_) > 0.95
    order = [np.bincount(sbm.blocks_[blocks == b]).argmax() for b in range(len(sizes))]
    np.testing.assert_allclose(sbm.beta_[np.ix_(order, order)], beta, atol=0.03)
    np.testing.assert_allclose(sbm.proportions_[order], np.divide(sizes, sum(sizes)), atol=0.03)


@pytest.mark.parametrize("kind", ["disassortative", "mixed"])
def test_random_starts_find_planted_blocks(kind):
    beta, sizes = PLANTED[kind]
    graph, blocks = planted(beta, sizes)
    W, C = flatten(graph).W, len(sizes)
    found = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        start = greedy_partition(W, rng.permutation(np.arange(len(blocks)) % C), C, rng)
        fit = fit_blocks(W, start, C, rng, max_iter=100, least_gain=1e-3)
        found.append((fit.elbo_path[-1], adjusted_rand_score(blocks, fit.tau.argmax(axis=1))))
    assert max(found)[1] > 0.95


def test_the_best_of_the_starts_is_kept():
    graph, _ = planted(*PLANTED["ring"])
    reached = [SBM(5, n_starts=s, max_iter=3, random_state=0).fit(graph).elbo_ for s in (1, 2, 6)]
    assert sorted(reached) == reached


def test_beta_is_the_mean_weight_of_the_pairs_of_two_blocks():
    graph, _ = planted(*PLANTED["mixed"])
    sbm = SBM(4, random_state=0).fit(graph)  # one block too many: some memberships are soft
    W, tau = dense(graph), sbm.memberships_
    weight, pairs = np.zeros((4, 4)), np.zeros((4, 4))
    for i in range(len(W)):
        for j in range(len(W)):
            if i != j:
                both = np.outer(tau[i], tau[j])
                weight += W[i, j] * both
                pairs += both
    np.testing.assert_allclose(sbm.beta_, weight / pairs, rtol=1e-8)
    np.testing.assert_allclose(tau.sum(axis=1), 1)
    np.testing.assert_allclose(sbm.proportions_, tau.mean(axis=0))
    np.testing.assert_array_equal(sbm.blocks_, tau.argmax(axis=1))


def test_beta_of_separated_blocks_is_their_density():
    beta, sizes = [[0.6, 0.01], [0.01, 0.4]], [40, 30]
    graph, _ = planted(beta, sizes)
    sbm = SBM(2, random_state=0).fit(graph)
    W, z = dense(graph), sbm.blocks_
    for k in range(2):
        for m in range(2):
            pairs = [W[i, j] for i in np.flatnonzero(z == k) for j in np.flatnonzero(z == m)]
            n_pairs = len(pairs) - (k == m) * (z == k).sum()
            assert sbm.beta_[k, m] == pytest.approx(sum(pairs) / n_pairs, rel=1e-6)


def test_the_bound_equals_its_definition():
    graph, _ = planted([[0.5, 0.1], [0.1, 0.3]], [12, 10])
    sbm = SBM(3, random_state=0).fit(graph)
    expected = bound_by_loops(dense(graph), sbm.memberships_, sbm.beta_, sbm.proportions_)
    assert sbm.elbo_ == pytest.approx(expected, rel=1e-9)
    assert sbm.elbo_path_[-1] == sbm.elbo_


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("C", [2, 5, 12])
def test_the_bound_never_falls(kind, C):
    graph, _ = planted(*PLANTED[kind])
    W = flatten(graph).W
    for seed in range(2):
        rng = np.random.default_rng(seed)
        path = fit_blocks(W, rng.integers(C, size=W.shape[0]), C, rng, 40, -np.inf).elbo_path
        assert len(path) == 40
        assert np.diff(path).min() > -1e-9 * abs(path[-1])


def test_moving_all_nodes_at_once_does_not_lower_the_bound():
    """Two blocks without links within them, nearly swapped: full steps would oscillate."""
    beta = np.array([[0.01, 1.0], [1.0, 0.01]])
    n = 16
    W = sparse.csr_array(1.0 - np.eye(n))  # every node prefers the other block
    tau = np.column_stack([np.full(n, 0.9), np.full(n, 0.1)])
    bounds = [bound_by_loops(W.toarray(), tau, beta, tau.mean(axis=0))]
    for _ in range(30):
        update_memberships(W, tau, beta, np.arange(n))
        bounds.append(bound_by_loops(W.toarray(), tau, beta, tau.mean(axis=0)))
    assert np.diff(bounds).min() > -1e-9
    assert bounds[-1] > bounds[0] + 1
    np.testing.assert_allclose(tau.sum(axis=1), 1)


@pytest.mark.parametrize("seed", range(12))
def test_steps_are_halved_until_the_bound_does_not_fall(seed):
    rng = np.random.default_rng(seed)
    n, beta = 8, np.array([[0.02, 1.0], [1.0, 0.02]]) * rng.uniform(0.5, 2)
    W = rng.poisson(1.0, size=(n, n)) * (1.0 - np.eye(n))
    W = np.triu(W) + np.triu(W).T
    old = rng.dirichlet([5 + seed, 1], size=n)
    pi, new = old.mean(axis=0), old.copy()
    update_memberships(sparse.csr_array(W), new, beta, np.arange(n))
    best = np.empty_like(old)
    for i in range(n):
        pull = np.log(pi)
        for j in set(range(n)) - {i}:
            pull = pull + (W[i, j] * np.log(beta) - beta) @ old[j]
        best[i] = np.exp(pull - pull.max()) / np.exp(pull - pull.max()).sum()

    def rises(t):
        new_bound = bound_by_loops(W, old + t * (best - old), beta, pi)
        return new_bound >= bound_by_loops(W, old, beta, pi)

    t = next(t for t in 0.5 ** np.arange(20) if rises(t))
    np.testing.assert_allclose(new, old + t * (best - old), atol=1e-9)


def test_the_update_of_one_node_is_optimal():
    """The closed form equals a numerical search over the simplex."""
    graph, blocks = planted([[0.5, 0.1], [0.1, 0.3]], [6, 6])
    W = flatten(graph).W
    tau = 0.8 * np.eye(2)[blocks] + 0.1
    beta, pi = np.array([[0.5, 0.1], [0.1, 0.3]]), tau.mean(axis=0)
    update_memberships(W, tau, beta, np.array([3]))

    def at(p):
        other = tau.copy()
        other[3] = p, 1 - p
        return bound_by_loops(W.toarray(), other, beta, pi)

    grid = np.linspace(0.001, 0.999, 999)
    assert tau[3, 0] == pytest.approx(grid[np.argmax([at(p) for p in grid])], abs=0.002)


def degenerate():
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(20, 1)
    some = rng.random(len(i)) < 0.2
    return {
        "isolated": (50, (i[some], j[some])),
        "one link": (6, ([0], [1])),
        "two nodes": (2, ([0], [1])),
        "not integers": (20, (i[some], j[some], rng.gamma(0.3, size=some.sum()) + 1e-9)),
        "large weights": (20, (i[some], j[some], 1e6 * rng.random(some.sum()) + 1e-3)),
        "complete": (20, (i, j)),
        "matching": (20, (np.arange(0, 20, 2), np.arange(1, 20, 2))),
    }


@pytest.mark.parametrize("C", [1, 3, 60])
@pytest.mark.parametrize("name", degenerate())
def test_degenerate_graphs_have_finite_results(name, C):
    n, links = degenerate()[name]
    graph = MultiViewGraph({"node": n}, {("node", "node"): links})
    sbm = SBM(C, n_starts=4, random_state=0).fit(graph)
    Y = sbm.embeddings_["node"]
    np.testing.assert_array_equal(Y, np.eye(C)[sbm.blocks_])
    assert sbm.beta_.shape == (C, C)
    assert sbm.proportions_.shape == (C,)
    assert np.isfinite(sbm.beta_).all()
    assert np.isfinite(sbm.elbo_path_).all()
    assert (sbm.beta_ <= dense(graph).max() * (1 + 1e-9)).all()
    assert np.diff(sbm.elbo_path_, prepend=-np.inf).min() > -1e-9 * abs(sbm.elbo_)


def test_beta_scales_with_the_weights():
    i, j = np.nonzero(np.triu(np.kron(np.eye(2), np.ones((10, 10))), 1))
    graph = MultiViewGraph({"node": 20}, {("node", "node"): (i, j, np.full(len(i), 2.5))})
    sbm = SBM(2, random_state=0).fit(graph)
    np.testing.assert_allclose(sbm.beta_, 2.5 * np.eye(2), atol=1e-6)


def test_blocks_ignore_features():
    plain, _ = planted(*PLANTED["mixed"])
    X = np.random.default_rng(1).normal(size=(plain.n_nodes, 4))
    links = dict(plain.links)
    featured = MultiViewGraph({"node": X}, {pair: link.matrix() for pair, link in links.items()})
    ours, theirs = SBM(3, random_state=0).fit(plain), SBM(3, random_state=0).fit(featured)
    np.testing.assert_array_equal(ours.blocks_, theirs.blocks_)


# -- new rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_new_rows_get_the_block_of_their_features(kind):
    graph, _ = planted(*PLANTED["mixed"], features=lambda b, rng: kind(noisy(b, rng)))
    sbm = SBM(3, random_state=0).fit(graph)
    new = np.random.default_rng(9).integers(3, size=200)
    X = noisy(new, np.random.default_rng(10))
    Y = sbm.embed("node", kind(X))
    assert adjusted_rand_score(new, Y.argmax(axis=1)) > 0.8
    np.testing.assert_array_equal(Y.sum(axis=1), 1)
    assert sbm.embed("node", kind(X[:0])).shape == (0, 3)
    trained = graph.views["node"]
    plain = LogisticRegression(max_iter=500).fit(trained, sbm.blocks_)
    assert np.mean(plain.predict(kind(X)) == Y.argmax(axis=1)) > 0.95


def test_more_blocks_than_nodes_with_features():
    graph, _ = planted([[0.2]], [30], features=lambda b, rng: 10 * rng.normal(size=(30, 40)))
    sbm = SBM(50, n_starts=2, random_state=0).fit(graph)
    assert len(np.unique(sbm.blocks_)) > 15
    Y = sbm.embed("node", graph.views["node"])
    np.testing.assert_array_equal(Y.argmax(axis=1), sbm.blocks_)  # 40 features separate 30 rows


def test_membership_rows_get_their_most_probable_block():
    tau = [[0.2, 0.5, 0.3], [0.0, 0.0, 1.0]]
    expected = [[0, 1, 0], [0, 0, 1]]
    for features in (None, noisy):
        graph, _ = planted(*PLANTED["mixed"], features=features)
        sbm = SBM(3, random_state=0).fit(graph)
        for X in (tau, np.array(tau), sparse.csr_array(tau)):
            np.testing.assert_array_equal(sbm.embed("node", X), expected)
        np.testing.assert_array_equal(sbm.embed("node", sbm.memberships_), sbm.embeddings_["node"])


def test_rows_as_wide_as_the_features_are_features():
    """Rows of the width of the features are features, even if they sum to 1."""
    graph, _ = planted(*PLANTED["mixed"], features=lambda b, rng: np.eye(3)[(b + 1) % 3])
    sbm = SBM(3, random_state=0).fit(graph)
    Y = sbm.embed("node", graph.views["node"])
    assert np.mean(sbm.embeddings_["node"] == Y) > 0.95


def test_ids_of_training_nodes_are_accepted():
    graph = MultiViewGraph(
        {"node": 4}, {("node", "node"): ([0, 2], [1, 3])}, {"node": ["a", "b", "c", "d"]}
    )
    sbm = SBM(2, random_state=0).fit(graph)
    np.testing.assert_array_equal(sbm.embed("node", ["d", "a"]), sbm.embeddings_["node"][[3, 0]])
    with pytest.raises(NotInductive, match="'e'"):
        sbm.embed("node", ["e"])


def test_new_rows_get_the_only_block():
    graph, _ = planted([[0.2]], [20], features=lambda b, rng: rng.normal(size=(20, 2)))
    sbm = SBM(1, random_state=0).fit(graph)
    np.testing.assert_array_equal(sbm.embed("node", np.ones((5, 2))), np.ones((5, 1)))


@pytest.mark.parametrize("tau", [[[0.5, 0.6, 0.0]], [[1.5, -0.5, 0.0]], [[0.0, 0.0, 0.0]]])
def test_invalid_memberships_are_refused(tau):
    graph, _ = planted(*PLANTED["mixed"], features=noisy)
    sbm = SBM(3, random_state=0).fit(graph)
    with pytest.raises(InputError, match=r"view 'node'.*sum to 1"):
        sbm.embed("node", tau)


@pytest.mark.parametrize("X", [np.ones((2, 5)), [[1.0, 2.0], [1.0]], "abc"])
def test_rows_of_another_width_are_refused(X):
    graph, _ = planted(*PLANTED["mixed"], features=noisy)
    with pytest.raises(InputError, match="view 'node'"):
        SBM(3, random_state=0).fit(graph).embed("node", X)
