"""Parquet and Arrow (IPC, Feather) files: columns have types, and files may exceed memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow
from pyarrow import ipc

from pmvge.errors import TableError
from pmvge.tables.sources.connection import list_files, quote_ident
from pmvge.tables.sources.file_format import FileFormat
from pmvge.tables.sources.source import Source

STREAM = b"\xff\xff\xff\xff"  # the start of a message in a stream of record batches


class Parquet(FileFormat):
    """Parquet files, which DuckDB reads."""

    name = "Parquet"

    def recognizes(self, path: Path, start: bytes) -> bool:
        return start[:4] == b"PAR1"

    def stage(
        self, db: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path], source: Source
    ) -> None:
        scan = f"read_parquet({list_files(files)}, union_by_name = true)"
        db.execute(f"CREATE TEMP VIEW {quote_ident(name)} AS SELECT * FROM {scan}")


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
    return table
