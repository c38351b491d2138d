"""Vectors in Parquet files: converted once to a mapped file; errors name file, row and column."""

import os
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pmvge import MultiViewGraph
from pmvge.errors import ParameterError, StorageError, TableError
from pmvge.graph import is_mapped
from pmvge.tables import features_from_parquet, ids_from_parquet
from pmvge.tables.on_disk import mapped, parquet

NAN, INF = float("nan"), float("inf")
X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


def lists(rows, kind=None):
    return pa.array(
        [list(row) for row in np.asarray(rows).tolist()], kind or pa.list_(pa.float32())
    )


@pytest.fixture
def put(tmp_path):
    """Return a function that writes a table to a Parquet file and returns its path."""

    def write(name, columns, **options):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        pq.write_table(
            columns if isinstance(columns, pa.Table) else pa.table(columns), path, **options
        )
        return path

    return write


@pytest.fixture
def small_batches(monkeypatch):
    """Set batches to seven rows of four numbers."""
    monkeypatch.setattr(parquet, "BATCH_NUMBERS", 28)


# -- what is read -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "element", [pa.float16(), pa.float32(), pa.float64(), pa.int8(), pa.int64()]
)
@pytest.mark.parametrize("make", [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 4)])
@pytest.mark.usefixtures("small_batches")
def test_lists_of_every_type(tmp_path, put, make, element, dtype) -> None:
    given_rows = (10 * X).astype(element.to_pandas_dtype())
    path = put(
        "v.parquet", {"id": range(50), "v": lists(given_rows, make(element))}, row_group_size=9
    )
    found = features_from_parquet(path, tmp_path / "X.npy", dtype=dtype)
    assert is_mapped(found)
    assert not found.flags.writeable
    assert found.dtype == dtype
    assert found.tobytes() == given_rows.astype(dtype).tobytes()
    assert np.load(tmp_path / "X.npy").tobytes() == found.tobytes()


@pytest.mark.usefixtures("small_batches")
def test_columns_of_numbers_and_lists_side_by_side(tmp_path, put) -> None:
    table = {
        "id": range(50),
        "x1": X[:, 0],
        "x2": X[:, 1].astype(float),
        "n": range(50),
        "v": lists(X),
    }
    path = put("v.parquet", table)
    for columns, wanted in (
        (["x*", "n"], [X[:, :2], np.arange(50)[:, None]]),
        (["v", "x2"], [X, X[:, 1:2]]),
        ("v", [X]),
        (("x2", "x?"), [X[:, 1:2], X[:, :1]]),
    ):
        found = features_from_parquet(path, tmp_path / "X.npy", columns=columns)
        assert found.tolist() == np.hstack(wanted).tolist()


def test_names_with_dots_and_brackets(tmp_path, put) -> None:
    path = put("[1].parquet", {"x.1": X[:, 0], "x": X[:, 1], "x.1.2": X[:, 2], "x[1]": lists(X)})
    for columns, wanted in (("x.1", X[:, :1]), ("x", X[:, 1:2]), ("x[1]", X)):
        found = features_from_parquet(path, tmp_path / "X.npy", columns=columns)
        assert found.tolist() == wanted.tolist()


def test_default_columns(tmp_path, put) -> None:
    output = tmp_path / "X.npy"
    one = put("one.parquet", {"id": range(50), "score": X[:, 0], "v": lists(X)})
    assert features_from_parquet(one, output).tolist() == X.tolist()
    plain = put("plain.parquet", {"id": range(50), "a": X[:, 0], "b": X[:, 1].astype(float)})
    assert features_from_parquet(plain, output).tolist() == X[:, :2].tolist()
    two = put("two.parquet", {"v": lists(X), "w": lists(X)})
    none = put("none.parquet", {"id": range(50), "t": ["a"] * 50})
    for path, listed in ((two, r"'v' \(list<"), (none, r"'id' \(int64\), 't' \(string\)")):
        with pytest.raises(TableError, match=rf"cannot guess the feature columns; .*{listed}"):
            features_from_parquet(path, output)


