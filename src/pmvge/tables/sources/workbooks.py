"""Excel workbooks: each sheet is a table, with the names of its columns in the first row."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow

from pmvge.errors import TableError, choose, one_line
from pmvge.tables.sources.connection import quote_ident
from pmvge.tables.sources.file_format import FileFormat
from pmvge.tables.sources.files import WORKBOOKS
from pmvge.tables.sources.header import Header, parse_header, select_named
from pmvge.tables.sources.source import Source


class Workbook(FileFormat):
    """Excel workbooks (.xlsx); ``table`` names the sheet if there are several.

    A column of numbers, of whole numbers or of truth values has that type; other columns are texts.
    """

    name = "Excel"
    has_tables = True

    def recognizes(self, path: Path, start: bytes) -> bool:
        return start[:4] == b"PK\x03\x04" and path.name.lower().endswith(WORKBOOKS)

    def stage(
        self, db: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path], source: Source
    ) -> None:
        headers, parts = zip(*(_read_sheet(path, source) for path in files), strict=True)
        for path, part in zip(files, parts, strict=True):
            if part.column_names != parts[0].column_names:
                raise TableError(
                    f"{source}: {path.name} and {files[0].name} have different columns"
                )
        sheet = f"sheet in {name}"
        db.register(sheet, pyarrow.concat_tables(parts, promote_options="permissive"))
        named = select_named(db, str(source), quote_ident(sheet), headers[0])
        db.execute(f"CREATE TEMP VIEW {quote_ident(name)} AS {named}")

    def table_names(self, path: Path) -> list[str]:
        with _open(path) as workbook:
            sheets = [workbook.get_sheet_by_name(sheet) for sheet in workbook.sheet_names]
            return [sheet.name for sheet in sheets if sheet.height and sheet.width]  # not empty


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a workbook; errors of the reader become TableError."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ImportError as error:
        raise TableError(
            f"{path.name}: Excel files need python-calamine: pip install 'pmvge[formats]'"
        ) from error
    try:
        with CalamineWorkbook.from_path(str(path)) as workbook:
            yield workbook
    except CalamineError as error:
        raise TableError(f"{path.name}: cannot be read: {one_line(error)}") from error


def _read_sheet(path: Path, source: Source) -> tuple[Header, pyarrow.Table]:
    """Return the header and the rows of the chosen sheet, or of the only one."""
    known = Workbook().table_names(path)
    if not known:
        raise TableError(f"{path}: expected a sheet with a header and rows, found none")
    if source.table is not None:
        choose("sheet", source.table, known, path.name, error=TableError)
    elif len(known) > 1:
        listed = ", ".join(map(repr, known))
        raise TableError(
            f"{path.name}: expected the name of a sheet, one of {listed}; "
            f'add table = "{known[0]}", or write {path.name}:{known[0]}'
        )
    with _open(path) as workbook:
        cells = workbook.get_sheet_by_name(source.table or known[0]).to_python()
    rows = [row for row in cells if any(cell != "" for cell in row)]
    if not rows:
        raise TableError(f"{path}: expected a sheet with a header and rows, found empty cells")
    has_header = source.dialect.header is True
    if has_header:
        header = parse_header(str(path), [_as_text(cell) or "" for cell in rows[0]])
    else:
        header = Header(source.dialect.column_names(len(rows[0])), {})
    values = rows[has_header:]
    columns = zip(*values, strict=True) if values else [()] * len(header.names)
    return header, pyarrow.table([_column(list(c)) for c in columns], names=header.names)


def _column(cells: list[Any]) -> pyarrow.Array:
    """Return cells as integers, numbers or truth values if all are; else as texts."""
    values = [None if cell == "" else cell for cell in cells]
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pyarrow.array(values, pyarrow.bool_())
    if kinds and kinds <= {int, float}:
        whole = all(
            float(value).is_integer() and abs(value) < 2**53
            for value in values
            if value is not None
        )
        return pyarrow.array(
            [None if value is None else (int if whole else float)(value) for value in values],
            pyarrow.int64() if whole else pyarrow.float64(),
        )
    return pyarrow.array([_as_text(value) for value in values], pyarrow.string())


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()  # Excel has no type for a date without a time
    return str(value)
