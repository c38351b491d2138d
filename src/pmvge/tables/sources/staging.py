"""Every source becomes something that DuckDB can select from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow

from pmvge.errors import TableError
from pmvge.tables.sources.databases import check_plan, check_query, stage_database
from pmvge.tables.sources.files import find, scan_files
from pmvge.tables.sources.source import Source
from pmvge.tables.sources.workbench import quoted, readable


def stage(db: duckdb.DuckDBPyConnection, name: str, source: Source, folder: Path) -> dict[str, str]:
    """Make the source a view ``name`` of the workbench; return its columns and their types."""
    where = str(source)
    with readable(where):
        if source.frame is not None:
            db.register(name, as_arrow(where, source.frame))
        elif source.database is not None:
            stage_database(db, name, source, folder)
        elif source.query is not None:
            check_query(db, where, source.query)
            db.execute(f"CREATE TEMP VIEW {quoted(name)} AS {source.query}")
            check_plan(db, where, name)
        else:
            first, every = source.share
            selection = scan_files(where, find(folder, source.path or "")[first::every])
            db.execute(f"CREATE TEMP VIEW {quoted(name)} AS SELECT * FROM {selection}")
        described = db.execute(f"DESCRIBE {quoted(name)}").fetchall()
    return {str(row[0]): str(row[1]) for row in described}


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
