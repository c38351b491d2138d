"""Features in ``.npy`` files: opened as maps after checks, written atomically."""

import errno
import io
import json
import os
import re
import threading
import warnings
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmvge import MultiViewGraph
from pmvge.errors import GraphError, StorageError, TableError
from pmvge.graph import is_mapped
from pmvge.tables import open_features
from pmvge.tables.on_disk import mapped
from pmvge.tables.on_disk.mapped import current_metadata, write_features

X = np.arange(24, dtype=np.float32).reshape(8, 3)
ORIGIN = {"files": [["a.parquet", 10, 20]], "columns": ("v", "w")}
needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# -- opening ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", "|u1", "<i4", "|b1"])
@pytest.mark.parametrize("trailing", [(1,), (3,), (2, 2)])
def test_files_of_numpy_are_mapped(tmp_path, dtype, trailing) -> None:
    rows = np.arange(7 * np.prod(trailing)).reshape(7, *trailing).astype(dtype)
    np.save(tmp_path / "X.npy", rows)
    opened = open_features(tmp_path / "X.npy", shape=(None, *trailing), dtype=dtype)
    assert is_mapped(opened)
    assert opened.dtype == np.dtype(dtype)
    assert opened.tobytes() == rows.tobytes()
    with pytest.raises(ValueError, match="read-only"):
        opened[0] = 0


def test_header_version_2(tmp_path) -> None:
    with (tmp_path / "X.npy").open("wb") as stream:
        np.lib.format.write_array(stream, X, (2, 0))
    assert open_features(tmp_path / "X.npy").tolist() == X.tolist()


def saved(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive():
    stream = io.BytesIO()
    np.savez(stream, X=X)
    return stream.getvalue()


def header(shape, descr="<f4"):
    stream = io.BytesIO()
    content = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, content)
    return stream.getvalue()


SAVED = saved(X)
FILES = {
    "empty": (b"", "is not a .npy file of numbers"),
    "text": (b"id,x\n1,2\n" * 9, "is not a .npy file of numbers"),
    "an archive": (archive(), "is not a .npy file of numbers; it is an archive: save each array"),
    "a damaged header": (SAVED[:20] + b"(" + SAVED[21:], "is not a .npy file of numbers"),
    "half a header": (SAVED[:40], "is not a .npy file of numbers"),
    "a newer format": (b"\x93NUMPY\x09\x00" + SAVED[8:], "is not a .npy file of numbers"),
    "objects": (saved(np.array([[{}, 1]], object)), "expected real numbers, got dtype object"),
    "complex numbers": (saved(X * 1j), "expected real numbers, got dtype complex64"),
    "dates": (saved(X.astype("M8[s]")), r"expected real numbers, got dtype datetime64\[s\]"),
    "texts": (saved(X.astype(str)), "expected real numbers, got dtype <U"),
    "fields": (saved(np.zeros(3, [("a", "f4")])), r"expected real numbers, got dtype \[\('a'"),
    "one dimension": (saved(X[0]), r"of shape \(rows, columns, ...\), got shape \(3,\)"),
    "none": (saved(np.float32(1)), r"of shape \(rows, columns, ...\), got shape \(\)"),
    "no rows": (saved(X[:0]), r"of shape \(rows, columns, ...\), got shape \(0, 3\)"),
    "less than none": (header((-8, 3)) + bytes(96), r"of shape .* got shape \(-8, 3\)"),
    "columns first": (saved(np.asfortranarray(X)), "got Fortran order; save np.ascontiguousarray"),
    "truncated": (SAVED[:-1], r"truncated: expected 224 bytes for shape \(8, 3\) .*, got 223$"),
    "a header alone": (header((2**40, 2**40)), r"truncated: expected 4,835,703,278,458,516,698,"),
}


@pytest.mark.parametrize(("content", "message"), FILES.values(), ids=FILES)
def test_other_files_are_refused(tmp_path, content, message) -> None:
    path = tmp_path / "X.npy"
    path.write_bytes(content)
    with pytest.raises(TableError, match=message) as caught:
        open_features(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=80), st.integers(0, len(SAVED)))