@pytest.mark.usefixtures("small_batches")
def test_files_folders_globs_and_lists(tmp_path, put, monkeypatch) -> None:
    parts = np.split(X, [10, 10, 37])  # one is empty
    for name, rows, start in zip("bcad", parts, (0, 10, 10, 37), strict=True):
        ids = [f"i{at}" for at in range(start, start + len(rows))]
        put(f"all/{name}/part.parquet", {"id": ids, "v": lists(rows)})
    put("all/_temporary/part.parquet", {"v": lists(X)})
    put("all/.hidden.parquet", {"v": lists(X)})
    (tmp_path / "all" / "_SUCCESS").write_text("")
    order = [*range(10, 37), *range(10), *range(37, 50)]  # a, b, c, d
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "all"
    for source in (folder, "all", "all/[a-d]/*.parquet", [folder / "a", "all/b", "all/c", "all/d"]):
        found = features_from_parquet(source, tmp_path / "X.npy", columns="v")
        assert found.tolist() == X[order].tolist()
        assert ids_from_parquet(source, "id").tolist() == [f"i{at}" for at in order]
    last = features_from_parquet(["all/d/part.parquet", "all/b"], tmp_path / "X.npy")
    assert last.tolist() == [*X[37:].tolist(), *X[:10].tolist()]


def test_ids(put) -> None:
    path = put("v.parquet", {"n": [3, 1, 2], "t": ["c", "a", "b"], "none": ["c", None, None]})
    assert ids_from_parquet(path, "n").dtype == np.int64
    assert ids_from_parquet(path, "t").tolist() == ["c", "a", "b"]
    with pytest.raises(TableError, match=r"v.parquet: id column 'none': 2 ids are empty"):
        ids_from_parquet(path, "none")
    with pytest.raises(TableError, match=r"v.parquet: no column 'id'; the columns are 'n', 't'"):
        ids_from_parquet(path, "id")
    graph = MultiViewGraph(
        {"a": np.ones((3, 1))}, {("a", "a"): ([0], [1], [1])}, {"a": ["c", "a", "b"]}
    )
    assert graph.ids["a"].tolist() == ids_from_parquet(path, "t").tolist()


@given(arrays.arrays(np.float32, (5, 3), elements=st.floats(-60000, 60000, width=32)))
def test_float16_rounds_as_numpy_does(tmp_path_factory, rows) -> None:
    folder = tmp_path_factory.mktemp("halves")
    pq.write_table(pa.table({"v": lists(rows)}), folder / "v.parquet")
    found = features_from_parquet(folder, folder / "X.npy", dtype="float16")
    assert found.tobytes() == rows.astype(np.float16).tobytes()


def test_memory_holds_one_batch(tmp_path, put, monkeypatch) -> None:
    """All rows are in one row group."""
    n, p = 100_000, 64
    rows = np.random.default_rng(0).normal(size=(n, p)).astype(np.float32)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), p)
    path = put("v.parquet", {"v": flat}, row_group_size=n)
    monkeypatch.setattr(parquet, "BATCH_NUMBERS", 1 << 16)
    peak, start = [], pa.total_allocated_bytes()
    tracemalloc.start()
    found = features_from_parquet(
        path,
        tmp_path / "X.npy",
        progress=lambda *_: peak.append(pa.total_allocated_bytes() - start),
    )
    numpys = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(peak) == 98
    assert max(peak) + numpys < rows.nbytes / 4
    assert found.tobytes() == rows.tobytes()


# -- once ---------------------------------------------------------------------------------------


@pytest.fixture
def conversions(monkeypatch):
    """Record each conversion."""
    made = []
    write = parquet.write_features

    def counted(path, *rest, **options):
        made.append(path)
        return write(path, *rest, **options)

    monkeypatch.setattr(parquet, "write_features", counted)
    return made


