"""GCN, ChebNet, GNN and GraphSAGE: layers against dense matrices, gradients, simulated blocks."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from scipy import sparse

from pmvge import MultiViewGraph
from pmvge.baselines import GCN, GNN, ChebNet, GraphSAGE
from pmvge.baselines.chebnet import Filters, filtered
from pmvge.baselines.flattening import flatten
from pmvge.baselines.gcn import Convolutions
from pmvge.baselines.gnn import FixedPoint, States, normalized_sum
from pmvge.baselines.gradient import CPU, seeded
from pmvge.baselines.graph_network import Edges, geometric
from pmvge.baselines.graphsage import MessageFlow, NeighbourSampler, SageLayer
from pmvge.evaluation import classification_accuracy
from pmvge.graph import SparseRows, take

SMALL = {"max_steps": 100, "dropout": 0.2, "learning_rate": 0.01, "progress": False}
QUICK = {
    GCN: {"hidden_sizes": (32,), "batch_size": 256},
    ChebNet: {"hidden_sizes": (32,), "batch_size": 256},
    GNN: {"state_size": 16, "batch_size": 256},
    GraphSAGE: {"hidden_sizes": (32,), "batch_size": 128},
}
every_network = pytest.mark.parametrize("method", QUICK)


def quick(method: type, K: int = 8, **settings: object):
    return method(K, **(SMALL | QUICK[method] | {"random_state": 0} | settings))


def weighted_graph(n: int = 12, seed: int = 0) -> np.ndarray:
    """Return the weights, of mean 1, of a random graph whose last node has no links."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.random((n, n)) < 0.4, 1) * rng.uniform(0.2, 3.0, (n, n))
    W[:, -1] = 0
    W = W + W.T
    return W / W[W > 0].mean()


def edges_of(W: np.ndarray) -> Edges:
    graph = MultiViewGraph({"node": len(W)}, {("node", "node"): W})
    return Edges.of(flatten(graph))


def normalized(W: np.ndarray) -> np.ndarray:
    """Return D^{-1/2} W D^{-1/2}, with rows of 0 for nodes without links."""
    d = W.sum(1)
    root = np.divide(1, np.sqrt(d), out=np.zeros_like(d), where=d > 0)
    return root[:, None] * W * root


def numbers(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def as_rows(X: np.ndarray, kind: str) -> torch.Tensor | SparseRows:
    return take(sparse.csr_array(X) if kind == "sparse" else X, slice(None), CPU)


# -- layers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_convolutions_equal_products_of_dense_matrices(kind):
    W, X = weighted_graph(), np.random.default_rng(1).normal(size=(12, 5))
    with seeded(0):
        net = Convolutions([5, 4, 3], edges_of(W), dropout=0.5).eval()
    first, second = net.layers
    torch.nn.init.normal_(first.bias)
    A = normalized(W + np.eye(12))
    H = np.maximum(A @ X @ numbers(net.product.weight) + numbers(first.bias), 0)
    Y = A @ H @ numbers(second.lin.weight).T + numbers(second.bias)
    np.testing.assert_allclose(numbers(net(as_rows(X, kind))), Y, atol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_chebyshev_filters_equal_filters_by_eigenvectors_of_the_laplacian(order, kind):
    W, X = weighted_graph(), np.random.default_rng(1).normal(size=(12, 5))
    with seeded(0):
        net = Filters([5, 4], edges_of(W), order, dropout=0.5).eval()
    (layer,) = net.layers
    torch.nn.init.normal_(layer.bias)
    values, U = np.linalg.eigh(-normalized(W))
    Y = numbers(layer.bias) + sum(
        U @ np.diag(np.cos(r * np.arccos(np.clip(values, -1, 1)))) @ U.T @ X @ numbers(psi.weight)
        for r, psi in enumerate(layer.lins)
    )
    np.testing.assert_allclose(numbers(net(as_rows(X, kind))), Y, atol=2e-5)


def test_chebyshev_filters_equal_torch_geometrics():
    edges = edges_of(weighted_graph())
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(12, 5)).astype(np.float32))
    with seeded(0):
        net = Filters([5, 4, 3], edges, 3, dropout=0.0)
        theirs = geometric().ChebConv(4, 3, 4)
    h = torch.relu(filtered(net.layers[0], x, net.index, net.weights))
    theirs.load_state_dict(net.layers[1].state_dict())
    np.testing.assert_allclose(
        numbers(net(x)), numbers(theirs(h, edges.index, edges.weights)), atol=1e-5
    )


