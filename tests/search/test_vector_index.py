"""Exact and approximate indexes against a full sort."""

import builtins

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from pmvge.errors import InputError, StorageError
from pmvge.search import ExactIndex, HnswIndex, hnsw

M, WIDTH = 3000, 12


def sorted_fully(queries, candidates, k, exclude=None, allowed=None):
    g = np.asarray(queries, np.float64) @ np.asarray(candidates, np.float64).T
    if exclude is not None:
        g[exclude.toarray() != 0] = -np.inf
    if allowed is not None:
        g[:, ~allowed] = -np.inf
    order = np.argsort(-g, axis=1, kind="stable")[:, :k]
    g = np.take_along_axis(g, order, 1)
    return np.where(g == -np.inf, -1, order), g


def random_exclude(rng, n, m, share):
    return sparse.csr_array((rng.random((n, m)) < share).astype(float))


@given(st.integers(0, 10**6), st.integers(1, 40), st.booleans(), st.floats(0, 1))
def test_exact_index_with_filters_is_a_full_sort(seed, k, with_exclude, share):
    rng = np.random.default_rng(seed)
    C, Q = (rng.integers(-3, 4, (n, 3)).astype(np.float32) for n in (30, 5))
    exclude = random_exclude(rng, 5, 30, 0.3) if with_exclude else None
    allowed = rng.random(30) < share
    positions, g = ExactIndex(C).top_k(Q, k, exclude, allowed=allowed)
    expected, expected_g = sorted_fully(Q, C, k, exclude, allowed)
    assert np.array_equal(positions, expected)
    assert np.array_equal(g, expected_g)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(20, WIDTH))
    C = (centres[rng.integers(0, 20, M)] + 0.5 * rng.normal(size=(M, WIDTH))).astype(np.float32)
    C *= rng.lognormal(0, 0.7, size=(M, 1)).astype(np.float32)  # norms differ a lot
    Q = rng.normal(size=(400, WIDTH)).astype(np.float32)
    return C, Q, HnswIndex.build(C, Q)


def share_found(found, expected):
    hits = sum(
        len(np.intersect1d(a[a >= 0], b[b >= 0])) for a, b in zip(found, expected, strict=True)
    )
    return hits / max(1, int((expected >= 0).sum()))


def test_the_measured_recall_is_that_of_other_queries(data):
    C, _, index = data
    fresh = np.random.default_rng(1).normal(size=(500, WIDTH)).astype(np.float32)
    found, g = index.top_k(fresh, 10)
    expected, _ = sorted_fully(fresh, C, 10)
    recall = share_found(found, expected)
    assert recall >= 0.9
    assert abs(recall - index.recall) < 0.03
    products = np.einsum("ij,ikj->ik", fresh, C[found])
    np.testing.assert_allclose(g, products, rtol=1e-4, atol=1e-4)  # exact scores
    assert (np.diff(g, axis=1) <= 0).all()


def test_a_poor_graph_has_a_low_recall(data, monkeypatch):
    """The recall is measured, not assumed: a graph with few links and little effort misses many."""
    C, Q, good = data
    monkeypatch.setattr(hnsw, "NEIGHBOURS", 2)
    monkeypatch.setattr(hnsw, "BUILD_EFFORT", 2)
    monkeypatch.setattr(hnsw, "EFFORTS", (1,))
    poor = HnswIndex.build(C, Q)
    assert poor.recall < 0.8 < good.recall
    recall = share_found(poor.top_k(Q, 10)[0], sorted_fully(Q, C, 10)[0])
    assert abs(recall - poor.recall) < 0.06


@pytest.mark.parametrize("share", [0.5, 0.05, 0.002, 0.0])
@pytest.mark.parametrize("excluded", [0.0, 0.2, 0.95])
def test_filters_of_the_approximate_index(data, share, excluded):
    C, Q, index = data
    rng = np.random.default_rng(2)
    Q = Q[:20]
    # Exclude the best ones: then the graph alone finds too few.
    order, _ = sorted_fully(Q, C, M)
    exclude = sparse.lil_array((20, M))
    for row in range(20):
        exclude[row, order[row, : int(excluded * M)]] = 1
    allowed = rng.random(M) < share
    exclude = sparse.csr_array(exclude)
    found, g = index.top_k(Q, 10, exclude, allowed=allowed)
    expected, expected_g = sorted_fully(Q, C, 10, exclude, allowed)
    assert ((found >= 0) == (expected >= 0)).all()  # as many as there are
    assert not any(exclude[row, at] for row in range(20) for at in found[row] if at >= 0)
    assert allowed[found[found >= 0]].all()
    assert share_found(found, expected) >= (0.9 if allowed.any() else 0)
    assert (np.isneginf(g) == np.isneginf(expected_g)).all()


