"""Validation of features, gathering of rows, and scaling."""

import mmap
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from pmvge.errors import GraphError, InputError
from pmvge.graph import (
    SparseRows,
    all_finite,
    check_features,
    column_scaling,
    features,
    is_mapped,
    row_scaling,
    row_shape,
    scaling,
    standard_scale,
    take,
)
from pmvge.graph.features import freeze

CPU = torch.device("cpu")
DENSE = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, -3.0, 0.5]])
FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]
NAN, INF = float("nan"), float("inf")


@pytest.fixture
def tiny_chunks(monkeypatch):
    """Scan views four numbers at a time."""
    monkeypatch.setattr(features, "CHUNK", 4)


def root(array: np.ndarray) -> object:
    """Return the owner of the memory of an array."""
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return base


# -- valid features ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8, bool]
)
@pytest.mark.parametrize("trailing", [(1,), (3,), (2, 3), (1, 2, 2)])
def test_a_dense_array_of_any_trailing_shape_is_taken_without_a_copy(trailing, dtype) -> None:
    X = np.ones((4, *trailing), dtype)
    checked = check_features("here", X)
    assert np.shares_memory(checked, X)
    assert checked.dtype == dtype
    assert row_shape(checked) == trailing


@pytest.mark.parametrize("X", [DENSE, DENSE[::2], np.asfortranarray(DENSE)])
def test_a_dense_view_is_read_only_and_the_callers_array_stays_writable(X) -> None:
    checked = check_features("here", X)
    with pytest.raises(ValueError, match="read-only"):
        checked[0, 0] = 1
    X[0, 0] = 1.0


def test_lists_and_frames_become_arrays() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}, index=["x", "y"])
    for given_rows in (frame, frame.to_numpy().tolist()):
        assert check_features("here", given_rows).tolist() == [[1.0, 0.5], [2.0, 1.5]]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("format", FORMATS)
def test_every_sparse_format_becomes_csr(format, kind) -> None:
    checked = check_features("here", getattr(sparse, f"{format}_{kind}")(DENSE))
    assert isinstance(checked, sparse.csr_array)
    assert np.array_equal(checked.toarray(), DENSE)
    assert row_shape(checked) == (3,)


def test_a_csr_view_shares_the_callers_memory_and_is_read_only() -> None:
    X = sparse.csr_array(DENSE)
    checked = check_features("here", X)
    for name in ("data", "indices", "indptr"):
        assert np.shares_memory(getattr(checked, name), getattr(X, name))
        with pytest.raises(ValueError, match="read-only"):
            getattr(checked, name)[0] = 1
        getattr(X, name)[0] += 0


@pytest.mark.parametrize("X", [DENSE.copy(), sparse.csr_array(DENSE)], ids=["dense", "csr"])
def test_freezing_leaves_the_original_writable(X) -> None:
    frozen = freeze(X)
    array, original = (frozen, X) if isinstance(X, np.ndarray) else (frozen.data, X.data)
    assert np.shares_memory(array, original)
    assert not array.flags.writeable
    assert original.flags.writeable


def test_repeated_and_unsorted_csr_entries_add_up_in_a_copy() -> None:
    X = sparse.csr_array(([1.0, 2.0, 4.0], [2, 0, 2], [0, 3, 3]), shape=(2, 3))
    checked = check_features("here", X)
    assert checked.has_canonical_format
    assert np.array_equal(checked.toarray(), [[2, 0, 5], [0, 0, 0]])
    assert X.indices.tolist() == [2, 0, 2]


@pytest.mark.parametrize(
    ("tensor", "dtype"),
    [
        (torch.tensor([[1.5, -2.0]], requires_grad=True), np.float32),
        (torch.tensor([[1.5, -2.0]], dtype=torch.float64), np.float64),
        (torch.tensor([[1.5, -2.0]], dtype=torch.float16), np.float16),
        (torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16), np.float32),
        (torch.tensor([[1, -2]]), np.int64),
        (torch.tensor([[1, -2]], dtype=torch.int32), np.int32),
        (torch.tensor([[True, False]]), np.bool_),
    ],
)
def test_torch_tensors_become_arrays(tensor, dtype) -> None:
    checked = check_features("here", tensor)
    assert checked.dtype == dtype
    assert checked.tolist() == tensor.tolist()


