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
from pmvge.tables.sources.source import DATABASES, Source
from pmvge.tables.sources.text import Text
from pmvge.tables.sources.workbooks import Workbook

FORMATS: tuple[FileFormat, ...] = (Parquet(), Arrow(), Workbook(), Arrays(), Json(), Text())
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
    hints = {
        **dict.fromkeys(DATABASES, "; name it as database = ... with table = ..."),
        **dict.fromkeys((".xls", ".xlsb", ".ods"), "; save the workbook as .xlsx"),
    }
    raise TableError(f"{path}: {_EXPECTED}, got another format{hints.get(path.suffix, '')}")


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