def not_isolated(n: int) -> np.ndarray:
    return np.zeros(n, bool)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_sage_layer_equals_torch_geometrics_for_equal_weights(kind):
    W = (weighted_graph() > 0).astype(float)
    W[-1, 0] = W[0, -1] = 1  # SAGEConv's mean over no neighbours is 0
    X = np.random.default_rng(1).normal(size=(12, 5))
    with seeded(0):
        layer = SageLayer(5, 4)
        torch.nn.init.normal_(layer.bias)
        theirs = geometric().SAGEConv(5, 4)
    theirs.lin_l.weight.data, theirs.lin_l.bias.data = layer.around.weight.T, layer.bias
    theirs.lin_r.weight.data = layer.own.weight.T
    sampler = NeighbourSampler(sparse.csr_array(W), np.random.default_rng(0))
    inputs, (flow,) = sampler.message_flows(np.arange(12), not_isolated(12), 1, None)
    expected = theirs(torch.from_numpy(X.astype(np.float32)), edges_of(W).index)
    ours = layer(as_rows(X[inputs], kind), flow)
    np.testing.assert_allclose(numbers(ours), numbers(expected), atol=1e-5)


# -- the fixed point of GNN -------------------------------------------------------------------


def fixed_point_problem() -> tuple:
    W, rng = weighted_graph(), np.random.default_rng(2)
    index = edges_of(W).index
    edges = Edges(index, torch.from_numpy(W)[*index], len(W))  # in double precision
    M = rng.normal(size=(4, 4))
    M *= 0.9 / np.linalg.norm(M, 2)
    B, target = rng.normal(size=(12, 4)), rng.normal(size=(12, 4))
    tensors = [torch.from_numpy(Z) for Z in (M, B, target)]
    return W, normalized_sum(edges), *tensors


def test_the_implicit_gradient_equals_that_of_an_unrolled_loop():
    W, propagate, M, B, target = fixed_point_problem()
    A = torch.from_numpy(normalized(W))
    results = []
    for unrolled in (True, False):
        m, b = M.clone().requires_grad_(), B.clone().requires_grad_()
        H = torch.zeros(12, 4, dtype=torch.float64)
        if unrolled:
            for _ in range(400):
                H = torch.tanh(A @ H @ m + b)
        else:
            H = FixedPoint.apply(m, b, H, propagate, 1e-12)
        (H**3 * target).sum().backward()
        results.append((numbers(H), numbers(m.grad), numbers(b.grad)))
    for loop, implicit in zip(*results, strict=True):
        np.testing.assert_allclose(implicit, loop, atol=1e-9)


def test_the_map_between_states_is_a_contraction_for_large_weights():
    W = weighted_graph()
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(12, 5)).astype(np.float32))
    with seeded(0):
        states = States(5, 4, edges_of(W), contraction=0.8, tolerance=1e-3).eval()
    with torch.no_grad():
        states.transfer.mul_(100)
        H = numbers(states(x))
        states.H = torch.ones(12, 4)  # another start, the same fixed point
        again = numbers(states(x))
    M = numbers(states.transfer)
    M = 0.8 * M / np.linalg.norm(M, 2)
    B = numbers(x @ states.product.weight + states.bias)
    np.testing.assert_allclose(np.tanh(normalized(W) @ H @ M + B), H, atol=1e-5)
    np.testing.assert_allclose(again, H, atol=1e-4)


# -- neighbours drawn by GraphSAGE -----------------------------------------------------------


def test_the_mean_of_drawn_neighbours_is_unbiased():
    rng = np.random.default_rng(0)
    W = np.zeros((31, 31))
    W[0, 1:] = W[1:, 0] = rng.uniform(0.1, 5.0, 30)
    W[1, 2] = W[2, 1] = 1.0
    values = rng.normal(size=31)
    sampler = NeighbourSampler(sparse.csr_array(W), np.random.default_rng(1))
    nodes, rounds = np.zeros(4000, int), 4000  # the hub, many times
    target, neighbour, weights = sampler.draw(nodes, not_isolated(rounds), 5)
    assert np.bincount(target).tolist() == [5] * rounds
    assert set(neighbour) <= set(range(1, 31))
    means = np.bincount(target, weights * values[neighbour])
    error = means.std() / np.sqrt(rounds)
    assert means.std() > 0.1  # the draws are random
    assert abs(means.mean() - W[0] @ values / W[0].sum()) < 4 * error


def test_nodes_with_few_neighbours_use_all_and_isolated_ones_use_themselves():
    W = weighted_graph()
    sampler = NeighbourSampler(sparse.csr_array(W), np.random.default_rng(0))
    isolated = not_isolated(12)
    isolated[3] = True
    target, neighbour, weights = sampler.draw(np.arange(12), isolated, 11)
    mean = np.zeros((12, 12))
    np.add.at(mean, (target, neighbour), weights)
    W[[3, 11]] = np.eye(12)[[3, 11]]
    expected = W / W.sum(1, keepdims=True)
    np.testing.assert_allclose(mean, expected, atol=1e-12)


