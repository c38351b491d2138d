"""How the raw rows of one view become features: learned from its table, applied to any other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import duckdb
import numpy as np
import pyarrow
from scipy import sparse

from pmvge.errors import TableError
from pmvge.graph import Features
from pmvge.tables.columns import blocks
from pmvge.tables.columns.blocks import Block, Matrix, Notes
from pmvge.tables.columns.casts import check_column
from pmvge.tables.project import Feature, ViewTable
from pmvge.tables.sources.workbench import BATCH, ask, quoted

WIDEST = 1 << 20  # columns of a dense row


@dataclass(frozen=True)
class Recipe:
    """The id column, the blocks of columns side by side, and whether rows are sparse."""

    id: str
    blocks: tuple[Block, ...]
    sparse: bool

    @property
    def kinds(self) -> dict[str, str]:
        """The columns that are read, and what each is read as."""
        return {c: k for b in self.blocks for c, k in zip(b.columns, b.kinds, strict=True)}

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(block.width for block in self.blocks)

    def encode(self, batch: Mapping[str, pyarrow.Array], notes: Notes) -> Matrix:
        """Features (rows, width) of a batch, whose columns are called ``feature NAME``."""
        columns = {column: batch[f"feature {column}"] for column in self.kinds}
        parts = [block.encode(columns, notes) for block in self.blocks]
        if self.sparse:
            return sparse.csr_array(sparse.hstack(list(map(sparse.csr_array, parts)), format="csr"))
        return np.hstack(
            [part if isinstance(part, np.ndarray) else part.toarray() for part in parts]
        )

    def to_plain(self) -> dict[str, Any]:
        """Plain data that JSON keeps."""
        plain = [blocks.to_plain(block) for block in self.blocks]
        return {"id": self.id, "blocks": plain, "sparse": self.sparse}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Recipe:
        """The recipe that :meth:`to_plain` came from."""
        return cls(plain["id"], tuple(map(blocks.from_plain, plain["blocks"])), plain["sparse"])


def expand(where: str, table: ViewTable, columns: Mapping[str, str]) -> dict[str, Feature]:
    """The feature of every column, in the table's order; patterns leave named columns alone."""
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


def fit_recipe(
    db: duckdb.DuckDBPyConnection,
    where: str,
    staged: str,
    table: ViewTable,
    features: Mapping[str, Feature],
) -> Recipe:
    """Learn what there is to know about the typed feature columns of a staged table."""
    found: list[Block] = []
    numbers = [c for c, feature in features.items() if feature.kind in ("numeric", "date")]
    if numbers:
        kinds = [features[column].kind for column in numbers]
        found.append(_fit_numbers(db, staged, numbers, kinds, table.standardize))
    for column, feature in features.items():
        try:
            if feature.kind == "category":
                found.append(_fit_category(db, staged, column, feature.size or blocks.CATEGORIES))
            elif feature.kind == "text" and feature.hashed:
                found.append(blocks.HashedWords((column,), feature.size or blocks.BUCKETS))
            elif feature.kind == "text":
                found.append(blocks.fit_words(column, _column(db, staged, column), feature.size))
            elif feature.kind == "vector":
                found.append(_fit_vector(db, staged, column, table.standardize))
        except TableError as error:
            raise TableError(f"{where}: {error}") from error
    many = any(block.sparse for block in found)
    recipe = Recipe(str(table.id), tuple(found), many if table.sparse is None else table.sparse)
    if recipe.width > WIDEST and not recipe.sparse:
        raise TableError(
            f"{where}: {recipe.width:,} columns are too many for dense rows; say sparse = true"
        )
    return recipe


def _fit_numbers(
    db: duckdb.DuckDBPyConnection,
    staged: str,
    columns: list[str],
    kinds: list[str],
    standardize: bool,
) -> blocks.Numbers:
    scalings: list[blocks.Scaling] = []
    db.execute("SET threads = 1")  # so that sums are taken in the order of the ids
    for start in range(0, len(columns), 256):  # a statement has its limits
        names = [quoted(f"feature {column}") for column in columns[start : start + 256]]
        asked = ", ".join(f"avg({n}), stddev_pop({n}), count(*) - count({n})" for n in names)
        (row,) = ask(db, f"SELECT {asked} FROM {quoted(staged)}")
        scalings += [
            blocks.Scaling.of(row[at], row[at + 1], row[at + 2] > 0, standardize)
            for at in range(0, len(row), 3)
        ]
    db.execute("RESET threads")
    return blocks.Numbers(tuple(columns), tuple(kinds), tuple(scalings))


def _fit_category(
    db: duckdb.DuckDBPyConnection, staged: str, column: str, size: int
) -> blocks.Category:
    name = quoted(f"feature {column}")
    rows = ask(
        db,
        f"SELECT {name} FROM {quoted(staged)} WHERE {name} IS NOT NULL "
        f"GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT {size + 1}",
    )
    empty = ask(db, f"SELECT 1 FROM {quoted(staged)} WHERE {name} IS NULL LIMIT 1")
    values = tuple(sorted(str(row[0]) for row in rows[:size]))
    return blocks.Category((column,), values, len(rows) > size, bool(empty))


def _fit_vector(
    db: duckdb.DuckDBPyConnection, staged: str, column: str, standardize: bool
) -> blocks.Vector:
    name = quoted(f"feature {column}")
    found = ask(db, f"SELECT len({name}) FROM {quoted(staged)} WHERE {name} IS NOT NULL LIMIT 1")
    if not found or not found[0][0]:
        raise TableError(f"column {column!r}: expected vectors, but all are empty")
    return blocks.fit_vector(column, _column(db, staged, column), int(found[0][0]), standardize)


def _column(db: duckdb.DuckDBPyConnection, staged: str, column: str) -> Iterator[pyarrow.Array]:
    query = f"SELECT {quoted(f'feature {column}')} AS one FROM {quoted(staged)}"
    for batch in batches(db, query):
        yield batch["one"]


def batches(db: duckdb.DuckDBPyConnection, query: str) -> Iterator[dict[str, pyarrow.Array]]:
    """The rows of a query in their order, some thousands of them at a time.

    Nothing else may be asked of the connection before the last of them.
    """
    for batch in db.sql(query).to_arrow_reader(BATCH):
        yield dict(zip(batch.schema.names, batch.columns, strict=True))


def encoded(
    db: duckdb.DuckDBPyConnection, recipe: Recipe, staged: str, notes: Notes
) -> Iterator[Matrix]:
    """Features of all rows of a typed table in their order, some thousands at a time."""
    selection = ", ".join(quoted(f"feature {c}") for c in recipe.kinds)
    for batch in batches(db, f"SELECT {selection} FROM {quoted(staged)}"):
        yield recipe.encode(batch, notes)


def gathered(recipe: Recipe, n: int, parts: Iterable[Matrix]) -> Features:
    """Parts with n rows in all as one matrix in memory."""
    if recipe.sparse:
        return sparse.csr_array(sparse.vstack(list(parts), format="csr"))
    X = np.empty((n, recipe.width), np.float32)
    start = 0
    for part in parts:
        X[start : start + len(part)] = part
        start += len(part)
    return X
