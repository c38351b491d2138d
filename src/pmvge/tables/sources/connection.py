"""The DuckDB connection: settings, errors and interrupts, and quoting for SQL."""

from __future__ import annotations

import atexit
import os
import signal
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory, mkstemp
from types import FrameType
from typing import Any

import duckdb
import pyarrow

from pmvge.errors import TableError, one_line

BATCH = 1 << 14  # rows fetched at once
# DuckDB has one exception for all malformed CSV files, and not always a reason.
CSV_HINT = (
    "; in a CSV file, check the first line (names of columns, no title), the quotes, the line "
    "endings (LF or CRLF, not both) and the encoding "
    '(UTF-8, or set encoding = "cp1252")'
)
ENCODING_HINT = (
    '; set the encoding of the table in pmvge.toml, such as encoding = "cp1252" (Windows, Western '
    'Europe), "gb18030" (Chinese) or "cp932" (Japanese), or convert the file to UTF-8, the '
    "default: iconv -f CP1252 -t UTF-8 OLD > NEW"
)
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


_DATABASES: dict[int, duckdb.DuckDBPyConnection] = {}  # by process id
atexit.register(_DATABASES.clear)  # DuckDB prints messages about those that are open at the end


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
            db.execute("SET enable_progress_bar = false")
            db.execute("SET allowed_configs = ['threads']")
            db.execute("SET lock_configuration = true")
            with _raise_interrupts():
                yield db
        finally:
            db.close()


@contextmanager
def connect_to_memory() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection for tables in memory, and close it at exit.

    All such connections of a process have one database: to open one takes 20 ms, to connect to it
    some microseconds. Views and registered tables are visible in their own connection only.
    Queries have one thread, and data stays in memory.
    """
    process = os.getpid()
    if process not in _DATABASES:  # a forked process does not use that of its parent
        db = duckdb.connect(":memory:", config={**CONFIG, "temp_directory": "", "threads": 1})
        db.execute("SET enable_progress_bar = false")
        db.execute("SET lock_configuration = true")
        _DATABASES.setdefault(process, db)  # another thread may have opened one meanwhile
    own = _DATABASES[process].cursor()
    try:
        with _raise_interrupts():
            yield own
    finally:
        own.close()


@contextmanager
def _raise_interrupts() -> Iterator[None]:
    """Raise what a signal handler raised while DuckDB executed a statement.

    DuckDB calls the handlers of pending signals. If one raises, such as KeyboardInterrupt after
    Ctrl-C, DuckDB drops that exception and raises a RuntimeError without a cause.
    """
    raised: list[BaseException] = []
    with _recorded(signal.SIGINT, raised), _recorded(signal.SIGTERM, raised):
        try:
            yield
        except duckdb.InterruptException as error:
            raise KeyboardInterrupt from error
        except RuntimeError as error:
            if raised:
                raise raised[-1] from error
            raise


@contextmanager
def _recorded(number: int, raised: list[BaseException]) -> Iterator[None]:
    """Append what the handler of a signal raises to ``raised``; handlers run in the main thread."""
    handler = signal.getsignal(number)
    if not callable(handler) or not _in_main_thread():
        yield
        return

    def record(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    signal.signal(number, record)
    try:
        yield
    finally:
        if _in_main_thread() and signal.getsignal(number) is record:  # no later handler
            signal.signal(number, handler)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextmanager
def table_errors(where: str) -> Iterator[None]:
    """Raise TableError, with a message of one line, for errors of DuckDB, SQLite, Arrow and files.

    ``where`` names the source and starts the message.
    """
    try:
        yield
    except duckdb.InterruptException as error:
        raise KeyboardInterrupt from error
    except (duckdb.Error, sqlite3.Error, pyarrow.ArrowException) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # Leave out the generated SQL, and advice on DuckDB options that users cannot set.
        ends = (at for at, line in enumerate(lines) if line.startswith(("LINE ", "Possible ")))
        message = " ".join(line[:120] for line in lines[: min(5, next(ends, 3))])
        hint = CSV_HINT if "CSV" in str(error) else ""
        hint = ENCODING_HINT if "utf-8" in str(error).lower() else hint
        raise TableError(f"{where}: cannot be read: {message[:400]}{hint}") from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        hint = ENCODING_HINT if isinstance(error, UnicodeDecodeError) else ""
        raise TableError(f"{where}: cannot be read: {one_line(error)}{hint}") from error


def temporary_file(db: duckdb.DuckDBPyConnection, ending: str) -> Path:
    """Return the path of a new empty file in the connection's temporary folder."""
    ((folder,),) = fetch_all(db, "SELECT current_setting('temp_directory')")
    handle, name = mkstemp(ending, "converted-", folder)
    os.close(handle)
    return Path(name)


def list_files(files: Iterable[Path]) -> str:
    """Return the names of files as an SQL list, without characters of a glob."""
    return "[" + ", ".join(quote_literal(escape(str(path))) for path in files) + "]"


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
