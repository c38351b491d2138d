"""The feature matrix of one view: checked at the door, then gathered by rows.

A view is a dense array ``(n, ...)``, which may be memory-mapped, or a scipy CSR matrix ``(n, p)``.
Neither is ever copied or densified as a whole: encoders receive a few rows at a time.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import GraphError, InputError, PmvgeError

Features: TypeAlias = NDArray[Any] | sparse.csr_array
Rows: TypeAlias = NDArray[np.int64] | slice

CHUNK = 1 << 22  # numbers looked at together when a whole view is scanned
LARGEST = np.finfo(np.float32).max  # encoders compute in float32
SMALLEST = 1e-30  # what varies by less is no number to float32
SAMPLE = 1 << 16  # rows that column statistics are taken from


class SparseRows(NamedTuple):
    """Rows of a CSR matrix as torch tensors, in the layout of ``embedding_bag``."""

    columns: torch.Tensor  # (nnz,) int64
    offsets: torch.Tensor  # (rows + 1,) int64
    values: torch.Tensor  # (nnz,) float32
    shape: tuple[int, int]

    def to_dense(self) -> torch.Tensor:
        """Return the rows as a dense (rows, p) tensor."""
        dense = self.values.new_zeros(self.shape)
        counts = self.offsets.diff()
        row = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        dense[row, self.columns] = self.values
        return dense


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
    for start, chunk in _scan(X):
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


def _scan(X: Features) -> Iterator[tuple[int, NDArray[Any]]]:
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


def take(X: Features, rows: Rows, device: torch.device) -> torch.Tensor | SparseRows:
    """Gather rows as a tensor on ``device``.

    Integers stay integers (int64: tokens for an embedding layer), all else becomes float32, and
    so do bytes, which are images more often than tokens.
    """
    part = X[rows]
    if isinstance(part, np.ndarray):
        tokens = part.dtype.kind in "iu" and part.dtype != np.uint8
        half = part.dtype == np.float16
        dtype = np.int64 if tokens else np.float16 if half else np.float32
        dense = np.ascontiguousarray(part, dtype=dtype)
        if not dense.flags.writeable:  # a slice of the caller's array: torch wants its own
            dense = dense.copy()
        gathered = torch.from_numpy(dense).to(device)
        return gathered.float() if half else gathered  # by torch, which has instructions for it
    return SparseRows(
        torch.from_numpy(part.indices.astype(np.int64)).to(device),
        torch.from_numpy(part.indptr.astype(np.int64)).to(device),
        torch.from_numpy(part.data.astype(np.float32)).to(device),
        (int(part.shape[0]), int(part.shape[1])),
    )


def column_scaling(X: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The (scale, shift) that standardises each column (rows flattened): x * scale + shift.

    A column that is constant, up to what float32 can tell, gets 0 and 0: it is left out.
    Taken from at most ``SAMPLE`` evenly spaced rows, so that it costs little on a memory map.
    """
    stride = -(-X.shape[0] // SAMPLE)
    rows = X[::stride].reshape(-(-X.shape[0] // stride), -1)
    mean = np.zeros(rows.shape[1])
    square = np.zeros(rows.shape[1])
    for _, part in _scan(rows):
        mean += part.sum(axis=0, dtype=np.float64)
    mean /= len(rows)
    for _, part in _scan(rows):
        square += ((part - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(square / len(rows))
    varies = deviation > np.maximum(1e-7 * np.abs(mean), SMALLEST)
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    return scale.astype(np.float32), (-mean * scale).astype(np.float32)


def row_scaling(X: sparse.csr_array) -> float:
    """The factor that brings the rows of a CSR matrix to a mean square norm of 1."""
    total = sum(float(np.square(part, dtype=np.float64).sum()) for _, part in _scan(X))
    norm = float(np.sqrt(total / X.shape[0]))
    return 1 / norm if norm > SMALLEST else 1.0
