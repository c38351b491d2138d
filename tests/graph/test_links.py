"""Link tables in every format become canonical links: sorted, distinct, positive, read-only."""

import copy
import hashlib
import math
import pickle
import re
import tracemalloc
from dataclasses import FrozenInstanceError
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from pmvge import MultiViewGraph
from pmvge.errors import GraphError
from pmvge.graph import canonical, find_links, merge_links, parse_links
from pmvge.training import hash_graphs

DENSE = np.array([[0.0, 2.0, 0.0], [1.5, 0.0, 3.0]])
ENTRIES = [(0, 1, 2.0), (1, 0, 1.5), (1, 2, 3.0)]
FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]
WEIGHTS = st.sampled_from([0.1, 0.2, 0.3, 0.7, 1.0, 1e-17, 3e8])


def parse(table, shape=(2, 3), within=False, symmetrize=None):
    return parse_links("links ('a', 'b')", table, shape, within, symmetrize)


def entries(links) -> list[tuple[int, int, float]]:
    columns = links.rows.tolist(), links.cols.tolist(), links.weights.tolist()
    return list(zip(*columns, strict=True))


def assert_same_bits(one, other) -> None:
    for name in ("rows", "cols", "weights"):
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()


@st.composite
def tables(draw, min_size=0, symmetric=False):
    """Draw (n, [(i, j, w)]) with repeats; symmetric tables have both orders of each pair."""
    n = draw(st.integers(2, 5))
    node = st.integers(0, n - 1)
    row = st.tuples(node, node, WEIGHTS)
    if symmetric:
        row = row.filter(lambda entry: entry[0] != entry[1])
    rows = draw(st.lists(row, min_size=min_size, max_size=20))
    return n, rows + [(j, i, w) for i, j, w in rows] if symmetric else rows


def as_columns(rows) -> tuple[list[int], list[int], list[float]]:
    return [i for i, _, _ in rows], [j for _, j, _ in rows], [w for _, _, w in rows]


def in_chunks_of(size):
    """Set the chunk size of passes over links; the tables of tests fit into one chunk."""
    return mock.patch("pmvge.graph.links.CHUNK", size)


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("format", FORMATS)
def test_every_sparse_format_is_read(format, kind) -> None:
    table = getattr(sparse, f"{format}_{kind}")(DENSE)
    assert entries(parse(table)) == ENTRIES


@pytest.mark.parametrize(
    "table",
    [
        DENSE,
        DENSE.astype(np.float16),
        np.asfortranarray(DENSE),
        DENSE.view(np.matrix),
        as_columns(ENTRIES),
        DENSE.tolist(),
        tuple(np.array(column) for column in as_columns(ENTRIES)),
        tuple(torch.tensor(column) for column in as_columns(ENTRIES)),
        (np.array([1, 0, 1], np.uint8), np.array([2, 1, 0], np.int16), np.float32([3, 2, 1.5])),
    ],
)
def test_dense_matrices_and_index_lists_are_read(table) -> None:
    assert entries(parse(table)) == ENTRIES


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.float32])
def test_weights_of_any_real_dtype_become_float64(dtype) -> None:
    links = parse(([0, 1], [0, 1], np.array([1, 1], dtype)))
    assert links.weights.dtype == np.float64
    assert links.weights.tolist() == [1.0, 1.0]


def test_links_without_weights_have_weight_one() -> None:
    assert entries(parse(([1, 0], [2, 1]))) == [(0, 1, 1.0), (1, 2, 1.0)]


@pytest.mark.parametrize("table", [([], []), ([], [], []), sparse.coo_array((2, 3))])
def test_an_empty_table_has_no_links(table) -> None:
    links = parse(table)
    assert len(links) == 0
    assert links.total == 0
    assert links.n_terms == 6


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_are_dropped(zero) -> None:
    stored = sparse.coo_array(([zero, 5.0], ([0, 1], [0, 1])), shape=(2, 3))
    assert entries(parse(stored)) == [(1, 1, 5.0)]
    assert entries(parse(([0, 1, 0], [0, 1, 0], [zero, 5.0, zero]))) == [(1, 1, 5.0)]


