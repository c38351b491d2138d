"""Write the files of an export, each of them atomically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from pmvge.storage import replace_file


def write_bytes(path: Path, content: bytes) -> Path:
    """Write bytes to a file, and return its path; raise StorageError if that fails."""
    replace_file(path, lambda partial: partial.write_bytes(content))
    return path


def write_json(path: Path, content: Any) -> Path:
    """Write plain data as JSON, and return the path; raise StorageError if that fails."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_table(path: Path, table: pyarrow.Table) -> Path:
    """Write a table as Parquet, and return the path; raise StorageError if that fails."""
    # Numbers rarely repeat: building a dictionary would double the time.
    texts = [f.name for f in table.schema if pyarrow.types.is_string(f.type) and f.name != "id"]
    replace_file(path, lambda partial: parquet.write_table(table, partial, use_dictionary=texts))
    return path
