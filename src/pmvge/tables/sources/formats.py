"""The registry of file formats; the content of a file says which it has, not its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pmvge.errors import TableError
from pmvge.tables.sources.arrays import Arrays
from pmvge.tables.sources.columnar import Arrow, Parquet
from pmvge.tables.sources.file_format import FileFormat
from pmvge.tables.sources.files import find_files, read_start
from pmvge.tables.sources.json_lines import Json
from pmvge.tables.sources.source import Source
from pmvge.tables.sources.text import Text
from pmvge.tables.sources.workbooks import Workbook

FORMATS: tuple[FileFormat, ...] = (Parquet(), Arrow(), Workbook(), Arrays(), Json(), Text())
OTHERS = {  # first bytes of a file -> what it is, and what to do
    b"\xd0\xcf\x11\xe0": "an .xls workbook, or one with a password; save it as .xlsx, without one",
    b"PK\x03\x04": "a zip archive or a workbook; unpack it, or name it .xlsx",
    b"BZh": "a bzip2 file; unpack it",
    b"\xfd7zXZ": "an xz file; unpack it",
    b"7z\xbc\xaf": "a 7z archive; unpack it",
    b"Rar!": "a rar archive; unpack it",
    b"SQLite format 3": "a SQLite database; name it as database = ... with table = ...",
    b"\x89HDF": "an HDF5 file; read it in Python and write its tables with to_parquet",
    b"%PDF": "a PDF file; export the table as CSV",
    b"<": "HTML or XML; export the table as CSV, or download the file itself, not its page",
}
_EXPECTED = (
    "expected a CSV file (text, with a header) or a JSON, Parquet, Arrow, Excel or .npy file"
)


def detect_format(path: Path) -> FileFormat:
    """Return the format of a file; raise TableError if it has none of them."""
    start = read_start(path)
    if not start.strip():
        raise TableError(f"{path}: is empty; {_EXPECTED}")
    for known in FORMATS:
        if known.recognizes(path, start):
            return known
    first_bytes = start.lstrip()
    found = next((found for known, found in OTHERS.items() if first_bytes.startswith(known)), "")
    if start[8:12] == b"DUCK":
        found = OTHERS[b"SQLite format 3"].replace("SQLite", "DuckDB")
    if path.suffix.lower() in (".xlsb", ".ods"):  # zip archives, too
        found = "a workbook; save it as .xlsx"
    raise TableError(f"{path}: {_EXPECTED}, got another format{f': {found}' if found else ''}")


def common_format(where: str, files: Sequence[Path]) -> FileFormat:
    """Return the format of files; raise TableError, which starts with ``where``, if they differ."""
    formats = list(dict.fromkeys(map(detect_format, files)))
    if len(formats) > 1:
        listed = " and ".join(sorted(known.name for known in formats))
        raise TableError(f"{where}: expected files of one format, got both {listed}")
    return formats[0]


def declared_types(source: Source, folder: Path) -> dict[str, str]:
    """Return the types in the header of a source's files, ``user_id:token``; {} for others."""
    if source.path is None:
        return {}
    path = find_files(folder, source.path)[0]
    return detect_format(path).declared_types(path, source.dialect)
