"""Validation of link tables, and their conversion to canonical form.

Checks read the links chunk by chunk to need little additional memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import GraphError
from pmvge.graph.links import (
    Links,
    chunks,
    compact_weights,
    index_dtype,
    is_sorted,
    merge_repeated,
    sort_entries,
)

Symmetrize = Literal["sum", "max"]


def parse_links(
    where: str, table: Any, shape: tuple[int, int], within: bool, symmetrize: Symmetrize | None
) -> Links:
    """Check a link table given by a user and return it in canonical form.

    Sorted and distinct entries are kept without a copy if their arrays are read-only (such as
    memory maps) and have the right type; otherwise they are copied. Other entries are sorted.
    Sorting takes, with its result, 16 bytes a link in addition to the input if weights are equal,
    32 if they differ, and 40 if entries are repeated. Links within a view that are not all given
    as row < column are then sorted a second time, with the first result as the input.

    Raise GraphError, which starts with ``where``, if positions or weights are not valid, if an
    entity is linked to itself, or if ``symmetrize`` is needed.
    """
    rows, cols, weights = _read(where, table, shape)
    _check_weights(where, rows, cols, weights)
    if _count_bad(np.logical_not, weights)[0]:
        kept = weights > 0
        rows, cols, weights = rows[kept], cols[kept], compact_weights(weights[kept])
    if is_sorted(rows, cols):
        index = index_dtype(shape)
        rows, cols = _read_only(rows, index), _read_only(cols, index)
        weights = _read_only(weights, np.float64)
    else:
        rows, cols, weights = merge_repeated(
            *sort_entries(rows, cols, weights, shape[1]), shape, np.add
        )
    if within:
        n_bad, k = _count_bad(np.equal, rows, cols)
        if n_bad:
            raise GraphError(
                f"{where}: an entity cannot be linked to itself (w_ii = 0 in the model), got "
                f"{n_bad} self-links; the first is at position {rows[k]}; remove them"
            )
        rows, cols, weights = _undirected(where, rows, cols, weights, shape, symmetrize)
    links = Links(rows, cols, weights, shape, within)
    with np.errstate(over="ignore"):
        finite = np.isfinite(links.total)
    if not finite:
        raise GraphError(
            f"{where}: expected a finite total weight, got a sum that overflows float64; scale the "
            "weights down"
        )
    return links


def _count_bad(bad: Callable[..., Any], *columns: NDArray[Any]) -> tuple[int, int]:
    """Return how many entries are bad, and the position of the first; works chunk by chunk."""
    count, first = 0, 0
    repeated = all(column.strides == (0,) for column in columns)
    if repeated and not bad(*(column[:1] for column in columns)).any():
        return count, first
    for part in chunks(len(columns[0])):
        positions = np.flatnonzero(bad(*(column[part] for column in columns)))
        if len(positions) and not count:
            first = part.start + int(positions[0])
        count += len(positions)
    return count, first


def _read_only(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return the array itself if it is read-only and of the type, else a copy."""
    return array.astype(dtype, copy=bool(array.flags.writeable))


def _read(
    where: str, table: Any, shape: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Return rows, columns and weights of a sparse matrix, a dense one, or index arrays."""
    if sparse.issparse(table):
        _check_shape(where, table, shape)
        coo = sparse.coo_array(table)
        rows, cols, weights = coo.row, coo.col, coo.data
    elif isinstance(table, tuple) and len(table) in (2, 3):
        rows, cols = _array(where, table[0]), _array(where, table[1])
        weights = _array(where, table[2]) if len(table) == 3 else np.broadcast_to(1.0, rows.shape)
        if not rows.shape == cols.shape == weights.shape or rows.ndim != 1:
            raise GraphError(
                f"{where}: expected three lists of equal length, got shapes {rows.shape}, "
                f"{cols.shape} and {weights.shape}"
            )
        for name, index, n in (("row", rows, shape[0]), ("column", cols, shape[1])):
            _check_index(f"{where}: {name}", index, n)
    elif (dense := _array(where, table)).ndim == 2:
        _check_shape(where, dense, shape)
        rows, cols = np.nonzero(dense)
        weights = dense[rows, cols]
    else:
        raise GraphError(
            f"{where}: expected a scipy sparse matrix or (rows, cols, weights), "
            f"got {type(table).__name__}"
        )
    if weights.dtype.kind not in "fiub":
        raise GraphError(f"{where}: expected numbers as weights, got dtype {weights.dtype}")
    return rows, cols, compact_weights(weights)


def _array(where: str, values: Any) -> NDArray[Any]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise GraphError(f"{where}: expected lists of numbers, got a ragged list") from error


def _check_shape(where: str, table: Any, shape: tuple[int, int]) -> None:
    if tuple(table.shape) != shape:
        raise GraphError(
            f"{where}: expected a {shape[0]} x {shape[1]} matrix, one row and one column per "
            f"entity, got {' x '.join(map(str, table.shape))}"
        )


def _check_index(where: str, index: NDArray[Any], n: int) -> None:
    if index.size and index.dtype.kind not in "iu":
        raise GraphError(f"{where} indices must be integers, got dtype {index.dtype}")
    n_bad, k = _count_bad(lambda part: (part < 0) | (part >= n), index)
    if n_bad:
        raise GraphError(
            f"{where} indices must lie in 0..{n - 1}, got {n_bad} outside; "
            f"the first is {index[k]} in link {k}"
        )


def _check_weights(
    where: str, rows: NDArray[Any], cols: NDArray[Any], weights: NDArray[np.float64]
) -> None:
    n_bad, k = _count_bad(lambda part: ~np.isfinite(part), weights)
    if n_bad:
        raise GraphError(
            f"{where}: expected finite weights, got {n_bad} that are NaN or infinite; "
            f"the first is {weights[k]} at ({rows[k]}, {cols[k]})"
        )
    n_bad, k = _count_bad(lambda part: part < 0, weights)
    if n_bad:
        raise GraphError(
            f"{where}: expected weights >= 0, got {n_bad} negative; "
            f"the first is {weights[k]} at ({rows[k]}, {cols[k]})"
        )


def _undirected(
    where: str,
    rows: NDArray[Any],
    cols: NDArray[Any],
    weights: NDArray[np.float64],
    shape: tuple[int, int],
    symmetrize: Symmetrize | None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Return each unordered pair once, with row < column, from one or both of its orders."""
    if not _count_bad(np.greater, rows, cols)[0]:
        return rows, cols, weights
    key, w = sort_entries(rows, cols, weights, shape[1], undirected=True)
    both = np.flatnonzero(key[1:] == key[:-1])
    symmetric = 2 * len(both) == len(key) and (w[::2] == w[1::2]).all()
    if symmetrize is None and len(both) and not symmetric:
        i, j = divmod(int(key[both[0]]), shape[1])
        upper, lower = weights[(rows == i) & (cols == j)], weights[(rows == j) & (cols == i)]
        raise GraphError(
            f"{where}: links within a view are undirected, but {len(both)} pairs occur in both "
            f"orders in a table that is not symmetric; the first is ({i}, {j}) with weights "
            f"{upper[0]} and {lower[0]}; pass symmetrize='sum' or 'max'"
        )
    return merge_repeated(key, w, shape, np.add if symmetrize == "sum" else np.maximum)
