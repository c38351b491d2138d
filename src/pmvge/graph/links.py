"""The weighted links of one view pair, in a compact canonical form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Pair = tuple[str, str]
CHUNK = 1 << 20  # links read at once in a pass over all links
SMALLEST_NORMAL = 1 << 52  # the bits of the smallest normal float64


def pair_key(pair: Sequence[str]) -> str:
    """Return a view pair as text, "users,films": the key of results by view pair.

    It is unique in a graph: :func:`~pmvge.graph.check_pairs` refuses two pairs with the same text.
    """
    return ",".join(pair)


@dataclass(frozen=True, eq=False)
class Links:
    r"""Links :math:`\{(i, j, w_{ij}) : w_{ij} > 0\}` between two views, or within one.

    Links are sorted by (row, column) and distinct, and weights are positive. Within a view each
    unordered pair occurs once, with row < column.

    A link takes 8 bytes, and 8 more if weights differ. If all weights are equal, ``weights`` is a
    broadcast array of stride 0 that stores the weight once.
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
        """Return the state for copy and pickle; equal weights are stored once."""
        return vars(self) | ({"weights": self.weights[:1]} if self.equal_weights else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if len(self.weights) <= 1:
            vars(self)["weights"] = _repeated(self.weights, len(self))
        self.__post_init__()  # numpy arrays are writable after copy and pickle

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def equal_weights(self) -> bool:
        """Return whether all weights are equal (and stored once)."""
        return self.weights.strides == (0,)

    @cached_property
    def total(self) -> float:
        r"""The total weight :math:`W_{de} = \sum w_{ij}`."""
        if self.equal_weights:  # one rounding instead of one per addition
            return float(self.weights[0]) * len(self) if len(self) else 0.0
        return float(self.weights.sum())

    @property
    def n_terms(self) -> int:
        r"""The number of pair terms, :math:`|\mathcal I_{de}|`."""
        n, m = self.shape
        return n * (n - 1) // 2 if self.within else n * m

    def degrees(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the weighted degrees of row and column entities; within a view both are equal."""
        left = self._sum_weights(self.rows, self.shape[0])
        right = self._sum_weights(self.cols, self.shape[1])
        return (left + right, left + right) if self.within else (left, right)

    def _sum_weights(self, ends: NDArray[Any], n: int) -> NDArray[np.float64]:
        degrees = np.zeros(n)
        for part in chunks(len(self)):
            np.add.at(degrees, ends[part], 1.0 if self.equal_weights else self.weights[part])
        return degrees * self.weights[0] if self.equal_weights and len(self) else degrees

    def matrix(self) -> sparse.csr_array:
        """Return the weights as a CSR matrix, symmetric within a view."""
        half = sparse.coo_array((self.weights, (self.rows, self.cols)), shape=self.shape).tocsr()
        return (half + half.T).tocsr() if self.within else half

    def transposed(self) -> Links:
        """Return the links with rows and columns exchanged."""
        return canonical(self.cols, self.rows, self.weights, self.shape[::-1], self.within)

    def select(self, keep: NDArray[Any]) -> Links:
        """Return the links at a boolean mask or at sorted positions, between the same entities."""
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
    """Return valid entries as Links: sorted, repeated entries added up, stored compactly.

    Arrays that are sorted and compact already are not copied; do not change them afterwards.
    """
    weights = compact_weights(weights)
    if not is_sorted(rows, cols):
        rows, cols, weights = merge_repeated(
            *sort_entries(rows, cols, weights, shape[1]), shape, np.add
        )
    index = index_dtype(shape)
    rows, cols = rows.astype(index, copy=False), cols.astype(index, copy=False)
    return Links(rows, cols, weights, shape, within)


def compact_weights(weights: NDArray[Any]) -> NDArray[np.float64]:
    """Return weights as float64; equal weights as a broadcast array of stride 0."""
    n = len(weights)
    if weights.strides == (0,) or all((weights[p] == weights[0]).all() for p in chunks(n)):
        return _repeated(weights[:1].astype(np.float64), n)
    wide = weights.astype(np.float64, copy=False)
    if wide is not weights:  # a new array: mark it read-only to avoid another copy
        wide.flags.writeable = False
    return wide


def _repeated(weight: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    value = weight[0] if n else np.float64(1)
    return np.broadcast_to(value, (n,))


def chunks(n: int) -> Iterator[slice]:
    """Return slices of at most ``CHUNK`` links that cover n links."""
    return (slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK))


def index_dtype(shape: tuple[int, int]) -> type[np.int32 | np.int64]:
    """Return the narrowest integer type that holds the positions."""
    return np.int32 if max(shape) <= np.iinfo(np.int32).max else np.int64


def is_sorted(rows: NDArray[Any], cols: NDArray[Any]) -> bool:
    """Return whether entries are sorted by (row, column) and distinct."""
    for part in chunks(len(rows) - 1):
        after = slice(part.start + 1, part.stop + 1)
        in_row = (rows[part] == rows[after]) & (cols[part] < cols[after])
        if not (in_row | (rows[part] < rows[after])).all():
            return False
    return True


def sort_entries(
    rows: NDArray[Any],
    cols: NDArray[Any],
    weights: NDArray[np.float64],
    n_cols: int,
    *,
    undirected: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the keys i * n_cols + j in ascending order, and the weights in the same order.

    Weights of equal keys are sorted, too: the result does not depend on the order of the input.
    With ``undirected``, i and j are exchanged where i > j.

    Keys and weights are sorted in place as the real and imaginary parts of complex numbers, which
    numpy orders by real part, then by imaginary part; no permutation array is needed. The real
    part is the integer key reinterpreted as a float: positive floats have the order of their bits.
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
    key += SMALLEST_NORMAL  # a processor may treat denormals as 0
    pairs.sort()
    key -= SMALLEST_NORMAL
    return key, pairs.imag


def merge_repeated(
    key: NDArray[np.int64], weights: NDArray[np.float64], shape: tuple[int, int], ufunc: np.ufunc
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Return rows, columns and weights of sorted keys; ``ufunc`` merges weights of equal keys."""
    new = np.ones(len(key), dtype=bool)
    np.not_equal(key[1:], key[:-1], out=new[1:])
    if not new.all():
        first = np.flatnonzero(new)
        with np.errstate(over="ignore"):  # checked in the total
            weights = ufunc.reduceat(weights, first)
        key = key[first]
        del first
    rows, cols = (np.empty(len(key), index_dtype(shape)) for _ in shape)
    for part in chunks(len(key)):
        i = key[part] // shape[1]
        rows[part], cols[part] = i, key[part] - i * shape[1]
    weights = compact_weights(weights)
    return rows, cols, weights if weights.strides == (0,) else np.ascontiguousarray(weights)


def merge_links(first: Links, second: Links | None) -> Links:
    """Return the links of both; an entity pair that is in both gets the sum of its weights."""
    if second is None or not len(second):
        return first
    both = (first, second)
    return canonical(
        np.concatenate([links.rows for links in both]),
        np.concatenate([links.cols for links in both]),
        np.concatenate([links.weights for links in both]),
        first.shape,
        first.within,
    )


def find_links(links: Links, rows: NDArray[Any], cols: NDArray[Any]) -> NDArray[np.int64]:
    """Return the places of entity pairs among links, -1 where there is none or a position is -1.

    Within a view a pair is given as row < column.
    """
    m = links.shape[1]
    keys = links.rows.astype(np.int64) * m + links.cols
    wanted = rows.astype(np.int64) * m + cols
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((rows >= 0) & (cols >= 0) & (keys[place] == wanted), place, -1)
