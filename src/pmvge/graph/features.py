"""The feature matrix of one view: checked at the door, then gathered by rows.

A view is a dense array ``(n, ...)``, which may be memory-mapped, or a scipy CSR matrix ``(n, p)``.
Neither is ever copied or densified as a whole: encoders receive a few rows at a time.
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
CHUNK = 1 << 22  # numbers looked at together when a whole view is scanned
LARGEST = np.finfo(np.float32).max  # encoders compute in float32
SMALLEST = 1e-30  # what varies by less is no number to float32


def check_features(
    where: str, X: Any, error: type[PmvgeError] = GraphError, *, first: int = 0
) -> Features:
    """Return X as a read-only numeric array or canonical CSR matrix with finite entries.

    ``first`` is the number of its first row, for messages.
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
    """New rows of a view, from number ``first`` on, checked against the shape in training."""
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
    """A read-only view of the same numbers; the caller's own array stays writable."""
    if isinstance(X, np.ndarray):
        return _read_only(X)
    csr = sparse.csr_array(X)
    csr.data, csr.indices, csr.indptr = map(_read_only, (csr.data, csr.indices, csr.indptr))
    return csr


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _check_finite(where: str, X: Features, error: type[PmvgeError], row_0: int) -> None:
    if X.dtype.kind != "f":
        return
    bad, first = 0, ""
    for start, chunk in scan(X):
        if all_finite(chunk):
            continue
        finite = np.abs(chunk, dtype=np.promote_types(chunk.dtype, np.float32)) <= LARGEST
        if not bad:
            place = np.argwhere(~finite)[0]
            value = chunk[tuple(place)]
            if isinstance(X, np.ndarray):
                at = [row_0 + start + int(place[0]), *map(int, place[1:])]
            else:
                entry = int(place[0]) + start
                row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
                at = [row_0 + row, int(X.indices[entry])]
            first = f"the first is {value} at {at}"
        bad += int((~finite).sum())
    if bad:
        raise error(
            f"{where}: expected finite float32 numbers, got {bad} that are NaN or infinite; {first}"
        )


def all_finite(chunk: NDArray[Any]) -> bool:
    """Whether float32 holds all numbers; without an array of their size where that is slow."""
    if chunk.dtype == np.float16:  # its arithmetic is slow, its bits are not: see the exponents
        return bool(np.bitwise_and(chunk.view(np.uint16), 0x7C00).max() < 0x7C00)
    with np.errstate(invalid="ignore"):  # NaN is what we are looking for: it compares as False
        return bool(chunk.min() >= -LARGEST and chunk.max() <= LARGEST)


def scan(X: Features) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield (start, part) over the rows of a dense array or the stored entries of a CSR one."""
    entries = X if isinstance(X, np.ndarray) else X.data
    step = max(1, CHUNK // max(1, int(np.prod(entries.shape[1:]))))
    for start in range(0, entries.shape[0], step):
        yield start, entries[start : start + step]
        _let_go(entries)


def is_mapped(X: Features) -> bool:
    """Whether the numbers are those of a mapped file: then a gather may have to wait for a disk."""
    arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    return any(isinstance(_bases(array)[-1], mmap.mmap) for array in arrays)


def _bases(array: NDArray[Any]) -> list[object]:
    """The array, what it is a view of, and so on down to what owns the memory."""
    chain: list[object] = [array]
    while isinstance(last := chain[-1], np.ndarray | memoryview):
        base = last.base if isinstance(last, np.ndarray) else last.obj
        if base is None:
            break
        chain.append(base)
    return chain


def _let_go(array: NDArray[Any]) -> None:
    """Give back the pages of a map that were read: they stay in the cache, but are not ours."""
    *views, owner = _bases(array)
    modes = {view.mode for view in views if isinstance(view, np.memmap)}
    # Not those of mode "c", which hold what was written and is in no file.
    if modes and modes <= {"r", "r+", "w+"} and isinstance(owner, mmap.mmap):
        with suppress(AttributeError):  # there are systems without this call
            owner.madvise(mmap.MADV_DONTNEED)


def row_shape(X: Features) -> tuple[int, ...]:
    """Return the shape of one row."""
    return tuple(int(size) for size in X.shape[1:])
