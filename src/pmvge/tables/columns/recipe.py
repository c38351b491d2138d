"""Recipes: how the columns of one view become features.

A recipe is fitted to the training table of a view and applied to other tables with its columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import duckdb
import numpy as np
import pyarrow
from scipy import sparse

from pmvge.errors import TableError
from pmvge.graph import Features
from pmvge.tables.columns import encodings
from pmvge.tables.columns.casts import check_column
from pmvge.tables.columns.encoded import Matrix, Notes
from pmvge.tables.columns.encodings import ColumnEncoding
from pmvge.tables.project import Feature, ViewTable
from pmvge.tables.sources.connection import BATCH, quote_ident

BATCH_CELLS = 1 << 22  # cells fetched at once


@dataclass(frozen=True)
class Recipe:
    """The id column, the column encodings in the order of the features, and whether X is sparse."""

    id: str
    encodings: tuple[ColumnEncoding, ...]
    sparse: bool

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each column."""
        return {c: k for b in self.encodings for c, k in zip(b.columns, b.kinds, strict=True)}

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(encoding.width for encoding in self.encodings)

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Return features (rows, width) of a batch with columns named ``feature NAME``.

        Missing and unseen values are counted in ``notes``.
        """
        columns = {column: batch[f"feature {column}"] for column in self.kinds}
        parts = [encoding.encode(columns, notes) for encoding in self.encodings]
        if self.sparse:
            return sparse.csr_array(sparse.hstack(list(map(sparse.csr_array, parts)), format="csr"))
        return np.hstack(
            [part if isinstance(part, np.ndarray) else part.toarray() for part in parts]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as a dict that can be stored as JSON."""
        plain = [encodings.to_dict(encoding) for encoding in self.encodings]
        return {"id": self.id, "blocks": plain, "sparse": self.sparse}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Recipe:
        """Return the recipe of a dict that :meth:`to_dict` made."""
        return cls(plain["id"], tuple(map(encodings.from_dict, plain["blocks"])), plain["sparse"])


def resolve_features(
    where: str, table: ViewTable, columns: Mapping[str, str]
) -> dict[str, Feature]:
    """Return the feature of each feature column, in the order of the table's columns.

    Patterns do not match columns that are ids, labels or features by name. Raise TableError if a
    name or pattern matches no column.
    """
    given = {
        name: Feature.of(f"{where}: {name!r}", f) for name, f in (table.features or {}).items()
    }
    taken = {table.id, *table.labels, *given}
    chosen = {}
    for name, feature in given.items():
        if name in columns:
            chosen[name] = feature
            continue
        matching = [c for c in columns if fnmatchcase(c, name) and c not in taken]
        if not matching:
            check_column(where, name, columns)
        chosen |= dict.fromkeys(matching, feature)
    return {name: chosen[name] for name in columns if name in chosen}


def fetch_batches(
    db: duckdb.DuckDBPyConnection, query: str, columns: int = 1
) -> Iterator[dict[str, pyarrow.Array]]:
    """Yield the rows of a query in their order, in batches of ``BATCH`` rows.

    Queries with many columns have smaller batches, of ``BATCH_CELLS`` cells. The connection must
    not execute anything else before the last batch.
    """
    rows = min(BATCH, max(256, BATCH_CELLS // columns))
    for batch in db.sql(query).to_arrow_reader(rows):
        yield dict(zip(batch.schema.names, batch.columns, strict=True))


@contextmanager
def column_errors(where: str) -> Iterator[None]:
    """Add the place of a table to errors about its columns: messages start with ``where``."""
    try:
        yield
    except TableError as error:
        raise TableError(f"{where}: {error}") from error


def encode_batches(
    db: duckdb.DuckDBPyConnection, where: str, recipe: Recipe, staged: str, notes: Notes
) -> Iterator[Matrix]:
    """Yield features of all rows of a typed table in their order, batch by batch.

    Raise TableError, which starts with ``where``, if a vector has another length than in training.
    """
    selection = ", ".join(quote_ident(f"feature {c}") for c in recipe.kinds)
    query = f"SELECT {selection} FROM {quote_ident(staged)}"
    for batch in fetch_batches(db, query, len(recipe.kinds)):
        with column_errors(where):
            X = recipe.encode(batch, notes)
        yield X


def concatenate(recipe: Recipe, n: int, parts: Iterable[Matrix]) -> Features:
    """Return parts with n rows in total as one matrix in memory."""
    if recipe.sparse:
        return sparse.csr_array(sparse.vstack(list(parts), format="csr"))
    X = np.empty((n, recipe.width), np.float32)
    start = 0
    for part in parts:
        X[start : start + len(part)] = part
        start += len(part)
    return X
