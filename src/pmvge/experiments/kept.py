"""Fits that are kept, so that splits and trials that need the same one share it.

In (A) a model is fitted to everything, whatever the split: repetitions differ in what is judged
only. And settings of the judge, such as vectors of length 1, need no other fit.
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
# TypeError: one array and no archive of them; RuntimeError: packed in an unknown way.
DAMAGED = (
    OSError, ValueError, EOFError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def kept(folder: Path | None, of: Any, make: Callable[[], Arrays]) -> tuple[Arrays, float]:
    """What ``make`` gives and the seconds it took, then or now; ``of`` is all it depends on.

    Without a folder nothing is kept.
    """
    path = None if folder is None else folder / f"{_name(of)}.npz"
    if path is not None and (known := _read(path)) is not None:
        seconds = float(known.pop("seconds"))
        return known, seconds
    started = time.perf_counter()
    made = make()
    seconds = time.perf_counter() - started
    if path is not None:
        replace_file(path, lambda partial: _write(partial, {**made, "seconds": np.array(seconds)}))
    return made, seconds


def _name(of: Any) -> str:
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:24]


def _write(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]  # none is named "allow_pickle"


def _read(path: Path) -> Arrays | None:
    """None if it is not there, or damaged: to be made again."""
    try:
        with path.open("rb") as stream, np.load(stream) as content:
            arrays = {name: content[name] for name in content.files}
    except DAMAGED:
        return None
    seconds = arrays.get("seconds")
    whole = seconds is not None and seconds.shape == () and seconds.dtype.kind == "f"
    return arrays if whole else None


def digest(*arrays: Any) -> str:
    """A name for the content of arrays."""
    found = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(f"{array.dtype} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:24]
