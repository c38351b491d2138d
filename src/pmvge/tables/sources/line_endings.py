"""Text files in which some lines end in CR LF and others in LF, which DuckDB does not read.

They arise if lines are appended to a file from another system: ``echo 7,8,5 >> ratings.csv``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb

from pmvge.tables.sources.connection import temporary_file
from pmvge.tables.sources.files import packing

CHUNK = 1 << 20  # bytes


def has_mixed_endings(path: Path) -> bool:
    """Return whether lines of a text file end in CR LF and in LF, line breaks in cells left out.

    Cells with line breaks are in double quotes. Compressed files are not tested.
    """
    if packing(path):
        return False
    lines = carriage_returns = 0
    inside = False  # a quoted cell
    for chunk in _chunks(path):
        parts = chunk.split(b'"')
        cells = b'"'.join(parts[inside::2])
        lines += cells.count(b"\n")
        carriage_returns += cells.count(b"\r\n")
        if 0 < carriage_returns < lines:
            return True
        inside ^= len(parts) % 2 == 0
    return False


def copy_with_line_feeds(db: duckdb.DuckDBPyConnection, path: Path) -> Path:
    """Copy a text file to a temporary one in which all lines end in LF."""
    target = temporary_file(db, ".csv")
    with target.open("wb") as copy:
        for chunk in _chunks(path):
            copy.write(chunk.replace(b"\r\n", b"\n"))
    return target


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file; no chunk ends between CR and LF."""
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            while chunk.endswith(b"\r") and (more := stream.read(1)):
                chunk += more
            yield chunk