@given(tables())
def test_repeated_entries_add_up(table) -> None:
    n, rows = table
    dense = np.zeros((n, n + 2))
    for i, j, w in rows:
        dense[i, j + 2] += w
    i, j, w = as_columns(rows)
    links = parse((i, np.array(j, int) + 2, w), dense.shape)
    np.testing.assert_allclose(links.matrix().toarray(), dense, rtol=1e-14)
    keys = list(zip(links.rows.tolist(), links.cols.tolist(), strict=True))
    assert keys == sorted(set(keys))
    assert links.total == pytest.approx(dense.sum(), rel=1e-14)
    assert links.n_terms == dense.size
    for got, expected in zip(links.degrees(), (dense.sum(1), dense.sum(0)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-14)


@given(tables(), st.randoms(use_true_random=False), st.sampled_from(["coo", "csr", "csc"]))
def test_the_order_of_entries_does_not_change_a_bit(table, random, format) -> None:
    n, rows = table
    shuffled = random.sample(rows, len(rows))
    links = parse(as_columns(rows), (n, n))
    assert_same_bits(links, parse(as_columns(shuffled), (n, n)))
    i, j, w = as_columns(shuffled)
    stored = sparse.coo_array((w, (i, j)), shape=(n, n))
    assert_same_bits(links, parse(stored, (n, n)))
    stored.sum_duplicates()  # adds in scipy's order; the result is the same in every format
    assert_same_bits(parse(stored, (n, n)), parse(stored.asformat(format), (n, n)))


@given(tables(symmetric=True), st.randoms(use_true_random=False))
def test_a_symmetric_table_counts_each_unordered_pair_once(table, random) -> None:
    n, rows = table
    links = parse(as_columns(random.sample(rows, len(rows))), (n, n), within=True)
    dense = np.zeros((n, n))
    for i, j, w in rows:
        dense[i, j] += w
    assert (links.rows < links.cols).all()
    np.testing.assert_allclose(links.matrix().toarray(), dense, rtol=1e-14)
    assert links.total == pytest.approx(np.triu(dense).sum(), rel=1e-14)
    assert links.n_terms == sum(1 for i in range(n) for j in range(i + 1, n))
    for got in links.degrees():
        np.testing.assert_allclose(got, dense.sum(0), rtol=1e-14)


@given(tables(symmetric=True), st.data())
def test_a_table_may_have_each_unordered_pair_in_either_order(table, data) -> None:
    n, rows = table
    upper = {(min(i, j), max(i, j)): w for i, j, w in rows}
    flipped = {pair: data.draw(st.booleans()) for pair in sorted(upper)}
    one_sided = [(*(pair[::-1] if flipped[pair] else pair), w) for pair, w in upper.items()]
    links = parse(as_columns(one_sided), (n, n), within=True)
    assert entries(links) == [(*pair, upper[pair]) for pair in sorted(upper)]


MIXED = ([0, 1, 1, 3], [1, 0, 2, 2], [2.0, 3.0, 4.0, 5.0])


@pytest.mark.parametrize(("symmetrize", "merged"), [("sum", 5.0), ("max", 3.0)])
@pytest.mark.parametrize("flip", [False, True])
def test_symmetrize_merges_a_mixed_table(symmetrize, merged, flip) -> None:
    table = (MIXED[1], MIXED[0], MIXED[2]) if flip else MIXED
    links = parse(table, (4, 4), within=True, symmetrize=symmetrize)
    assert entries(links) == [(0, 1, merged), (1, 2, 4.0), (2, 3, 5.0)]


def test_a_mixed_table_is_rejected_and_the_message_names_symmetrize() -> None:
    message = r"1 pairs occur in both orders.*\(0, 1\) with weights 2.0 and 3.0.*'sum' or 'max'"
    with pytest.raises(GraphError, match=rf"^links \('a', 'b'\): .*{message}"):
        parse(MIXED, (4, 4), within=True)


def test_a_table_with_some_pairs_in_both_orders_is_mixed() -> None:
    with pytest.raises(GraphError, match="not symmetric"):
        parse(([0, 1, 1], [1, 0, 2], [2.0, 2.0, 4.0]), (3, 3), within=True)


def test_links_are_read_only_and_the_callers_arrays_stay_writable() -> None:
    given_arrays = np.array([0, 1], np.int32), np.array([0, 1], np.int32), np.array([1.0, 2.0])
    links = parse(given_arrays)
    for name, array in zip(("rows", "cols", "weights"), given_arrays, strict=True):
        array[:] = 0
        with pytest.raises(ValueError, match="read-only"):
            getattr(links, name)[0] = 0
    assert entries(links) == [(0, 0, 1.0), (1, 1, 2.0)]
    with pytest.raises(FrozenInstanceError):
        links.weights = np.ones(2)


def test_indices_are_as_narrow_as_the_views_allow() -> None:
    wide = 2**31
    assert parse(([0], [0])).rows.dtype == np.int32
    assert parse(([0], [wide - 2]), (1, wide - 1)).cols.dtype == np.int32
    links = parse(([0], [wide - 1]), (1, wide))
    assert links.rows.dtype == links.cols.dtype == np.int64
    assert entries(links) == [(0, wide - 1, 1.0)]


@pytest.mark.parametrize("keep", [np.array([True, False, True]), np.array([0, 2])])
def test_select_keeps_links_and_shape(keep) -> None:
    chosen = parse(DENSE).select(keep)
    assert entries(chosen) == [ENTRIES[0], ENTRIES[2]]
    assert chosen.shape == (2, 3)
    assert not chosen.weights.flags.writeable


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (([0, 1, 1], [0, 2, 1], [1.0, NAN, INF]), "finite weights, got 2 .*nan at (1, 2)"),
        (np.array([[0, 0, 0], [0, -INF, 0]]), "finite weights, got 1 .*-inf at (1, 1)"),
        (([0, 1, 1], [0, 2, 1], [0, -2, -3]), "weights >= 0, got 2 negative.*-2.0 at (1, 2)"),
        (([0, 2, 3], [0, 0, 0]), "row indices must lie in 0..1, got 2 outside.*is 2 in link 1"),
        (([0, 1], [0, -1]), "column indices must lie in 0..2, got 1 outside.*is -1 in link 1"),
        (([0], np.array([2**63], np.uint64)), "column indices must lie in 0..2"),
        (([0.0], [1]), "row indices must be integers, got dtype float64"),
        (([True], [1]), "row indices must be integers, got dtype bool"),
        (([0], [1], ["x"]), "numbers as weights, got dtype <U1"),
        (([0], [1], [1j]), "numbers as weights, got dtype complex128"),
        (([0], [1], [None]), "numbers as weights, got dtype object"),
        (([0, 1], [1]), "three lists of equal length, got shapes (2,), (1,) and (2,)"),
        (([0], [1], [1.0, 2.0]), "three lists of equal length, got shapes (1,), (1,) and (2,)"),
        (([[0]], [[1]]), "three lists of equal length, got shapes (1, 1)"),
        ((0, 1), "three lists of equal length, got shapes ()"),
        (([[0], [0, 1]], [1, 0]), "lists of numbers, got a ragged list"),
        (np.zeros((3, 2)), "a 2 x 3 matrix, one row and one column per entity, got 3 x 2"),
        (sparse.csr_array((2, 2)), "a 2 x 3 matrix, one row and one column per entity, got 2 x 2"),
        (np.zeros((2, 3, 1)), "a scipy sparse matrix or (rows, cols, weights), got ndarray"),
        (np.full((2, 3), "x"), "numbers as weights, got dtype <U1"),
        ([[0, 1, 0]], "a 2 x 3 matrix, one row and one column per entity, got 1 x 3"),
        ("links", "a scipy sparse matrix or (rows, cols, weights), got str"),
        (([0, 0], [1, 1], [1e308, 1e308]), "expected a finite total weight"),
        (([0, 1], [1, 1], [1e308, 1e308]), "expected a finite total weight"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_errors_of_bad_tables_say_where_what_was_expected_and_found(table, message, chunk) -> None:
    pattern = ".*".join(map(re.escape, message.split(".*")))
    with (
        in_chunks_of(chunk),
        pytest.raises(GraphError, match=rf"^links \('a', 'b'\): .*{pattern}"),
    ):
        parse(table)


def test_a_self_link_is_rejected_within_a_view_only() -> None:
    table = [2, 1, 0], [2, 1, 1]
    with pytest.raises(GraphError, match=r"cannot be linked to itself.*2 self-links.*position 1"):
        parse(table, (3, 3), within=True)
    assert len(parse(table, (3, 3))) == 3


# -- against a dictionary -----------------------------------------------------------------------

VALUES = st.sampled_from([st.just(0.1), st.just(1.0), st.sampled_from([0.0, 0.1, 0.7, 3e8])])
INDEX_TYPES = st.sampled_from([np.uint8, np.int32, np.int64, np.uint64])
SIZES = st.integers(1, 4)


def added_up(rows) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], list[float]] = {}
    for i, j, w in rows:
        found.setdefault((i, j), []).append(w)
    sums = {entry: math.fsum(weights) for entry, weights in sorted(found.items())}
    return {entry: w for entry, w in sums.items() if w > 0}


