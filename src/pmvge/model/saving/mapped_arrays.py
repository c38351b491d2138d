"""Arrays of a saved model: in memory, or memory-mapped from a folder that processes share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge import storage
from pmvge.graph import Links

Make = Callable[[], NDArray[Any]]


class Arrays:
    """Arrays in memory: each is what its function returns."""

    mapped = False

    def __call__(self, name: str, make: Make) -> NDArray[Any]:
        """Return the array with this name."""
        return make()

    def file(self, path: Path) -> Path:
        """Return the path of a file that stays as it is while it is mapped."""
        return path


class MappedArrays(Arrays):
    """Arrays in the files of a folder; a file that does not exist yet is written first.

    Maps are private copies on write: processes share the pages of a file in memory, and none can
    change it. Files are replaced atomically, so several processes may write the same one.
    """

    mapped = True

    def __init__(self, folder: Path) -> None:
        self.folder = storage.make_folder(folder, "memory maps")

    def __call__(self, name: str, make: Make) -> NDArray[Any]:
        """Return the array with this name; raise StorageError if it cannot be written."""
        path = self.folder / f"{storage.file_name(name)}.npy"
        if not path.exists():
            storage.replace_file(path, lambda partial: _write(partial, make()))
        array = np.load(path, mmap_mode="c")
        return np.asarray(array) if array.size else np.load(path)

    def file(self, path: Path) -> Path:
        """Return a copy in the folder: the original may be overwritten while it is mapped."""
        copy = self.folder / path.name
        if not copy.exists():
            storage.replace_file(copy, lambda partial: shutil.copyfile(path, partial))
        return copy


def _write(path: Path, array: NDArray[Any]) -> None:
    with path.open("wb") as stream:
        np.save(stream, array)


def store_links(
    arrays: Arrays, name: str, read: Callable[[], tuple[Links, Links]], at: int
) -> Links:
    """Return the links at a position of what ``read`` returns, with their arrays in ``arrays``.

    Equal weights are stored once.
    """
    if not arrays.mapped:
        return read()[at]
    rows = arrays(f"{name} rows", lambda: read()[at].rows)
    cols = arrays(f"{name} columns", lambda: read()[at].cols)
    weights = arrays(f"{name} weights", lambda: _distinct_weights(read()[at]))
    sizes = arrays(f"{name} shape", lambda: np.array([*read()[at].shape, read()[at].within]))
    if len(weights) != len(rows):
        weights = np.broadcast_to(weights, rows.shape)
    n, m, within = sizes.tolist()
    return Links(rows, cols, weights, (n, m), bool(within))


def _distinct_weights(links: Links) -> NDArray[np.float64]:
    return links.weights[:1] if links.equal_weights else links.weights


def store_matrix(
    arrays: Arrays, name: str, make: Callable[[], sparse.csr_array]
) -> sparse.csr_array:
    """Return a sparse matrix whose arrays are in ``arrays``."""
    made = cache(make)
    data = arrays(f"{name} data", lambda: made().data)
    indices = arrays(f"{name} indices", lambda: made().indices)
    starts = arrays(f"{name} starts", lambda: made().indptr)
    shape = arrays(f"{name} shape", lambda: np.array(made().shape))
    return sparse.csr_array((data, indices, starts), shape=tuple(shape.tolist()))
