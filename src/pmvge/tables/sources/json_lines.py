"""JSON files: one object per line, or a list of objects; keys are the columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import duckdb

from pmvge.errors import TableError, short
from pmvge.tables.sources.connection import (
    fetch_all,
    list_files,
    quote_ident,
    quote_literal,
)
from pmvge.tables.sources.file_format import FileFormat
from pmvge.tables.sources.source import Source
from pmvge.tables.sources.text_encoding import as_utf8, utf16_codec

# Texts that look like something else stay texts, as in CSV files; so do values of several types.
_TEXTS = re.compile(r"\b(JSON|UUID|DATE|TIME|TIMESTAMP(_NS| WITH TIME ZONE)?)\b")
_EXPECTED = "expected a list of objects, or one object per line"
_FIX = "with pandas, write to_json(orient='records')"


class Json(FileFormat):
    """JSON lines (.jsonl, .ndjson) and lists of objects (.json), also compressed.

    DuckDB finds the type of each key in all objects, not in the first ones. A key that an object
    does not have is a missing value.
    """

    name = "JSON"
    has_encoding = True

    def recognizes(self, path: Path, start: bytes) -> bool:
        if (codec := utf16_codec(start)) is not None:
            start = start.decode(codec, "ignore").lstrip("\ufeff").encode()
        return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")

    def stage(
        self, db: duckdb.DuckDBPyConnection, name: str, files: Sequence[Path], source: Source
    ) -> None:
        options = "format = 'auto', records = 'true', maximum_object_size = 268435456"
        listed = list_files(as_utf8(db, files, source.dialect.encoding, mark=False))
        scan = f"read_json({listed}, {options}, sample_size = -1, union_by_name = true, "
        scan += "map_inference_threshold = -1)"
        try:
            described = fetch_all(db, f"DESCRIBE SELECT * FROM {scan}")
        except duckdb.BinderException as error:  # "expected records"
            raise TableError(f"{source}: {_EXPECTED}, got other values; {_FIX}") from error
        kinds = [str(kind) for _, kind, *_ in described]
        if _are_tables(kinds) and len(fetch_all(db, f"SELECT 1 FROM {scan} LIMIT 2")) == 1:
            found = f"one object with the keys {short([str(row[0]) for row in described])}"
            raise TableError(f"{source}: {_EXPECTED}, got {found}; {_FIX}")
        names = [str(row[0]) for row in described]
        columns = ", ".join(
            f"{quote_literal(str(column))}: {quote_literal(_TEXTS.sub('VARCHAR', str(kind)))}"
            for column, kind, *_ in described
        )
        db.execute(
            f"CREATE TEMP VIEW {quote_ident(name)} AS SELECT * FROM "
            f"read_json({listed}, {options}, columns = {{{columns}}})"
        )
        _check_keys(db, name, str(source), names)


def _check_keys(
    db: duckdb.DuckDBPyConnection, name: str, where: str, columns: Sequence[str]
) -> None:
    """Raise TableError if keys differ in case only.

    SQL names do not: DuckDB calls the second one ``Year_1``, a key that no object has.
    """
    known = {column.lower(): column for column in columns}
    for column in columns:
        key = re.sub(r"_\d+$", "", column)
        first = known.get(key.lower())
        if first is None or first == key:
            continue
        query = f"SELECT 1 FROM {quote_ident(name)} WHERE {quote_ident(column)} IS NOT NULL LIMIT 1"
        if not fetch_all(db, query):
            raise TableError(
                f"{where}: expected keys that differ in more than case, got {short(first)} in "
                "two spellings; write it in one way in all objects"
            )


def _are_tables(kinds: Sequence[str]) -> bool:
    """Return whether all keys of an object have lists or objects, and these have others inside."""
    nested = all(kind.endswith("]") or kind.startswith("STRUCT") for kind in kinds)
    return nested and any("STRUCT" in kind or kind.endswith(("][]", "JSON[]")) for kind in kinds)
