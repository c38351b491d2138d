"""The weighted links of one view pair, in one canonical form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import GraphError

Pair = tuple[str, str]
Symmetrize = Literal["sum", "max"]


@dataclass(frozen=True, eq=False)
class Links:
    r"""Links :math:`\{(i, j, w_{ij}) : w_{ij} > 0\}` between two views, or within one.

    Sorted by (row, column), each entry once, weights positive. Within a view each unordered pair
    stands once, with row < column.
    """

    rows: NDArray[np.integer[Any]]  # (E,) int32 where that is wide enough
    cols: NDArray[np.integer[Any]]  # (E,)
    weights: NDArray[np.float64]  # (E,)
    shape: tuple[int, int]
    within: bool

    def __post_init__(self) -> None:
        for part in (self.rows, self.cols, self.weights):
            part.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()  # numpy's copies and pickles are writable

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def total(self) -> float:
        r"""The total weight :math:`W_{de} = \sum w_{ij}`."""
        return float(self.weights.sum())

    @property
    def n_terms(self) -> int:
        r"""The number of pair terms, :math:`|\mathcal I_{de}|`."""
        n, m = self.shape
        return n * (n - 1) // 2 if self.within else n * m

    def degrees(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weighted degree of every row node and column node; within a view both are the same."""
        left: NDArray[Any] = np.bincount(self.rows, self.weights, self.shape[0])
        right: NDArray[Any] = np.bincount(self.cols, self.weights, self.shape[1])
        return (left + right, left + right) if self.within else (left, right)

    def matrix(self) -> sparse.csr_array:
        """The weights as a CSR matrix, symmetric within a view."""
        half = sparse.coo_array((self.weights, (self.rows, self.cols)), shape=self.shape).tocsr()
        return (half + half.T).tocsr() if self.within else half

    def transposed(self) -> Links:
        """The same links with rows and columns exchanged."""
        return canonical(self.cols, self.rows, self.weights, self.shape[::-1], self.within)

    def select(self, keep: NDArray[Any]) -> Links:
        """The links that a boolean mask or sorted positions name, between the same nodes."""
        return canonical(
            self.rows[keep], self.cols[keep], self.weights[keep], self.shape, self.within
        )


def parse_links(
    where: str, table: Any, shape: tuple[int, int], within: bool, symmetrize: Symmetrize | None
) -> Links:
    """Check a link table as a user gives it and bring it to canonical form."""
    rows, cols, weights = _read(where, table, shape)
    bad = ~np.isfinite(weights)
    if bad.any():
        k = int(np.flatnonzero(bad)[0])
        raise GraphError(
            f"{where}: expected finite weights, got {int(bad.sum())} that are NaN or infinite; "
            f"the first is {weights[k]} at ({rows[k]}, {cols[k]})"
        )
    if (weights < 0).any():
        k = int(np.flatnonzero(weights < 0)[0])
        raise GraphError(
            f"{where}: expected weights >= 0, got {int((weights < 0).sum())} negative; "
            f"the first is {weights[k]} at ({rows[k]}, {cols[k]})"
        )
    with np.errstate(over="ignore"):  # found below
        rows, cols, weights = _add_up(rows, cols, weights, shape[1])
    if within:
        if (rows == cols).any():
            k = int(np.flatnonzero(rows == cols)[0])
            raise GraphError(
                f"{where}: a node cannot be linked to itself (w_ii = 0 in the model), got "
                f"{int((rows == cols).sum())} self-links; the first is node {rows[k]}"
            )
        rows, cols, weights = _undirected(where, rows, cols, weights, shape[0], symmetrize)
    links = canonical(rows, cols, weights, shape, within)
    with np.errstate(over="ignore"):
        finite = np.isfinite(links.total)
    if not finite:
        raise GraphError(f"{where}: the weights add up to more than a float can hold")
    return links


