"""The location of a table: a file, a glob, a database table, a query, or a data frame."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pmvge.tables.sources.dialect import DEFAULT, Dialect
from pmvge.tables.sources.files import ARRAYS, WORKBOOKS

DATABASES = (".duckdb", ".ddb", ".db", ".sqlite", ".sqlite3")
ADDRESSES = ("postgresql://", "postgres://")  # of a PostgreSQL database
_AND = " + "  # between a table and the arrays of its rows


@dataclass(frozen=True, eq=False)
class Source:
    """One table: ``path``; or ``database`` and ``table`` or ``query``; or ``query``; or ``frame``.

    ``database`` is a DuckDB or SQLite file, or the address of a PostgreSQL database,
    ``postgresql://user@host/name``. A query without a database selects from files, quoted:
    ``SELECT * FROM 'films.csv'``. With ``path``, ``table`` is a sheet of an Excel workbook.
    ``arrays`` are NumPy files whose rows belong to the rows of the table, in their order.
    ``share`` is (k, n) for every n-th file of a glob, starting with the k-th. ``dialect`` is how
    text files are written.
    """

    path: str | None = None
    database: str | None = None
    table: str | None = None
    query: str | None = None
    frame: Any = None
    share: tuple[int, int] = (0, 1)
    dialect: Dialect = DEFAULT
    arrays: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.database is not None:
            database = without_password(self.database)
            text = f"{database}:{self.table}" if self.table else f"{database} (query)"
        elif self.path is not None:
            text = f"{self.path}:{self.table}" if self.table else self.path
        else:
            text = "query" if self.query else type(self.frame).__name__
        return _AND.join((text, *self.arrays))


def as_source(given: Any) -> Source:
    """Return the source for a text, a data frame, or a source.

    A text is a file name or glob, ``file.db:table``, ``book.xlsx:sheet``, or
    ``postgresql://host/name:table``; `` + file.npy`` after it adds the rows of an array.
    """
    if isinstance(given, Source):
        return given
    if not isinstance(given, str | Path):
        return Source(frame=given)
    text, *arrays = str(given).split(_AND)
    if arrays and all(array.lower().endswith(ARRAYS) for array in arrays):
        return replace(as_source(text), arrays=tuple(arrays))
    text = str(given)
    container, colon, table = text.rpartition(":")
    if text.startswith(ADDRESSES):
        if "/" in table:  # host:port/name
            container, table = text, ""
        return Source(database=container, table=table)
    if colon and container.endswith(DATABASES):
        return Source(database=container, table=table)
    if colon and container.lower().endswith(WORKBOOKS):
        return Source(container, table=table)
    return Source(text)


def without_password(database: str) -> str:
    """Return a database without the password that an address may have."""
    if not database.startswith(ADDRESSES):
        return database
    scheme, _, rest = database.partition("://")
    host, slash, name = rest.partition("/")
    login, at, host = host.rpartition("@")
    name, mark, options = name.partition("?")
    kept = [option for option in options.split("&") if not option.startswith("password=")]
    options = mark + "&".join(kept) if any(kept) else ""
    return f"{scheme}://{login.partition(':')[0]}{at}{host}{slash}{name}{options}"
