"""Find the tables of a folder: files of every format, and the tables of databases."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from pmvge.errors import TableError
from pmvge.tables.guessing.column_names import singulars
from pmvge.tables.guessing.questions import Answers, Question
from pmvge.tables.guessing.text_encodings import guess_encoding
from pmvge.tables.guessing.text_files import TextFile, sniff_text
from pmvge.tables.sources.connection import table_errors
from pmvge.tables.sources.databases import table_names
from pmvge.tables.sources.dialect import DEFAULT, Dialect
from pmvge.tables.sources.file_format import FileFormat
from pmvge.tables.sources.files import CSV
from pmvge.tables.sources.formats import detect_format
from pmvge.tables.sources.source import DATABASES, Source, without_password
from pmvge.tables.sources.text import Text
from pmvge.tables.sources.text_encoding import encoding_name

_SHEET = "save the workbook as .xlsx"
_ARCHIVE = "an archive: unpack it, and run init on the folder with its files"
_ARRAYS = "arrays, not a table"
NO_TABLE = "not a table"
NOT_READ = {
    **dict.fromkeys((".xls", ".xlsb", ".ods"), _SHEET),
    **dict.fromkeys((".zip", ".tar", ".tgz", ".tar.gz", ".7z", ".bz2", ".xz", ".rar"), _ARCHIVE),
    **dict.fromkeys((".mat", ".h5", ".hdf5", ".h5ad", ".h5mu", ".pt", ".pkl", ".biom"), _ARRAYS),
    **dict.fromkeys(
        (".toml", ".yaml", ".yml", ".py", ".pl", ".sh", ".r", ".md", ".rst", ".html", ".xml",
         ".ipynb", ".log", ".pdf", ".png", ".jpg", ".safetensors", ".geojson"),
        NO_TABLE,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class FoundTable:
    """A table of the folder, its source, and notes on how its file is written."""

    name: str
    source: Source
    notes: tuple[str, ...] = ()


def find_database_tables(address: str) -> tuple[list[FoundTable], dict[str, str]]:
    """Return the tables of a PostgreSQL database, and why schemas are left out.

    They are those of the search path, if there are any, else all. Raise TableError if it cannot be
    read.
    """
    names = table_names(address)
    used = [name for name in names if "." not in name] or names
    reason = (
        "the schema is not in the search path; add it, with ALTER ROLE ... SET search_path = ..., "
        "or write its tables into the project file"
    )
    found = [
        FoundTable(name.rpartition(".")[2], Source(database=address, table=name)) for name in used
    ]
    schemas = dict.fromkeys(name.partition(".")[0] for name in names if name not in used)
    return found, {f"{without_password(address)}:{schema}.*": reason for schema in schemas}


def find_tables(folder: Path, answers: Answers) -> tuple[list[FoundTable], dict[str, str]]:
    """Return the tables of a folder, and for each file that is none the reason.

    Raise UnsureError if it is not clear whether a file has a header, and TableError for an answer
    that is no encoding.
    """
    files: list[tuple[Path, FileFormat]] = []  # texts
    others: list[FoundTable] = []
    skipped: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        lower = path.name.lower()
        if path.name.startswith(".") or not path.is_file() or lower == "pmvge.toml":
            continue
        try:
            if lower.endswith(DATABASES):
                tables = table_names(path)
                others += [FoundTable(t, Source(database=path.name, table=t)) for t in tables]
            elif ending := next((end for end in NOT_READ if lower.endswith(end)), None):
                skipped[path.name] = NOT_READ[ending]
            elif lower.startswith(("readme", "license", "licence", "copying", "changelog")):
                skipped[path.name] = NO_TABLE
            elif (file_format := _detect(path)).has_encoding:
                files.append((path, file_format))
            else:
                others += _sources(path, file_format)
        except TableError as error:
            skipped[path.name] = _reason(path, error)
    given = {path: _given_encoding(path, answers) for path, _ in files}
    texts: dict[Path, TextFile] = {}
    for path, file_format in files:
        try:
            if isinstance(file_format, Text):
                texts[path] = sniff_text(path, given[path])
                continue
            with table_errors(path.name):
                dialect = Dialect(encoding=given[path] or guess_encoding(path))
            notes = dialect_notes(path.name, dialect)
            source = Source(path.name, dialect=dialect)
            others.append(FoundTable(path.name.split(".")[0], source, notes))
        except TableError as error:
            skipped[path.name] = _reason(path, error)
    headless = {
        path: text for path, text in texts.items() if not _has_header(path.name, text, answers)
    }
    columns = _columns_of_names(headless)
    stems = Counter(path.name.split(".")[0] for path in texts)
    found = []
    for path, text in texts.items():
        stem, _, ending = path.name.partition(".")
        shared = stems[stem] > 1 and ending and not path.name.lower().endswith(CSV)
        header: bool | tuple[str, ...] = columns.get(path, path not in headless)
        dialect = replace(text.dialect, header=header)
        source = Source(path.name, dialect=dialect)
        found.append(
            FoundTable(ending if shared else stem, source, dialect_notes(path.name, dialect))
        )
    return found + others, skipped


def _reason(path: Path, error: TableError) -> str:
    return str(error).split(f"{path.name}: ", 1)[-1]


def _detect(path: Path) -> FileFormat:
    with table_errors(path.name):
        return detect_format(path)


def _given_encoding(path: Path, answers: Answers) -> str | None:
    """Return the encoding of a file that was given in advance; None if there is none."""
    key = f"{path.name}:encoding"
    given = answers.given(key)
    return None if given is None else encoding_name(f"--choose {key}", given)


def _sources(path: Path, file_format: FileFormat) -> list[FoundTable]:
    """Return the tables in a file with their names: that of the file, or of each of its sheets."""
    with table_errors(path.name):
        names = file_format.table_names(path)
    if len(names) < 2:
        return [FoundTable(path.name.split(".")[0], Source(path.name))]
    return [FoundTable(name, Source(path.name, table=name)) for name in names]


def _has_header(file: str, text: TextFile, answers: Answers) -> bool:
    choices = {"yes": "the first line has the names of the columns", "no": "it is data"}
    key = f"{file}:header"
    if (given := answers.given(key, choices)) is not None:
        return given == "yes"
    if text.header is not None:
        return text.header
    first = ", ".join(cell.strip() for cell in text.rows[0][:5])
    second = ", ".join(cell.strip() for cell in text.rows[1][:5])
    question = f"{file}: is its first line, {first}, a header or data? The next one is {second}"
    return answers.answer(Question(key, question, choices)) == "yes"


def _columns_of_names(headless: dict[Path, TextFile]) -> dict[Path, tuple[str, ...]]:
    """Return names for the first two columns of files named after them, such as user_artist.dat.

    A file name says so only if another file without a header has one of its two words, too.
    """
    words = {}
    for path, text in headless.items():
        parts = re.split(r"[_\-]", path.name.split(".")[0].lower())
        if len(parts) == 2 and all(map(str.isalpha, parts)) and 2 <= len(text.rows[0]) <= 4:
            words[path] = (parts[0], parts[1])
    uses = Counter(word for pair in words.values() for word in {*pair})
    alone = Counter(
        single for path in headless for single in singulars(re.split(r"\W", path.name)[0])
    )
    return {
        path: (a, b if a != b else f"{b}_2")
        for path, (a, b) in words.items()
        if uses[a] + alone[a] > 1 or uses[b] + alone[b] > 1
    }


def guess_dialect(source: Source, folder: Path) -> Source:
    """Return the source of a text file with its dialect guessed, and any other source as it is.

    The first line is a header unless it is clearly data.
    """
    if source.path is None or source.dialect != DEFAULT or not (folder / source.path).is_file():
        return source
    path = folder / source.path
    if not isinstance(_detect(path), Text):
        return source
    text = sniff_text(path)
    return replace(source, dialect=replace(text.dialect, header=text.header is not False))


def dialect_notes(file: str, dialect: Dialect) -> tuple[str, ...]:
    """Return notes on a file that has no header or is not UTF-8."""
    notes = []
    if dialect.header is False:
        notes.append(f"{file} has no header: its columns are column1, column2, ...")
    elif dialect.header is not True:
        names = " and ".join(dialect.header)
        notes.append(f"{file} has no header: its first columns are {names}, after the file name")
    if dialect.encoding != "utf-8":
        notes.append(
            f"{file} is not UTF-8: it is read as {dialect.encoding}; if letters are wrong, change "
            "its encoding in pmvge.toml"
        )
    return tuple(notes)


def explain_encodings(sources: Iterable[Source]) -> str:
    """Return how to choose the encoding of each file that is not UTF-8, as the end of a message."""
    return "".join(
        f". {source} is not UTF-8: it is read as {source.dialect.encoding}; if letters are wrong, "
        f"choose its encoding, such as --choose {shlex.quote(f'{source}:encoding=cp1251')}"
        for source in dict.fromkeys(sources)
        if source.dialect.encoding != Dialect.encoding
    )
