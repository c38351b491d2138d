"""Convert vectors in Parquet files to one memory-mapped ``.npy`` file, batch by batch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import torch
from numpy.typing import NDArray

from pmvge.errors import ParameterError, TableError, choose
from pmvge.graph import Ids, all_finite
from pmvge.progress import OnProgress
from pmvge.tables.columns.casts import check_column
from pmvge.tables.on_disk.mapped import (
    current_metadata,
    fingerprint_files,
    open_features,
    write_features,
)
from pmvge.tables.sources.connection import table_errors
from pmvge.tables.sources.files import PARQUET, find_files

BATCH_NUMBERS = 1 << 20  # numbers converted at once
BUFFER = 1 << 20  # bytes read at once: a row group can be as large as the file
DTYPES = ("float32", "float16")
Files = str | Path | Sequence[str | Path]


def features_from_parquet(
    source: Files,
    output: str | Path,
    *,
    columns: str | Sequence[str] | None = None,
    dtype: str = "float32",
    progress: OnProgress | None = None,
) -> np.memmap[Any, Any]:
    """Convert vectors in Parquet files to a ``.npy`` file and open it as a memory map.

    One batch is in memory at a time. The conversion runs once: if ``output`` was made from the same
    files with the same options, it is opened as it is. ``X.npy.json``, beside ``X.npy``, records
    the names, sizes and modification times of the files. If the conversion fails, an earlier
    ``output`` is unchanged and no other file remains.

    Parameters
    ----------
    source
        A file, a folder (all Parquet files in it and its subfolders), a glob, or a list of files.
        Rows are in the order of the file names, or of the list.
    output
        The ``.npy`` file.
    columns
        Columns of numbers, or of lists of one length, which are concatenated. Patterns such as
        ``"x*"`` are allowed. Default: the only column of lists, or, without such a column, all
        columns of floating-point numbers.
    dtype
        "float32", or "float16" (half the size, three digits, numbers up to 65,504).
    progress
        Called after each batch with the rows done and the number of rows.

    Raises
    ------
    TableError
        A file cannot be read, or a value is missing, not finite, too large for ``dtype``, or not a
        vector of the expected length. The message names the file, row and column.
    StorageError
        ``output`` cannot be written, or exists and was not written by pmvge.
    """
    choose("dtype", dtype, DTYPES)
    path = Path(output)
    if path.suffix != ".npy":
        raise ParameterError(f"output: expected a name that ends in .npy, got {str(output)!r}")
    if columns is not None and not columns:
        raise ParameterError("columns: expected at least one name, got none")
    files = _find_all(source)
    wanted = [columns] if isinstance(columns, str) else None if columns is None else [*columns]
    with table_errors(_describe(source)):
        origin = {"files": fingerprint_files(files), "columns": wanted, "dtype": dtype}
    if current_metadata(path, origin) is not None:
        return open_features(path, dtype=dtype)
    rows = sum(_open(file).metadata.num_rows for file in files)
    if not rows:
        raise TableError(f"{_describe(source)}: has no rows")
    widths = _column_widths(files, wanted)
    shape = (rows, sum(widths.values()))
    return write_features(
        path,
        shape,
        dtype,
        _parts(files, widths, np.dtype(dtype)),
        origin,
        on_progress=progress,
    )


def ids_from_parquet(source: Files, column: str) -> Ids:
    """Return a column of ids in the row order of :func:`features_from_parquet`.

    Raise TableError if the column or an id is missing.
    """
    parts = []
    for path in _find_all(source):
        opened = _open(path)
        check_column(str(path), column, opened.schema_arrow.names)
        with table_errors(str(path)):
            values = opened.read([column])[column]
        if values.null_count:
            raise TableError(f"{path}: id column {column!r}: {values.null_count:,} ids are empty")
        parts.append(values.to_numpy())
    ids = np.concatenate(parts)
    return ids.astype(str) if ids.dtype == object else ids


def _describe(source: Files) -> str:
    return str(source) if isinstance(source, str | Path) else f"{len(source)} files"


def _find_all(source: Files) -> list[Path]:
    if not isinstance(source, str | Path):
        files = [path for part in source for path in _find_all(part)]
        if not files:
            raise TableError("expected Parquet files, got an empty list")
        return files
    folder = Path(source)
    if not folder.is_dir():
        return find_files(Path(), str(source))
    files = sorted(path for path in folder.rglob("*") if path.name.endswith(PARQUET))
    files = [f for f in files if not re.search(r"(^|/)[._]", f.relative_to(folder).as_posix())]
    if not files:
        raise TableError(f"{source}: no Parquet file in this folder")
    return files


def _open(path: Path) -> Any:
    with table_errors(str(path)):
        return pyarrow.parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)


def _batches(path: Path, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, Any]]:
    opened = _open(path)
    for column in columns:
        check_column(str(path), column, opened.schema_arrow.names)
    with table_errors(str(path)):
        for batch in opened.iter_batches(rows, columns=[*columns], use_threads=False):
            yield dict(zip(batch.schema.names, batch.columns, strict=True))


def _is_list(kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


def _column_widths(files: Sequence[Path], wanted: list[str] | None) -> dict[str, int]:
    """Return the chosen columns and the numbers per row of each, from the first row."""
    path = next(path for path in files if _open(path).metadata.num_rows)
    kinds = {field.name: field.type for field in _open(path).schema_arrow}
    chosen = _choose_columns(str(path), kinds, wanted)
    first = next(_batches(path, chosen, 1))
    widths = {}
    for name in chosen:
        kind, (value,) = kinds[name], first[name].to_pylist()
        if not _is_number(kind.value_type if _is_list(kind) else kind):
            raise TableError(
                f"{path}: column {name!r}: expected numbers or lists of numbers, got {kind}"
            )
        if value is None:
            raise _missing(path, 0, name)
        widths[name] = len(value) if _is_list(kind) else 1
        if not widths[name]:
            raise TableError(f"{path}: row 0, column {name!r}: expected a vector, got an empty one")
    return widths


def _choose_columns(where: str, kinds: Mapping[str, Any], wanted: list[str] | None) -> list[str]:
    if wanted is None:
        lists = [name for name, kind in kinds.items() if _is_list(kind)]
        floats = [name for name, kind in kinds.items() if pyarrow.types.is_floating(kind)]
        if len(lists) == 1 or (floats and not lists):
            return lists or floats
        listed = ", ".join(f"{name!r} ({kind})" for name, kind in [*kinds.items()][:12])
        raise TableError(
            f"{where}: cannot guess the feature columns; pass columns=..., from {listed}"
        )
    chosen: dict[str, None] = {}
    for name in wanted:
        matching = [c for c in kinds if c == name] or [c for c in kinds if fnmatchcase(c, name)]
        chosen |= dict.fromkeys(matching or [check_column(where, name, kinds)])
    return [*chosen]


def _parts(
    files: Sequence[Path], widths: Mapping[str, int], dtype: np.dtype[Any]
) -> Iterator[NDArray[Any]]:
    """Yield all rows, batch by batch, as arrays (rows, sum of the widths)."""
    total = sum(widths.values())
    for path in files:
        start = 0
        for batch in _batches(path, [*widths], max(1, BATCH_NUMBERS // total)):
            given = {
                name: _numbers(path, start, name, batch[name], width)
                for name, width in widths.items()
            }
            X = np.hstack([_convert(dtype, values) for values in given.values()])
            if not all_finite(X):
                raise _not_finite(path, start, given, X)
            yield X
            start += len(X)


def _numbers(path: Path, start: int, name: str, values: Any, width: int) -> NDArray[Any]:
    """Return the numbers (rows, width) of one column of a batch that begins at row ``start``."""
    if values.null_count:
        raise _missing(path, start + _first_true(values.is_null()), name)
    flat = values
    if _is_list(values.type):
        lengths = pyarrow.compute.list_value_length(values).to_numpy(zero_copy_only=False)
        if (lengths != width).any():
            row = int(np.argmax(lengths != width))
            raise TableError(
                f"{_position(path, start + row, name)}: expected a vector of length {width}, as in "
                f"the first row, got one of {lengths[row]}"
            )
        flat = values.flatten()
    if not _is_number(flat.type) or len(flat) != len(values) * width:
        raise TableError(
            f"{path}: column {name!r}: expected {width} numbers a row, as in the first file, "
            f"got {values.type}"
        )
    if flat.null_count:
        raise _missing(path, start + _first_true(flat.is_null()) // width, name)
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, width)


def _convert(dtype: np.dtype[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as another dtype; infinite where they are too large for it."""
    if values.dtype == np.float32 and dtype == np.float16:
        # torch uses the CPU's conversion instructions.
        return torch.from_numpy(np.array(values)).half().numpy()
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def _first_true(flags: Any) -> int:
    return int(np.argmax(flags.to_numpy(zero_copy_only=False)))


def _position(path: Path, row: int, name: str) -> str:
    return f"{path}: row {row:,} (the first is 0), column {name!r}"


def _missing(path: Path, row: int, name: str) -> TableError:
    return TableError(f"{_position(path, row, name)}: expected numbers, got a missing value")


def _not_finite(
    path: Path, start: int, given: Mapping[str, NDArray[Any]], X: NDArray[Any]
) -> TableError:
    """Return the error for the first number in X that is not finite."""
    row, column = map(int, np.argwhere(~np.isfinite(X))[0])
    columns = [(name, at) for name, values in given.items() for at in range(values.shape[1])]
    name, at = columns[column]
    position = _position(path, start + row, name) + (
        f", element {at}" if given[name].shape[1] > 1 else ""
    )
    value = given[name][row, at]
    if not np.isfinite(value):
        return TableError(f"{position}: expected finite numbers, got {value}")
    hint = "; use dtype='float32'" if X.dtype == np.float16 else ""
    largest = np.finfo(X.dtype).max
    return TableError(
        f"{position}: {value:g} is too large for {X.dtype} (at most {largest:g}){hint}"
    )
