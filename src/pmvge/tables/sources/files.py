"""CSV and Parquet files: find them by name or glob, and write the SQL that reads them.

CSV values are read as text, without sniffing types from a sample: ``007`` stays ``007``, and the
check of a numeric column also finds a word in row 10,000,000.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from difflib import get_close_matches
from glob import escape
from pathlib import Path
from typing import NamedTuple

from pmvge.errors import TableError, short
from pmvge.tables.sources.connection import quote_literal
from pmvge.tables.sources.dialect import DEFAULT, Dialect
from pmvge.tables.sources.source import DATABASES, Source

CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET = (".parquet", ".pq")
RECBOLE_TYPES = ("token", "token_seq", "float", "float_seq")
RECBOLE = re.compile(rf"(.+):({'|'.join(RECBOLE_TYPES)})")
NULLS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")  # as in pandas


def find_files(folder: Path, name: str) -> list[Path]:
    """Return the sorted files that a name or glob matches; raise TableError if there are none."""
    if not name or "\0" in name:
        raise TableError(f"expected the name of a file, got {short(name)}")
    exact = folder / name  # a file name may contain glob characters
    root = Path(exact.anchor) if Path(name).is_absolute() else folder
    pattern = str(exact.relative_to(root)) if Path(name).is_absolute() else name
    try:
        matches = [exact] if exact.is_file() else sorted(root.glob(pattern))
    except (ValueError, NotImplementedError) as error:
        raise TableError(f"{name}: is not a valid glob pattern: {error}") from error
    files = [path for path in matches if path.is_file()]
    if not files:
        if exact.is_dir():
            raise TableError(f"{name}: is a folder; name its files, such as {name}/*.csv")
        near = sorted(p.name for p in exact.parent.glob("*") if p.name.endswith(CSV + PARQUET))
        likely = get_close_matches(exact.name, near, n=1)
        hint = f"; there are {', '.join(near[:8])}" if near else ""
        hint += f"; did you mean {likely[0]}?" if likely else ""
        raise TableError(f"{name}: no such file in {exact.parent}{hint}")
    return files


def scan_files(where: str, files: list[Path], dialect: Dialect = DEFAULT) -> str:
    """Return the SQL table function that reads files of one format with one header.

    Raise TableError if the formats or headers differ, or if a file is neither text nor Parquet.
    """
    formats = {_detect_format(path) for path in files}
    if len(formats) > 1:
        raise TableError(f"{where}: expected files of one format, got both CSV and Parquet")
    listed = "[" + ", ".join(quote_literal(escape(str(path))) for path in files) + "]"
    if formats == {"parquet"}:
        return f"read_parquet({listed}, union_by_name = true)"
    header = read_header(files[0], dialect)
    for path in files[1:]:
        if read_header(path, dialect) != header:
            raise TableError(f"{where}: {path.name} and {files[0].name} have different headers")
    columns = ", ".join(f"{quote_literal(name)}: 'VARCHAR'" for name in header.names)
    nulls = ", ".join(map(quote_literal, (*NULLS, *dialect.na_values)))
    return (
        f"read_csv({listed}, auto_detect = false, "
        f"header = {'true' if dialect.header is True else 'false'}, "
        f"encoding = {quote_literal(dialect.encoding)}, "
        f"delim = {quote_literal(header.delimiter)}, "
        f"quote = '\"', escape = '\"', columns = {{{columns}}}, nullstr = [{nulls}])"
    )


def _detect_format(path: Path) -> str:
    """Return "csv" or "parquet" by the content of a file; raise TableError for other formats."""
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
        extra = (
            "; name it as database = ... with table = ..." if path.suffix in DATABASES else extra
        )
        raise TableError(f"{path}: {expected}, got another format{extra}")
    return "csv"


class Header(NamedTuple):
    """The delimiter of a text file, its column names, and the types that the header declares."""

    delimiter: str
    names: list[str]
    types: dict[str, str]  # column -> one of RECBOLE_TYPES


def declared_types(source: Source, folder: Path) -> dict[str, str]:
    """Return the types in the header of a source's files, ``user_id:token``; {} for others."""
    if source.path is None:
        return {}
    path = find_files(folder, source.path)[0]
    if _detect_format(path) == "parquet":
        return {}
    return read_header(path, source.dialect).types


def read_header(path: Path, dialect: Dialect = DEFAULT) -> Header:
    """Return the header of a text file, from its first line.

    A header of cells ``name:type``, as RecBole writes it, gives names and types. Raise TableError
    if names are missing, repeat, or are numbers.
    """
    first = _first_line(path, dialect.encoding)
    if not first.strip():
        raise TableError(f"{path}: expected a header in the first line, got an empty line")
    delimiter = dialect.delimiter or guess_delimiter(first)
    try:
        names = split_line(first, delimiter)
    except csv.Error as error:
        raise TableError(f"{path}: the first line is not a CSV header: {error}") from error
    if dialect.header is not True:
        return Header(delimiter, dialect.column_names(len(names)), {})
    names = [name.strip() for name in names]
    if any(not name for name in names):
        unnamed = 1 + names.index("")
        if unnamed == 1 and len(names) > 1 and len({*names}) == len(names):
            names = ["index", *names[1:]]  # the index that pandas writes
        else:
            raise TableError(f"{path}: column {unnamed} has no name in the first line")
    types = {}
    if all(match := [RECBOLE.fullmatch(name) for name in names]):
        types = {m[1]: m[2] for m in match if m}
        names = [m[1] for m in match if m]
    counts = Counter(name.lower() for name in names)
    repeated = sorted(name for name in names if counts[name.lower()] > 1)
    if repeated:
        raise TableError(f"{path}: the first line repeats the column name {short(repeated[0])}")
    numbers = [name for name in names if re.fullmatch(r"\s*-?\d+(\.\d*)?\s*", name)]
    numbered = {*map(str, range(len(names) + 1))}  # the names 0, 1, 2, ... that pandas writes
    if numbers and not {*numbers} <= numbered:
        raise TableError(
            f"{path}: expected column names in the first line, got {short(numbers[0])}; set "
            "header = false if the file has no header"
        )
    return Header(delimiter, names, types)


def _first_line(path: Path, encoding: str) -> str:
    with path.open("rb") as packed:
        stream = gzip.open(packed) if path.suffix == ".gz" else packed  # noqa: SIM115
        codec = "utf-8-sig" if encoding == "utf-8" else encoding
        first = stream.readline(1 << 24).decode(codec)
        # An odd number of quotes: a name contains a line break.
        while first.count('"') % 2 and (continued := stream.readline(1 << 24)):
            first += continued.decode(encoding)
    return first


def guess_delimiter(line: str) -> str:
    """Return the delimiter that occurs most often in a line, outside quotes."""
    bare = re.sub(r'"[^"]*"', "", line)
    best = max(",\t;|", key=bare.count)
    return best if best in bare or "::" not in bare else "::"


def split_line(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line; raise csv.Error if it is not valid."""
    if len(delimiter) > 1:
        return line.rstrip("\r\n").split(delimiter)
    return next(csv.reader(io.StringIO(line), delimiter=delimiter), [])
