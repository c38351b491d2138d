"""Fit the recipe of a view, and the encodings of its columns, to the training table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import duckdb
import numpy as np
import pyarrow
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from pmvge.errors import TableError
from pmvge.tables.columns.category_encodings import Categories, Category, split_cells
from pmvge.tables.columns.encoded import Notes
from pmvge.tables.columns.encodings import ColumnEncoding
from pmvge.tables.columns.number_encodings import (
    Numbers,
    Scaling,
    Vector,
    lists_to_rows,
    stack_numbers,
)
from pmvge.tables.columns.recipe import Recipe, column_errors, fetch_batches
from pmvge.tables.columns.word_encodings import HashedWords, Words, analyzer
from pmvge.tables.project import Feature, ViewTable
from pmvge.tables.sources.connection import fetch_all, quote_ident

CATEGORIES, WORDS, BUCKETS = 1000, 20_000, 1 << 14  # default sizes
SHARED = 0.1  # words per row that other rows have, too; with fewer, a text says little
MAX_DENSE_WIDTH = 1 << 20  # features
MAX_STATISTICS = 256  # columns per statement; more are read in batches: planning is slow


def fit_recipe(
    db: duckdb.DuckDBPyConnection,
    where: str,
    staged: str,
    table: ViewTable,
    features: Mapping[str, Feature],
    notes: Notes,
) -> Recipe:
    """Return the recipe fitted to the typed feature columns of a staged table.

    ``notes`` counts columns of texts without shared words. Raise TableError, which starts with
    ``where``, if a column has no words or vectors, or if there are too many columns for dense rows.
    """
    fitted: list[ColumnEncoding] = []
    numbers = [c for c, feature in features.items() if feature.kind in ("numeric", "date")]
    if numbers:
        kinds = [features[column].kind for column in numbers]
        fitted.append(_fit_numbers(db, staged, numbers, kinds, table.standardize))
    for column, feature in features.items():
        with column_errors(where):
            if feature.kind == "category":
                fitted.append(_fit_category(db, staged, column, feature.size or CATEGORIES))
            elif feature.kind == "categories":
                fitted.append(fit_categories(column, _column(db, staged, column), feature))
            elif feature.kind == "text" and feature.hashed:
                fitted.append(HashedWords((column,), feature.size or BUCKETS, feature.ngrams))
            elif feature.kind == "text":
                cells = _column(db, staged, column)
                fitted.append(fit_words(column, cells, feature.size, feature.ngrams, notes))
            elif feature.kind == "vector":
                fitted.append(_fit_vector(db, staged, column, table.standardize))
    is_sparse = any(encoding.sparse for encoding in fitted)
    recipe = Recipe(
        str(table.id), tuple(fitted), is_sparse if table.sparse is None else table.sparse
    )
    if recipe.width > MAX_DENSE_WIDTH and not recipe.sparse:
        raise TableError(
            f"{where}: {recipe.width:,} columns are too many for dense rows; set sparse = true"
        )
    return recipe


def _fit_numbers(
    db: duckdb.DuckDBPyConnection,
    staged: str,
    columns: list[str],
    kinds: list[str],
    standardize: bool,
) -> Numbers:
    if len(columns) > MAX_STATISTICS:
        selection = ", ".join(quote_ident(f"feature {column}") for column in columns)
        query = f"SELECT {selection} FROM {quote_ident(staged)}"
        moments = Moments(len(columns))
        for batch in fetch_batches(db, query, len(columns)):
            moments.add(stack_numbers(batch.values()))
        return Numbers(tuple(columns), tuple(kinds), moments.scalings(standardize))
    db.execute("SET threads = 1")  # sums in the order of the ids: reproducible to the bit
    names = [quote_ident(f"feature {column}") for column in columns]
    statistics = ", ".join(f"avg({n}), stddev_pop({n}), count(*) - count({n})" for n in names)
    (row,) = fetch_all(db, f"SELECT {statistics} FROM {quote_ident(staged)}")
    scalings = [
        Scaling.of(row[at], row[at + 1], row[at + 2] > 0, standardize)
        for at in range(0, len(row), 3)
    ]
    db.execute("RESET threads")
    return Numbers(tuple(columns), tuple(kinds), tuple(scalings))


def _fit_category(db: duckdb.DuckDBPyConnection, staged: str, column: str, size: int) -> Category:
    name = quote_ident(f"feature {column}")
    rows = fetch_all(
        db,
        f"SELECT {name} FROM {quote_ident(staged)} WHERE {name} IS NOT NULL "
        f"GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT {size + 1}",
    )
    empty = fetch_all(db, f"SELECT 1 FROM {quote_ident(staged)} WHERE {name} IS NULL LIMIT 1")
    values = tuple(sorted(str(row[0]) for row in rows[:size]))
    return Category((column,), values, len(rows) > size, bool(empty))


def _fit_vector(
    db: duckdb.DuckDBPyConnection, staged: str, column: str, standardize: bool
) -> Vector:
    name = quote_ident(f"feature {column}")
    lengths = fetch_all(
        db, f"SELECT len({name}) FROM {quote_ident(staged)} WHERE {name} IS NOT NULL LIMIT 1"
    )
    if not lengths or not lengths[0][0]:
        raise TableError(f"column {column!r}: expected vectors, but all are empty; leave it out")
    return fit_vector(column, _column(db, staged, column), int(lengths[0][0]), standardize)


def _column(db: duckdb.DuckDBPyConnection, staged: str, column: str) -> Iterator[pyarrow.Array]:
    query = f"SELECT {quote_ident(f'feature {column}')} AS value FROM {quote_ident(staged)}"
    for batch in fetch_batches(db, query):
        yield batch["value"]


def fit_words(
    column: str,
    batches: Iterable[pyarrow.Array],
    size: int | None,
    ngrams: tuple[int, int] | None = None,
    notes: Notes | None = None,
) -> Words:
    r"""Return the encoding of a text column with its ``size`` most frequent words, or ``ngrams``.

    Words that occur in one row only are left out, unless all do. If rows share fewer than
    ``SHARED`` words on average, ``notes`` has the column as "unshared". With n rows,

    .. math:: \mathrm{idf} = \log\frac{1 + n}{1 + n_\text{word}} + 1.
    """
    analyze: Callable[[str], list[str]] = CountVectorizer(
        analyzer=analyzer(ngrams)
    ).build_analyzer()
    rows, counts = 0, Counter[str]()
    for batch in batches:
        rows += len(batch)
        for text in batch.to_pylist():
            counts.update(set(analyze(text or "")))
    several = {word: n for word, n in counts.items() if n > 1}
    if notes is not None and rows > 1 and sum(several.values()) < SHARED * rows:
        notes[column, "unshared"] = 1
    several = several or dict(counts)
    if not several:
        what = "words of two letters" if ngrams is None else f"words of {ngrams[0]} characters"
        raise TableError(
            f"column {column!r}: expected {what} or more in this text, found none; "
            "use kind category, or leave the column out"
        )
    kept = sorted(several, key=lambda word: (-several[word], word))[: size or WORDS]
    words = tuple(sorted(kept))
    idf = tuple(math.log((1 + rows) / (1 + several[w])) + 1 for w in words)
    return Words((column,), words, idf, ngrams)


def fit_categories(column: str, batches: Iterable[pyarrow.Array], feature: Feature) -> Categories:
    """Return the encoding of a column with several categories in a cell, most frequent first."""
    separator, size = feature.separator or "|", feature.size or CATEGORIES
    missing, counts = False, Counter[str]()
    for batch in batches:
        rows, parts = split_cells(batch, separator)
        missing |= len(np.unique(rows)) < len(batch)
        counts.update(parts.to_pylist())
    kept = sorted(counts, key=lambda value: (-counts[value], value))[:size]
    return Categories((column,), tuple(sorted(kept)), len(counts) > size, missing, separator)


def fit_vector(
    column: str, batches: Iterable[pyarrow.Array], length: int, standardize: bool
) -> Vector:
    """Return the encoding of a vector column: mean and deviation of every element, over batches."""
    moments = Moments(length)
    for batch in batches:
        moments.add(lists_to_rows(column, batch, length))
    return Vector((column,), moments.scalings(standardize))


class Moments:
    """Means and standard deviations of columns, from batches of rows; NaN is a missing value."""

    def __init__(self, columns: int) -> None:
        self._n = np.zeros(columns)
        self._mean, self._square = np.zeros(columns), np.zeros(columns)
        self._missing = np.zeros(columns, bool)

    def add(self, x: NDArray[np.float64]) -> None:
        """Add the rows of a matrix: combine its moments with those of the rows before."""
        empty = np.isnan(x)
        n_empty = empty.sum(axis=0)
        self._missing |= n_empty > 0
        n = len(x) - n_empty
        total = np.maximum(1, self._n + n)
        mean = np.sum(x, axis=0, where=~empty) / np.maximum(1, n)
        deviations = x - mean
        deviations[empty] = 0.0
        between = (mean - self._mean) ** 2 * self._n * n / total
        self._square += np.einsum("ij,ij->j", deviations, deviations) + between
        self._mean += (mean - self._mean) * n / total
        self._n += n

    def scalings(self, standardize: bool) -> tuple[Scaling, ...]:
        """Return the scaling of each column."""
        deviation = np.sqrt(self._square / np.maximum(1, self._n))
        columns = zip(self._n, self._mean, deviation, self._missing, strict=True)
        return tuple(
            Scaling.of(float(m) if n else None, float(d) if n else None, bool(e), standardize)
            for n, m, d, e in columns
        )
