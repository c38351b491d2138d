"""Columns to numbers, with what was learned about them from the training table.

A block turns one or more columns of a batch into a dense or sparse matrix. It is fitted once, on
the training table, and is plain data afterwards: means, categories, words.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow.compute
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

from pmvge.errors import TableError

Matrix: TypeAlias = NDArray[np.float32] | sparse.csr_array
Notes: TypeAlias = Counter[tuple[str, str]]  # (column, "missing" or "unseen") to values
CATEGORIES, WORDS, BUCKETS = 1000, 20_000, 1 << 14  # default sizes


@dataclass(frozen=True)
class Scaling:
    r"""Numbers of one column, :math:`(x - \text{shift}) \cdot \text{scale}`, or ``fill`` for none.

    A column that is constant, up to what float32 can tell, becomes 0.
    """

    fill: float
    shift: float
    scale: float
    missing: bool  # some values were missing in training: there is a column that says so

    @classmethod
    def of(
        cls, mean: float | None, deviation: float | None, missing: bool, standardize: bool
    ) -> Scaling:
        if mean is None or deviation is None:
            return cls(0.0, 0.0, 0.0, missing)
        if not standardize:
            return cls(mean, 0.0, 1.0, missing)
        constant = deviation <= max(1e-7 * abs(mean), 1e-30)
        return cls(mean, mean, 0.0 if constant else 1 / deviation, missing)


@dataclass(frozen=True)
class Numbers:
    """Numbers and dates: standardised, missing ones filled in with the mean and marked."""

    columns: tuple[str, ...]
    kinds: tuple[str, ...]  # "numeric" or "date"
    scalings: tuple[Scaling, ...]
    sparse: ClassVar = False

    @property
    def width(self) -> int:
        return len(self.columns) + sum(scaling.missing for scaling in self.scalings)

    @cached_property
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        parts = zip(*((s.fill, s.shift, s.scale, s.missing) for s in self.scalings), strict=True)
        return tuple(np.array(part) for part in parts)

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """(rows, width), the indicators last."""
        fill, shift, scale, marked = self._arrays
        x = np.column_stack([_doubles(batch[column]) for column in self.columns])
        empty = np.isnan(x)
        for column, count in zip(self.columns, empty.sum(axis=0).tolist(), strict=True):
            notes[column, "missing"] += count
        filled = (np.where(empty, fill, x) - shift) * scale
        return np.hstack([filled, empty[:, marked]]).astype(np.float32)


@dataclass(frozen=True)
class Vector:
    """A column of lists of one length, scaled like numbers."""

    kinds: ClassVar = ("vector",)
    columns: tuple[str, ...]
    scalings: tuple[Scaling, ...]  # one per element; "missing" is of the whole list
    sparse: ClassVar = False

    @property
    def width(self) -> int:
        return len(self.scalings) + self.scalings[0].missing

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """(rows, width), the indicator last."""
        (column,) = self.columns
        x = lists_to_rows(column, batch[column], len(self.scalings))
        empty = np.isnan(x[:, 0])
        notes[column, "missing"] += int(empty.sum())
        fill, shift, scale = (
            np.array([getattr(s, part) for s in self.scalings])
            for part in ("fill", "shift", "scale")
        )
        filled = (np.where(empty[:, None], fill, x) - shift) * scale
        marked = [empty[:, None]] if self.scalings[0].missing else []
        return np.hstack([filled, *marked]).astype(np.float32)


@dataclass(frozen=True)
class Category:
    """A column of categories, one column each, and one for the rest and for none if they occurred.

    A category that training has not seen is one of the rest; without a rest it is a row of zeros.
    """

    kinds: ClassVar = ("category",)
    columns: tuple[str, ...]
    values: tuple[str, ...]
    rest: bool
    missing: bool

    @property
    def width(self) -> int:
        return max(1, len(self.values) + self.rest + self.missing)

    @property
    def sparse(self) -> bool:
        """Whether the columns are too many to be dense."""
        return self.width > 256

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """(rows, width), at most a single 1 in a row."""
        (column,) = self.columns
        values = batch[column].cast(pyarrow.string())
        known = pyarrow.array(self.values, pyarrow.string())
        place = pyarrow.compute.index_in(values, value_set=known)
        at = pyarrow.compute.fill_null(place, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        empty = pyarrow.compute.is_null(values).to_numpy(zero_copy_only=False)
        strange = (at < 0) & ~empty
        notes[column, "missing"] += int(empty.sum())
        notes[column, "unseen"] += 0 if self.rest else int(strange.sum())
        at[strange] = len(self.values) if self.rest else -1
        at[empty] = len(self.values) + self.rest if self.missing else -1
        rows = np.flatnonzero(at >= 0)
        ones = np.ones(len(rows), np.float32)
        X = sparse.csr_array((ones, (rows, at[rows])), shape=(len(at), self.width))
        return X if self.sparse else X.toarray()


@dataclass(frozen=True)
class Words:
    """A text column as a bag of words weighted by TF-IDF; rows have norm 1."""

    kinds: ClassVar = ("text",)
    columns: tuple[str, ...]
    words: tuple[str, ...]
    idf: tuple[float, ...]
    sparse: ClassVar = True

    @property
    def width(self) -> int:
        return len(self.words)

    @cached_property
    def _vectorizer(self) -> TfidfVectorizer:
        vectorizer = TfidfVectorizer(vocabulary=self.words, dtype=np.float32)
        vectorizer.idf_ = np.array(self.idf)
        return vectorizer

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """(rows, words)."""
        return sparse.csr_array(self._vectorizer.transform(_texts(self.columns[0], batch, notes)))


@dataclass(frozen=True)
class HashedWords:
    """A text column as a bag of words that share columns by their hashes; rows have norm 1."""

    kinds: ClassVar = ("text",)
    columns: tuple[str, ...]
    width: int
    sparse: ClassVar = True

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """(rows, width)."""
        hasher = HashingVectorizer(n_features=self.width, alternate_sign=False, dtype=np.float32)
        return sparse.csr_array(hasher.transform(_texts(self.columns[0], batch, notes)))


Block: TypeAlias = Numbers | Vector | Category | Words | HashedWords


def fit_words(column: str, batches: Iterable[pyarrow.Array], size: int | None) -> Words:
    r"""The words that stand in two rows or more, the most frequent ones, and their

    .. math:: \mathrm{idf} = \log\frac{1 + n}{1 + n_\text{word}} + 1.
    """
    analyze: Callable[[str], list[str]] = CountVectorizer().build_analyzer()
    rows, counts = 0, Counter[str]()
    for batch in batches:
        rows += len(batch)
        for text in batch.to_pylist():
            counts.update(set(analyze(text or "")))
    several = {word: n for word, n in counts.items() if n > 1} or dict(counts)
    if not several:
        raise TableError(f"column {column!r}: there is not one word of two letters in this text")
    kept = sorted(several, key=lambda word: (-several[word], word))[: size or WORDS]
    words = tuple(sorted(kept))
    return Words(
        (column,), words, tuple(math.log((1 + rows) / (1 + several[w])) + 1 for w in words)
    )


def fit_vector(
    column: str, batches: Iterable[pyarrow.Array], length: int, standardize: bool
) -> Vector:
    """Mean and deviation of every element, merged over batches."""
    n, mean, square = 0, np.zeros(length), np.zeros(length)
    missing = False
    for batch in batches:
        x = lists_to_rows(column, batch, length)
        missing |= bool(np.isnan(x[:, 0]).any())
        x = x[~np.isnan(x[:, 0])]
        if len(x):
            ours, total = x.mean(axis=0), n + len(x)
            square += ((x - ours) ** 2).sum(axis=0) + (ours - mean) ** 2 * n * len(x) / total
            mean += (ours - mean) * len(x) / total
            n = total
    deviation = np.sqrt(square / max(1, n))
    return Vector(
        (column,),
        tuple(
            Scaling.of(m, d, missing, standardize)
            for m, d in zip(mean.tolist(), deviation.tolist(), strict=True)
        ),
    )


def lists_to_rows(column: str, values: pyarrow.Array, length: int) -> NDArray[np.float64]:
    """Lists of ``length`` numbers as rows; a row of NaN for none."""
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
        raise TableError(f"column {column!r}: a vector has an element that is missing or infinite")
    return x


def _doubles(values: pyarrow.Array) -> NDArray[np.float64]:
    """Numbers, NaN for none."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.float64)