def test_a_memory_map_stays_a_map_and_is_read_in_chunks(tmp_path, monkeypatch) -> None:
    n, p = 4096, 64
    np.save(tmp_path / "X.npy", np.ones((n, p), np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    monkeypatch.setattr(features, "CHUNK", 64 * p)
    tracemalloc.start()
    checked = check_features("here", X)
    rows = take(checked, np.array([5, 4000]), CPU)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(root(checked), mmap.mmap)
    assert np.shares_memory(checked, X)
    assert torch.equal(rows, torch.ones(2, p))
    assert peak < X.nbytes / 4


@pytest.fixture
def opened(tmp_path):
    """Return a function that opens the rows 0, 1, ... as a memory map."""
    path = tmp_path / "X.npy"
    np.save(path, np.repeat(np.arange(4096, dtype=np.float32)[:, None], 64, axis=1))
    return lambda mode="r": np.load(path, mmap_mode=mode)


def test_is_mapped_follows_the_bases_of_an_array(opened) -> None:
    X = opened()
    with mmap.mmap(-1, 64) as own:
        for array in (X, np.asarray(X), X[5:].T, X[::2].reshape(2048, 8, 8), X.view(np.int32)):
            assert is_mapped(array)
        assert is_mapped(check_features("here", X))
        assert is_mapped(np.frombuffer(own, np.float32))
        assert is_mapped(np.asarray(memoryview(own)[8:]))
    for array in (X[[1, 2]], X + 1, np.array(X), DENSE, np.frombuffer(b"1234", np.uint8)):
        assert not is_mapped(array)
    assert not is_mapped(torch.ones(2, 2).numpy())


def test_a_csr_view_is_mapped_if_a_part_of_it_is(opened) -> None:
    X = sparse.csr_array(DENSE)
    assert not is_mapped(X)
    X.data = opened().reshape(-1)[: X.nnz]
    assert is_mapped(X)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_scan_of_a_map_changes_nothing_in_it(opened, mode, monkeypatch) -> None:
    """Changes to a map of mode "c" are in no file: its pages must not be released."""
    monkeypatch.setattr(features, "CHUNK", 64 * 1000)
    X = opened(mode)
    if mode != "r":
        X[7] = X[4000] = -5
    before = np.array(X)
    check_features("here", X)
    column_scaling(X)
    assert np.array_equal(X, before)


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc/self/smaps")
def test_a_scan_releases_the_pages_of_a_map(opened, monkeypatch) -> None:
    monkeypatch.setattr(features, "CHUNK", 64 * 500)
    X = opened()

    def resident() -> int:
        text = Path("/proc/self/smaps").read_text()
        (found,) = re.findall(
            rf"{re.escape(str(X.filename))}\n.*?\nRss: +(\d+) kB", text, re.DOTALL
        )
        return 1024 * int(found)

    assert X.sum() > 0
    assert resident() >= X.nbytes
    check_features("here", X)
    assert resident() < X.nbytes / 4


# -- invalid features -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), "shape (rows, columns, ...), got shape (3,); .*X.reshape(-1, 1)"),
        (1.5, "shape (rows, columns, ...), got shape ()"),
        (np.ones((3, 0)), "at least one column, got shape (3, 0)"),
        (np.ones((3, 2, 0)), "at least one column, got shape (3, 2, 0)"),
        (sparse.csr_array((3, 0)), "at least one column, got shape (3, 0)"),
        (sparse.coo_array(np.ones(3)), "a 2-d sparse matrix, got shape (3,)"),
        ([["a", "b"]], "real numbers, got dtype <U1"),
        (np.ones((2, 2), complex), "real numbers, got dtype complex128"),
        (sparse.csr_array([[1j]]), "real numbers, got dtype complex128"),
        (pd.DataFrame({"a": ["x", "y"]}), "real numbers, got dtype"),
        (None, "real numbers, got dtype object"),
        ([[1.0], [1.0, 2.0]], "rows of equal length, got a ragged list"),
        (torch.ones(2, 2).to_sparse(), "a dense tensor or a scipy CSR matrix, got torch.sparse"),
        (np.ma.masked_array(DENSE, DENSE > 0.9), "no missing values, got 2 masked"),
    ],
)
@pytest.mark.parametrize("error", [GraphError, InputError])
def test_invalid_features_are_rejected(X, message, error) -> None:
    pattern = ".*".join(map(re.escape, message.split(".*")))
    with pytest.raises(error, match=f"^view 'a': expected .*{pattern}"):
        check_features("view 'a'", X, error)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("value", "shown"), [(NAN, "nan"), (INF, "inf"), (-INF, "-inf")])