def canonical(
    rows: NDArray[Any],
    cols: NDArray[Any],
    weights: NDArray[Any],
    shape: tuple[int, int],
    within: bool,
) -> Links:
    """Links from entries that are valid and distinct already: sorted, packed, read-only."""
    key = rows.astype(np.int64) * shape[1] + cols
    if len(key) > 1 and not (key[1:] > key[:-1]).all():
        order = np.argsort(key)
        rows, cols, weights = rows[order], cols[order], weights[order]
    index = np.int32 if max(shape) <= np.iinfo(np.int32).max else np.int64
    return Links(rows.astype(index), cols.astype(index), weights.astype(np.float64), shape, within)


def _read(
    where: str, table: Any, shape: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Rows, columns and weights of a sparse matrix, a dense one, or index arrays."""
    if sparse.issparse(table):
        _check_shape(where, table, shape)
        coo = sparse.coo_array(table)
        rows, cols, weights = coo.row, coo.col, coo.data
    elif isinstance(table, tuple) and len(table) in (2, 3):
        rows, cols = _array(where, table[0]), _array(where, table[1])
        weights = _array(where, table[2]) if len(table) == 3 else np.ones(rows.shape)
        if not rows.shape == cols.shape == weights.shape or rows.ndim != 1:
            raise GraphError(
                f"{where}: expected three lists of one length, got shapes {rows.shape}, "
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
    return rows.astype(np.int64), cols.astype(np.int64), weights.astype(np.float64)


def _array(where: str, values: Any) -> NDArray[Any]:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
    try:
        return np.asarray(values)
    except (ValueError, TypeError) as error:
        raise GraphError(f"{where}: expected lists of numbers, one is ragged") from error


def _check_shape(where: str, table: Any, shape: tuple[int, int]) -> None:
    if tuple(table.shape) != shape:
        raise GraphError(
            f"{where}: expected a {shape[0]} x {shape[1]} matrix, one row and one column per "
            f"node, got {' x '.join(map(str, table.shape))}"
        )


def _check_index(where: str, index: NDArray[Any], n: int) -> None:
    if index.size and index.dtype.kind not in "iu":
        raise GraphError(f"{where} indices must be integers, got dtype {index.dtype}")
    outside = (index < 0) | (index >= n)
    if outside.any():
        k = int(np.flatnonzero(outside)[0])
        raise GraphError(
            f"{where} indices must lie in 0..{n - 1}, got {int(outside.sum())} outside; "
            f"the first is {index[k]} in link {k}"
        )


def _add_up(
    rows: NDArray[np.int64], cols: NDArray[np.int64], weights: NDArray[np.float64], n_cols: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Drop zeros and add repeated entries, in an order that does not depend on the input's."""
    if not weights.all():
        kept = weights > 0
        rows, cols, weights = rows[kept], cols[kept], weights[kept]
    key = rows * n_cols + cols
    if len(key) < 2 or (key[1:] > key[:-1]).all():
        return rows, cols, weights
    order = np.lexsort((weights, key))
    key, weights = key[order], weights[order]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    key = key[first]
    return key // n_cols, key % n_cols, np.add.reduceat(weights, first)


def _undirected(
    where: str,
    rows: NDArray[np.int64],
    cols: NDArray[np.int64],
    weights: NDArray[np.float64],
    n: int,
    symmetrize: Symmetrize | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Each unordered pair once, with row < column, from one or both of its orders."""
    upper = sparse.coo_array((weights, (rows, cols)), shape=(n, n)).tocsr()
    lower = sparse.triu(upper.T, k=1, format="csr")
    upper = sparse.triu(upper, k=1, format="csr")
    if symmetrize == "sum":
        merged = upper + lower
    elif symmetrize == "max":
        merged = upper.maximum(lower)
    elif (upper != lower).nnz == 0:
        merged = upper
    elif (both := sparse.coo_array((upper > 0).multiply(lower > 0))).nnz == 0:
        merged = upper + lower
    else:
        i, j = int(both.row[0]), int(both.col[0])
        raise GraphError(
            f"{where}: links within a view are undirected, but {both.nnz} pairs stand in both "
            f"orders in a table that is not symmetric; the first is ({i}, {j}) with weights "
            f"{upper[i, j]} and {lower[i, j]}; pass symmetrize='sum' or 'max'"
        )
    merged = sparse.coo_array(merged)
    return merged.row.astype(np.int64), merged.col.astype(np.int64), merged.data
