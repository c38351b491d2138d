"""Guess how a text file is written: its encoding, its delimiter, and whether it has a header."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pmvge.errors import TableError
from pmvge.tables.guessing.cells import NUMBER
from pmvge.tables.guessing.text_encodings import guess_encoding
from pmvge.tables.sources.connection import table_errors
from pmvge.tables.sources.dialect import DELIMITERS, Dialect
from pmvge.tables.sources.files import CSV, open_unpacked
from pmvge.tables.sources.header import RECBOLE
from pmvge.tables.sources.text import NULLS, guess_delimiter
from pmvge.tables.sources.text_encoding import codec_of

LINES, CHARACTERS = 200, 1 << 18  # of a file that are looked at, but MIN_LINES at least
MIN_LINES = 10
HEADER_WORDS = re.compile(
    r"(^|_)(ids?|names?|users?|items?|titles?|genres?|tags?|source|target|from|to|head|tail|relation"
    r"|src|dst|nodes?|weight|ratings?|counts?|score|value|labels?|class|category|type|date|time"
    r"|timestamp|year|text|code|key|gender|sex|age|city|country|state|description|url|email|index"
    r"|cited|citing|left|right|parent|child|colou?r)(_|$)"
)


@dataclass(frozen=True)
class TextFile:
    """The dialect of a text file and its first rows; ``header`` is None if it is not clear."""

    dialect: Dialect
    rows: list[list[str]]
    header: bool | None


def sniff_text(path: Path, encoding: str | None = None) -> TextFile:
    """Return how a text file is written; raise TableError if it is not a table.

    The encoding is guessed if it is not given.
    A file whose name does not end as that of a CSV file is a table if all its first lines have the
    same number of cells, two or more.
    """
    with table_errors(path.name):
        encoding = encoding or guess_encoding(path)
        lines, complete = _first_lines(path, encoding)
    if "\0" in lines:
        raise TableError(f"{path.name}: expected a text file, got another format")
    named_csv = path.name.lower().endswith(CSV)
    delimiter, rows = _split(lines, complete, blanks=not path.name.lower().endswith(".csv"))
    if delimiter is None:
        if not named_csv:
            raise TableError(
                f"{path.name}: not a table: its lines do not have the same number of cells, two or "
                "more"
            )
        rows = []
    if delimiter == guess_delimiter(lines.split("\n", 1)[0]):
        delimiter = None  # the reader guesses the same
    return TextFile(Dialect(encoding=encoding, delimiter=delimiter), rows, guess_header(rows))


def _first_lines(path: Path, encoding: str) -> tuple[str, bool]:
    """Return the first lines of a file, and whether they are all of it."""
    codec = codec_of(path, encoding)
    with open_unpacked(path) as binary, io.TextIOWrapper(binary, codec, newline="") as stream:
        text = stream.read(CHARACTERS)
        while (more := stream.read(CHARACTERS)) and len(text) < 1 << 24:
            if text.count("\n") >= MIN_LINES:
                break
            text += more
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if more:  # the last line is cut
        text = text[: text.rfind("\n") + 1] or text
    lines = text.split("\n")
    return "\n".join(lines[:LINES]), not more and len(lines) <= LINES


def _split(text: str, complete: bool, *, blanks: bool) -> tuple[str | None, list[list[str]]]:
    """Return the delimiter that gives every row the same number of cells, and the rows.

    Of several delimiters the one with the most cells is taken; a blank only if there is no other,
    and if a column has numbers.
    """
    best: tuple[str | None, list[list[str]]] = (None, [])
    for delimiter in DELIMITERS:
        if delimiter == " " and (best[0] is not None or not blanks):
            continue
        try:
            rows = _rows(text, delimiter)
        except csv.Error:
            continue
        if not complete and len(rows) > 2:
            rows = rows[:-1]  # its quotes may end in a later line
        if len({len(row) for row in rows}) != 1:
            continue
        columns = zip(*rows, strict=True)
        if delimiter == " " and not any(_are_numbers(list(column)) for column in columns):
            continue  # prose
        more = len(rows[0]) > max(1, *map(len, best[1]), 1)
        if more or (delimiter == ";" and best[0] == "," and _has_commas(rows)):
            best = delimiter, rows
    return best


def _has_commas(rows: list[list[str]]) -> bool:
    """Return whether commas in the cells are decimal commas only."""
    return all(NUMBER.fullmatch(cell) for row in rows for cell in row if "," in cell)


def _rows(text: str, delimiter: str) -> list[list[str]]:
    if len(delimiter) > 1:
        return [line.split(delimiter) for line in text.split("\n") if line]
    return [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]


def guess_header(rows: list[list[str]]) -> bool | None:
    """Return whether the first row has names of columns; None if it is not clear.

    Empty columns are ignored. A number is no name, and a name is not among the values of its
    column. Words above numbers are names. Where all cells are words, known names and the shape of
    the values decide.
    """
    if len(rows) < 2:
        return True
    used = [at for at in range(len(rows[0])) if any(row[at].strip() for row in rows)]
    rows = [[row[at] for at in used] for row in rows]
    first, columns = rows[0], [[row[at] for row in rows[1:]] for at in range(len(rows[0]))]
    if all(RECBOLE.fullmatch(name.strip()) for name in first):
        return True
    if not first[0].strip() and all(name.strip() for name in first[1:]):
        return True  # the index that pandas writes
    if len(first) > 2 and first[0].strip() and not any(name.strip() for name in first[1:]):
        return True  # a title: the reader says what to do
    numbers = [bool(NUMBER.fullmatch(name)) for name in first]
    numeric = [_are_numbers(column) for column in columns]
    if any(numbers):
        if all(numbers) and len(first) > 3 and first == list(map(str, range(len(first)))):
            return True  # the names 0, 1, 2, ... that pandas writes
        words_above_numbers = any(
            below and not number and name.strip()
            for name, number, below in zip(first, numbers, numeric, strict=True)
        )
        return None if words_above_numbers else False
    if any(name.strip() in NULLS or not re.search(r"[^\W\d_]", name) for name in first):
        return None if any(numeric) else False  # a missing name, or a missing value
    words = [at for at, numbers in enumerate(numeric) if not numbers]
    votes = Counter(vote for at in words for vote in _votes(first[at], columns[at]))
    if (any(numeric) or votes["header"]) and not votes["data"]:
        return True
    return False if votes["data"] and not any(numeric) and not votes["header"] else None


def _are_numbers(column: list[str]) -> bool:
    values = [value for value in column if value.strip()]
    return bool(values) and all(NUMBER.fullmatch(value) for value in values)


def _votes(name: str, column: list[str]) -> set[str]:
    """Return what speaks for a header ("header") and for a first row of data ("data")."""
    values = [value for value in column if value.strip()]
    votes = set()
    if name in values:
        votes.add("data")
    words = re.sub(r"\W+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip())).lower()
    if HEADER_WORDS.search(words):
        votes.add("header")
    shapes = {_shape(value) for value in values}
    if len(values) > 1 and name.islower() and all(value[:1].isupper() for value in values):
        votes.add("header")
    if len(values) > 1 and len(shapes) == 1 and "9" in (shape := shapes.pop()):
        votes.add("data" if _shape(name) == shape else "header")
    return votes


def _shape(text: str) -> str:
    """Return the shape of a text: A9 for U00012, Aa for Berlin, a a for two words."""
    shape = re.sub(r"\d+", "9", text.strip())
    return re.sub(r"[^\W\d_a-z]+", "A", re.sub(r"[a-z]+", "a", shape))
