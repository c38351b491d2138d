"""A DuckDB of our own to work with tables: what it may do, how it fails, and how SQL is written."""

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

BATCH = 1 << 14  # rows handed over at once
INTERRUPTED = "Query interrupted"  # what DuckDB's RuntimeError says after Ctrl-C
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    # A name in a query is a table or a file, never a variable of the Python around it,
    "python_enable_replacements": False,
    # nor a reason to go to the network, or to run what was downloaded.
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "explain_output": "all",  # what the optimizer leaves out, too
}


@contextmanager
def workbench(folder: Path, spill: Path | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB of our own; file names in queries are those of ``folder``.

    What does not fit into memory goes to a temporary folder, inside ``spill`` if that is given.
    """
    with TemporaryDirectory(prefix="pmvge-", dir=spill) as temporary:
        db = duckdb.connect(":memory:", config={**CONFIG, "temp_directory": temporary})
        try:
            db.execute(f"SET file_search_path = {literal(str(folder))}")
            db.execute("SET allowed_configs = ['threads']")
            db.execute("SET lock_configuration = true")
            with interruptible():
                yield db
        finally:
            db.close()


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C while DuckDB works is Ctrl-C, not the error that DuckDB makes of it."""
    try:
        yield
    except (RuntimeError, duckdb.InterruptException) as error:
        if isinstance(error, duckdb.InterruptException) or str(error) == INTERRUPTED:
            raise KeyboardInterrupt from error
        raise


@contextmanager
def readable(where: str) -> Iterator[None]:
    """What DuckDB, SQLite or Arrow say of a source is said as an error of ours, in one line."""
    try:
        with interruptible():
            yield
    except (duckdb.Error, sqlite3.Error, pyarrow.ArrowException) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # Neither the SQL, which is ours, nor advice on options that nobody can set.
        ends = (at for at, line in enumerate(lines) if line.startswith(("LINE ", "Possible ")))
        told = " ".join(line[:120] for line in lines[: min(5, next(ends, 3))])
        if "state machine" in told:  # DuckDB's own words for it help nobody
            told = "a quote does not end, or lines end in two ways (LF and CRLF)"
        raise TableError(f"{where}: cannot be read: {told[:400]}") from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise TableError(f"{where}: cannot be read: {one_line(error)}") from error


def ask(db: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    """All rows of a query: a result that is not read to its end blocks the connection."""
    return db.execute(query).fetchall()


def apart(name: str) -> str:
    """A name that differs from others in more than capitals, which mean nothing in SQL."""
    return name.encode().hex()


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
