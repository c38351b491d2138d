"""The location of a table: a file, a glob, a database table, a query, or a data frame."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmvge.tables.sources.dialect import DEFAULT, Dialect

DATABASES = (".duckdb", ".ddb", ".db", ".sqlite", ".sqlite3")


@dataclass(frozen=True, eq=False)
class Source:
    """One table: ``path``; or ``database`` and ``table`` or ``query``; or ``query``; or ``frame``.

    A query without a database selects from files, quoted: ``SELECT * FROM 'films.csv'``.
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

    def __str__(self) -> str:
        if self.database is not None:
            return f"{self.database}:{self.table}" if self.table else f"{self.database} (query)"
        return self.path or ("query" if self.query else type(self.frame).__name__)


def as_source(given: Any) -> Source:
    """Return the source for a file name, ``file.db:table``, a data frame, or a source."""
    if isinstance(given, Source):
        return given
    if not isinstance(given, str | Path):
        return Source(frame=given)
    text = str(given)
    database, colon, table = text.rpartition(":")
    if colon and database.endswith(DATABASES):
        return Source(database=database, table=table)
    return Source(text)