def test_k_may_be_as_large_as_the_index(data):
    C, Q, index = data
    found, _ = index.top_k(Q[:2], M + 5)
    expected, _ = sorted_fully(Q[:2], C, M)
    assert found.shape == (2, M)
    assert share_found(found, expected) == 1.0
    with pytest.raises(InputError, match="k: expected a positive integer"):
        index.top_k(Q, 0)
    with pytest.raises(InputError, match="queries: expected shape"):
        index.top_k(Q[:, 1:], 3)


@pytest.mark.parametrize("m", [0, 1, 3])
def test_few_candidates(m):
    C = np.ones((m, 2), np.float32) * np.arange(m, dtype=np.float32)[:, None]
    index = HnswIndex.build(C, np.ones((4, 2), np.float32))
    found, _ = index.top_k(np.ones((2, 2)), 5)
    assert found.tolist() == [list(range(m))[::-1]] * 2


def test_a_file_of_the_graph_gives_the_same_answers(data, tmp_path):
    C, Q, index = data
    index.write(tmp_path / "graph")
    again = HnswIndex.read(
        tmp_path / "graph", C, index.axes, effort=index.effort, recall=index.recall
    )
    for a, b in zip(index.top_k(Q, 10), again.top_k(Q, 10), strict=True):
        assert np.array_equal(a, b)
    with pytest.raises(StorageError, match=r"expected 2,999 vectors of .* coordinates, got 3,000"):
        HnswIndex.read(tmp_path / "graph", C[1:], index.axes, effort=1, recall=None)
    for axes in (index.axes[:, 1:], index.axes[1:]):
        with pytest.raises(StorageError, match="damaged"):
            HnswIndex.read(tmp_path / "graph", C, axes, effort=1, recall=None)
    (tmp_path / "graph").write_bytes(b"no graph")
    with pytest.raises(StorageError, match="damaged"):
        HnswIndex.read(tmp_path / "graph", C, index.axes, effort=1, recall=None)


def test_checksums_depend_on_values_and_shape():
    C = np.arange(12, dtype=np.float32).reshape(4, 3)
    changed = C.copy()
    changed[2, 1] = np.nextafter(changed[2, 1], 9, dtype=np.float32)
    sums = {ExactIndex(V).checksum() for V in (C, changed, C.reshape(3, 4), C[:3])}
    assert len(sums) == 4
    assert ExactIndex(C.copy(order="F")).checksum() in sums


def test_without_faiss_the_command_is_named(monkeypatch):
    usual = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "faiss":
            raise ImportError(name)
        return usual(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'pmvge\[ann\]'"):
        HnswIndex.build(np.ones((3, 2)), np.ones((3, 2)))


@pytest.mark.parametrize("fetched", [1, 500, 10**9])
def test_memory_of_the_approximate_index_does_not_depend_on_the_queries(data, monkeypatch, fetched):
    _, Q, index = data
    exclude = random_exclude(np.random.default_rng(3), len(Q), M, 0.01)
    allowed = np.arange(M) % 3 > 0
    expected = index.top_k(Q, 5, exclude, allowed=allowed)
    sizes, bmm = [], hnsw.torch.bmm
    monkeypatch.setattr(hnsw, "MAX_FETCHED", fetched)
    monkeypatch.setattr(hnsw.torch, "bmm", lambda a, b: sizes.append(a.numel()) or bmm(a, b))
    found = index.top_k(Q, 5, exclude, allowed=allowed)
    assert np.array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)
    fetch = 5 * hnsw.EXTRA * M // np.count_nonzero(allowed) + 1
    assert max(sizes) <= max(fetched, fetch * WIDTH)
    assert index.top_k(Q[:0], 5)[0].shape == (0, 5)
