"""DeepWalk and node2vec on graphs with known communities."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from pmvge import MultiViewGraph
from pmvge.baselines import DeepWalk, Node2Vec
from pmvge.baselines.skip_gram import Corpus

pytest.importorskip("gensim")


def two_cliques(size: int = 8, alone: int = 1) -> MultiViewGraph:
    """Return a graph of two cliques, one link between them, and some nodes without links."""
    one = [(i, j) for i in range(size) for j in range(i + 1, size)]
    other = [(i + size, j + size) for i, j in one]
    rows, cols = zip(*one, *other, (0, size), strict=True)
    return MultiViewGraph({"node": 2 * size + alone}, {("node", "node"): (rows, cols)})


def cosines(Y: np.ndarray) -> np.ndarray:
    Y = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    return Y @ Y.T


@pytest.mark.parametrize(
    "method",
    [
        DeepWalk(16, random_state=0),
        DeepWalk(16, random_state=0, hierarchical_softmax=True),
        Node2Vec(16, random_state=0),
        Node2Vec(16, p=0.5, q=2.0, random_state=0),
    ],
    ids=repr,
)
def test_two_cliques_are_separated(method):
    Y = method.fit(two_cliques()).embeddings_["node"]
    assert (Y[16] == 0).all()
    C = cosines(Y[:16])
    assert min(C[:8, :8].min(), C[8:, 8:].min()) > C[:8, 8:].max() + 0.1


def test_weights_matter():
    """The graph is complete, and its weights form two groups."""
    W = np.full((16, 16), 0.02)
    W[:8, :8] = W[8:, 8:] = 1
    np.fill_diagonal(W, 0)
    graph = MultiViewGraph({"node": 16}, {("node", "node"): sparse.csr_array(W)})
    C = cosines(DeepWalk(16, random_state=0).fit(graph).embeddings_["node"])
    assert min(C[:8, :8].min(), C[8:, 8:].min()) > C[:8, 8:].max()


def test_views_are_nodes_of_one_graph():
    """Users and items form two groups; a user is closer to the items of its own group."""
    links = np.kron(np.eye(2), np.ones((6, 4)))
    links[0, 4] = 1
    graph = MultiViewGraph({"user": 12, "item": np.ones((8, 3))}, {("user", "item"): links})
    Y = DeepWalk(16, random_state=0).fit(graph).embeddings_
    C = cosines(np.vstack([Y["user"], Y["item"]]))[:12, 12:]
    assert C[links > 0].mean() > C[links == 0].mean() + 0.3


def test_walks_with_a_large_q_stay_in_their_clique():
    """Every node of two cliques has a link to the other; with a large q walks rarely use it."""
    W = np.kron(np.eye(2), np.ones((6, 6))) + np.kron([[0, 1], [1, 0]], np.eye(6))
    np.fill_diagonal(W, 0)

    def crossings(q: float) -> int:
        walks = np.array(list(Corpus(sparse.csr_array(W), 20, 30, seed=0, p=1.0, q=q)))
        return int((np.diff(walks // 6, axis=1) != 0).sum())

    assert crossings(0.2) > 2 * crossings(5.0)


def test_a_corpus_is_repeatable_and_starts_from_every_linked_node():
    W = sparse.csr_array(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], float))
    corpus = Corpus(W, 3, 4, seed=1, p=1.0, q=1.0)
    walks = list(corpus)
    assert list(corpus) == walks
    assert sorted(walk[0] for walk in walks) == [0, 0, 0, 1, 1, 1]
    assert sum(map(len, walks)) == corpus.n_words == 24


VECTORS = """
from pmvge import MultiViewGraph
from pmvge.baselines.deepwalk import DeepWalk
links = {("b.c", "b.c"): ([0, 1, 2], [1, 2, 3]), ("a", "b.c"): ([0, 1], [4, 0])}
graph = MultiViewGraph({"b.c": 5, "a": 2}, links, ids={"b.c": list("vwxyz")})
vectors = DeepWalk(4, random_state=3).fit(graph).embeddings_["b.c"].tobytes().hex()
"""


@pytest.mark.slow
def test_same_seed_same_bits_in_a_process_that_hashes_differently():
    here: dict = {}
    exec(VECTORS, here)
    there = subprocess.run(
        [sys.executable, "-c", VECTORS + "print(vectors)"],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == here["vectors"]
    assert len(here["vectors"]) == 2 * 5 * 4 * 4
