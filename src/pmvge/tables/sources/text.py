"""Text files (CSV and others): one row per line, cells between delimiters.

Values are read as text, without sniffing types from a sample: ``007`` stays ``007``, and the check
of a numeric column also finds a word in row 10,000,000.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from pmvge.errors import TableError
from pmvge.tables.sources.connection import list_files, quote_ident, quote_literal
from pmvge.tables.sources.dialect import DEFAULT, Dialect
from pmvge.tables.sources.file_format import FileFormat
from pmvge.tables.sources.files import open_unpacked
from pmvge.tables.sources.header import Header, parse_header, select_named
from pmvge.tables.sources.line_endings import copy_with_line_feeds, has_mixed_endings
from pmvge.tables.sources.source import Source
from pmvge.tables.sources.text_encoding import (
    as_utf8,
    codec_of,
    has_ascii_lines,
    utf16_codec,
)
from pmvge.tables.sources.wide import is_wide, read_wide, with_integers

NULLS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")  # as in pandas


class Text(FileFormat):
    """Text files in any encoding that Python has, also compressed; UTF-16 is recognised."""

    name = "CSV"
    has_encoding = True
    reads_na_values = True

    def recognizes(self, path: Path, start: bytes) -> bool:
        if utf16_codec(start) is not None:
            return True
        return b"\0" not in start and start[:4] != b"PK\x03\x04" and start.lstrip()[:1] != b"<"

    def stage(
        self, db: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path], source: Source
    ) -> None:
        dialect = source.dialect
        header = read_header(files[0], dialect)
        for path in files[1:]:
            if read_header(path, dialect) != header:
                raise TableError(
                    f"{source}: {path.name} and {files[0].name} have different headers"
                )
        files = as_utf8(db, files, dialect.encoding, mark=True)
        files = [copy_with_line_feeds(db, p) if has_mixed_endings(p) else p for p in files]
        scan = _scan(files, header, dialect)
        table = None
        if is_wide(len(header.names), files):
            table = read_wide(files, header, dialect, (*NULLS, *dialect.na_values))
            if table is None:
                table = db.sql(f"SELECT * FROM {scan}").to_arrow_table()
        if table is not None:
            db.register(f"cells in {name}", with_integers(table))
            scan = quote_ident(f"cells in {name}")
        named = select_named(db, str(source), scan, header)
        db.execute(f"CREATE TEMP VIEW {quote_ident(name)} AS {named}")

    def declared_types(self, path: Path, dialect: Dialect) -> dict[str, str]:
        return read_header(path, dialect).types


def _scan(files: Sequence[Path], header: Header, dialect: Dialect) -> str:
    """Return the SQL table function that reads text files with one header."""
    columns = ", ".join(f"{quote_literal(name)}: 'VARCHAR'" for name in header.names)
    nulls = ", ".join(map(quote_literal, (*NULLS, *dialect.na_values)))
    return (
        f"read_csv({list_files(files)}, auto_detect = false, "
        f"header = {'true' if dialect.header is True else 'false'}, "
        f"delim = {quote_literal(header.delimiter)}, "
        f"quote = '\"', escape = '\"', columns = {{{columns}}}, nullstr = [{nulls}])"
    )


def read_header(path: Path, dialect: Dialect = DEFAULT) -> Header:
    """Return the header of a text file, from its first line; raise TableError if it is not one."""
    first = _first_line(path, dialect.encoding)
    if not first.strip():
        raise TableError(f"{path}: expected a header in the first line, got an empty line")
    delimiter = dialect.delimiter or guess_delimiter(first)
    try:
        cells = split_line(first, delimiter)
    except csv.Error as error:
        raise TableError(f"{path}: the first line is not a CSV header: {error}") from error
    if dialect.header is not True:
        return Header(dialect.column_names(len(cells)), {}, delimiter)
    return parse_header(str(path), cells, delimiter)


def _first_line(path: Path, encoding: str) -> str:
    codec = codec_of(path, encoding)
    lines: Iterator[str]
    with open_unpacked(path) as stream:
        if has_ascii_lines(codec):  # decode no more than the line: a wrong letter may come later
            lines = (line.decode(codec) for line in iter(lambda: stream.readline(1 << 24), b""))
        else:
            text = io.TextIOWrapper(stream, codec, newline="\n")
            lines = iter(lambda: text.readline(1 << 24), "")
        first = next(lines, "")
        while first.count('"') % 2 and (continued := next(lines, "")):
            first += continued  # an odd number of quotes: a name contains a line break
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
