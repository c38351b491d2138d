"""Vectors in Parquet files to one ``.npy`` file, batch by batch, so that they can be mapped."""

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
from pmvge.tables.columns.casts import check_column
from pmvge.tables.on_disk.mapped import Progress, made_from, open_features, states, write_features
from pmvge.tables.sources.files import PARQUET, find
from pmvge.tables.sources.workbench import readable

NUMBERS = 1 << 20  # converted at once
BUFFER = 1 << 20  # bytes read at once: a row group may be as large as a file
DTYPES = ("float32", "float16")
Files = str | Path | Sequence[str | Path]


def features_from_parquet(
    source: Files,
    output: str | Path,
    *,
    columns: str | Sequence[str] | None = None,
    dtype: str = "float32",
    progress: Progress | None = None,
) -> np.memmap[Any, Any]:
    """Convert vectors in Parquet files to a ``.npy`` file, and map it; memory holds one batch.

    It is done once: a file that was made from the same source in the same way is opened as it is.
    ``X.npy.json``, beside ``X.npy``, notes the names, sizes and times of the files. If something
    goes wrong, nothing is left behind, and what was there before is still there.

    Parameters
    ----------
    source
        A file, a folder (all its Parquet files, those in folders inside it too), a glob, or a list
        of files. Rows are in the order of the files' names, or of the list.
    output
        The ``.npy`` file.
    columns
        Columns of numbers, or of lists that all have one length, side by side; patterns such as
        ``"x*"`` are understood. Default: the one column of lists, or, if there is no such, all
        columns of floating-point numbers.
    dtype
        "float32", or "float16": half the size, three digits, numbers up to 65,504.
    progress
        Called with the rows done and the rows in all, after each batch.
    """
    choose("dtype", dtype, DTYPES)
    place = Path(output)
    if place.suffix != ".npy":
        raise ParameterError(f"output: expected a name that ends in .npy, got {str(output)!r}")
    if columns is not None and not columns:
        raise ParameterError("columns: expected at least one name, got none")
    files = _find_all(source)
    asked = [columns] if isinstance(columns, str) else None if columns is None else [*columns]
    with readable(_told(source)):
        origin = {"files": states(files), "columns": asked, "dtype": dtype}
    if made_from(place, origin) is not None:
        return open_features(place, dtype=dtype)
    rows = sum(_opened(path).metadata.num_rows for path in files)
    if not rows:
        raise TableError(f"{_told(source)}: has no rows")
    widths = _layout(files, asked)
    shape = (rows, sum(widths.values()))
    return write_features(
        place, shape, dtype, _parts(files, widths, np.dtype(dtype)), origin, progress=progress
    )


def ids_from_parquet(source: Files, column: str) -> Ids:
    """A column of ids, in the order in which :func:`features_from_parquet` takes the rows."""
    parts = []
    for path in _find_all(source):
        opened = _opened(path)
        check_column(str(path), column, opened.schema_arrow.names)
        with readable(str(path)):
            found = opened.read([column])[column]
        if found.null_count:
            raise TableError(f"{path}: id column {column!r}: {found.null_count:,} ids are empty")
        parts.append(found.to_numpy())
    ids = np.concatenate(parts)
    return ids.astype(str) if ids.dtype == object else ids


def _told(source: Files) -> str:
    return str(source) if isinstance(source, str | Path) else f"{len(source)} files"


def _find_all(source: Files) -> list[Path]:
    if not isinstance(source, str | Path):
        files = [path for one in source for path in _find_all(one)]
        if not files:
            raise TableError("expected Parquet files, got an empty list")
        return files
    folder = Path(source)
    if not folder.is_dir():
        return find(Path(), str(source))
    files = sorted(path for path in folder.rglob("*") if path.name.endswith(PARQUET))
    files = [f for f in files if not re.search(r"(^|/)[._]", f.relative_to(folder).as_posix())]
    if not files:
        raise TableError(f"{source}: no Parquet file in this folder")
    return files


def _opened(path: Path) -> Any:
    with readable(str(path)):
        return pyarrow.parquet.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)


def _batches(path: Path, columns: Sequence[str], rows: int) -> Iterator[Mapping[str, Any]]:
    opened = _opened(path)
    for column in columns:
        check_column(str(path), column, opened.schema_arrow.names)
    with readable(str(path)):
        for batch in opened.iter_batches(rows, columns=[*columns], use_threads=False):
            yield dict(zip(batch.schema.names, batch.columns, strict=True))


