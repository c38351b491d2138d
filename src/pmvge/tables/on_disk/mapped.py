"""Dense features in ``.npy`` files: written in a stream, opened as memory maps.

``X.npy.json`` beside ``X.npy`` holds metadata: the files and options that ``X.npy`` was made from.
Both files are replaced atomically. A ``.npy`` file that does not match its metadata, or that was
made from other files or options, is written again.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pmvge.errors import StorageError, TableError
from pmvge.progress import OnProgress
from pmvge.storage import make_folder, replace_file

FORMAT = 1
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def open_features(
    path: str | Path,
    *,
    shape: tuple[int | None, ...] | None = None,
    dtype: DTypeLike | None = None,
) -> np.memmap[Any, Any]:
    """Open the rows of a ``.npy`` file as a read-only memory map.

    Parameters
    ----------
    path
        The file. Arrays in Fortran order are refused: reading a few rows of them would read the
        whole file.
    shape
        Expected shape; None stands for any number of rows or columns.
    dtype
        Expected dtype.

    Raises
    ------
    TableError
        The file cannot be read, is not a ``.npy`` file of real numbers with rows, is truncated, or
        has another shape or dtype.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pmvge.tables import open_features
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/X.npy", np.ones((1000, 64), np.float16))
    ...     open_features(f"{folder}/X.npy", shape=(None, 64)).shape
    (1000, 64)
    """
    file = Path(path)
    try:
        stored_shape, fortran, kind, offset = _read_header(file)
    except OSError as error:
        raise TableError(f"{file}: cannot be read: {error.strerror or error}") from error
    if kind.kind not in "fiub":
        raise TableError(f"{file}: expected real numbers, got dtype {kind}")
    if len(stored_shape) < 2 or min(stored_shape) < 1:
        raise TableError(
            f"{file}: expected an array of shape (rows, columns, ...), got shape {stored_shape}"
        )
    if fortran:
        raise TableError(
            f"{file}: expected an array in C order, got Fortran order; "
            "save np.ascontiguousarray(X) instead"
        )
    if dtype is not None and kind != np.dtype(dtype):
        raise TableError(f"{file}: expected dtype {np.dtype(dtype)}, got {kind}")
    if shape is not None and not _fits(stored_shape, shape):
        expected = str(shape).replace("None", "any")
        raise TableError(f"{file}: expected shape {expected}, got {stored_shape}")
    needed, size = offset + _bytes(stored_shape, kind), file.stat().st_size
    if size < needed:
        raise TableError(
            f"{file}: truncated: expected {needed:,} bytes for shape {stored_shape} and dtype "
            f"{kind}, got {size:,}"
        )
    return np.memmap(file, kind, "r", offset, stored_shape)


def _read_header(path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return the shape, whether the order is Fortran's, the dtype, and the offset of the data."""
    with path.open("rb") as stream:
        try:
            version = np.lib.format.read_magic(stream)
            shape, fortran, dtype = HEADERS[version](stream)
        except OSError:
            raise
        except Exception as error:  # a damaged header can be any Python literal
            stream.seek(0)
            packed = stream.read(4) == b"PK\x03\x04"
            hint = "; it is an archive: save each array with np.save" if packed else ""
            raise TableError(f"{path}: is not a .npy file of numbers{hint}") from error
        return tuple(map(int, shape)), fortran, np.dtype(dtype), stream.tell()


def _fits(stored: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return len(stored) == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(stored, shape, strict=True)
    )


def _bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    total = dtype.itemsize
    for size in shape:  # numpy integers would overflow
        total *= size
    return total


def current_metadata(path: Path, origin: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the metadata of a file if it is complete and was made from ``origin``; else None."""
    metadata = _read_metadata(path)
    if metadata is None or not path.is_file():
        return None
    expected = {
        "pmvge features": FORMAT,
        "origin": _through_json(origin),
        "file": _fingerprint(path),
    }
    return metadata if expected.items() <= metadata.items() else None


def write_features(
    path: Path,
    shape: tuple[int, int],
    dtype: DTypeLike,
    parts: Iterable[NDArray[Any]],
    origin: Mapping[str, Any] | None,
    *,
    metadata: Callable[[], Mapping[str, Any]] = dict,
    on_progress: OnProgress | None = None,
) -> np.memmap[Any, Any]:
    """Write rows, given in parts, to a ``.npy`` file, atomically, and open it as a memory map.

    ``origin`` identifies the files and options that the rows are made from; None means unknown.
    ``metadata`` is called after the last part and returns further entries of the metadata.
    Raise StorageError if the path exists and pmvge did not write it, or if there is no space.
    """
    kind = np.dtype(dtype)
    folder = make_folder(path.parent, "features")
    if path.exists() and _read_metadata(path) is None:
        raise StorageError(
            f"{path}: exists and was not written by pmvge; remove it, or choose another name"
        )
    needed = _bytes(shape, kind)
    if (free := shutil.disk_usage(folder).free) < needed:
        raise _no_space(path, needed, free)

    def write(partial: Path) -> None:
        _write_rows(path, partial, shape, kind, parts, on_progress)
        content = {
            "pmvge features": FORMAT,
            "origin": origin,
            "file": _fingerprint(partial),
            **metadata(),
        }
        text = json.dumps(_through_json(content), indent=1)
        # Before the rows: metadata that does not match its file is ignored.
        replace_file(_metadata_path(path), lambda file: file.write_text(text, encoding="utf-8"))

    replace_file(path, write)
    return open_features(path, shape=shape, dtype=kind)


def _write_rows(
    path: Path,
    partial: Path,
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    parts: Iterable[NDArray[Any]],
    on_progress: OnProgress | None,
) -> None:
    """Write rows without a memory map: with a map, a full disk would kill the process (SIGBUS)."""
    rows = 0
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    try:
        with partial.open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for part in parts:
                stream.write(np.ascontiguousarray(part, dtype).data)
                rows += len(part)
                if on_progress is not None:
                    on_progress(rows, shape[0])
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        free = partial.stat().st_size + shutil.disk_usage(partial.parent).free
        raise _no_space(path, _bytes(shape, dtype), free) from error
    if rows != shape[0]:
        raise TableError(
            f"{path}: expected {shape[0]:,} rows, got {rows:,}; the source may have changed"
        )


def _no_space(path: Path, needed: int, free: int) -> StorageError:
    return StorageError(
        f"{path}: no space for the converted features: {needed:,} bytes are needed, {free:,} are "
        f"free in {path.parent.absolute()}"
    )


def _metadata_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _read_metadata(path: Path) -> dict[str, Any] | None:
    """Return the metadata beside a file; None if there is none that pmvge wrote."""
    try:
        metadata = json.loads(_metadata_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return metadata if isinstance(metadata, dict) and "pmvge features" in metadata else None


def _fingerprint(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _through_json(content: Mapping[str, Any]) -> Any:
    """Return the content as it is after a round trip through JSON: tuples become lists."""
    return json.loads(json.dumps(content))


def fingerprint_files(files: Iterable[Path]) -> list[list[Any]]:
    """Return [path, size, modification time] of each file, to detect changes."""
    return [[str(path.absolute()), *_fingerprint(path)] for path in files]
