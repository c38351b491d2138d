"""Encodings of columns as numbers, fitted to the training table.

A column encoding turns one or more columns of a batch into a dense or sparse matrix. It is fitted
once, to the training table, and holds plain data: means, categories, words.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow.compute
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer

from pmvge.errors import TableError
from pmvge.graph import standard_scale

Matrix: TypeAlias = NDArray[np.float32] | sparse.csr_array
# Counts by (column, note): values that were "missing" or "unseen" in training, and "invalid" ones,
# not of their kind, that count as missing. "numbered" is 1 if a table without its id column got row
# numbers as ids; "absent" is 1 for a column that a new table does not have, and its note goes on
# with ", like 'ages'" if there is a similar one.
Notes: TypeAlias = Counter[tuple[str, str]]
CATEGORIES, WORDS, BUCKETS = 1000, 20_000, 1 << 14  # default sizes


@dataclass(frozen=True)
class Scaling:
    r"""Scaling of one column, :math:`(x - \text{shift}) \cdot \text{scale}`.

    Missing values are replaced by ``fill`` first. A column that is constant in float32 precision
    becomes 0.
    """

    fill: float
    shift: float
    scale: float
    missing: bool  # values were missing in training: add an indicator column

    @classmethod
    def of(
        cls, mean: float | None, deviation: float | None, missing: bool, standardize: bool
    ) -> Scaling:
        """Return the scaling for a column's mean and standard deviation; None: no values."""
        if mean is None or deviation is None:
            return cls(0.0, 0.0, 0.0, missing)
        if not standardize:
            return cls(mean, 0.0, 1.0, missing)
        return cls(mean, mean, float(standard_scale(mean, deviation)), missing)


@dataclass(frozen=True)
class Numbers:
    """Encoding of numbers and dates: standardised, missing values filled with the mean.

    Columns with missing values in training get an indicator column each.
    """

    columns: tuple[str, ...]
    kinds: tuple[str, ...]  # "numeric" or "date"
    scalings: tuple[Scaling, ...]
    sparse: ClassVar = False

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.columns) + sum(scaling.missing for scaling in self.scalings)

    @cached_property
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        parts = zip(*((s.fill, s.shift, s.scale, s.missing) for s in self.scalings), strict=True)
        return tuple(np.array(part) for part in parts)

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Return features (rows, width), the missing-value indicators last."""
        fill, shift, scale, indicated = self._arrays
        x = stack_numbers(batch[column] for column in self.columns)
        empty = np.isnan(x)
        for column, count in zip(self.columns, empty.sum(axis=0).tolist(), strict=True):
            notes[column, "missing"] += count
        x[empty] = np.broadcast_to(fill, x.shape)[empty]
        x -= shift
        x *= scale
        with np.errstate(over="ignore"):  # an infinite feature is an error where it is used
            numbers = x.astype(np.float32)
        return np.hstack([numbers, empty[:, indicated].astype(np.float32)])


@dataclass(frozen=True)
class Vector:
    """Encoding of a column of lists of one length: each element is scaled like a number."""

    kinds: ClassVar = ("vector",)
    columns: tuple[str, ...]
    scalings: tuple[Scaling, ...]  # one per element, all with the same "missing"
    sparse: ClassVar = False

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.scalings) + self.scalings[0].missing

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Return features (rows, width), the missing-value indicator last."""
        (column,) = self.columns
        x = lists_to_rows(column, batch[column], len(self.scalings))
        empty = np.isnan(x[:, 0])
        notes[column, "missing"] += int(empty.sum())
        fill, shift, scale = (
            np.array([getattr(s, part) for s in self.scalings])
            for part in ("fill", "shift", "scale")
        )
        filled = (np.where(empty[:, None], fill, x) - shift) * scale
        indicator = [empty[:, None]] if self.scalings[0].missing else []
        return np.hstack([filled, *indicator]).astype(np.float32)


