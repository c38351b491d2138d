"""JSON files: one object per line, or a list of objects; keys are the columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import duckdb

from pmvge.tables.sources.connection import list_files, quote_ident, quote_literal
from pmvge.tables.sources.file_format import FileFormat
from pmvge.tables.sources.source import Source

# Texts that look like something else stay texts, as in CSV files; so do values of several types.
_TEXTS = re.compile(r"\b(JSON|UUID|DATE|TIME|TIMESTAMP(_NS| WITH TIME ZONE)?)\b")


class Json(FileFormat):
    """JSON lines (.jsonl, .ndjson) and lists of objects (.json), also compressed.

    DuckDB finds the type of each key in all objects, not in the first ones. A key that an object
    does not have is a missing value.
    """

    name = "JSON"

    def recognizes(self, path: Path, start: bytes) -> bool:
        return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")

    def stage(
        self, db: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path], source: Source
    ) -> None:
        options = "format = 'auto', records = 'true', maximum_object_size = 268435456"
        listed = list_files(files)
        described = db.execute(
            f"DESCRIBE SELECT * FROM read_json({listed}, {options}, sample_size = -1, "
            "union_by_name = true, map_inference_threshold = -1)"
        ).fetchall()
        columns = ", ".join(
            f"{quote_literal(str(column))}: {quote_literal(_TEXTS.sub('VARCHAR', str(kind)))}"
            for column, kind, *_ in described
        )
        db.execute(
            f"CREATE TEMP VIEW {quote_ident(name)} AS SELECT * FROM "
            f"read_json({listed}, {options}, columns = {{{columns}}})"
        )
