"""Dense features in a ``.npy`` file: written once, in a stream, and mapped instead of read.

Beside ``X.npy`` stands ``X.npy.json``, which says what it was made from. Both are replaced as a
whole; a file whose note does not fit it, or that was made from something else, is made anew.
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
from pmvge.storage import make_folder, replace_file

FORMAT = 1
FULL = (errno.ENOSPC, errno.EDQUOT)
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
Progress = Callable[[int, int], object]  # rows done, rows in all


def open_features(
    path: str | Path,
    *,
    shape: tuple[int | None, ...] | None = None,
    dtype: DTypeLike | None = None,
) -> np.memmap[Any, Any]:
    """Map the rows of a ``.npy`` file, read-only: nothing is read before it is needed.

    ``shape`` and ``dtype`` are what it is expected to have, if that is known; None in a shape is
    any number. Arrays in Fortran order are refused: the numbers of a row are far apart in them,
    and to gather a few rows would read the whole file.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pmvge.tables import open_features
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/X.npy", np.ones((1000, 64), np.float16))
    ...     open_features(f"{folder}/X.npy", shape=(None, 64)).shape
    (1000, 64)
    """
    place = Path(path)
    try:
        found, fortran, kind, offset = _header(place)
    except OSError as error:
        raise TableError(f"{place}: cannot be read: {error.strerror or error}") from error
    if kind.kind not in "fiub":
        raise TableError(f"{place}: expected real numbers, got dtype {kind}")
    if len(found) < 2 or min(found) < 1:
        raise TableError(
            f"{place}: expected an array of shape (rows, columns, ...), got shape {found}"
        )
    if fortran:
        raise TableError(
            f"{place}: expected rows one after the other, got an array in Fortran order; "
            "save np.ascontiguousarray(X) instead"
        )
    if dtype is not None and kind != np.dtype(dtype):
        raise TableError(f"{place}: expected dtype {np.dtype(dtype)}, got {kind}")
    if shape is not None and not _fits(found, shape):
        told = str(shape).replace("None", "any")
        raise TableError(f"{place}: expected shape {told}, got {found}")
    needed, size = offset + _bytes(found, kind), place.stat().st_size
    if size < needed:
        raise TableError(
            f"{place}: is cut off: expected {needed:,} bytes for shape {found} and dtype {kind}, "
            f"got {size:,}"
        )
    return np.memmap(place, kind, "r", offset, found)


def _header(path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, whether it is in Fortran order, dtype, and where the numbers begin."""
    with path.open("rb") as stream:
        try:
            version = np.lib.format.read_magic(stream)
            shape, fortran, dtype = HEADERS[version](stream)
        except OSError:
            raise
        except Exception as error:  # a header is a Python literal: damaged, it may be anything
            stream.seek(0)
            packed = stream.read(4) == b"PK\x03\x04"
            hint = "; it is an archive: save each array by np.save" if packed else ""
            raise TableError(f"{path}: is not a .npy file of numbers{hint}") from error
        return tuple(map(int, shape)), fortran, np.dtype(dtype), stream.tell()


def _fits(found: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return len(found) == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(found, shape, strict=True)
    )


def _bytes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    total = dtype.itemsize
    for size in shape:  # not by numpy, whose integers have an end
        total *= size
    return total


def made_from(path: Path, origin: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was noted beside a file that was made from just this; None if it has to be made."""
    note = _note(path)
    if note is None or not path.is_file():
        return None
    wanted = {"pmvge features": FORMAT, "origin": _plain(origin), "file": _state(path)}
    return note if wanted.items() <= note.items() else None


def write_features(
    path: Path,
    shape: tuple[int, int],
    dtype: DTypeLike,
    parts: Iterable[NDArray[Any]],
    origin: Mapping[str, Any] | None,
    *,
    learned: Callable[[], Mapping[str, Any]] = dict,
    progress: Progress | None = None,
) -> np.memmap[Any, Any]:
    """Write rows that come in parts to a ``.npy`` file, whole or not at all, and map it.

    ``learned`` is asked after the last part, and what it says is kept in the note.
    """
    kind = np.dtype(dtype)
    folder = make_folder(path.parent, "features")
    if path.exists() and _note(path) is None:
        raise StorageError(
            f"{path}: is there already and was not made by pmvge; remove it, or name another file"
        )
    needed = _bytes(shape, kind)
    if (free := shutil.disk_usage(folder).free) < needed:
        raise _no_space(path, needed, free)

    def write(partial: Path) -> None:
        _stream(path, partial, shape, kind, parts, progress)
        note = {"pmvge features": FORMAT, "origin": origin, "file": _state(partial), **learned()}
        text = json.dumps(_plain(note), indent=1)
        # Before the file itself: a note that does not fit its file is no harm.
        replace_file(_note_path(path), lambda place: place.write_text(text, encoding="utf-8"))

    replace_file(path, write)
    return open_features(path, shape=shape, dtype=kind)


def _stream(
    path: Path,
    partial: Path,
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    parts: Iterable[NDArray[Any]],
    progress: Progress | None,
) -> None:
    """Write, not through a map: a full disk is then an error, and not the end of the process."""
    rows = 0
    header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    try:
        with partial.open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for part in parts:
                stream.write(np.ascontiguousarray(part, dtype).data)
                rows += len(part)
                if progress is not None:
                    progress(rows, shape[0])
    except OSError as error:
        if error.errno not in FULL:
            raise
        free = partial.stat().st_size + shutil.disk_usage(partial.parent).free
        raise _no_space(path, _bytes(shape, dtype), free) from error
    if rows != shape[0]:
        raise TableError(
            f"{path}: expected {shape[0]:,} rows, got {rows:,}: has the source changed?"
        )


def _no_space(path: Path, needed: int, free: int) -> StorageError:
    return StorageError(
        f"{path}: no space for the converted features: {needed:,} bytes are needed, {free:,} are "
        f"free in {path.parent.absolute()}"
    )


def _note_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _note(path: Path) -> dict[str, Any] | None:
    try:
        note = json.loads(_note_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return note if isinstance(note, dict) and "pmvge features" in note else None


def _state(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _plain(content: Mapping[str, Any]) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(content))


def states(files: Iterable[Path]) -> list[list[Any]]:
    """Names, sizes and times of files: what tells whether one has changed."""
    return [[str(path.absolute()), *_state(path)] for path in files]