@dataclass(frozen=True)
class Category:
    """One-hot encoding of a column of categories.

    ``values`` get a feature each, and so do all other categories together (``rest``) and missing
    values (``missing``), if there were any in training. A category that was not in training counts
    as other; without ``rest`` it is a row of zeros.
    """

    kinds: ClassVar = ("category",)
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
        """Return features (rows, width), with at most one 1 per row."""
        (column,) = self.columns
        values = batch[column].cast(pyarrow.string())
        known = pyarrow.array(self.values, pyarrow.string())
        index = pyarrow.compute.index_in(values, value_set=known)
        at = pyarrow.compute.fill_null(index, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        empty = pyarrow.compute.is_null(values).to_numpy(zero_copy_only=False)
        unseen = (at < 0) & ~empty
        notes[column, "missing"] += int(empty.sum())
        notes[column, "unseen"] += 0 if self.rest else int(unseen.sum())
        at[unseen] = len(self.values) if self.rest else -1
        at[empty] = len(self.values) + self.rest if self.missing else -1
        rows = np.flatnonzero(at >= 0)
        ones = np.ones(len(rows), np.float32)
        X = sparse.csr_array((ones, (rows, at[rows])), shape=(len(at), self.width))
        return X if self.sparse else X.toarray()


@dataclass(frozen=True)
class Categories:
    """Encoding of a column with several categories in a cell: the count of each.

    A cell is a text with ``separator`` between the categories (a blank stands for any white space),
    or a list. ``values``, ``rest`` and ``missing`` are as in :class:`Category`; a cell without a
    category is missing.
    """

    kinds: ClassVar = ("categories",)
    columns: tuple[str, ...]
    values: tuple[str, ...]
    rest: bool
    missing: bool
    separator: str

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
        rows, parts = split_cells(batch[column], self.separator)
        known = pyarrow.array(self.values, pyarrow.string())
        index = pyarrow.compute.index_in(parts, value_set=known)
        at = pyarrow.compute.fill_null(index, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        n = len(batch[column])
        empty = np.setdiff1d(np.arange(n), rows)
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


def character_ngrams(ngrams: tuple[int, int], text: str) -> list[str]:
    """Return all sequences of ngrams[0] to ngrams[1] characters of the words of a text.

    The text is in lower case, with full-width and half-width forms of a character made equal.
    """
    words = unicodedata.normalize("NFKC", text).lower().split()
    return [
        word[start : start + n]
        for word in words
        for n in range(ngrams[0], ngrams[1] + 1)
        for start in range(len(word) - n + 1)
    ]


def analyzer(ngrams: tuple[int, int] | None) -> str | Callable[[str], list[str]]:
    """Return scikit-learn's ``analyzer`` for words (None) or sequences of characters."""
    return "word" if ngrams is None else partial(character_ngrams, ngrams)


@dataclass(frozen=True)
class Words:
    """Encoding of a text column as a bag of words, weighted by TF-IDF; rows have norm 1.

    With ``ngrams`` words are sequences of characters, of these lengths.
    """

    kinds: ClassVar = ("text",)
    columns: tuple[str, ...]
    words: tuple[str, ...]
    idf: tuple[float, ...]
    ngrams: tuple[int, int] | None = None
    sparse: ClassVar = True

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.words)

    @cached_property
    def _vectorizer(self) -> TfidfVectorizer:
        vectorizer = TfidfVectorizer(
            vocabulary=self.words, dtype=np.float32, analyzer=analyzer(self.ngrams)
        )
        vectorizer.idf_ = np.array(self.idf)
        return vectorizer

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Return features (rows, words)."""
        return sparse.csr_array(self._vectorizer.transform(_texts(self.columns[0], batch, notes)))


@dataclass(frozen=True)
class HashedWords:
    """Encoding of a text column as a bag of hashed words, or ``ngrams``; rows have norm 1."""

    kinds: ClassVar = ("text",)
    columns: tuple[str, ...]
    width: int
    ngrams: tuple[int, int] | None = None
    sparse: ClassVar = True

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Return features (rows, width)."""
        hasher = HashingVectorizer(
            n_features=self.width,
            alternate_sign=False,
            dtype=np.float32,
            analyzer=analyzer(self.ngrams),
        )
        return sparse.csr_array(hasher.transform(_texts(self.columns[0], batch, notes)))


ColumnEncoding: TypeAlias = Numbers | Vector | Category | Categories | Words | HashedWords


def lists_to_rows(column: str, values: pyarrow.Array, length: int) -> NDArray[np.float64]:
    """Return lists of ``length`` numbers as rows of a matrix; a missing list is a row of NaN."""
    lengths = pyarrow.compute.list_value_length(values).to_numpy(zero_copy_only=False)
    given = ~np.isnan(lengths.astype(float))
    if (lengths[given] != length).any():
        other = int(lengths[given][lengths[given] != length][0])
        raise TableError(
            f"column {column!r}: expected vectors of length {length}, got one of {other}"
        )
    flat = values.drop_null().flatten()
    x = np.full((len(values), length), np.nan)
    x[given] = _doubles(flat).reshape(-1, length)
    if not np.isfinite(x[given]).all():
        raise TableError(
            f"column {column!r}: expected finite numbers, but a vector has an element that is "
            "missing or infinite"
        )
    return x


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


def stack_numbers(columns: Iterable[pyarrow.Array]) -> NDArray[np.float64]:
    """Return columns of numbers as a matrix, with NaN for missing values.

    Columns of one type are stacked before they are cast: small integers are faster to copy.
    """
    arrays = [column.to_numpy(zero_copy_only=False) for column in columns]
    return np.column_stack(arrays).astype(np.float64, copy=False)


def _doubles(values: pyarrow.Array) -> NDArray[np.float64]:
    """Return numbers as float64, with NaN for missing values."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _texts(column: str, batch: Mapping[str, pyarrow.Array], notes: Notes) -> list[str]:
    notes[column, "missing"] += batch[column].null_count
    return [text or "" for text in batch[column].to_pylist()]


_NAMES: dict[str, type[ColumnEncoding]] = {
    "numbers": Numbers,
    "vector": Vector,
    "category": Category,
    "categories": Categories,
    "words": Words,
    "hashed words": HashedWords,
}


def to_dict(encoding: ColumnEncoding) -> dict[str, Any]:
    """Return an encoding as a dict that can be stored as JSON."""
    (name,) = (name for name, kind in _NAMES.items() if kind is type(encoding))
    plain: dict[str, Any] = {"block": name}
    for field in fields(encoding):
        value = getattr(encoding, field.name)
        if value is not None:
            plain[field.name] = list(value) if isinstance(value, tuple) else value
    if isinstance(encoding, Numbers | Vector):
        plain["scalings"] = [[s.fill, s.shift, s.scale, s.missing] for s in encoding.scalings]
    return plain


def from_dict(plain: Mapping[str, Any]) -> ColumnEncoding:
    """Return the encoding of a dict that :func:`to_dict` made."""
    options: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in plain.items()
    }
    kind: Any = _NAMES[options.pop("block")]
    if "scalings" in options:
        options["scalings"] = tuple(Scaling(*part) for part in plain["scalings"])
    encoding: ColumnEncoding = kind(**options)
    return encoding
