"""A cache of fits on disk, shared by splits and trials that need the same fit.

In setting (A) a model is fitted to all data, whatever the split: repetitions differ only in the
part that is evaluated. Options of the evaluation, such as unit vectors, need no other fit.
"""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.storage import replace_file

Arrays = dict[str, NDArray[Any]]
# Exceptions that a damaged file can raise. TypeError: a single array instead of an archive;
# RuntimeError: unknown compression method.
READ_ERRORS = (
    OSError, ValueError, EOFError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def cached(folder: Path | None, key: Any, compute: Callable[[], Arrays]) -> tuple[Arrays, float]:
    """Return the arrays that ``compute`` gives, and the seconds that it took.

    Both are read from ``folder`` if they were stored under the same ``key``, a JSON value of
    everything that the arrays depend on; otherwise they are computed and stored. A damaged file is
    computed again. Without a folder nothing is stored.
    """
    path = None if folder is None else folder / f"{_file_name(key)}.npz"
    if path is not None and (stored := _read(path)) is not None:
        seconds = float(stored.pop("seconds"))
        return stored, seconds
    started = time.perf_counter()
    arrays = compute()
    seconds = time.perf_counter() - started
    if path is not None:
        content = {**arrays, "seconds": np.array(seconds)}
        replace_file(path, lambda partial: _write(partial, content))
    return arrays, seconds


def _file_name(key: Any) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]


def _write(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]  # none is named "allow_pickle"


def _read(path: Path) -> Arrays | None:
    """Return the arrays of a file, or None if it is missing or damaged."""
    try:
        with path.open("rb") as stream, np.load(stream) as content:
            arrays = {name: content[name] for name in content.files}
    except READ_ERRORS:
        return None
    seconds = arrays.get("seconds")
    complete = seconds is not None and seconds.shape == () and seconds.dtype.kind == "f"
    return arrays if complete else None


def digest(*arrays: Any) -> str:
    """Return a hash of the types, shapes and content of arrays."""
    sha256 = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        sha256.update(f"{array.dtype} {array.shape} ".encode())
        sha256.update(array.tobytes())
    return sha256.hexdigest()[:24]
