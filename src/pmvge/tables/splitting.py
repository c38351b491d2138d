"""Split a table of links: hold out rows at random, the latest ones, or those of some entities."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow
from numpy.typing import NDArray

from pmvge.checks import real
from pmvge.errors import ParameterError, TableError
from pmvge.storage import replace_file
from pmvge.tables.columns.casts import cast, check_casts, check_column, is_invalid
from pmvge.tables.guessing.folder import dialect_notes, guess_dialect
from pmvge.tables.sources.connection import connect, fetch_all, quote_ident, table_errors
from pmvge.tables.sources.source import Source, as_source
from pmvge.tables.sources.staging import stage

PARQUET = (".parquet", ".pq")


class TableSplit(NamedTuple):
    """The rows for training and the held-out rows of a table, in their order, and notes."""

    train: pyarrow.Table
    held_out: pyarrow.Table
    notes: list[str]


def split_table(
    source: Any,
    *,
    fraction: float = 0.1,
    time: str | None = None,
    entity: str | None = None,
    seed: int = 0,
    folder: Path | None = None,
) -> TableSplit:
    """Hold out a fraction of the rows of a link table, and return both parts as Arrow tables.

    Without ``time`` and ``entity``, rows are held out at random. Rows without a time or an entity
    stay in training. Raise TableError if the table or a column is not valid or cannot be split, and
    ParameterError if the options are not. How a text file is written is guessed, as by ``pmvge
    init``, unless a :class:`Source` has a dialect.

    Parameters
    ----------
    source
        A file name, ``file.db:table``, a data frame, or a :class:`Source`.
    fraction
        The share to hold out, in (0, 1): of the rows, or of the entities.
    time
        A column of numbers or dates: hold out the latest rows. Rows of the same time stay
        together, so that the share may differ a little.
    entity
        A column of ids: hold out all rows of a random part of its entities.
    seed
        Seed of the random choice. The same seed and table give the same parts.
    folder
        The folder that file names are relative to.
    """
    real(0, 1, open_low=True)("fraction", fraction)
    if time is not None and entity is not None:
        raise ParameterError("split: expected time or entity, got both")
    base = folder or Path()
    table = guess_dialect(as_source(source), base)
    where, rng = str(table), np.random.default_rng(seed)
    with connect(base) as db:
        types = stage(db, "raw", table, base)
        with table_errors(where):
            rows = db.sql("SELECT * FROM raw").to_arrow_table()
            db.register("rows", rows)
        if not len(rows):
            raise TableError(f"{where}: the table has no rows")
        if time is not None:
            out, notes = _latest(db, where, check_column(where, time, types), types, fraction)
        elif entity is not None:
            ids = rows[check_column(where, entity, types)]
            out, notes = _of_entities(where, entity, ids, fraction, rng)
        else:
            out, notes = _draw(len(rows), fraction, rng), []
    if not 0 < out.sum() < len(rows):
        raise TableError(
            f"{where}: expected at least one row to hold out and one to keep, got "
            f"{int(out.sum()):,} of {len(rows):,}; use another fraction"
        )
    notes += _written(table)
    return TableSplit(rows.filter(pyarrow.array(~out)), rows.filter(pyarrow.array(out)), notes)


def _written(table: Source) -> list[str]:
    """Return notes on keys of the project file that do not hold for the parts, which are CSV."""
    keys = [key for key in ("header", "delimiter", "encoding") if key in table.dialect.to_dict()]
    if not keys:
        return []
    return [
        *dialect_notes(str(table), table.dialect),
        "the parts have a header, commas and UTF-8: remove "
        f"{' and '.join(keys)} from these links in the project file",
    ]


def write_split(split: TableSplit, train: Path, held_out: Path) -> None:
    """Write both parts to CSV or Parquet files, by their names.

    Raise StorageError if a file cannot be written.
    """
    for path, rows in ((train, split.train), (held_out, split.held_out)):
        replace_file(path, partial(_write, path.name, rows))


def _write(name: str, rows: pyarrow.Table, path: Path) -> None:
    """Write rows to a path, in the format that ``name`` says."""
    with duckdb.connect(":memory:") as db:
        relation = db.from_arrow(rows)
        if name.lower().endswith(PARQUET):
            relation.write_parquet(str(path))
        else:
            relation.write_csv(str(path), header=True)


def _draw(n: int, fraction: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask of a random part of n, at least one and not all of them."""
    mask = np.zeros(n, dtype=bool)
    mask[rng.permutation(n)[: min(max(1, round(fraction * n)), n - 1)]] = True
    return mask


def _latest(
    db: duckdb.DuckDBPyConnection, where: str, column: str, types: dict[str, str], fraction: float
) -> tuple[NDArray[np.bool_], list[str]]:
    """Return a mask of the latest rows: those from the cut on that is closest to the fraction."""
    with table_errors(where):
        ((bad,),) = fetch_all(
            db, f"SELECT count_if({is_invalid(column, 'numeric', types)}) FROM rows"
        )
        kind = "date" if bad or types[column].startswith(("DATE", "TIMESTAMP")) else "numeric"
        check_casts(db, where, "rows", {column: kind}, types)
        query = f"SELECT {cast(column, kind, types)} AS t, CAST({quote_ident(column)} AS VARCHAR)"
        found = db.sql(f"{query} AS text FROM rows").to_arrow_table()
    t = found["t"].to_numpy().astype(np.float64)
    known = np.flatnonzero(~np.isnan(t))
    values, first = np.unique(np.sort(t[known]), return_index=True)
    if len(values) < 2:
        raise TableError(
            f"{where}: column {column!r}: expected at least two times to split by, got "
            f"{len(values)}"
        )
    held = len(known) - first[1:]  # rows from each time on, but the first
    cut = values[1:][np.argmin(np.abs(held - fraction * len(t)))]
    earliest = int(known[np.argmin(np.where(t[known] >= cut, t[known], np.inf))])
    notes = [f"held out from {column} {found['text'][earliest].as_py()} on"]
    if len(known) < len(t):
        notes.append(f"{len(t) - len(known):,} rows without {column} stay in training")
    return np.nan_to_num(t, nan=-np.inf) >= cut, notes


def _of_entities(
    where: str, column: str, ids: pyarrow.ChunkedArray, fraction: float, rng: np.random.Generator
) -> tuple[NDArray[np.bool_], list[str]]:
    """Return a mask of all rows of a random part of the entities."""
    codes = ids.combine_chunks().dictionary_encode()
    if isinstance(codes, pyarrow.ChunkedArray):
        codes = codes.combine_chunks()
    names = codes.dictionary.cast(pyarrow.string()).to_pylist()
    order = sorted(range(len(names)), key=lambda code: names[code])  # not the order of the rows
    if len(order) < 2:
        raise TableError(
            f"{where}: column {column!r}: expected at least two entities to split by, got "
            f"{len(order)}"
        )
    chosen = np.zeros(len(order) + 1, dtype=bool)  # the last is a missing id
    chosen[np.array(order)[_draw(len(order), fraction, rng)]] = True
    index = codes.indices.fill_null(len(order)).to_numpy(zero_copy_only=False).astype(np.int64)
    notes = [f"held out {int(chosen.sum()):,} of {len(order):,} values of {column}"]
    if codes.null_count:
        notes.append(f"{codes.null_count:,} rows without {column} stay in training")
    return chosen[index], notes