def test_damaged_files_raise_a_table_error(tmp_path_factory, damage, at) -> None:
    path = tmp_path_factory.mktemp("damage") / "X.npy"
    path.write_bytes(SAVED[:at] + damage + SAVED[at + len(damage) :])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy warns if the header looks like one of Python 2
            opened = open_features(path, shape=X.shape, dtype=X.dtype)
    except TableError:
        return
    assert opened.shape == X.shape


def test_missing_files(tmp_path) -> None:
    with pytest.raises(TableError, match=r"X.npy: cannot be read: No such file"):
        open_features(tmp_path / "X.npy")
    with pytest.raises(TableError, match=r"cannot be read: Is a directory"):
        open_features(tmp_path)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"dtype": "float16"}, "expected dtype float16, got float32"),
        ({"dtype": ">f4"}, "expected dtype >f4, got float32"),
        ({"shape": (8, 4)}, r"expected shape \(8, 4\), got \(8, 3\)"),
        ({"shape": (None, 4)}, r"expected shape \(any, 4\), got \(8, 3\)"),
        ({"shape": (8, 3, 1)}, r"expected shape \(8, 3, 1\), got \(8, 3\)"),
        ({"shape": (24,)}, r"expected shape \(24,\), got \(8, 3\)"),
    ],
)
def test_expected_shape_and_dtype_are_checked(tmp_path, wanted, message) -> None:
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(TableError, match=message):
        open_features(tmp_path / "X.npy", **wanted)


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        ("c8", (4, 2), "view 'a': expected real numbers, got dtype complex64"),
        ("M8[s]", (4, 2), r"view 'a': expected real numbers, got dtype datetime64\[s\]"),
        ("f4", (8,), r"view 'a': expected an array of shape .*got shape \(8,\)"),
        ("f4", (2, 4), r"links \('a', 'b'\): row indices must lie in 0..1, got 1 outside"),
    ],
)
def test_raw_maps_of_a_wrong_dtype_or_shape_are_refused(tmp_path, dtype, shape, message) -> None:
    """A raw file has no header: np.memmap takes any dtype and shape."""
    rows = np.memmap(tmp_path / "raw", dtype, "w+", shape=shape)
    with pytest.raises(GraphError, match=message):
        MultiViewGraph({"a": rows, "b": 2}, {("a", "b"): ([0, 3], [0, 1], [1, 1])})


# -- writing ----------------------------------------------------------------------------------


def written(path, parts=(X[:5], X[5:]), shape=X.shape, dtype="f4", origin=ORIGIN, **options):
    return write_features(path, shape, dtype, iter(parts), origin, **options)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_parts_are_written_to_one_file_that_numpy_reads(tmp_path, dtype) -> None:
    calls = []
    path = tmp_path / "deep" / "X.npy"
    opened = written(path, dtype=dtype, on_progress=lambda *rows: calls.append(rows))
    assert is_mapped(opened)
    assert np.load(path).dtype == dtype
    assert np.load(path).tolist() == opened.tolist() == X.tolist()
    assert calls == [(5, 8), (8, 8)]
    assert names(tmp_path / "deep") == ["X.npy", "X.npy.json"]


def test_parts_in_any_memory_order(tmp_path) -> None:
    parts = [np.asfortranarray(X[:4]), X[::-1][:4][::-1].astype(">f8")]
    assert written(tmp_path / "X.npy", parts).tolist() == X.tolist()


def test_files_are_reused_only_if_their_origin_is_unchanged(tmp_path) -> None:
    path = tmp_path / "X.npy"
    assert current_metadata(path, ORIGIN) is None
    written(path, metadata=lambda: {"rows": 8})
    assert current_metadata(path, ORIGIN)["rows"] == 8
    for other in ({}, ORIGIN | {"columns": ["v"]}, ORIGIN | {"files": [["a.parquet", 10, 21]]}):
        assert current_metadata(path, other) is None
    os.utime(path, ns=(1, 1))  # touched
    assert current_metadata(path, ORIGIN) is None
    written(path)
    with path.open("ab") as stream:
        stream.write(b"more")
    assert current_metadata(path, ORIGIN) is None
    written(path)
    path.unlink()
    assert current_metadata(path, ORIGIN) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"pmvge features": 99}', "[" * 9999])
