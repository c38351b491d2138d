"""Inductive DeepWalk on simulated communities with features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from pmvge import MultiViewGraph
from pmvge.baselines import IDW
from pmvge.baselines.flattening import flatten

N, GROUPS = 160, 4


def planted(rng: np.random.Generator, n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels, words from the label's vocabulary and a common one, and links."""
    labels = np.arange(n) % GROUPS
    own = np.kron(np.eye(GROUPS), np.ones(6))[labels] * (rng.random((n, 6 * GROUPS)) < 0.4)
    common = rng.random((n, 20)) < 0.1
    same = labels[:, None] == labels
    W = np.triu(rng.random((n, n)) < np.where(same, 0.2, 0.01), k=1)
    return labels, np.hstack([own, common]).astype(np.float32), W.astype(float)


def nearest_label(Y: np.ndarray, Y_train: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the label whose training vectors have the closest mean, by angle."""
    means = np.stack([Y_train[labels == k].mean(0) for k in range(GROUPS)])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return np.argmax(Y @ means.T, axis=1)


def idw(K: int = 8, **settings) -> IDW:
    fixed = {"hidden_sizes": (32,), "max_steps": 300, "batch_size": 256}
    return IDW(K, random_state=0, learning_rate=0.01, progress=False, **(fixed | settings))


@pytest.mark.parametrize("sparsely", [False, True])
def test_unseen_nodes_are_close_to_their_community(sparsely):
    labels, X, W = planted(np.random.default_rng(0))
    new_labels, X_new, _ = planted(np.random.default_rng(1))
    rows = sparse.csr_array if sparsely else np.asarray
    model = idw().fit(MultiViewGraph({"node": rows(X)}, {("node", "node"): W}))
    Y = model.embeddings_["node"]
    found = nearest_label(model.embed("node", rows(X_new)), Y, labels)
    assert (found == new_labels).mean() > 0.8  # by chance: 0.25
    np.testing.assert_allclose(model.embed("node", rows(X[:5])), Y[:5], atol=1e-5)


def test_vectors_follow_links_rather_than_features():
    """Links join groups of words, and vectors follow the links."""
    labels, X, W = planted(np.random.default_rng(0))
    shuffled = np.random.default_rng(2).permutation(N)
    model = idw().fit(MultiViewGraph({"node": X[shuffled]}, {("node", "node"): W}))
    _, X_new, _ = planted(np.random.default_rng(1))
    found = nearest_label(model.embed("node", X_new), model.embeddings_["node"], labels)
    assert (found == np.arange(N) % GROUPS).mean() < 0.45


def test_without_features_it_is_deepwalk():
    labels, _, W = planted(np.random.default_rng(0))
    graph = MultiViewGraph({"node": N + 2}, {("node", "node"): np.pad(W, (0, 2))})
    model = idw().fit(graph)
    Y = model.embeddings_["node"]
    assert (nearest_label(Y[:N], Y[:N], labels) == labels).mean() > 0.9
    assert (Y[N:] == 0).all()
    assert (model.embed("node", [N + 1, 3]) == Y[[N + 1, 3]]).all()


def test_pairs_come_from_walks():
    """On a path of four nodes with window 2: pairs two apart at most, each order equally often."""
    path = MultiViewGraph({"node": 5}, {("node", "node"): ([0, 1, 2], [1, 2, 3])})
    batches = idw(window=2, walk_length=6, batch_size=1000)._batches(
        flatten(path), np.random.default_rng(0)
    )
    counts, noise = np.zeros((5, 5)), np.zeros(5)
    for _ in range(50):
        batch = next(batches)
        assert len(batch.heads) == len(batch.tails) == len(batch.noise) == 1000
        np.add.at(counts, (batch.heads, batch.tails), 1)
        np.add.at(noise, batch.noise.ravel(), 1)
    far = np.abs(np.arange(5)[:, None] - np.arange(5)) > 2
    assert counts[far].sum() == counts[4].sum() == counts[:, 4].sum() == 0
    assert (counts[:4, :4][~far[:4, :4]] > 0).all()
    assert np.abs(counts - counts.T).max() < 5 * np.sqrt(2 * counts.max())
    expected = np.array([1, 2, 2, 1, 0]) ** 0.75
    np.testing.assert_allclose(noise / noise.sum(), expected / expected.sum(), atol=0.01)
