"""Views with many columns: operators give the same results as matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from pmvge import MultiViewGraph
from pmvge.baselines import CDMCA, SGE, linear, wide
from pmvge.errors import GraphError


def mixed_graph(seed: int) -> MultiViewGraph:
    """Return a graph of a dense, a sparse and a featureless view, with links within and between."""
    rng = np.random.default_rng(seed)
    words = sparse.random_array((60, 80), density=0.1, rng=rng, format="csr")
    return MultiViewGraph(
        {"a": rng.normal(size=(50, 6)) + 1, "b": words, "c": 30},
        {
            ("a", "b"): rng.poisson(0.2, (50, 60)),
            ("b", "b"): np.triu(rng.poisson(0.1, (60, 60)), 1),
            ("c", "b"): rng.poisson(0.2, (30, 60)),
        },
    )


@pytest.mark.parametrize("constraint", ["links", "nodes"])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("shrinkage", [0.1, 1.0])
@pytest.mark.parametrize("dense", [1000, 10])  # factorised as dense or sparse matrices
def test_operators_and_matrices_agree(monkeypatch, constraint, center, shrinkage, dense):
    graph = mixed_graph(0)
    method = CDMCA(6, constraint=constraint, center=center, shrinkage=shrinkage)
    narrow = method.fit(graph)
    eigenvalues, vectors = narrow.eigenvalues_, narrow.embeddings_
    monkeypatch.setattr(linear, "WIDE", 10)
    monkeypatch.setattr(wide, "MAX_DENSE", dense)
    method.fit(graph)
    np.testing.assert_allclose(method.eigenvalues_, eigenvalues, rtol=1e-8)
    for view in "abc":
        np.testing.assert_allclose(method.embeddings_[view], vectors[view], atol=1e-5)


def test_a_large_featureless_graph_is_solved_without_large_matrices():
    """A dense matrix of 20,000 one-hot columns would take 3 GB. LPP on them equals SGE."""
    rng = np.random.default_rng(1)
    n = 20_000
    block = np.arange(n) * 4 // n
    i, j = rng.integers(n, size=(2, 400_000))
    kept = (i != j) & (rng.random(len(i)) < np.where(block[i] == block[j], 1.0, 0.05))
    graph = MultiViewGraph({"node": n}, {("node", "node"): (i[kept], j[kept])}, symmetrize="sum")
    ours = CDMCA(3, shrinkage=0.0).fit(graph)
    sge = SGE(3, random_state=0).fit(graph)
    np.testing.assert_allclose(ours.eigenvalues_, 1 - sge.eigenvalues_, atol=1e-6)
    centres = np.array([ours.embeddings_["node"][block == b].mean(0) for b in range(4)])
    far = np.linalg.norm(centres[:, None] - centres, axis=-1)[np.triu_indices(4, 1)].min()
    spread = np.sqrt(np.mean((ours.embeddings_["node"] - centres[block]) ** 2))
    assert far > 3 * spread


def test_too_many_columns_are_refused(monkeypatch):
    graph = mixed_graph(2)
    monkeypatch.setattr(linear, "WIDE", 10)
    monkeypatch.setattr(wide, "MAX_DENSE", 3)
    with pytest.raises(
        GraphError, match="CDMCA: view 'a': expected at most 3 dense columns, got 6"
    ):
        CDMCA(3).fit(graph)
    monkeypatch.setattr(wide, "MAX_DENSE", 10)
    monkeypatch.setattr(wide, "MAX_ENTRIES", 20)
    with pytest.raises(
        GraphError, match="view 'b': expected at most 20 pairs of columns that occur together"
    ):
        CDMCA(3).fit(graph)
