"""The DuckDB connection: settings, errors and interrupts, and quoting for SQL."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow

from pmvge.errors import TableError, one_line

BATCH = 1 << 14  # rows fetched at once
INTERRUPTED = "Query interrupted"  # message of DuckDB's RuntimeError after Ctrl-C
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # A name in a query is a table or a file, never a Python variable.
    "python_enable_replacements": False,
    # No network access and no downloaded code.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    # EXPLAIN also shows the plan before optimization, for check_plan.
    "explain_output": "all",
}


@contextmanager
def connect(folder: Path, spill: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an in-memory DuckDB database and close it at exit.

    File names in queries are relative to ``folder``. Data that does not fit into memory goes to a
    temporary folder, inside ``spill`` if it is given. The configuration is locked.
    """
    with TemporaryDirectory(prefix="pmvge-", dir=spill) as temporary:
        db = duckdb.connect(":memory:", config={**CONFIG, "temp_directory": temporary})
        try:
            db.execute(f"SET file_search_path = {quote_literal(str(folder))}")
            db.execute("SET allowed_configs = ['threads']")
            db.execute("SET lock_configuration = true")
            with translate_interrupts():
                yield db
        finally:
            db.close()


@contextmanager
def translate_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt for the exceptions that DuckDB raises after Ctrl-C."""
    try:
        yield
    except (RuntimeError, duckdb.InterruptException) as error:
        if isinstance(error, duckdb.InterruptException) or str(error) == INTERRUPTED:
            raise KeyboardInterrupt from error
        raise


@contextmanager
def table_errors(where: str) -> Iterator[None]:
    """Raise TableError, with a message of one line, for errors of DuckDB, SQLite, Arrow and files.

    ``where`` names the source and starts the message.
    """
    try:
        with translate_interrupts():
            yield
    except (duckdb.Error, sqlite3.Error, pyarrow.ArrowException) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # Leave out the generated SQL, and advice on DuckDB options that users cannot set.
        ends = (at for at, line in enumerate(lines) if line.startswith(("LINE ", "Possible ")))
        message = " ".join(line[:120] for line in lines[: min(5, next(ends, 3))])
        if "state machine" in message:  # DuckDB's message for both causes
            message = "unterminated quote, or mixed line endings (LF and CRLF)"
        raise TableError(f"{where}: cannot be read: {message[:400]}") from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TableError(f"{where}: cannot be read: {one_line(error)}") from error


def fetch_all(db: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """Return all rows of a query. A result that is not read completely blocks the connection."""
    return db.execute(query).fetchall()


def hex_name(name: str) -> str:
    """Return a name in hexadecimal: SQL names that differ in case only are the same name."""
    return name.encode().hex()


def quote_ident(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Return a string as a quoted SQL literal."""
    return "'" + text.replace("'", "''") + "'"