def assert_equals(links, expected, shape) -> None:
    assert entries(links) == [(*entry, pytest.approx(w)) for entry, w in expected.items()]
    assert links.equal_weights == (len(set(links.weights.tolist())) <= 1)
    assert links.total == pytest.approx(sum(expected.values()))
    degrees = np.zeros(shape[0]), np.zeros(shape[1])
    for (i, j), w in expected.items():
        for side, node in ((0, i), (1, j)) if not links.within else ((0, i), (0, j)):
            degrees[side][node] += w
    for got, wanted in zip(links.degrees(), degrees[: 1 if links.within else 2], strict=False):
        np.testing.assert_allclose(got, wanted, rtol=1e-14)


@given(st.data(), INDEX_TYPES, SIZES)
def test_links_agree_with_a_dictionary(data, index, chunk) -> None:
    entry = st.tuples(st.integers(0, 3), st.integers(0, 4), data.draw(VALUES))
    rows = data.draw(st.lists(entry, max_size=20))
    expected = added_up(rows)
    if data.draw(st.booleans()):
        rows = sorted((*key, w) for key, w in expected.items())
    i, j, w = as_columns(rows)
    with in_chunks_of(chunk):
        links = parse((np.array(i, index), np.array(j, index), w), (4, 5))
        assert_equals(links, expected, (4, 5))
        flipped = links.transposed()
        assert_equals(flipped, added_up((j, i, w) for (i, j), w in expected.items()), (5, 4))
        keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(links))), bool)[: len(links)]
        kept = {entry: w for (entry, w), k in zip(expected.items(), keep, strict=True) if k}
        assert_equals(links.select(keep), kept, (4, 5))


