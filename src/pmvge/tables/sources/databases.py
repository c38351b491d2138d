"""Tables in databases of DuckDB and SQLite, and queries, which may select and do nothing else."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import duckdb
import pyarrow

from pmvge.errors import TableError, short
from pmvge.tables.sources.source import Source
from pmvge.tables.sources.workbench import BATCH, CONFIG, ask, literal, quoted, readable

SELECTS = {  # what SQLite may do
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
}  # fmt: skip
REFUSED = re.compile(r'"name": "(JSON_EXECUTE_SERIALIZED_SQL|\w*_EXTERNAL_RESOURCE\w*)\s*"')


def stage_database(db: duckdb.DuckDBPyConnection, name: str, source: Source, folder: Path) -> None:
    """Copy the rows of a database's table or query into a table ``name`` of the workbench."""
    path = folder / str(source.database)
    if not path.is_file():
        raise TableError(f"{source.database}: no such database file in {path.parent}")
    query = source.query or f"SELECT * FROM {quoted(str(source.table))}"
    with path.open("rb") as stream:
        start = stream.read(16)
    if start.startswith(b"SQLite format 3"):
        _copy_sqlite(db, name, path, query, source)
        return
    if start[8:12] != b"DUCK":
        raise TableError(f"{path}: is neither a DuckDB nor a SQLite database")
    check_query(db, str(source), query)
    other = quoted(f"database of {name}")
    db.execute(f"ATTACH {literal(str(path.absolute()))} AS {other} (READ_ONLY)")
    try:
        _check_table(
            source, [str(row[0]) for row in db.execute(f"SHOW TABLES FROM {other}").fetchall()]
        )
        db.execute(f"USE {other}")
        # By way of a view, which, unlike a table, DuckDB lets no COPY hide in.
        db.execute(f'CREATE OR REPLACE TEMP VIEW "asked" AS {query}')
        check_plan(db, str(source), "asked")
        db.execute(f'CREATE TABLE memory.main.{quoted(name)} AS SELECT * FROM "asked"')
        db.execute('DROP VIEW temp."asked"')
    finally:
        db.execute("USE memory")
        db.execute(f"DETACH {other}")


def _copy_sqlite(
    db: duckdb.DuckDBPyConnection, name: str, path: Path, query: str, source: Source
) -> None:
    """Copy the rows of a SQLite query as text, by Python's own driver: it needs no extension."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    connection.set_authorizer(lambda action, *_: int(action not in SELECTS))  # 1: not allowed
    try:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        _check_table(source, [str(row[0]) for row in found])
        cursor = connection.execute(query)
        if cursor.description is None:
            raise TableError(f"{source}: expected a query that selects rows")
        names = [str(column[0]) for column in cursor.description]
        columns = ", ".join(f"{quoted(column)} VARCHAR" for column in names)
        db.execute(f"CREATE TEMP TABLE {quoted(name)} ({columns})")
        while rows := cursor.fetchmany(BATCH):
            arrays = [
                pyarrow.array(
                    [None if value is None else str(value) for value in values], pyarrow.string()
                )
                for values in zip(*rows, strict=True)
            ]
            db.register("batch", pyarrow.table(arrays, names=names))
            db.execute(f"INSERT INTO {quoted(name)} SELECT * FROM batch")
            db.unregister("batch")
    finally:
        connection.close()


def check_query(db: duckdb.DuckDBPyConnection, where: str, query: str) -> None:
    """A query selects and does nothing else: a second statement might write files."""
    kinds = [statement.type for statement in db.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        raise TableError(f"{where}: expected one query that selects rows, got {short(query)}")


def check_plan(db: duckdb.DuckDBPyConnection, where: str, view: str) -> None:
    """Nor does it call what runs statements from texts, be it in a view of somebody's database."""
    for _, plan in ask(db, f"EXPLAIN (FORMAT json) SELECT * FROM {quoted(view)}"):
        if called := REFUSED.search(plan):
            raise TableError(f"{where}: a query may not use {called[1].lower()}")


def _check_table(source: Source, known: list[str]) -> None:
    if source.table is not None and source.table not in known:
        listed = ", ".join(map(repr, sorted(known))) or "none at all"
        raise TableError(f"{source.database}: no table {source.table!r}; there are {listed}")


def tables_of(path: Path) -> list[str]:
    """The names of the tables of a DuckDB or SQLite file."""
    with readable(str(path)), path.open("rb") as stream:
        if stream.read(16).startswith(b"SQLite format 3"):
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            try:
                rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                return sorted(str(row[0]) for row in rows)
            finally:
                connection.close()
        with duckdb.connect(str(path.absolute()), read_only=True, config=CONFIG) as db:
            return sorted(str(row[0]) for row in db.execute("SHOW TABLES").fetchall())
