"""The weighted links of one view pair, in one canonical form, a few bytes each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Pair = tuple[str, str]
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
        for part in chunks(len(self)):
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
    if not ascending(rows, cols):
        rows, cols, weights = merge(*in_order(rows, cols, weights, shape[1]), shape, np.add)
    index = index_type(shape)
    rows, cols = rows.astype(index, copy=False), cols.astype(index, copy=False)
    return Links(rows, cols, weights, shape, within)


def one_or_all(weights: NDArray[Any]) -> NDArray[np.float64]:
    """The weights as float64; if they are all the same, one of them with stride 0."""
    n = len(weights)
    if weights.strides == (0,) or all((weights[p] == weights[0]).all() for p in chunks(n)):
        return _repeated(weights[:1].astype(np.float64), n)
    wide = weights.astype(np.float64, copy=False)
    if wide is not weights:  # nobody else has it: no need to copy it again
        wide.flags.writeable = False
    return wide


def _repeated(one: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    value = one[0] if n else np.float64(1)
    return np.broadcast_to(value, (n,))


def chunks(n: int) -> Iterator[slice]:
    """Parts of n links that are looked at together."""
    return (slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))


def index_type(shape: tuple[int, int]) -> type[np.int32 | np.int64]:
    """The narrowest type of positions that will do."""
    return np.int32 if max(shape) <= np.iinfo(np.int32).max else np.int64


def ascending(rows: NDArray[Any], cols: NDArray[Any]) -> bool:
    """Whether entries are sorted by (row, column), and distinct."""
    for part in chunks(len(rows) - 1):
        after = slice(part.start + 1, part.stop + 1)
        same_row = (rows[part] == rows[after]) & (cols[part] < cols[after])
        if not (same_row | (rows[part] < rows[after])).all():
            return False
    return True


def in_order(
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
    for part in chunks(len(rows)):
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


def merge(
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
    rows, cols = (np.empty(len(key), index_type(shape)) for _ in shape)
    for part in chunks(len(key)):
        i = key[part] // shape[1]
        rows[part], cols[part] = i, key[part] - i * shape[1]
    weights = one_or_all(weights)
    return rows, cols, weights if weights.strides == (0,) else np.ascontiguousarray(weights)


def merged(first: Links, second: Links | None) -> Links:
    """The links of both; a pair of nodes that is in both has the sum of its weights."""
    if second is None or not len(second):
        return first
    keys = np.concatenate(
        [part.rows.astype(np.int64) * part.shape[1] + part.cols for part in (first, second)]
    )
    unique, place = np.unique(keys, return_inverse=True)
    weights = np.bincount(place, np.concatenate([first.weights, second.weights]))
    rows, cols = unique // first.shape[1], unique % first.shape[1]
    return canonical(rows, cols, weights, first.shape, first.within)