@given(st.data(), st.sampled_from([None, "sum", "max"]), SIZES)
def test_undirected_links_agree_with_a_dictionary(data, symmetrize, chunk) -> None:
    node = st.integers(0, 3)
    entry = st.tuples(node, node, data.draw(VALUES)).filter(lambda e: e[0] != e[1])
    rows = data.draw(st.lists(entry, max_size=20))
    if data.draw(st.booleans()):
        rows += [(j, i, w) for i, j, w in rows]
    ordered = added_up(rows)
    merged: dict[tuple[int, int], list[float]] = {}
    for (i, j), w in ordered.items():
        merged.setdefault((min(i, j), max(i, j)), []).append(w)
    both = sorted(pair for pair, weights in merged.items() if len(weights) == 2)
    symmetric = all(ordered.get(entry[::-1]) == w for entry, w in ordered.items())
    with in_chunks_of(chunk):
        if symmetrize is None and both and not symmetric:
            i, j = both[0]
            text = f"{len(both)} pairs occur in both orders in a table that is not symmetric; "
            with pytest.raises(GraphError, match=re.escape(f"{text}the first is ({i}, {j}) with")):
                parse(as_columns(rows), (4, 4), within=True, symmetrize=symmetrize)
            return
        links = parse(as_columns(rows), (4, 4), within=True, symmetrize=symmetrize)
    merge = sum if symmetrize == "sum" else max
    assert_equals(links, {pair: merge(merged[pair]) for pair in sorted(merged)}, (4, 4))


