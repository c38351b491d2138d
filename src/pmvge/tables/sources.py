"""Where a table comes from: a file, a glob, a database, a query, or a frame in memory.

Every source becomes something that DuckDB can select from. CSV is read as text, whole and by its
header, so that nothing depends on a sample: ``007`` stays ``007``, and a word in row 10,000,000 is
found to be no number when a number is asked for.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow

from pmvge.errors import TableError, one_line, short

CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET = (".parquet", ".pq")
DATABASES = (".duckdb", ".ddb", ".db", ".sqlite", ".sqlite3")
NULLS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")  # what pandas, too, takes for nothing
SELECTS = {  # what SQLite may do
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
}  # fmt: skip
BATCH = 1 << 14  # rows handed over at once
INTERRUPTED = "Query interrupted"  # what DuckDB's RuntimeError says after Ctrl-C
REFUSED = re.compile(r'"name": "(JSON_EXECUTE_SERIALIZED_SQL|\w*_EXTERNAL_RESOURCE\w*)\s*"')
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


@dataclass(frozen=True, eq=False)
class Source:
    """One table: ``path``; or ``database`` and ``table`` or ``query``; or ``query``; or ``frame``.

    A query alone selects from files, which it names in quotes: ``SELECT * FROM 'films.csv'``.
    ``share`` is (k, n) for every n-th of a glob's files from the k-th on.
    """

    path: str | None = None
    database: str | None = None
    table: str | None = None
    query: str | None = None
    frame: Any = None
    share: tuple[int, int] = (0, 1)

    def __str__(self) -> str:
        if self.database is not None:
            return f"{self.database}:{self.table}" if self.table else f"{self.database} (query)"
        return self.path or ("query" if self.query else type(self.frame).__name__)


def as_source(given: Any) -> Source:
    """A source from a file name, ``file.db:table``, or a frame."""
    if isinstance(given, Source):
        return given
    if not isinstance(given, str | Path):
        return Source(frame=given)
    text = str(given)
    database, colon, table = text.rpartition(":")
    if colon and database.endswith(DATABASES):
        return Source(database=database, table=table)
    return Source(text)


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


def stage(db: duckdb.DuckDBPyConnection, name: str, source: Source, folder: Path) -> dict[str, str]:
    """Make the source a view ``name`` of the workbench; return its columns and their types."""
    where = str(source)
    with readable(where):
        if source.frame is not None:
            db.register(name, as_arrow(where, source.frame))
        elif source.database is not None:
            _stage_database(db, name, source, folder)
        elif source.query is not None:
            _check_query(db, where, source.query)
            db.execute(f"CREATE TEMP VIEW {quoted(name)} AS {source.query}")
            _check_plan(db, where, name)
        else:
            first, every = source.share
            selection = _scan_files(where, find(folder, source.path or "")[first::every])
            db.execute(f"CREATE TEMP VIEW {quoted(name)} AS SELECT * FROM {selection}")
        described = db.execute(f"DESCRIBE {quoted(name)}").fetchall()
    return {str(row[0]): str(row[1]) for row in described}


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


# -- files --------------------------------------------------------------------------------------


def find(folder: Path, name: str) -> list[Path]:
    """The files of a name or a glob, in the order of their names."""
    if not name or "\0" in name:
        raise TableError(f"expected the name of a file, got {short(name)}")
    exact = folder / name  # a name with brackets in it may be just a name
    root = Path(exact.anchor) if Path(name).is_absolute() else folder
    pattern = str(exact.relative_to(root)) if Path(name).is_absolute() else name
    try:
        found = [exact] if exact.is_file() else sorted(root.glob(pattern))
    except (ValueError, NotImplementedError) as error:
        raise TableError(f"{name}: not a pattern of file names: {error}") from error
    files = [path for path in found if path.is_file()]
    if not files:
        if exact.is_dir():
            raise TableError(f"{name}: is a folder; name its files, such as {name}/*.csv")
        near = sorted(p.name for p in exact.parent.glob("*") if p.name.endswith(CSV + PARQUET))
        likely = get_close_matches(exact.name, near, n=1)
        hint = f"; there are {', '.join(near[:8])}" if near else ""
        hint += f"; did you mean {likely[0]}?" if likely else ""
        raise TableError(f"{name}: no such file in {exact.parent}{hint}")
    return files


def _scan_files(where: str, files: list[Path]) -> str:
    """The SQL that reads one or more files of one kind."""
    kinds = {_kind(path) for path in files}
    if len(kinds) > 1:
        raise TableError(f"{where}: CSV and Parquet files are mixed; name one kind of them")
    listed = "[" + ", ".join(literal(escape(str(path))) for path in files) + "]"
    if kinds == {"parquet"}:
        return f"read_parquet({listed}, union_by_name = true)"
    delimiter, header = _header(files[0])
    for path in files[1:]:
        if _header(path) != (delimiter, header):
            raise TableError(f"{where}: {path.name} has another header than {files[0].name}")
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header)
    nulls = ", ".join(map(literal, NULLS))
    return (
        f"read_csv({listed}, auto_detect = false, header = true, delim = {literal(delimiter)}, "
        f"quote = '\"', escape = '\"', columns = {{{columns}}}, nullstr = [{nulls}])"
    )


def _kind(path: Path) -> str:
    with path.open("rb") as stream:
        start = stream.read(4096)
    if start[:4] == b"PAR1":
        return "parquet"
    if start[:2] == b"\x1f\x8b" and path.suffix == ".gz":
        return "csv"
    expected = "expected a CSV file (text, with a header) or a Parquet file"
    if not start.strip():
        raise TableError(f"{path}: is empty; {expected}")
    if b"\x00" in start or start[:4] == b"PK\x03\x04" or start.lstrip()[:1] in b"{[<":
        extra = "; export the sheet as CSV" if path.suffix in (".xlsx", ".xls", ".ods") else ""
        extra = "; give it as database = ... with a table" if path.suffix in DATABASES else extra
        raise TableError(f"{path}: is neither: {expected}{extra}")
    return "csv"


def _header(path: Path) -> tuple[str, list[str]]:
    """The delimiter of a CSV file, by its first line, and the names in it."""
    with path.open("rb") as packed:
        stream = gzip.open(packed) if path.suffix == ".gz" else packed  # noqa: SIM115
        first = stream.readline(1 << 24).decode("utf-8-sig")
        while first.count('"') % 2 and (more := stream.readline(1 << 24)):  # a name of two lines
            first += more.decode()
    if not first.strip():
        raise TableError(f"{path}: is empty, or its first line is; expected a header")
    delimiter = max(",\t;|", key=re.sub(r'"[^"]*"', "", first).count)
    try:
        names = next(csv.reader(io.StringIO(first), delimiter=delimiter), [])
    except csv.Error as error:
        raise TableError(f"{path}: its first line is no CSV header: {error}") from error
    if any(not name.strip() for name in names):
        unnamed = 1 + next(at for at, name in enumerate(names) if not name.strip())
        if unnamed == 1 and len(names) > 1 and len({*names}) == len(names):
            names = ["index", *names[1:]]  # pandas' row numbers
        else:
            raise TableError(f"{path}: column {unnamed} has no name in the first line")
    counts = Counter(name.lower() for name in names)
    repeated = sorted(name for name in names if counts[name.lower()] > 1)
    if repeated:
        raise TableError(f"{path}: the first line names {short(repeated[0])} twice")
    numbers = [name for name in names if re.fullmatch(r"\s*-?\d+(\.\d*)?\s*", name)]
    if numbers and not {*numbers} <= {*map(str, range(len(names) + 1))}:  # pandas' are 0, 1, 2 ...
        raise TableError(
            f"{path}: expected the names of the columns in its first line, got {short(numbers[0])}"
        )
    return delimiter, names


# -- databases ----------------------------------------------------------------------------------


def _stage_database(db: duckdb.DuckDBPyConnection, name: str, source: Source, folder: Path) -> None:
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
    _check_query(db, str(source), query)
    other = quoted(f"database of {name}")
    db.execute(f"ATTACH {literal(str(path.absolute()))} AS {other} (READ_ONLY)")
    try:
        _check_table(
            source, [str(row[0]) for row in db.execute(f"SHOW TABLES FROM {other}").fetchall()]
        )
        db.execute(f"USE {other}")
        # By way of a view, which, unlike a table, DuckDB lets no COPY hide in.
        db.execute(f'CREATE OR REPLACE TEMP VIEW "asked" AS {query}')
        _check_plan(db, str(source), "asked")
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


def _check_query(db: duckdb.DuckDBPyConnection, where: str, query: str) -> None:
    """A query selects and does nothing else: a second statement might write files."""
    kinds = [statement.type for statement in db.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        raise TableError(f"{where}: expected one query that selects rows, got {short(query)}")


def _check_plan(db: duckdb.DuckDBPyConnection, where: str, view: str) -> None:
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


# -- frames -------------------------------------------------------------------------------------


def as_arrow(where: str, frame: Any) -> pyarrow.Table:
    """A pandas, polars or Arrow table, or a dict of columns, as an Arrow table."""
    try:
        if hasattr(frame, "iloc") and hasattr(frame, "columns"):  # pandas; a named index is kept
            return pyarrow.Table.from_pandas(frame, preserve_index=bool(_named_index(frame)))
        return pyarrow.table(frame)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TableError(
            f"{where}: expected a pandas, polars or Arrow table whose columns have one type each: "
            f"{told}"
        ) from error


def _named_index(frame: Any) -> list[str]:
    return [name for name in getattr(frame.index, "names", []) if name is not None]


# -- SQL ----------------------------------------------------------------------------------------


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