def _is_list(kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))


def _layout(files: Sequence[Path], asked: list[str] | None) -> dict[str, int]:
    """The columns to take and how many numbers each has, by the first row."""
    path = next(path for path in files if _opened(path).metadata.num_rows)
    kinds = {field.name: field.type for field in _opened(path).schema_arrow}
    chosen = _choose(str(path), kinds, asked)
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


def _choose(where: str, kinds: Mapping[str, Any], asked: list[str] | None) -> list[str]:
    if asked is None:
        lists = [name for name, kind in kinds.items() if _is_list(kind)]
        floats = [name for name, kind in kinds.items() if pyarrow.types.is_floating(kind)]
        if len(lists) == 1 or (floats and not lists):
            return lists or floats
        listed = ", ".join(f"{name!r} ({kind})" for name, kind in [*kinds.items()][:12])
        raise TableError(f"{where}: which columns are the features? Say columns=...: {listed}")
    chosen: dict[str, None] = {}
    for name in asked:
        matching = [c for c in kinds if c == name] or [c for c in kinds if fnmatchcase(c, name)]
        chosen |= dict.fromkeys(matching or [check_column(where, name, kinds)])
    return [*chosen]


def _parts(
    files: Sequence[Path], widths: Mapping[str, int], dtype: np.dtype[Any]
) -> Iterator[NDArray[Any]]:
    """All rows, some thousands at a time, as arrays (rows, sum of the widths)."""
    total = sum(widths.values())
    for path in files:
        start = 0
        for batch in _batches(path, [*widths], max(1, NUMBERS // total)):
            given = {
                name: _numbers(path, start, name, batch[name], width)
                for name, width in widths.items()
            }
            X = np.hstack([_as(dtype, values) for values in given.values()])
            if not all_finite(X):
                raise _not_finite(path, start, given, X)
            yield X
            start += len(X)


def _numbers(path: Path, start: int, name: str, values: Any, width: int) -> NDArray[Any]:
    """The numbers (rows, width) of one column of a batch, whose first row is ``start``."""
    if values.null_count:
        raise _missing(path, start + _first(values.is_null()), name)
    flat = values
    if _is_list(values.type):
        lengths = pyarrow.compute.list_value_length(values).to_numpy(zero_copy_only=False)
        if (lengths != width).any():
            row = int(np.argmax(lengths != width))
            raise TableError(
                f"{_place(path, start + row, name)}: expected a vector of length {width}, as in "
                f"the first row, got one of {lengths[row]}"
            )
        flat = values.flatten()
    if not _is_number(flat.type) or len(flat) != len(values) * width:
        raise TableError(
            f"{path}: column {name!r}: expected {width} numbers a row, as in the first file, "
            f"got {values.type}"
        )
    if flat.null_count:
        raise _missing(path, start + _first(flat.is_null()) // width, name)
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(-1, width)


def _as(dtype: np.dtype[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Numbers of another type; infinite where that cannot hold them."""
    if values.dtype == np.float32 and dtype == np.float16:  # torch has instructions for it
        return torch.from_numpy(np.array(values)).half().numpy()
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def _first(flags: Any) -> int:
    return int(np.argmax(flags.to_numpy(zero_copy_only=False)))


def _place(path: Path, row: int, name: str) -> str:
    return f"{path}: row {row:,} (the first is 0), column {name!r}"


def _missing(path: Path, row: int, name: str) -> TableError:
    return TableError(f"{_place(path, row, name)}: expected numbers, got a missing value")


def _not_finite(
    path: Path, start: int, given: Mapping[str, NDArray[Any]], X: NDArray[Any]
) -> TableError:
    """What is wrong with the first number that is not finite in X."""
    row, column = map(int, np.argwhere(~np.isfinite(X))[0])
    columns = [(name, at) for name, values in given.items() for at in range(values.shape[1])]
    name, at = columns[column]
    place = _place(path, start + row, name) + (
        f", element {at}" if given[name].shape[1] > 1 else ""
    )
    value = given[name][row, at]
    if not np.isfinite(value):
        return TableError(f"{place}: expected finite numbers, got {value}")
    hint = "; use dtype='float32'" if X.dtype == np.float16 else ""
    largest = np.finfo(X.dtype).max
    return TableError(f"{place}: {value:g} is too large for {X.dtype} (at most {largest:g}){hint}")
