"""NumPy files: rows of an array are vectors; an ``.npz`` file is a table, an array per column."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import TableError, one_line, short
from pmvge.tables.sources.file_format import FileFormat
from pmvge.tables.sources.files import ARRAYS
from pmvge.tables.sources.source import Source

ROW, VECTOR = "row number", "vector"  # columns of an .npy file: numbers from 0, and the rows
CHUNK = 1 << 14  # rows
MAX_DENSE = 1 << 30  # bytes of a sparse matrix, made dense
_DAMAGES = (  # what NumPy and zipfile raise for a damaged file
    ValueError,
    OSError,
    EOFError,
    KeyError,
    SyntaxError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)
_SPARSE = {"data", "format", "shape"}  # arrays that scipy.sparse.save_npz writes for every format


class Arrays(FileFormat):
    """Arrays (.npy), with the columns ``row number`` and ``vector``, and tables of arrays (.npz).

    In an ``.npz`` file all arrays have the same number of rows; those of one dimension are columns
    of numbers or texts, others are vectors. Without such a column, ``row number`` is added.
    A sparse matrix that scipy saved has the columns of an ``.npy`` file.
    """

    name = "NumPy"

    def recognizes(self, path: Path, start: bytes) -> bool:
        if start[:6] == b"\x93NUMPY":
            return True
        return start[:4] == b"PK\x03\x04" and path.name.lower().endswith(ARRAYS)

    def stage(
        self, db: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path], source: Source
    ) -> None:
        if len(files) > 1:
            raise TableError(f"{source}: expected one file of arrays, got {len(files)}")
        columns = read_arrays(files[0])
        if list(columns) == [VECTOR] or all(array.ndim > 1 for array in columns.values()):
            columns = {ROW: np.arange(len(next(iter(columns.values())))), **columns}
        db.register(name, as_table(columns))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, by name; that of an ``.npy`` file is mapped, not read.

    Raise TableError if it is damaged, holds Python objects, or arrays of different lengths.
    """
    try:
        with path.open("rb") as stream:
            packed = stream.read(2) == b"PK"
        if not packed:
            arrays = {VECTOR: np.load(path, mmap_mode="r")}  # no objects, by default
        else:
            with path.open("rb") as stream, np.load(stream) as loaded:
                is_sparse = {*loaded.files} >= _SPARSE
                arrays = {} if is_sparse else {key: loaded[key] for key in loaded.files}
            if is_sparse:
                arrays = {VECTOR: _dense(path)}
    except _DAMAGES as error:
        if isinstance(error, ValueError) and "object" in str(error).lower():
            raise TableError(
                f"{path.name}: expected an array of numbers or texts, got Python objects; convert "
                "it before np.save: np.stack(X).astype('float32') for rows of one length, or "
                "X.astype(str) for texts"
            ) from error
        raise TableError(f"{path.name}: cannot be read: {one_line(error)}") from error
    lengths = {key: len(array) if array.ndim else 0 for key, array in arrays.items()}
    if len({*lengths.values()}) != 1 or 0 in lengths.values():
        listed = ", ".join(f"{key} {arrays[key].shape}" for key in list(lengths)[:6])
        raise TableError(
            f"{path.name}: expected arrays with the same number of rows, one or more, got "
            f"{listed or 'no arrays'}"
        )
    return {key: _plain(path, key, array) for key, array in arrays.items()}


def _dense(path: Path) -> NDArray[Any]:
    with path.open("rb") as stream:
        matrix = sparse.load_npz(stream)
    size = int(np.prod(matrix.shape)) * matrix.dtype.itemsize
    if size > MAX_DENSE:
        raise TableError(
            f"{path.name}: a sparse matrix of {matrix.shape[0]:,} x {matrix.shape[1]:,} needs "
            f"{size / 2**30:.1f} GiB as vectors, more than {MAX_DENSE / 2**30:.0f}; pass it from "
            "Python: MultiViewGraph(views={name: scipy.sparse.load_npz(file)}, ...)"
        )
    return np.asarray(matrix.toarray())


def _plain(path: Path, key: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array of numbers or texts; raise TableError for another type."""
    if array.dtype.kind not in "biufUS" or (array.ndim > 1 and array.dtype.kind in "US"):
        raise TableError(
            f"{path.name}: array {short(key)}: expected numbers, or texts in one dimension, got "
            f"{array.dtype} of shape {array.shape}"
        )
    return array


def as_table(columns: Mapping[str, NDArray[Any]]) -> pyarrow.Table:
    """Return arrays with the same number of rows as a table, without copies where possible."""
    return pyarrow.table(
        [pyarrow.chunked_array(_chunks(array)) for array in columns.values()],
        names=list(columns),
    )


def _chunks(array: NDArray[Any]) -> Iterator[pyarrow.Array]:
    for start in range(0, len(array), CHUNK):
        part = array[start : start + CHUNK]
        if part.dtype.kind in "US":
            yield pyarrow.array(np.char.decode(part) if part.dtype.kind == "S" else part)
            continue
        if part.dtype == np.float16 or not part.dtype.isnative:
            part = part.astype(
                np.float32 if part.dtype == np.float16 else part.dtype.newbyteorder("=")
            )
        flat = pyarrow.array(np.ascontiguousarray(part).reshape(-1))
        yield (
            flat
            if part.ndim == 1
            else pyarrow.FixedSizeListArray.from_arrays(flat, int(np.prod(part.shape[1:])))
        )
