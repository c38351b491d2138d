"""Encodings of columns of categories, with one or several in a cell: a feature for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow.compute
from numpy.typing import NDArray
from scipy import sparse

from pmvge.tables.columns.encoded import Matrix, Notes


@dataclass(frozen=True)
class _CategoryCounts(ABC):
    """Counts of the categories of each cell.

    ``values`` get a feature each, and so do all other categories together (``rest``) and missing
    values (``missing``), if there were any in training. A category that was not in training counts
    as other; without ``rest`` it has no feature, and a cell with no others is a row of zeros.
    """

    columns: tuple[str, ...]
    values: tuple[str, ...]
    rest: bool
    missing: bool

    @property
    def width(self) -> int:
        """Number of features."""
        return max(1, len(self.values) + self.rest + self.missing)

    @property
    def sparse(self) -> bool:
        """Whether there are more features than a dense matrix should have."""
        return self.width > 256

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Return features (rows, width): how often each category occurs in a cell."""
        (column,) = self.columns
        rows, parts = self._split(batch[column])
        known = pyarrow.array(self.values, pyarrow.string())
        index = pyarrow.compute.index_in(parts, value_set=known)
        at = pyarrow.compute.fill_null(index, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        n = len(batch[column])
        is_empty = np.ones(n, bool)
        is_empty[rows] = False
        empty = np.flatnonzero(is_empty)
        notes[column, "missing"] += len(empty)
        notes[column, "unseen"] += 0 if self.rest else int((at < 0).sum())
        at[at < 0] = len(self.values) if self.rest else -1
        if self.missing:
            rows = np.concatenate([rows, empty])
            at = np.concatenate([at, np.full(len(empty), len(self.values) + self.rest)])
        rows, at = rows[at >= 0], at[at >= 0]
        ones = np.ones(len(rows), np.float32)
        X = sparse.csr_array((ones, (rows, at)), shape=(n, self.width))
        X.sum_duplicates()
        return X if self.sparse else X.toarray()

    @abstractmethod
    def _split(self, cells: pyarrow.Array) -> tuple[NDArray[np.int64], pyarrow.Array]:
        """Return the row of each category, and all categories; a missing cell has none."""


@dataclass(frozen=True)
class Category(_CategoryCounts):
    """One-hot encoding of a column of categories: at most one 1 per row."""

    kinds: ClassVar = ("category",)

    def _split(self, cells: pyarrow.Array) -> tuple[NDArray[np.int64], pyarrow.Array]:
        texts = cells.cast(pyarrow.string())
        given = pyarrow.compute.is_valid(texts).to_numpy(zero_copy_only=False)
        return np.flatnonzero(given), texts.drop_null()


@dataclass(frozen=True)
class Categories(_CategoryCounts):
    """Encoding of a column with several categories in a cell: the count of each.

    A cell is a text with ``separator`` between the categories (a blank stands for any white space),
    or a list. A cell without a category is missing.
    """

    kinds: ClassVar = ("categories",)
    separator: str

    def _split(self, cells: pyarrow.Array) -> tuple[NDArray[np.int64], pyarrow.Array]:
        return split_cells(cells, self.separator)


def split_cells(cells: pyarrow.Array, separator: str) -> tuple[NDArray[np.int64], pyarrow.Array]:
    """Return the categories of all cells, trimmed, and the row of each; empty ones are left out."""
    if not (pyarrow.types.is_list(cells.type) or pyarrow.types.is_large_list(cells.type)):
        texts = cells.cast(pyarrow.string())
        if separator.isspace():
            cells = pyarrow.compute.utf8_split_whitespace(texts)
        else:
            cells = pyarrow.compute.split_pattern(texts, separator)
    rows = pyarrow.compute.list_parent_indices(cells).to_numpy(zero_copy_only=False)
    parts = pyarrow.compute.list_flatten(cells).cast(pyarrow.string())
    parts = pyarrow.compute.utf8_trim_whitespace(parts)
    given = pyarrow.compute.fill_null(pyarrow.compute.not_equal(parts, ""), False)
    return rows[given.to_numpy(zero_copy_only=False)].astype(np.int64), parts.filter(given)
