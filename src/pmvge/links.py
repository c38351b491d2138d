"""The weighted links of one view pair, in one canonical form, a few bytes each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

CHUNK = 1 << 20  # links looked at together when a whole table is scanned
SMALLEST = 1 << 52  # the bits of the smallest float64 that is not denormal


@dataclass(frozen=True, eq=False)
class Links:
    r"""Links :math:`\{(i, j, w_{ij}) : w_{ij} > 0\}` between two views, or within one.

    Sorted by (row, column), each entry once, weights positive. Within a view each unordered pair
    stands once, with row < column.

    A link takes 8 bytes, and 8 more if weights differ: one weight for all is stored once, in an
    array of stride 0, which is an array like any other to those who read it.
    """

    rows: NDArray[np.integer[Any]]  # (E,) int32 where that is wide enough
    cols: NDArray[np.integer[Any]]  # (E,)
    weights: NDArray[np.float64]  # (E,)
    shape: tuple[int, int]
    within: bool

    def __post_init__(self) -> None:
        for name in ("rows", "cols", "weights"):
            vars(self)[name] = view = vars(self)[name].view()
            view.flags.writeable = False

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: weights that are equal as one."""
        return vars(self) | ({"weights": self.weights[:1]} if self.equal_weights else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if len(self.weights) <= 1:
            vars(self)["weights"] = _repeated(self.weights, len(self))
        self.__post_init__()  # numpy's copies and pickles are writable

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def equal_weights(self) -> bool:
        """Whether the weights are all the same."""
        return self.weights.strides == (0,)

    @cached_property
    def total(self) -> float:
        r"""The total weight :math:`W_{de} = \sum w_{ij}`."""
        if self.equal_weights:  # rounded once, which no sum is
            return float(self.weights[0]) * len(self) if len(self) else 0.0
        return float(self.weights.sum())

    @property
    def n_terms(self) -> int:
        r"""The number of pair terms, :math:`|\mathcal I_{de}|`."""
        n, m = self.shape
        return n * (n - 1) // 2 if self.within else n * m

    def degrees(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Weighted degree of every row node and column node; within a view both are the same."""
        left = self._weight_at(self.rows, self.shape[0])
        right = self._weight_at(self.cols, self.shape[1])
        return (left + right, left + right) if self.within else (left, right)

    def _weight_at(self, ends: NDArray[Any], n: int) -> NDArray[np.float64]:
        degrees = np.zeros(n)
        for part in _chunks(len(self)):
            np.add.at(degrees, ends[part], 1.0 if self.equal_weights else self.weights[part])
        return degrees * self.weights[0] if self.equal_weights and len(self) else degrees

    def matrix(self) -> sparse.csr_array:
        """The weights as a CSR matrix, symmetric within a view."""
        half = sparse.coo_array((self.weights, (self.rows, self.cols)), shape=self.shape).tocsr()
        return (half + half.T).tocsr() if self.within else half

    def transposed(self) -> Links:
        """The same links with rows and columns exchanged."""
        return canonical(self.cols, self.rows, self.weights, self.shape[::-1], self.within)

    def select(self, keep: NDArray[Any]) -> Links:
        """The links that a boolean mask or sorted positions name, between the same nodes."""
        rows = self.rows[keep]
        weights = self.weights[: len(rows)] if self.equal_weights else self.weights[keep]
        return canonical(rows, self.cols[keep], weights, self.shape, self.within)


def parse_links(
    where: str, table: Any, shape: tuple[int, int], within: bool, symmetrize: Symmetrize | None
) -> Links:
    """Check a link table as a user gives it and bring it to canonical form.

    Arrays whose entries are sorted and distinct, that nobody can write to (such as memory maps)
    and whose type fits are kept as they are; others that are sorted are copied. All else is
    sorted: with the result this takes 16 bytes a link beside the input if weights are equal, 32 if
    they differ, 40 if entries are repeated. Links within a view that are not all given as row <
    column are then sorted once more, with the first result as the input.
    """
    rows, cols, weights = _read(where, table, shape)
    _check_weights(where, rows, cols, weights)
    if _find(np.logical_not, weights)[0]:
        kept = weights > 0
        rows, cols, weights = rows[kept], cols[kept], one_or_all(weights[kept])
    if _ascending(rows, cols):
        index = _index_type(shape)
        rows, cols, weights = _own(rows, index), _own(cols, index), _own(weights, np.float64)
    else:
        rows, cols, weights = _merge(*_in_order(rows, cols, weights, shape[1]), shape, np.add)
    if within:
        n_bad, k = _find(np.equal, rows, cols)
        if n_bad:
            raise GraphError(
                f"{where}: a node cannot be linked to itself (w_ii = 0 in the model), got "
                f"{n_bad} self-links; the first is node {rows[k]}"
            )
        rows, cols, weights = _undirected(where, rows, cols, weights, shape, symmetrize)
    links = Links(rows, cols, weights, shape, within)
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
    """Links from entries that are valid and distinct already: sorted, packed, read-only.

    Arrays that need neither are not copied: who calls leaves them alone from then on.
    """
    weights = one_or_all(weights)
    if not _ascending(rows, cols):
        rows, cols, weights = _merge(*_in_order(rows, cols, weights, shape[1]), shape, np.add)
    index = _index_type(shape)
    rows, cols = rows.astype(index, copy=False), cols.astype(index, copy=False)
    return Links(rows, cols, weights, shape, within)


def one_or_all(weights: NDArray[Any]) -> NDArray[np.float64]:
    """The weights as float64; if they are all the same, one of them with stride 0."""
    n = len(weights)
    if weights.strides == (0,) or all((weights[p] == weights[0]).all() for p in _chunks(n)):
        return _repeated(weights[:1].astype(np.float64), n)
    wide = weights.astype(np.float64, copy=False)
    if wide is not weights:  # nobody else has it: no need to copy it again
        wide.flags.writeable = False
    return wide


def _repeated(one: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    value = one[0] if n else np.float64(1)
    return np.broadcast_to(value, (n,))


def _chunks(n: int) -> Iterator[slice]:
    return (slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))


def _find(bad: Callable[..., Any], *columns: NDArray[Any]) -> tuple[int, int]:
    """How many entries are bad, and which is the first; looked at a few at a time."""
    count, first = 0, 0
    repeated = all(column.strides == (0,) for column in columns)
    if repeated and not bad(*(column[:1] for column in columns)).any():
        return count, first
    for part in _chunks(len(columns[0])):
        found = np.flatnonzero(bad(*(column[part] for column in columns)))
        if len(found) and not count:
            first = part.start + int(found[0])
        count += len(found)
    return count, first


def _index_type(shape: tuple[int, int]) -> type[np.int32 | np.int64]:
    return np.int32 if max(shape) <= np.iinfo(np.int32).max else np.int64


def _own(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """An array that nobody writes to: this one if it is read-only and of the type, or a copy."""
    return array.astype(dtype, copy=bool(array.flags.writeable))


def _read(
    where: str, table: Any, shape: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Rows, columns and weights of a sparse matrix, a dense one, or index arrays."""
    if sparse.issparse(table):
        _check_shape(where, table, shape)
        coo = sparse.coo_array(table)
        rows, cols, weights = coo.row, coo.col, coo.data
    elif isinstance(table, tuple) and len(table) in (2, 3):
        rows, cols = _array(where, table[0]), _array(where, table[1])
        weights = _array(where, table[2]) if len(table) == 3 else np.broadcast_to(1.0, rows.shape)
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
    return rows, cols, one_or_all(weights)


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
    n_bad, k = _find(lambda part: (part < 0) | (part >= n), index)
    if n_bad:
        raise GraphError(
            f"{where} indices must lie in 0..{n - 1}, got {n_bad} outside; "
            f"the first is {index[k]} in link {k}"
        )


def _check_weights(
    where: str, rows: NDArray[Any], cols: NDArray[Any], weights: NDArray[np.float64]
) -> None:
    n_bad, k = _find(lambda part: ~np.isfinite(part), weights)
    if n_bad:
        raise GraphError(
            f"{where}: expected finite weights, got {n_bad} that are NaN or infinite; "
            f"the first is {weights[k]} at ({rows[k]}, {cols[k]})"
        )
    n_bad, k = _find(lambda part: part < 0, weights)
    if n_bad:
        raise GraphError(
            f"{where}: expected weights >= 0, got {n_bad} negative; "
            f"the first is {weights[k]} at ({rows[k]}, {cols[k]})"
        )


def _ascending(rows: NDArray[Any], cols: NDArray[Any]) -> bool:
    """Whether entries are sorted by (row, column), and distinct."""
    for part in _chunks(len(rows) - 1):
        after = slice(part.start + 1, part.stop + 1)
        same_row = (rows[part] == rows[after]) & (cols[part] < cols[after])
        if not (same_row | (rows[part] < rows[after])).all():
            return False
    return True


def _in_order(
    rows: NDArray[Any],
    cols: NDArray[Any],
    weights: NDArray[np.float64],
    n_cols: int,
    *,
    undirected: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The keys i * n_cols + j in ascending order, and the weights; of equal keys, in theirs.

    Nothing that follows depends on the order of the input. ``undirected`` keys have i < j.

    Complex numbers are sorted by their real part, then by their imaginary part, and in place: as
    such, keys and weights need no permutation beside them. The bits of positive floats have the
    order of the floats, so that any integer may stand for a real part.
    """
    pairs = None if weights.strides == (0,) else np.empty(len(rows), np.complex128)
    key = np.empty(len(rows), np.int64) if pairs is None else pairs.real.view(np.int64)
    for part in _chunks(len(rows)):
        i, j = rows[part].astype(np.int64), cols[part].astype(np.int64)
        if undirected:
            i, j = np.minimum(i, j), np.maximum(i, j)
        key[part] = i * n_cols + j
    if pairs is None:
        key.sort()
        return key, weights
    pairs.imag = weights
    key += SMALLEST  # as processors may be told to take denormals for 0
    pairs.sort()
    key -= SMALLEST
    return key, pairs.imag


def _merge(
    key: NDArray[np.int64], weights: NDArray[np.float64], shape: tuple[int, int], how: np.ufunc
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Rows, columns and weights from ascending keys; equal keys become one entry."""
    new = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=new[1:])
    if not new.all():
        first = np.flatnonzero(new)
        with np.errstate(over="ignore"):  # found in the total
            weights = how.reduceat(weights, first)
        key = key[first]
        del first
    rows, cols = (np.empty(len(key), _index_type(shape)) for _ in shape)
    for part in _chunks(len(key)):
        i = key[part] // shape[1]
        rows[part], cols[part] = i, key[part] - i * shape[1]
    weights = one_or_all(weights)
    return rows, cols, weights if weights.strides == (0,) else np.ascontiguousarray(weights)


def _undirected(
    where: str,
    rows: NDArray[Any],
    cols: NDArray[Any],
    weights: NDArray[np.float64],
    shape: tuple[int, int],
    symmetrize: Symmetrize | None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Each unordered pair once, with row < column, from one or both of its orders."""
    if not _find(np.greater, rows, cols)[0]:
        return rows, cols, weights
    key, w = _in_order(rows, cols, weights, shape[1], undirected=True)
    both = np.flatnonzero(key[1:] == key[:-1])
    symmetric = 2 * len(both) == len(key) and (w[::2] == w[1::2]).all()
    if symmetrize is None and len(both) and not symmetric:
        i, j = divmod(int(key[both[0]]), shape[1])
        upper, lower = weights[(rows == i) & (cols == j)], weights[(rows == j) & (cols == i)]
        raise GraphError(
            f"{where}: links within a view are undirected, but {len(both)} pairs stand in both "
            f"orders in a table that is not symmetric; the first is ({i}, {j}) with weights "
            f"{upper[0]} and {lower[0]}; pass symmetrize='sum' or 'max'"
        )
    return _merge(key, w, shape, np.add if symmetrize == "sum" else np.maximum)