def test_a_source_is_converted_once(tmp_path, put, conversions) -> None:
    put("all/a.parquet", {"v": lists(X), "w": lists(X + 1)})
    folder, output = tmp_path / "all", tmp_path / "X.npy"

    def convert(made, wanted, columns="v", **options):
        found = features_from_parquet(folder, output, columns=columns, **options)
        assert found.tolist() == np.asarray(wanted).tolist()
        assert len(conversions) == made
        return found

    convert(1, X)
    opened = convert(1, X)
    assert is_mapped(opened)
    convert(1, X, columns=["v"])  # the same columns
    convert(2, X + 1, columns="w")
    convert(3, X)
    convert(4, X.astype(np.float16), dtype="float16")
    convert(4, X.astype(np.float16), dtype="float16")
    put("all/a.parquet", {"v": lists(X + 2), "w": lists(X)})
    convert(5, X + 2)
    os.utime(folder / "a.parquet", ns=(5, 5))
    convert(6, X + 2)
    put("all/b.parquet", {"v": lists(X)})
    convert(7, [*(X + 2), *X])
    (folder / "b.parquet").rename(folder / "0.parquet")
    convert(8, [*X, *(X + 2)])
    (folder / "0.parquet").unlink()
    convert(9, X + 2)
    output.write_bytes(output.read_bytes()[:-8])  # damaged
    convert(10, X + 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.npy", "X.npy.json", "all"]


def test_converted_files_do_not_open_the_source(tmp_path, put, monkeypatch) -> None:
    path = put("v.parquet", {"v": lists(X)})
    features_from_parquet(path, tmp_path / "X.npy")
    monkeypatch.setattr(parquet, "_open", None)
    features_from_parquet(path, tmp_path / "X.npy")


def test_progress_is_called_after_each_batch(tmp_path, put, monkeypatch) -> None:
    monkeypatch.setattr(parquet, "BATCH_NUMBERS", 80)
    calls = []
    path = put("v.parquet", {"v": lists(X)})
    features_from_parquet(path, tmp_path / "X.npy", progress=lambda *rows: calls.append(rows))
    assert calls == [(20, 50), (40, 50), (50, 50)]


# -- what is refused --------------------------------------------------------------------------


def rows_with(value, row=17, at=2):
    rows = X.astype(float).tolist()
    rows[row][at] = value
    return rows


RAGGED = X.tolist()
RAGGED[17] = RAGGED[17][:3]
BAD = {
    "ragged": ({"v": RAGGED}, "row 17 .*, column 'v': expected a vector of length 4.*got one of 3"),
    "longer": ({"v": [*X.tolist(), [1.0] * 9]}, "row 50 .*'v': .* length 4.*got one of 9"),
    "empty": ({"v": [[], *X.tolist()]}, "row 0, column 'v': expected a vector, got an empty one"),
    "emptied": ({"v": [*X.tolist(), []]}, "row 50 .*'v': .* length 4.*got one of 0"),
    "no list": (
        {"v": [*X[:9].tolist(), None]},
        "row 9 .*'v': expected numbers, got a missing value",
    ),
    "no first list": ({"v": [None, *X.tolist()]}, "row 0 .*'v': expected numbers, got a missing"),
    "no element": ({"v": rows_with(None)}, "row 17 .*'v': expected numbers, got a missing value"),
    "NaN": ({"v": rows_with(NAN)}, "row 17 .*'v', element 2: expected finite numbers, got nan"),
    "infinite": ({"v": rows_with(-INF)}, "row 17 .*'v', element 2: expected finite .* got -inf"),
    "too large": ({"v": rows_with(1e39)}, r"row 17 .*element 2: 1e\+39 is too large for float32"),
    "no number": (
        {"a": [1.0, None]},
        "row 1 .*, column 'a': expected numbers, got a missing value",
    ),
    "NaN in a column": ({"a": [1.0] * 3, "b": [1, 2, NAN]}, "row 2 .*, column 'b': .*, got nan"),
    "words": (
        {"v": [["a"]]},
        "column 'v': expected numbers or lists of numbers, got list<.*string>",
    ),
    "lists of lists": ({"v": [[[1.0]]]}, "column 'v': expected numbers or lists of numbers, got"),
}


@pytest.mark.parametrize(("columns", "message"), BAD.values(), ids=BAD)
@pytest.mark.usefixtures("small_batches")
def test_errors_name_the_row_and_column(tmp_path, put, columns, message) -> None:
    path = put("v.parquet", {"id": range(len(next(iter(columns.values())))), **columns})
    with pytest.raises(TableError, match=f"^{re.escape(str(path))}: .*{message}") as caught:
        features_from_parquet(path, tmp_path / "X.npy")
    assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["v.parquet"]


@pytest.mark.usefixtures("small_batches")
def test_row_numbers_count_within_a_file(tmp_path, put) -> None:
    put("all/a.parquet", {"v": lists(X)})
    put("all/b.parquet", {"v": RAGGED})
    with pytest.raises(TableError, match=r"all/b.parquet: row 17 \(the first is 0\), column 'v': "):
        features_from_parquet(tmp_path / "all", tmp_path / "X.npy")


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.int32()])
def test_values_too_large_for_float16(tmp_path, put, kind) -> None:
    largest = pa.array([65504, -65504, 7], kind)
    path = put("v.parquet", {"a": largest})
    options = {"columns": "a", "dtype": "float16"}
    found = features_from_parquet(path, tmp_path / "X.npy", **options)
    assert found.ravel().tolist() == [65504, -65504, 7]
    path = put("v.parquet", {"a": pa.array([1, 70000], kind)})
    message = r"row 1 .*'a': 70000 is too large for float16 \(at most 65504\); use dtype='float32'"
    with pytest.raises(TableError, match=message):
        features_from_parquet(path, tmp_path / "X.npy", **options)
    assert features_from_parquet(path, tmp_path / "X.npy", columns="a")[1] == 70000


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"w": lists(X)}, "all/b.parquet: no column 'v'; the columns are 'w'"),
        ({"v": X[:, 0]}, "all/b.parquet: column 'v': expected 4 numbers a row, .* got float"),
        ({"v": [["a"] * 4]}, "all/b.parquet: column 'v': expected 4 numbers a row, .* got list<"),
    ],
)
def test_files_with_different_columns(tmp_path, put, other, message) -> None:
    put("all/a.parquet", {"v": lists(X)})
    put("all/b.parquet", other)
    with pytest.raises(TableError, match=message):
        features_from_parquet(tmp_path / "all", tmp_path / "X.npy")
    assert not (tmp_path / "X.npy").exists()