@pytest.mark.usefixtures("tiny_chunks")
def test_numbers_that_are_not_finite_are_counted_and_the_first_is_named(value, shown, dtype):
    X = np.ones((9, 2, 1), dtype)
    X[5, 1, 0] = X[5, 0, 0] = X[8, 1, 0] = value
    with pytest.raises(GraphError, match=rf"^here: .* got 3 .*first is {shown} at \[5, 0, 0\]$"):
        check_features("here", X)


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.usefixtures("tiny_chunks")
def test_a_bad_entry_of_a_csr_view_is_named_by_row_and_column(value) -> None:
    X = np.eye(9, 4)
    X[2] = X[7] = [0, 1, 1, 1]
    X[7, 1] = X[7, 3] = value
    with pytest.raises(GraphError, match=rf"^here: .* got 2 .*first is {value} at \[7, 1\]$"):
        check_features("here", sparse.csr_array(X))


def test_numbers_beyond_float32_count_as_infinite() -> None:
    largest = float(np.finfo(np.float32).max)
    check_features("here", np.array([[largest, -largest]]))
    with pytest.raises(GraphError, match=r"finite float32.* got 1 .*1e\+39 at \[0, 1\]"):
        check_features("here", np.array([[0.0, 1e39]]))


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4", "<f8"])
def test_all_finite_agrees_with_numpy_for_every_exponent(dtype) -> None:
    """The first 12 bits of a number take all values: its sign and (most of) its exponent."""
    kind = np.dtype(dtype)
    bits = np.arange(0, 2**16, 16, dtype=np.uint64) << np.uint64(8 * kind.itemsize - 16)
    numbers = bits.astype(f"u{kind.itemsize}").view(kind.newbyteorder("=")).astype(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = np.isfinite(numbers.astype(np.float32))
    assert 0 < wanted.sum() < len(wanted)
    assert [all_finite(numbers[k : k + 1]) for k in range(len(bits))] == wanted.tolist()
    assert all_finite(numbers[wanted])


# -- rows as tensors --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.float16, torch.float32),
        (np.float64, torch.float32),
        (np.uint8, torch.float32),
        (bool, torch.float32),
        (np.int8, torch.int64),
        (np.int64, torch.int64),
    ],
)
@pytest.mark.parametrize("rows", [np.array([2, 0, 2]), slice(1, 3)])
def test_dense_rows_are_copied_to_float32_or_int64_tensors(rows, dtype, expected) -> None:
    X = np.arange(12).reshape(3, 2, 2).astype(dtype)
    part = take(check_features("here", X), rows, CPU)
    assert part.dtype == expected
    assert part.tolist() == X[rows].tolist()
    part.zero_()
    assert X.sum() > 0


@pytest.mark.parametrize("rows", [np.arange(2**16)[::-1], slice(None)])
def test_float16_becomes_float32_exactly(rows) -> None:
    """All float16 values but NaN, which validation rejects, against numpy."""
    X = np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(-1, 1)
    X = freeze(np.where(np.isnan(X), np.float16(0), X))
    part = take(X, rows, CPU)
    assert part.dtype == torch.float32
    assert part.numpy().tobytes() == X[rows].astype(np.float32).tobytes()


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">i4"])
def test_numbers_of_the_other_byte_order_are_gathered(dtype) -> None:
    X = np.arange(6).reshape(3, 2).astype(dtype)
    assert take(check_features("here", X), np.array([2, 0]), CPU).tolist() == [[4, 5], [0, 1]]