def test_the_number_of_drawn_edges_does_not_depend_on_the_graph():
    n = 2000
    rng = np.random.default_rng(0)
    half = sparse.random_array((n, n), density=0.05, rng=rng)  # degrees of about 200
    sampler = NeighbourSampler(sparse.csr_array(half + half.T), rng)
    inputs, (lower, upper) = sampler.message_flows(np.arange(4), not_isolated(4), 2, 3)
    assert upper.index.shape[1] == 4 * 3
    assert lower.index.shape[1] <= (4 + 12) * 3
    assert len(inputs) <= 16 + 48


def test_an_isolated_node_is_isolated_in_every_layer():
    W = weighted_graph()
    sampler = NeighbourSampler(sparse.csr_array(W), np.random.default_rng(0))
    inputs, flows = sampler.message_flows(np.array([2]), np.array([True]), 3, 4)
    assert inputs.tolist() == [2]
    assert all(isinstance(f, MessageFlow) and f.index.tolist() == [[0], [0]] for f in flows)


# -- trained models ---------------------------------------------------------------------------


def planted(seed: int = 0, n: int = 300) -> tuple[MultiViewGraph, np.ndarray]:
    """Return a graph of three blocks with links mostly within them and weak features."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    X = rng.normal(size=(n, 20)) + 1.0 * np.eye(3, 20)[labels]
    p = np.where(labels[:, None] == labels, 0.08, 0.004)
    W = np.triu(rng.random((n, n)) < p, 1).astype(float)
    W[:, -3:] = 0  # some nodes have no links
    return MultiViewGraph({"node": X}, {("node", "node"): W}), labels


def with_rows(graph: MultiViewGraph, X: object) -> MultiViewGraph:
    return MultiViewGraph(
        {"node": X}, {pair: links.matrix() for pair, links in graph.links.items()}
    )


def accuracy(Y: np.ndarray, labels: np.ndarray) -> float:
    odd = np.arange(len(Y)) % 2 == 1
    return classification_accuracy(Y[odd], labels[odd], Y[~odd], labels[~odd])


@every_network
def test_vectors_classify_better_than_features(method):
    graph, labels = planted()
    Y = quick(method).fit(graph).embeddings_["node"]
    assert np.isfinite(Y).all()
    raw = accuracy(graph.views["node"], labels)
    assert raw < 0.75
    assert accuracy(Y, labels) > 0.9


def test_graphsage_embeds_unseen_rows_from_their_features():
    rng = np.random.default_rng(0)
    graph, labels = planted()
    X = rng.normal(size=(300, 20)) + 2.5 * np.eye(3, 20)[labels]
    graph = with_rows(graph, X)
    seen = np.arange(300) < 200
    sage = quick(GraphSAGE).fit(graph.subgraph({"node": seen}))
    Y, new = sage.embeddings_["node"], sage.embed("node", X[~seen])
    assert classification_accuracy(Y, labels[seen], new, labels[~seen]) > 0.7  # by chance 1/3
    assert new.std(axis=0).min() > 0


def test_training_nodes_without_links_are_embedded_like_new_rows():
    graph, _ = planted(n=90)
    sage = quick(GraphSAGE, max_steps=5).fit(graph)
    unlinked = np.flatnonzero(flatten(graph).degrees == 0)
    assert len(unlinked) >= 3
    new = pickle.loads(pickle.dumps(sage)).embed("node", graph.views["node"])
    old = sage.embeddings_["node"]
    np.testing.assert_allclose(new[unlinked], old[unlinked], atol=1e-6)
    linked = np.setdiff1d(np.arange(90), unlinked)
    assert (np.abs(new - old).max(axis=1)[linked] > 1e-4).all()  # neighbours change the vector


@every_network
def test_only_ratios_of_weights_matter(method):
    graph, _ = planted(n=60)
    links = sparse.triu(graph.links["node", "node"].matrix(), format="csr")
    links.data = np.random.default_rng(0).uniform(0.5, 2.0, links.nnz)
    vectors = []
    for W in (links, 1024 * links, sparse.csr_array(links > 0).astype(float)):
        graph = MultiViewGraph({"node": graph.views["node"]}, {("node", "node"): W})
        vectors.append(quick(method, max_steps=3).fit(graph).embeddings_["node"])
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert not np.allclose(vectors[0], vectors[2])


@every_network
def test_sparse_rows_stay_sparse_and_a_view_without_features_is_one_hot(method, monkeypatch):
    monkeypatch.setattr(SparseRows, "to_dense", None)
    graph, _ = planted(n=60)
    one_hot = sparse.csr_array(np.eye(60, dtype=int))
    fits = [quick(method, max_steps=3).fit(with_rows(graph, X)) for X in (one_hot, 60)]
    linked = flatten(graph).degrees > 0
    vectors = [fit.embeddings_["node"][linked] for fit in fits]
    np.testing.assert_array_equal(*vectors)
    assert (vectors[0].std(axis=0) > 0).all()
