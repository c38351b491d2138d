"""Validation of the features of one view.

Features are a dense array ``(n, ...)``, which may be memory-mapped, or a scipy CSR matrix
``(n, p)``. Neither is copied or made dense in full: encoders receive a few rows at a time.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import GraphError, InputError, PmvgeError

Features: TypeAlias = NDArray[Any] | sparse.csr_array
CHUNK = 1 << 22  # numbers read at once in a pass over a view
FLOAT32_MAX = np.finfo(np.float32).max  # encoders compute in float32


def check_features(
    where: str, X: Any, error: type[PmvgeError] = GraphError, *, first: int = 0
) -> Features:
    """Return X as a read-only numeric array or canonical CSR matrix with finite entries.

    Raise ``error`` if X is not valid. ``first`` is the number of X's first row, for messages.
    """
    if isinstance(X, torch.Tensor):
        X = X.detach().cpu()
        if X.layout is not torch.strided:
            raise error(f"{where}: expected a dense tensor or a scipy CSR matrix, got {X.layout}")
        X = X.float().numpy() if X.dtype is torch.bfloat16 else X.numpy()
    checked = (
        _check_sparse(where, X, error) if sparse.issparse(X) else _check_dense(where, X, error)
    )
    _check_finite(where, checked, error, first)
    return checked


def check_rows(view: str, X: Any, shape: tuple[int, ...], *, first: int = 0) -> Features:
    """Return new rows of a view, numbered from ``first``, after checking them.

    Raise InputError if they are not valid, or do not have the row shape of training.
    """
    checked = check_features(f"view {view!r}", X, InputError, first=first)
    if row_shape(checked) != shape:
        raise InputError(f"view {view!r}: expected rows of shape {shape}, got {row_shape(checked)}")
    return checked


def _check_sparse(where: str, X: Any, error: type[PmvgeError]) -> sparse.csr_array:
    if X.ndim != 2:
        raise error(f"{where}: expected a 2-d sparse matrix, got shape {X.shape}")
    if not X.shape[1]:
        raise error(f"{where}: expected at least one column, got shape {X.shape}")
    if X.dtype.kind not in "fiub":
        raise error(f"{where}: expected real numbers, got dtype {X.dtype}")
    csr = sparse.csr_array(X)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return freeze(csr)


def _check_dense(where: str, X: Any, error: type[PmvgeError]) -> NDArray[Any]:
    try:
        array = np.asarray(X)
    except ValueError as cause:
        raise error(f"{where}: expected rows of equal length, got a ragged list") from cause
    if array.dtype.kind not in "fiub":
        raise error(f"{where}: expected real numbers, got dtype {array.dtype}")
    if array.ndim < 2:
        raise error(
            f"{where}: expected an array of shape (rows, columns, ...), got shape {array.shape}; "
            "one row is X.reshape(1, -1), one column X.reshape(-1, 1)"
        )
    if 0 in array.shape[1:]:
        raise error(f"{where}: expected at least one column, got shape {array.shape}")
    if np.ma.is_masked(X):
        raise error(f"{where}: expected no missing values, got {int(X.mask.sum())} masked")
    return freeze(array)


def freeze(X: Features) -> Features:
    """Return a read-only view of the same memory; the caller's own array stays writable."""
    if isinstance(X, np.ndarray):
        return _read_only(X)
    csr = sparse.csr_array(X)
    csr.data, csr.indices, csr.indptr = map(_read_only, (csr.data, csr.indices, csr.indptr))
    return csr


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _check_finite(where: str, X: Features, error: type[PmvgeError], first: int) -> None:
    if X.dtype.kind != "f":
        return
    n_bad, example = 0, ""
    for start, chunk in scan(X):
        if all_finite(chunk):
            continue
        finite = np.abs(chunk, dtype=np.promote_types(chunk.dtype, np.float32)) <= FLOAT32_MAX
        if not n_bad:
            index = np.argwhere(~finite)[0]
            value = chunk[tuple(index)]
            if isinstance(X, np.ndarray):
                position = [first + start + int(index[0]), *map(int, index[1:])]
            else:
                entry = int(index[0]) + start
                row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
                position = [first + row, int(X.indices[entry])]
            example = f"the first is {value} at {position}"
        n_bad += int((~finite).sum())
    if n_bad:
        raise error(
            f"{where}: expected finite float32 numbers, got {n_bad} that are NaN or infinite; "
            f"{example}"
        )


def all_finite(chunk: NDArray[Any]) -> bool:
    """Return whether all numbers are finite in float32, without allocating a mask."""
    if chunk.dtype == np.float16:  # slow arithmetic: compare the exponent bits
        return bool(np.bitwise_and(chunk.view(np.uint16), 0x7C00).max() < 0x7C00)
    with np.errstate(invalid="ignore"):  # a NaN compares as False
        return bool(chunk.min() >= -FLOAT32_MAX and chunk.max() <= FLOAT32_MAX)


def scan(X: Features) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield (start, chunk) over the rows of an array, or over the stored entries of a CSR one."""
    entries = X if isinstance(X, np.ndarray) else X.data
    step = max(1, CHUNK // max(1, int(np.prod(entries.shape[1:]))))
    for start in range(0, entries.shape[0], step):
        yield start, entries[start : start + step]
        _release_pages(entries)


def is_mapped(X: Features) -> bool:
    """Return whether the features are in a memory-mapped file, so that reading rows may be slow."""
    arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    return any(isinstance(_bases(array)[-1], mmap.mmap) for array in arrays)


def _bases(array: NDArray[Any]) -> list[object]:
    """Return the array, its base, the base of that, ..., down to the owner of the memory."""
    chain: list[object] = [array]
    while isinstance(last := chain[-1], np.ndarray | memoryview):
        base = last.base if isinstance(last, np.ndarray) else last.obj
        if base is None:
            break
        chain.append(base)
    return chain


def _release_pages(array: NDArray[Any]) -> None:
    """Release the resident pages of a memory map; the operating system may keep them cached."""
    *views, owner = _bases(array)
    modes = {view.mode for view in views if isinstance(view, np.memmap)}
    # Not in mode "c" (copy-on-write): its changed pages are stored in no file.
    if modes and modes <= {"r", "r+", "w+"} and isinstance(owner, mmap.mmap):
        with suppress(AttributeError):  # not available on every platform
            owner.madvise(mmap.MADV_DONTNEED)


def row_shape(X: Features) -> tuple[int, ...]:
    """Return the shape of one row."""
    return tuple(int(size) for size in X.shape[1:])
