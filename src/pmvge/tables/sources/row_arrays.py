"""Arrays whose rows belong to the rows of a table: ``films.csv + posters.npy``."""

from __future__ import annotations

from pathlib import Path

import duckdb

from pmvge.errors import TableError
from pmvge.tables.sources.arrays import VECTOR, as_table, read_arrays
from pmvge.tables.sources.connection import fetch_all, quote_ident
from pmvge.tables.sources.files import find_files
from pmvge.tables.sources.source import Source


def stage_arrays(
    db: duckdb.DuckDBPyConnection, name: str, rows: str, source: Source, folder: Path
) -> None:
    """Create a view ``name`` of the staged table ``rows`` with the columns of its arrays.

    The column of the n-th ``.npy`` file is ``vector``, ``vector2``, ...: new tables name other
    files, but have the same columns. Those of an ``.npz`` file have its names. Raise TableError if
    numbers of rows differ, or if a column name repeats.
    """
    ((n,),) = fetch_all(db, f"SELECT count(*) FROM {quote_ident(rows)}")
    taken = {str(row[0]).lower() for row in fetch_all(db, f"DESCRIBE {quote_ident(rows)}")}
    parts = [quote_ident(rows)]
    for number, given in enumerate(source.arrays, 1):
        (path, *others) = find_files(folder, given)
        if others:
            raise TableError(f"{source}: {given}: expected one file, got {1 + len(others)}")
        columns = read_arrays(path)
        if path.suffix != ".npz" and number > 1:
            columns = {f"{VECTOR}{number}": columns[VECTOR]}
        length = len(next(iter(columns.values())))
        if length != n:
            raise TableError(
                f"{source}: expected one row of {given} for each of the {n:,} rows of the table, "
                f"got {length:,}"
            )
        for column in columns:
            if column.lower() in taken:
                raise TableError(
                    f"{source}: {given}: the table has a column {column!r} already; save the array "
                    "under another name in an .npz file"
                )
            taken.add(column.lower())
        parts.append(quote_ident(f"array {number} of {name}"))
        db.register(f"array {number} of {name}", as_table(columns))
    db.execute(
        f"CREATE TEMP VIEW {quote_ident(name)} AS SELECT * FROM {' POSITIONAL JOIN '.join(parts)}"
    )