def test_bad_sources_and_options(tmp_path, put) -> None:
    output = tmp_path / "X.npy"
    whole = put("v.parquet", {"v": lists(X)}).read_bytes()
    for content in (b"", b"id,v\n", whole[:-8], whole[: len(whole) // 2]):
        (tmp_path / "bad.parquet").write_bytes(content)
        with pytest.raises(TableError, match=r"bad.parquet: cannot be read: ") as caught:
            features_from_parquet(tmp_path / "bad.parquet", output)
        assert "\n" not in str(caught.value)
    (tmp_path / "empty").mkdir()
    none = put("none.parquet", pa.table({"v": pa.array([], pa.list_(pa.float32()))}))
    for source, message in (
        (tmp_path / "w.parquet", "no such file in .*there are .*v.parquet"),
        (tmp_path / "empty", "empty: no Parquet file in this folder"),
        ([], "expected Parquet files, got an empty list"),
        (none, "none.parquet: has no rows"),
        ([none, none], "2 files: has no rows"),
    ):
        with pytest.raises(TableError, match=message):
            features_from_parquet(source, output)
    with pytest.raises(TableError, match="no column 'w'; the columns are 'v'"):
        features_from_parquet(tmp_path / "v.parquet", output, columns="w")
    with pytest.raises(ParameterError, match=r"output: expected a name that ends in .npy, got"):
        features_from_parquet(tmp_path / "v.parquet", tmp_path / "X")
    for columns in ([], ""):
        with pytest.raises(ParameterError, match="columns: expected at least one name, got none"):
            features_from_parquet(tmp_path / "v.parquet", output, columns=columns)
    with pytest.raises(ParameterError, match=r"unknown dtype 'float8': .*; did you mean"):
        features_from_parquet(tmp_path / "v.parquet", output, dtype="float8")


def test_damaged_row_groups(tmp_path, put) -> None:
    path = put("v.parquet", {"v": lists(X)}, compression="zstd", row_group_size=10)
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 40] = b"\xff" * 40
    path.write_bytes(content)
    with pytest.raises(TableError, match=r"v.parquet: "):
        features_from_parquet(path, tmp_path / "X.npy")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["v.parquet"]


def test_no_space(tmp_path, put, monkeypatch) -> None:
    path = put("v.parquet", {"v": lists(X)})
    usage = mapped.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(mapped.shutil, "disk_usage", lambda _: usage._replace(free=100))
    with pytest.raises(StorageError, match=r"X.npy: no space .*: 800 bytes are needed, 100 are fr"):
        features_from_parquet(path, tmp_path / "X.npy")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["v.parquet"]


def test_files_that_pmvge_did_not_write_are_not_overwritten(tmp_path, put) -> None:
    np.save(tmp_path / "mine.npy", X)
    path = put("v.parquet", {"v": lists(X + 1)})
    with pytest.raises(StorageError, match=r"mine.npy: exists and was not written by pmvge"):
        features_from_parquet(path, tmp_path / "mine.npy")
    assert np.load(Path(tmp_path / "mine.npy")).tolist() == X.tolist()
