"""Tables of DuckDB and SQLite files and of PostgreSQL servers, and read-only queries."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import duckdb
import pyarrow

from pmvge.errors import TableError, choose, short
from pmvge.tables.sources.connection import (
    BATCH,
    CONFIG,
    fetch_all,
    quote_ident,
    quote_literal,
    table_errors,
)
from pmvge.tables.sources.postgres import copy_postgres, postgres_tables
from pmvge.tables.sources.source import ADDRESSES, Source

ALLOWED_ACTIONS = {  # of a SQLite query
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
}  # fmt: skip
REFUSED = re.compile(r'"name": "(JSON_EXECUTE_SERIALIZED_SQL|\w*_EXTERNAL_RESOURCE\w*)\s*"')


def stage_database(db: duckdb.DuckDBPyConnection, name: str, source: Source, folder: Path) -> None:
    """Copy the rows of a database table or query into a table ``name`` of the connection.

    Raise TableError if the file is not a database, or if the table or query is not valid.
    """
    if str(source.database).startswith(ADDRESSES):
        copy_postgres(db, name, source)
        return
    path = folder / str(source.database)
    if not path.is_file():
        raise TableError(f"{source.database}: no such database file in {path.parent}")
    query = source.query or f"SELECT * FROM {quote_ident(str(source.table))}"
    with path.open("rb") as stream:
        start = stream.read(16)
    if start.startswith(b"SQLite format 3"):
        _copy_sqlite(db, name, path, query, source)
        return
    if start[8:12] != b"DUCK":
        raise TableError(f"{path}: is neither a DuckDB nor a SQLite database")
    check_query(db, str(source), query)
    other = quote_ident(f"database of {name}")
    db.execute(f"ATTACH {quote_literal(str(path.absolute()))} AS {other} (READ_ONLY)")
    try:
        _check_table(
            source, [str(row[0]) for row in db.execute(f"SHOW TABLES FROM {other}").fetchall()]
        )
        db.execute(f"USE {other}")
        # A view first: DuckDB allows COPY inside CREATE TABLE AS, but not inside CREATE VIEW AS.
        db.execute(f'CREATE OR REPLACE TEMP VIEW "pmvge query" AS {query}')
        check_plan(db, str(source), "pmvge query")
        db.execute(f'CREATE TABLE memory.main.{quote_ident(name)} AS SELECT * FROM "pmvge query"')
        db.execute('DROP VIEW temp."pmvge query"')
    finally:
        db.execute("USE memory")
        db.execute(f"DETACH {other}")


def _copy_sqlite(
    db: duckdb.DuckDBPyConnection, name: str, path: Path, query: str, source: Source
) -> None:
    """Copy the rows of a SQLite query as text.

    Python's sqlite3 reads the file: DuckDB would have to install its SQLite extension.
    """
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    # Return SQLITE_DENY (1) for actions that are not allowed.
    connection.set_authorizer(lambda action, *_: int(action not in ALLOWED_ACTIONS))
    try:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        )
        _check_table(source, [str(row[0]) for row in tables])
        cursor = connection.execute(query)
        if cursor.description is None:
            raise TableError(f"{source}: expected a query that selects rows, got {short(query)}")
        names = [str(column[0]) for column in cursor.description]
        columns = ", ".join(f"{quote_ident(column)} VARCHAR" for column in names)
        db.execute(f"CREATE TEMP TABLE {quote_ident(name)} ({columns})")
        while rows := cursor.fetchmany(BATCH):
            arrays = [
                pyarrow.array(
                    [None if value is None else str(value) for value in values], pyarrow.string()
                )
                for values in zip(*rows, strict=True)
            ]
            db.register("batch", pyarrow.table(arrays, names=names))
            db.execute(f"INSERT INTO {quote_ident(name)} SELECT * FROM batch")
            db.unregister("batch")
    finally:
        connection.close()


def check_query(db: duckdb.DuckDBPyConnection, where: str, query: str) -> None:
    """Raise TableError unless a query is a single SELECT: other statements could write files."""
    kinds = [statement.type for statement in db.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        raise TableError(f"{where}: expected one query that selects rows, got {short(query)}")


def check_plan(db: duckdb.DuckDBPyConnection, where: str, view: str) -> None:
    """Raise TableError if the plan of a view calls a function that can execute statements.

    The plan also shows calls inside the views of an attached database.
    """
    for _, plan in fetch_all(db, f"EXPLAIN (FORMAT json) SELECT * FROM {quote_ident(view)}"):
        if called := REFUSED.search(plan):
            raise TableError(f"{where}: a query may not use {called[1].lower()}")


def _check_table(source: Source, known: list[str]) -> None:
    if source.table is None:
        return
    if not known:
        raise TableError(f"{source.database}: expected a table {source.table!r}, found no tables")
    choose("table", source.table, sorted(known), str(source.database), error=TableError)


def table_names(database: str | Path) -> list[str]:
    """Return the sorted names of the tables of a database: a file, or an address of PostgreSQL."""
    if str(database).startswith(ADDRESSES):
        return postgres_tables(str(database))
    path = Path(database)
    with table_errors(str(path)), path.open("rb") as stream:
        if stream.read(16).startswith(b"SQLite format 3"):
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            try:
                rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                return sorted(str(row[0]) for row in rows)
            finally:
                connection.close()
        with duckdb.connect(str(path.absolute()), read_only=True, config=CONFIG) as db:
            return sorted(str(row[0]) for row in db.execute("SHOW TABLES").fetchall())
