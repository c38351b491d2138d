"""Register sources with the DuckDB connection as views or tables to select from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow

from pmvge.errors import TableError
from pmvge.graph import Pair
from pmvge.tables.sources.amounts import is_swapped
from pmvge.tables.sources.columnar import with_named_index
from pmvge.tables.sources.connection import hex_name, quote_ident, quote_literal, table_errors
from pmvge.tables.sources.databases import check_plan, check_query, stage_database
from pmvge.tables.sources.dialect import DECIMAL_COMMA
from pmvge.tables.sources.files import find_files
from pmvge.tables.sources.formats import common_format
from pmvge.tables.sources.row_arrays import stage_arrays
from pmvge.tables.sources.source import Source


def raw_view_name(view: str) -> str:
    """Return the name under which the table of a view is staged."""
    return f"raw view {hex_name(view)}"


def raw_links_name(pair: Pair) -> str:
    """Return the name under which the link table of a view pair is staged."""
    return f"raw links {hex_name(pair[0])} {hex_name(pair[1])}"


def stage(db: duckdb.DuckDBPyConnection, name: str, source: Source, folder: Path) -> dict[str, str]:
    """Make a source available as ``name`` in the connection.

    Return the SQL type of each column. File names are relative to ``folder``. Raise TableError if
    the source cannot be read.
    """
    dialect = source.dialect
    where = str(source)
    with table_errors(where):
        files = [] if source.path is None else _files(source, folder)
        file_format = common_format(where, files) if files else None
        if file_format is not None and source.table is not None and not file_format.has_tables:
            raise TableError(
                f"{where}: table: expected the sheet of an Excel file, but the file is "
                f"{file_format.name}; remove the table"
            )
        na_values = dialect.na_values
        if file_format is not None and file_format.reads_na_values:
            na_values = ()
        replaced = bool(na_values) or dialect.decimal == ","
        cells = f"cells of {name}" if replaced else name
        rows = f"rows of {cells}" if source.arrays else cells
        if file_format is not None:
            file_format.stage(db, rows, files, source)
        elif source.frame is not None:
            db.register(rows, as_arrow(where, source.frame))
        elif source.database is not None:
            stage_database(db, rows, source, folder)
        else:
            check_query(db, where, str(source.query))
            db.execute(f"CREATE TEMP VIEW {quote_ident(rows)} AS {source.query}")
            check_plan(db, where, rows)
        if source.arrays:
            stage_arrays(db, cells, rows, source, folder)
        types = _describe(db, cells)
        if replaced:
            columns = ", ".join(
                f"{_replace_cells(column, kind, na_values, dialect.decimal)} AS "
                f"{quote_ident(column)}"
                for column, kind in types.items()
            )
            db.execute(
                f"CREATE TEMP VIEW {quote_ident(name)} AS SELECT {columns} "
                f"FROM {quote_ident(cells)}"
            )
            types = _describe(db, name)
    return types


def _files(source: Source, folder: Path) -> list[Path]:
    first, every = source.share
    return find_files(folder, source.path or "")[first::every]


def _describe(db: duckdb.DuckDBPyConnection, name: str) -> dict[str, str]:
    described = db.execute(f"DESCRIBE {quote_ident(name)}").fetchall()
    return {str(row[0]): str(row[1]) for row in described}


def _replace_cells(column: str, kind: str, na_values: tuple[str, ...], decimal: str) -> str:
    """Return the SQL of a column with NULL for ``na_values`` and 3.5 for the cell 3,5."""
    name = quote_ident(column)
    expression = name
    if kind == "VARCHAR" and decimal == ",":
        is_number = f"regexp_full_match({name}, {quote_literal(DECIMAL_COMMA)})"
        expression = (
            f"CASE WHEN {is_number} THEN replace({name}, ',', '.') "
            f"WHEN {is_swapped(name)} THEN translate({name}, ',.', '.') ELSE {name} END"
        )
    if na_values and not kind.endswith("]"):
        listed = ", ".join(map(quote_literal, na_values))
        expression = (
            f"CASE WHEN CAST({name} AS VARCHAR) IN ({listed}) THEN NULL ELSE {expression} END"
        )
    return expression


def as_arrow(where: str, frame: Any) -> pyarrow.Table:
    """Return a pandas, polars or Arrow table, or a dict of columns, as an Arrow table.

    Raise TableError, which starts with ``where``, if it cannot be converted.
    """
    try:
        if hasattr(frame, "iloc") and hasattr(frame, "columns"):  # pandas; keep a named index
            named = any(name is not None for name in getattr(frame.index, "names", []))
            return with_named_index(pyarrow.Table.from_pandas(frame, preserve_index=named))
        return with_named_index(pyarrow.table(frame))
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TableError(
            f"{where}: expected a pandas, polars or Arrow table whose columns have one type each: "
            f"{message}"
        ) from error