@given(st.data(), st.booleans(), SIZES)
def test_merged_links_are_the_sums_of_matrices(data, within, chunk) -> None:
    node = st.integers(0, 3)
    entry = st.tuples(node, node, data.draw(VALUES)).filter(lambda e: not within or e[0] < e[1])
    with in_chunks_of(chunk):
        one, two = (
            parse(as_columns(data.draw(st.lists(entry, max_size=12))), (4, 4), within=within)
            for _ in range(2)
        )
        both, flipped = merge_links(one, two), merge_links(two, one)
    expected = one.matrix().toarray() + two.matrix().toarray()
    assert both.within == within
    assert np.array_equal(both.matrix().toarray(), expected)
    assert_same_bits(both, flipped)
    assert merge_links(one, None) is one
    assert merge_links(one, two.select(np.array([], dtype=np.int64))) is one


@pytest.mark.parametrize("flush", [False, True])
def test_any_keys_are_sorted_with_any_weights(flush) -> None:
    """Keys from 0 to the largest, whose bits are sorted as floats."""
    n = 2**31 - 1
    ends = [0, 1, 2, 3, 2**20, 2**21 + 1, n // 2, n - 2, n - 1]
    rows = [(i, j, 1e-12 * 7.0 ** ((i + 3 * j) % 29)) for i in ends for j in ends]
    shuffled = [rows[k] for k in np.random.default_rng(0).permutation(len(rows))]
    torch.set_flush_denormal(flush)
    try:
        links = parse(as_columns(shuffled), (n, n))
    finally:
        torch.set_flush_denormal(False)
    assert entries(links) == sorted(rows)


# -- memory -------------------------------------------------------------------------------------


def many(n_links: int = 50_000, n: int = 1000):
    """Return sorted distinct positions in an n x n table, int32 and read-only."""
    rng = np.random.default_rng(0)
    cell = np.sort(rng.choice(n * n, n_links, replace=False))
    columns = (cell // n).astype(np.int32), (cell % n).astype(np.int32)
    for column in columns:
        column.flags.writeable = False
    return columns


@pytest.mark.parametrize("weighted", [False, True])
def test_read_only_arrays_are_not_copied(weighted) -> None:
    table = (*many(), np.arange(1.0, 50_001)) if weighted else many()
    table[-1].flags.writeable = False
    links = parse(table, (1000, 1000))
    for given_array, kept in zip(table, (links.rows, links.cols, links.weights), strict=False):
        assert np.shares_memory(given_array, kept)


def test_read_only_one_sided_links_within_a_view_are_not_copied() -> None:
    rows, cols = (column.copy() for column in np.triu_indices(100, 1))
    rows, cols = rows.astype(np.int32), cols.astype(np.int32)
    rows.flags.writeable = cols.flags.writeable = False
    links = parse((rows, cols), (100, 100), within=True)
    assert np.shares_memory(links.rows, rows)
    assert np.shares_memory(links.cols, cols)


def test_memory_maps_stay_memory_maps(tmp_path) -> None:
    rows, cols = many()
    np.save(tmp_path / "pairs.npy", np.column_stack([rows, cols]))
    np.save(tmp_path / "weights.npy", np.arange(1.0, 50_001))
    mapped = np.load(tmp_path / "pairs.npy", mmap_mode="r")
    weights = np.load(tmp_path / "weights.npy", mmap_mode="r")
    links = parse((mapped[:, 0], mapped[:, 1], weights), (1000, 1000))
    assert np.shares_memory(links.rows, mapped)
    assert np.shares_memory(links.cols, mapped)
    assert np.shares_memory(links.weights, weights)
    same = parse((rows, cols, np.array(weights)), (1000, 1000))
    assert_same_bits(links, same)
    assert links.total == same.total
    assert links.degrees()[1].tolist() == same.degrees()[1].tolist()
    assert_same_bits(links.transposed(), same.transposed())


def memory_of(make) -> tuple[float, float]:
    """Return the bytes a link of the result of ``make()``, and of its peak memory."""
    make()  # imports at the first call are not counted
    tracemalloc.start()
    try:
        links = make()
        kept, peak = tracemalloc.get_traced_memory()
        return kept / len(links), peak / len(links)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("order", "weights", "kept", "peak"),
    [
        ("sorted", "none", 0, 0),
        ("sorted", "equal", 0, 0),
        ("sorted", "float64", 8, 8),  # writable: copied
        ("sorted", "float32", 8, 8),
        ("shuffled", "none", 8, 16),
        ("shuffled", "float64", 16, 32),
        ("repeated", "none", 16, 32),
        ("repeated", "float64", 16, 40),
    ],
)
def test_memory_is_bounded(order, weights, kept, peak) -> None:
    rows, cols = many()
    rng = np.random.default_rng(1)
    if order != "sorted":
        some = rng.permutation(len(rows))
        some[: 100 if order == "repeated" else 0] = some[-1]
        rows, cols = rows[some], cols[some]
    table = [rows, cols]
    if weights == "equal":
        table.append(np.full(len(rows), 3.0))
    elif weights != "none":
        table.append(rng.uniform(1, 2, len(rows)).astype(weights))
    with in_chunks_of(256):
        found = memory_of(lambda: parse(tuple(table), (1000, 1000)))
    assert found[0] < kept + 0.5
    assert found[1] < peak + 2


@pytest.mark.parametrize("n_links", [0, 1, 2, 1000])
@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_are_equal_and_as_compact(n_links, equal, again) -> None:
    rows, cols = many(n_links)
    weights = np.full(n_links, 0.3) if equal else np.arange(1.0, n_links + 1)
    links = parse((rows, cols, weights), (1000, 1000))
    copied = again(links)
    assert_same_bits(links, copied)
    assert copied.equal_weights == links.equal_weights == (equal or n_links < 2)
    assert copied.total == links.total
    for name in ("rows", "cols", "weights"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(copied, name)[:] = 0
    assert len(pickle.dumps(links)) < (8 if equal else 16) * n_links + 1000


def test_equal_weights_behave_like_an_array() -> None:
    rows, cols = many()
    links = parse((rows, cols, np.full(len(rows), 0.3)), (1000, 1000))
    assert links.weights.tolist() == [0.3] * len(rows)
    assert links.total == math.fsum(links.weights)
    dense = np.zeros((1000, 1000))
    dense[rows, cols] = 0.3
    assert (links.matrix().toarray() == dense).all()
    assert not links.weights.flags.writeable


def test_arrays_given_to_canonical_stay_writable() -> None:
    columns = np.array([0, 1], np.int32), np.array([1, 0], np.int32), np.array([1.0, 2.0])
    canonical(*columns, (2, 2), False)
    assert all(column.flags.writeable for column in columns)


def test_the_hash_of_equal_weights_is_that_of_the_full_array() -> None:
    rows, cols = many()
    graph = MultiViewGraph({"a": 1000, "b": 1000}, {("a", "b"): (rows, cols)})
    found, expected = hashlib.sha256(), hashlib.sha256(b"('a', 'b')")
    hash_graphs(found, graph, None)
    for column in (rows, cols, np.ones(len(rows))):
        expected.update(column.tobytes())
    assert found.hexdigest() == expected.hexdigest()


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.4])
def test_find_links_returns_the_place_of_each_pair(within, density) -> None:
    rng = np.random.default_rng(0)
    W = (rng.random((6, 6 if within else 4)) < density).astype(float)
    links = parse_links("links", np.triu(W, 1) if within else W, W.shape, within, None)
    i, j = (index.ravel() for index in np.indices((W.shape[0] + 1, W.shape[1] + 1)) - 1)
    places = {
        pair: n for n, pair in enumerate(zip(links.rows.tolist(), links.cols.tolist(), strict=True))
    }
    expected = [places.get(pair, -1) for pair in zip(i.tolist(), j.tolist(), strict=True)]
    assert find_links(links, i, j).tolist() == expected