@pytest.mark.parametrize("rows", [np.array([2, 1, 2]), slice(1, 3), np.array([], np.int64)])
def test_sparse_rows_keep_the_layout_of_embedding_bag(rows) -> None:
    part = take(check_features("here", sparse.csr_array(DENSE)), rows, CPU)
    assert isinstance(part, SparseRows)
    assert [part.columns.dtype, part.offsets.dtype] == [torch.int64, torch.int64]
    assert part.values.dtype == torch.float32
    assert part.shape == DENSE[rows].shape
    assert part.to_dense().tolist() == DENSE[rows].tolist()


# -- statistics -------------------------------------------------------------------------------


@given(arrays.arrays(np.float64, (7, 2, 2), elements=st.integers(-50, 50)))
def test_column_scaling_standardises_varying_columns_and_removes_constant_ones(X) -> None:
    scale, shift = column_scaling(X)
    flat = X.reshape(7, 4)
    varies = flat.std(0) > 0
    assert not scale[~varies].any()
    assert not shift[~varies].any()
    expected = (flat - flat.mean(0))[:, varies] / flat.std(0)[varies]
    np.testing.assert_allclose((flat * scale + shift)[:, varies], expected, rtol=1e-4, atol=1e-5)
    assert [scale.dtype, shift.dtype] == [np.float32, np.float32]


@pytest.mark.parametrize(
    ("mean", "deviation", "scale"),
    [
        (3.0, 2.0, 0.5),
        (0.0, 0.0, 0.0),
        (0.0, 2.0**-90, 2.0**90),
        (0.0, 1e-31, 0.0),  # too small for float32
        (1e9, 200.0, 1 / 200),
        (1e9, 90.0, 0.0),  # below the resolution of float32 at 1e9
        (-1e9, 90.0, 0.0),
    ],
)
def test_columns_that_float32_cannot_tell_from_constants_get_scale_0(
    mean, deviation, scale
) -> None:
    assert float(standard_scale(mean, deviation)) == scale
    assert standard_scale([mean, 0.0], [deviation, 4.0]).tolist() == [scale, 0.25]


@pytest.mark.usefixtures("tiny_chunks")
def test_column_scaling_uses_evenly_spaced_rows(monkeypatch) -> None:
    monkeypatch.setattr(scaling, "MAX_ROWS", 4)
    X = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    scale, shift = column_scaling(X)
    few = X[[0, 3, 6, 9]]
    np.testing.assert_allclose(scale, 1 / few.std(0), rtol=1e-5)
    np.testing.assert_allclose(shift, -few.mean(0) / few.std(0), rtol=1e-5)


@pytest.mark.parametrize("constant", [0.0, 0.1, -0.1, -1e8])
def test_a_constant_column_is_removed(constant) -> None:
    scale, shift = column_scaling(np.full((1001, 1), constant))
    assert (scale.item(), shift.item()) == (0, 0)


@pytest.mark.parametrize("factor", [1e-60, 1e-42, 1e-25, 1e25])
def test_scaling_is_finite_for_features_of_any_size(factor) -> None:
    X = factor * np.random.default_rng(0).normal(size=(10, 3))
    for numbers in (*column_scaling(X), row_scaling(sparse.csr_array(X))):
        assert np.isfinite(numbers).all()


def test_a_column_far_from_zero_is_standardised_within_the_resolution_of_float32() -> None:
    """Seconds since 1970, within an hour."""
    seconds = 1.7e9 + np.random.default_rng(0).normal(scale=1000, size=(100, 1))
    assert column_scaling(seconds)[0] == pytest.approx(1 / seconds.std(), rel=1e-3)


def test_column_means_are_added_in_double_precision() -> None:
    X = np.full((2**16, 2), 0.1, np.float32)
    X[0] = 2**22
    scale, shift = column_scaling(X)
    np.testing.assert_allclose(-shift / scale, X.astype(float).mean(0), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
@pytest.mark.usefixtures("tiny_chunks")
def test_row_scaling_brings_rows_to_a_mean_square_norm_of_one(dtype) -> None:
    X = (40 * DENSE[:2]).astype(dtype)
    factor = row_scaling(sparse.csr_array(X))
    assert (np.linalg.norm(factor * X.astype(float), axis=1) ** 2).mean() == pytest.approx(1)
    assert row_scaling(sparse.csr_array((3, 2))) == 1