def test_other_metadata_is_ignored(tmp_path, text) -> None:
    path = tmp_path / "X.npy"
    written(path)
    content = json.loads((tmp_path / "X.npy.json").read_text())
    (tmp_path / "X.npy.json").write_text(text)
    assert current_metadata(path, ORIGIN) is None
    (tmp_path / "X.npy.json").write_text(json.dumps(content))
    assert current_metadata(path, ORIGIN) is not None


def test_files_that_pmvge_did_not_write_are_kept(tmp_path) -> None:
    path = tmp_path / "X.npy"
    np.save(path, X)
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"X.npy: exists and was not written by pmvge"):
        written(path, [X + 1])
    assert path.read_bytes() == before
    assert names(tmp_path) == ["X.npy"]


def stopped(error):
    yield X[:5]
    raise error


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), TableError("a bad row"), MemoryError()])
def test_a_failed_write_leaves_no_files(tmp_path, error, before) -> None:
    path = tmp_path / "X.npy"
    if before:
        written(path)
    found = names(tmp_path)
    with pytest.raises(type(error)):
        written(path, stopped(error), origin={})
    assert names(tmp_path) == found
    assert (current_metadata(path, ORIGIN) is not None) == before
    assert not before or np.load(path).tolist() == X.tolist()


def test_an_interrupt_between_metadata_and_file_is_detected(tmp_path, monkeypatch) -> None:
    path = tmp_path / "X.npy"
    written(path)
    replace = Path.replace

    def interrupted(self, target):
        if target == path:
            raise KeyboardInterrupt
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        written(path, [X + 1], origin={"new": 1})
    monkeypatch.undo()
    assert np.load(path).tolist() == X.tolist()
    assert current_metadata(path, {"new": 1}) is None  # the metadata is new, the file is not
    assert written(path, [X + 1], origin={"new": 1}).tolist() == (X + 1).tolist()
    assert names(tmp_path) == ["X.npy", "X.npy.json"]


def test_an_open_map_keeps_the_content_of_a_replaced_file(tmp_path) -> None:
    first = written(tmp_path / "X.npy")
    written(tmp_path / "X.npy", [X + 1], origin={})
    assert first.tolist() == X.tolist()


@pytest.mark.parametrize("parts", [[X[:7]], [X, X[:1]], []])
def test_rows_are_counted(tmp_path, parts) -> None:
    found = sum(map(len, parts))
    with pytest.raises(TableError, match=rf"X.npy: expected 8 rows, got {found}; the source"):
        written(tmp_path / "X.npy", parts)
    assert names(tmp_path) == []


# -- no space ---------------------------------------------------------------------------------


def test_free_space_is_checked_before_writing(tmp_path, monkeypatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(mapped.shutil, "disk_usage", lambda _: usage(1000, 905, 95))
    message = re.escape(f"{tmp_path / 'X.npy'}: no space for the converted features: ")
    with pytest.raises(StorageError, match=rf"^{message}96 bytes are needed, 95 are free in /"):
        written(tmp_path / "X.npy", stopped(AssertionError("not reached")))
    assert names(tmp_path) == []


@needs_full
@pytest.mark.parametrize("before", [False, True])
def test_a_disk_that_becomes_full(tmp_path, before) -> None:
    path = tmp_path / "X.npy"
    if before:
        written(path)
    found = names(tmp_path)
    (tmp_path / f".X.npy.{os.getpid()}.{threading.get_native_id()}.partial").symlink_to("/dev/full")
    with pytest.raises(
        StorageError, match=r"^.*X.npy: no space .*: 96 bytes are needed, [\d,]+ ar"
    ):
        written(path, origin={})
    assert names(tmp_path) == found
    assert not before or np.load(path).tolist() == X.tolist()


def test_other_write_errors(tmp_path) -> None:
    with pytest.raises(StorageError, match=r"X.npy: cannot be written: Input/output error"):
        written(tmp_path / "X.npy", stopped(OSError(errno.EIO, os.strerror(errno.EIO))))
    assert names(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write the features"):
        written(tmp_path / "file" / "X.npy")
