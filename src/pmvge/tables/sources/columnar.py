"""Parquet and Arrow (IPC, Feather) files: columns have types, and files may exceed memory."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow
from pyarrow import ipc

from pmvge.errors import TableError
from pmvge.tables.sources.connection import fetch_all, list_files, quote_ident, quote_literal
from pmvge.tables.sources.file_format import FileFormat
from pmvge.tables.sources.source import Source

STREAM = b"\xff\xff\xff\xff"  # the start of a message in a stream of record batches
UNNAMED_INDEX = r"__index_level_\d+__"  # where pandas writes an index that has no name
NUMBERS = "__index_level_99__"  # row numbers in a query, which are left out as such an index is


class Parquet(FileFormat):
    """Parquet files, which DuckDB reads."""

    name = "Parquet"

    def recognizes(self, path: Path, start: bytes) -> bool:
        return start[:4] == b"PAR1"

    def stage(
        self, db: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path], source: Source
    ) -> None:
        ranges = {path: _parquet_index(db, path) for path in files}
        named = f"lambda c: NOT regexp_full_match(c, {quote_literal(UNNAMED_INDEX)})"
        if not any(ranges.values()):
            scan = f"read_parquet({list_files(files)}, union_by_name = true)"
            union = f"SELECT COLUMNS({named}) FROM {scan}"
        else:
            union = " UNION ALL BY NAME ".join(
                f"SELECT COLUMNS({named}){_index_column(index)} FROM "
                f"(SELECT *, file_row_number AS {NUMBERS} FROM read_parquet({list_files([path])}))"
                for path, index in ranges.items()
            )
        db.execute(f"CREATE TEMP VIEW {quote_ident(name)} AS {union}")


class Arrow(FileFormat):
    """Arrow files (.arrow, .feather) and streams of record batches, which are memory-mapped."""

    name = "Arrow"

    def recognizes(self, path: Path, start: bytes) -> bool:
        return start[:6] == b"ARROW1" or start[:4] == STREAM

    def stage(
        self, db: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path], source: Source
    ) -> None:
        parts = [_open(path) for path in files]
        for path, part in zip(files, parts, strict=True):
            if part.schema.names != parts[0].schema.names:
                raise TableError(
                    f"{source}: {path.name} and {files[0].name} have different columns"
                )
        if len(parts) == 1:
            db.register(name, parts[0])
        else:
            for number, part in enumerate(parts):
                db.register(f"part {number} of {name}", part)
            union = " UNION ALL ".join(
                f"SELECT * FROM {quote_ident(f'part {number} of {name}')}"
                for number in range(len(parts))
            )
            db.execute(f"CREATE TEMP VIEW {quote_ident(name)} AS {union}")


def _open(path: Path) -> pyarrow.Table:
    """Return a file as a table that is mapped; compressed columns are read into memory.

    Offsets are validated: DuckDB trusts them, and those of a damaged file lead out of its memory.
    """
    with path.open("rb") as stream:
        is_stream = stream.read(4) == STREAM
    mapped = pyarrow.memory_map(str(path))
    table = (ipc.open_stream if is_stream else ipc.open_file)(mapped).read_all()
    table.validate(full=True)
    return with_named_index(table)


def with_named_index(table: pyarrow.Table) -> pyarrow.Table:
    """Return a table with an index of pandas as a column if it has a name, else without it.

    An index without a name numbers the rows of a frame, or what was left of them after a filter.
    """
    names = [c for c in table.column_names if not re.fullmatch(UNNAMED_INDEX, c)]
    index = _range_index((table.schema.metadata or {}).get(b"pandas"), table.num_rows)
    table = table.select(names)
    if index is None or index[0].lower() in map(str.lower, names):
        return table
    name, values = index
    return table.append_column(name, pyarrow.array(np.arange(*_bounds(values))))


def _bounds(values: range) -> tuple[int, int, int]:
    return values.start, values.stop, values.step


def _range_index(metadata: bytes | None, rows: int) -> tuple[str, range] | None:
    """Return the name and the values of an index that pandas writes as metadata only.

    This is a RangeIndex. None: there is none, it has no name, or the table has other rows since.
    """
    try:
        (index,) = json.loads(metadata or b"{}")["index_columns"]
        name, values = index["name"], range(index["start"], index["stop"], index["step"])
        fits = len(values) == rows and max(map(abs, _bounds(values))) < 1 << 62
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return (name, values) if isinstance(name, str) and fits else None


def _parquet_index(db: duckdb.DuckDBPyConnection, path: Path) -> tuple[str, range] | None:
    """Return the name and the values of a RangeIndex of pandas in a Parquet file, if it has one."""
    files = list_files([path])
    found = fetch_all(db, f"SELECT value FROM parquet_kv_metadata({files}) WHERE key = 'pandas'")
    if not found:
        return None
    ((rows,),) = fetch_all(db, f"SELECT num_rows FROM parquet_file_metadata({files})")
    index = _range_index(found[0][0], rows)
    columns = fetch_all(db, f"DESCRIBE SELECT * FROM read_parquet({files})")
    taken = {str(column).lower() for column, *_ in columns}
    free = index is not None and taken.isdisjoint((index[0].lower(), "file_row_number"))
    return index if free else None


def _index_column(index: tuple[str, range] | None) -> str:
    if index is None:
        return ""
    name, values = index
    return f", {int(values.start)} + {int(values.step)} * {NUMBERS} AS {quote_ident(name)}"