def _texts(column: str, batch: Mapping[str, pyarrow.Array], notes: Notes) -> list[str]:
    notes[column, "missing"] += batch[column].null_count
    return [text or "" for text in batch[column].to_pylist()]


_NAMES: dict[str, type[Block]] = {
    "numbers": Numbers,
    "vector": Vector,
    "category": Category,
    "words": Words,
    "hashed words": HashedWords,
}


def to_plain(block: Block) -> dict[str, Any]:
    """A block as plain data that JSON keeps."""
    (name,) = (name for name, kind in _NAMES.items() if kind is type(block))
    plain: dict[str, Any] = {"block": name}
    for field in fields(block):
        value = getattr(block, field.name)
        plain[field.name] = list(value) if isinstance(value, tuple) else value
    if isinstance(block, Numbers | Vector):
        plain["scalings"] = [[s.fill, s.shift, s.scale, s.missing] for s in block.scalings]
    return plain


def from_plain(plain: Mapping[str, Any]) -> Block:
    """The block that :func:`to_plain` came from."""
    rest: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in plain.items()}
    kind: Any = _NAMES[rest.pop("block")]
    if "scalings" in rest:
        rest["scalings"] = tuple(Scaling(*part) for part in plain["scalings"])
    block: Block = kind(**rest)
    return block
