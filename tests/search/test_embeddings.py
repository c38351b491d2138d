"""Exact search against a full stable sort, and vectors on disk."""

import tracemalloc

import numpy as np
import pyarrow
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pyarrow import parquet
from scipy import sparse

from pmvge import Embeddings
from pmvge.errors import InputError, StorageError
from pmvge.search import embed_in_batches, exact, top_k
from pmvge.search.writing import save_batches


def sorted_fully(queries, candidates, k) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest inner products by a full stable sort in float64."""
    g = np.asarray(queries, np.float64) @ np.asarray(candidates, np.float64).T
    order = np.argsort(-g, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(g, order, 1)


def assert_exact(queries, candidates, k) -> None:
    positions, g = top_k(queries, candidates, k)
    expected_positions, expected_g = sorted_fully(queries, candidates, k)
    assert np.array_equal(positions, expected_positions)
    assert np.array_equal(g, expected_g)


def vectors(n, width, largest):
    """Draw vectors of integers: their inner products are exact in float32 and often tie."""
    elements = st.integers(-largest, largest)
    return n.flatmap(lambda rows: arrays.arrays(np.float32, (rows, width), elements=elements))


@given(
    st.integers(1, 3).flatmap(
        lambda width: st.tuples(
            vectors(st.integers(0, 6), width, 3), vectors(st.integers(1, 30), width, 3)
        )
    ),
    st.integers(1, 35),
    st.sampled_from([1, 40, exact.MAX_SCORES]),
)
def test_search_agrees_with_a_full_sort(pair, k, tile) -> None:
    queries, candidates = pair
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "MAX_SCORES", tile)
        assert_exact(queries, candidates, k)


@pytest.mark.parametrize("k", [1, 7, 70_000])
@pytest.mark.parametrize("largest", [2, 2000])
def test_search_over_several_tiles_of_candidates(k, largest) -> None:
    rng = np.random.default_rng(0)
    queries = rng.integers(-largest, largest, (5, 2), endpoint=True)
    candidates = rng.integers(-largest, largest, (150_000, 2), endpoint=True)
    assert_exact(queries, candidates, k)


def test_tiles_hold_at_most_max_scores(monkeypatch) -> None:
    held = []
    monkeypatch.setattr(exact, "MAX_SCORES", 40)
    leading = exact._leading
    monkeypatch.setattr(exact, "_leading", lambda g, k: (held.append(g.numel()), leading(g, k))[1])
    top_k(np.ones((9, 2)), np.ones((10, 2)), 3)
    assert max(held) == 9 * 4
    held.clear()
    top_k(np.ones((9, 2)), np.ones((10, 2)), 9)
    assert max(held) == 4 * 9


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_memory_map_of_candidates_is_read_a_tile_at_a_time(dtype, tmp_path, monkeypatch) -> None:
    rng = np.random.default_rng(0)
    queries = rng.integers(-3, 3, (8, 16))
    np.save(tmp_path / "C.npy", rng.integers(-3, 3, (400_000, 16)).astype(dtype))
    candidates = np.load(tmp_path / "C.npy", mmap_mode="r")
    sizes = []
    usual = exact.float32_tensor
    monkeypatch.setattr(exact, "MAX_SCORES", 8 << 16)
    monkeypatch.setattr(
        exact, "float32_tensor", lambda part: (sizes.append(len(part)), usual(part))[1]
    )
    tracemalloc.start()
    positions, g = top_k(queries, candidates, 3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 9e6  # two tiles of 65,536 candidates in float32; all of them are 26 MB
    assert sizes.count(1 << 16) == 400_000 >> 16  # each is read once, for all queries
    expected_positions, expected_g = sorted_fully(queries, candidates, 3)
    assert np.array_equal(positions, expected_positions)
    assert np.array_equal(g, expected_g)


def test_arrays_in_float32_are_not_copied() -> None:
    rows = np.ones((4, 3), np.float32)
    assert np.shares_memory(exact.float32_tensor(rows[1:]).numpy(), rows)
    rows.flags.writeable = False  # torch would warn
    assert np.shares_memory(exact.float32_tensor(rows).numpy(), rows)
    assert not rows.flags.writeable
    assert exact.float32_tensor(np.ones((2, 2))).dtype == torch.float32


def test_on_progress_counts_scores(monkeypatch) -> None:
    monkeypatch.setattr(exact, "MAX_SCORES", 3 << 16)
    monkeypatch.setattr(exact, "MAX_QUERIES", 3)
    calls = []
    top_k(
        np.ones((7, 1)),
        np.ones((70_000, 1)),
        2,
        on_progress=lambda done, of: calls.append((done, of)),
    )
    first = [3 * 65_536, 6 * 65_536, 7 * 65_536]
    second = [7 * 65_536 + n * 4_464 for n in (3, 6, 7)]
    assert calls == [(done, 490_000) for done in first + second]


def test_all_candidates_are_returned_if_k_is_larger() -> None:
    positions, g = top_k(np.array([[1.0], [-1.0]]), np.array([[1.0], [3.0], [2.0]]), 9)
    assert positions.tolist() == [[1, 2, 0], [0, 2, 1]]
    assert g.tolist() == [[3, 2, 1], [-1, -2, -3]]


@pytest.mark.parametrize(("n_queries", "n_candidates", "shape"), [(0, 4, (0, 2)), (3, 0, (3, 0))])
def test_no_queries_and_no_candidates_give_empty_answers(n_queries, n_candidates, shape) -> None:
    positions, g = top_k(np.ones((n_queries, 2)), np.ones((n_candidates, 2)), 2)
    assert positions.shape == g.shape == shape
    assert [positions.dtype, g.dtype] == [np.int64, np.float32]


@pytest.mark.parametrize("k", [0, -1, 1.0, True, None, "1"])
def test_k_is_a_positive_integer(k) -> None:
    with pytest.raises(InputError, match=f"k: expected a positive integer, got {k!r}"):
        top_k(np.ones((1, 2)), np.ones((1, 2)), k)


@given(
    vectors(st.integers(1, 6), 2, 2).flatmap(
        lambda queries: vectors(st.integers(1, 12), 2, 2).flatmap(
            lambda candidates: st.tuples(
                st.just(queries),
                st.just(candidates),
                arrays.arrays(np.bool_, (len(queries), len(candidates))),
            )
        )
    ),
    st.integers(1, 15),
    st.sampled_from([1, 25, exact.MAX_SCORES]),
)
def test_excluded_candidates_are_never_returned(case, k, tile) -> None:
    queries, candidates, gone = case
    rows, columns = np.nonzero(gone)
    exclude = sparse.csr_array((np.zeros(len(rows)), (rows, columns)), gone.shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "MAX_SCORES", tile)
        positions, g = top_k(queries, candidates, k, exclude)
    assert positions.shape == g.shape == (len(queries), min(k, len(candidates)))
    for i, query in enumerate(queries):
        left = [(-float(query @ c), j) for j, c in enumerate(candidates) if not gone[i, j]]
        expected = sorted(left)[:k]
        expected += [(np.inf, -1)] * (positions.shape[1] - len(expected))
        assert list(zip((-g[i]).tolist(), positions[i].tolist(), strict=True)) == expected


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_exclusion_over_several_tiles_of_candidates(make) -> None:
    """The best of each tile are excluded, and one query has two candidates left."""
    candidates = np.arange(150_000.0)[:, None] // 100
    gone = np.zeros((2, 150_000), bool)
    gone[0, [65_500, 65_535, 65_536, 149_999, 149_900]] = True
    gone[1] = True
    gone[1, [3, 70_000]] = False
    positions, g = top_k(np.ones((2, 1)), candidates, 3, make(gone))
    assert positions.tolist() == [[149_901, 149_902, 149_903], [70_000, 3, -1]]
    assert g.tolist() == [[1499, 1499, 1499], [700, 0, -np.inf]]


def test_exclude_of_another_shape_or_type_is_rejected() -> None:
    expected = r"exclude: expected a sparse matrix of shape \(2, 4\), got "
    for exclude, found in [(sparse.csr_array((4, 2)), r"\(4, 2\)"), (np.ones((2, 4)), "ndarray")]:
        with pytest.raises(InputError, match=f"{expected}{found}$"):
            top_k(np.ones((2, 3)), np.ones((4, 3)), 1, exclude)


@pytest.mark.parametrize("shape", [(2,), (2, 3), (1, 2, 2)])
def test_queries_of_another_width_are_rejected(shape) -> None:
    with pytest.raises(InputError) as caught:
        top_k(np.ones(shape), np.ones((4, 2)), 1)
    assert str(caught.value) == f"queries: expected shape (n, 2), got {shape}"


def test_nearest_returns_ids_best_first() -> None:
    stored = Embeddings(np.array(["x", "y", "z"]), np.array([[1, 0], [0, 1], [2, 2]], np.float32))
    ids, g = stored.nearest(np.array([[1.0, 0.5], [-1.0, 0.0]]), np.int64(2))
    assert ids.tolist() == [["z", "x"], ["y", "x"]]
    assert g.tolist() == [[3.0, 1.0], [0.0, -1.0]]
    assert len(stored) == 3


def test_nearest_returns_minus_infinity_where_too_few_are_left() -> None:
    stored = Embeddings(np.array([7, 8, 9]), np.array([[1], [2], [3]], np.float32))
    exclude = sparse.csr_array([[0, 0, 1], [1, 1, 0]])
    ids, g = stored.nearest(np.ones((2, 1)), 2, exclude)
    assert g.tolist() == [[2, 1], [3, -np.inf]]
    assert ids.shape == (2, 2)
    assert ids[g > -np.inf].tolist() == [8, 7, 9]


@pytest.mark.parametrize(
    "ids", [np.array([5, -1, 2**62]), np.array(["a", "ü€", "a longer id"]), np.array([], np.int64)]
)
def test_load_returns_what_save_wrote(ids, tmp_path) -> None:
    vectors = np.random.default_rng(0).normal(size=(len(ids), 4)).astype(np.float32)
    Embeddings(ids, vectors).save(tmp_path / "e.parquet")
    back = Embeddings.load(str(tmp_path / "e.parquet"))
    assert back.ids.dtype == ids.dtype
    assert back.ids.tolist() == ids.tolist()
    assert back.vectors.dtype == np.float32
    assert back.vectors.shape == vectors.shape
    assert back.vectors.tobytes() == vectors.tobytes()


def test_other_programs_can_read_the_file(tmp_path) -> None:
    vectors = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    Embeddings(np.array(["x", "y", "z"]), vectors[:, ::-1]).save(tmp_path / "e.parquet")
    table = parquet.read_table(tmp_path / "e.parquet")
    assert table.schema.field("vector").type == pyarrow.list_(pyarrow.float32(), 2)
    assert table.to_pydict() == {"id": ["x", "y", "z"], "vector": [[2, 1], [4, 3], [6, 5]]}


def not_parquet(path) -> None:
    path.write_bytes(b"PAR1 but not really")


def truncated(path) -> None:
    Embeddings(np.arange(9), np.ones((9, 3), np.float32)).save(path)
    path.write_bytes(path.read_bytes()[:-20])


def other_columns(path) -> None:
    parquet.write_table(pyarrow.table({"id": [1], "x": [2.0]}), path)


def plain_numbers(path) -> None:
    parquet.write_table(pyarrow.table({"id": [1], "vector": [2.0]}), path)


@pytest.mark.parametrize("damage", [not_parquet, truncated, other_columns, plain_numbers, None])
def test_invalid_files_raise_a_storage_error(damage, tmp_path) -> None:
    path = tmp_path / "e.parquet"
    if damage:
        damage(path)
    with pytest.raises(StorageError, match=r"e\.parquet: not a Parquet file of ids and vectors"):
        Embeddings.load(path)


def part(ids, value=1.0) -> Embeddings:
    return Embeddings(np.array(ids), np.full((len(ids), 2), value, np.float32))


def test_batches_with_ids_of_two_kinds_are_rejected(tmp_path) -> None:
    with pytest.raises(InputError) as caught:
        save_batches(tmp_path / "e.parquet", iter([part([1, 2]), part([3]), part(["x"])]))
    expected = "expected ids of one kind, got int64 ids up to row 2, then string ids"
    assert str(caught.value) == expected


def in_batches(X, ids=None, batch_size=3, **options) -> list[tuple[list, list]]:
    def embed(rows, first, ids):
        return np.array(rows, np.float32)

    batches = embed_in_batches("view 'a'", X, ids, embed, batch_size, **options)
    return [(batch.ids.tolist(), batch.vectors.ravel().tolist()) for batch in batches]


def test_embed_in_batches_yields_ids_and_vectors() -> None:
    X = np.arange(7.0).reshape(7, 1)
    numbered = [([0, 1, 2], [0, 1, 2]), ([3, 4, 5], [3, 4, 5]), ([6], [6])]
    assert in_batches(X) == numbered
    assert in_batches(X, list("abcdefg"))[1] == (["d", "e", "f"], [3, 4, 5])
    assert in_batches(X, np.arange(7) * 10)[2] == ([60], [6])
    calls = []
    assert (
        in_batches(iter([X[:3], X[:0], X[3:6], X[6:]]), on_progress=lambda *now: calls.append(now))
        == numbered
    )
    assert calls == [(3, None), (3, None), (6, None), (7, None)]
    assert in_batches(iter([X[:5], X[5:]]), list("abcdefg"))[1] == (["f", "g"], [5, 6])
    assert in_batches(iter([([4, 2], X[:2]), ([9], X[2:3])])) == [([4, 2], [0, 1]), ([9], [2])]
    assert in_batches(X[:0]) == [([], [])]
    assert in_batches(([3.0], [4.0])) == [([0, 1], [3, 4])]  # two rows, not ids and rows


@pytest.mark.parametrize(
    ("X", "ids", "expected"),
    [
        (np.ones((7, 1)), [1, 2], "expected 7 ids, one per row, got 2"),
        (iter([np.ones((2, 1)), np.ones((2, 1))]), [1, 2, 3],
         "expected an id for each row, got 1 ids for 2 rows from row 2 on"),
        (iter([np.ones((2, 1))]), [1, 2, 3], "expected 2 ids, one per row, got 3"),
        (iter([([1], np.ones((2, 1)))]), None,
         "expected an id for each row, got 1 ids for 2 rows from row 0 on"),
        (iter([([1, 2], np.ones((2, 1)))]), [1, 2],
         "expected ids either in ids or in the batches, got both"),
        (iter([]), None, "expected batches of rows, got none"),
        (np.ones((2, 1)), [1, "x"], "ids: ids must be all integers or all strings, got int, str"),
        (np.ones((2, 1)), [0.5, 1.5], "ids: ids must be integers or strings, got float64 values"),
    ],
)  # fmt: skip
def test_ids_that_do_not_match_the_rows_are_rejected(X, ids, expected) -> None:
    with pytest.raises(InputError) as caught:
        in_batches(X, ids)
    assert str(caught.value) == f"view 'a': {expected}"


def test_a_path_that_looks_like_a_url_is_read_as_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "bucket").mkdir(parents=True)
    Embeddings(np.arange(3), np.eye(3)).save(tmp_path / "s3:" / "bucket" / "vectors.parquet")
    assert len(Embeddings.load("s3://bucket/vectors.parquet")) == 3
    with pytest.raises(StorageError, match="not a Parquet file of ids and vectors"):
        Embeddings.load("a\0b")


def test_files_are_read_without_python_file_objects(tmp_path, monkeypatch):
    """Arrow's threads may close them when Python is ending, and that aborts the process."""
    Embeddings(np.arange(3), np.ones((3, 2), np.float32)).save(tmp_path / "v.parquet")
    sources, read_table = [], parquet.read_table
    monkeypatch.setattr(
        parquet, "read_table", lambda source: sources.append(source) or read_table(source)
    )
    assert len(Embeddings.load(tmp_path / "v.parquet")) == 3
    assert [type(source) for source in sources] == [pyarrow.OSFile]
