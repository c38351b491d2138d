"""What the cells of a text column look like: several values, decimal commas, codes, addresses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from pmvge.tables.sources.amounts import decimal_evidence, is_amount

SEPARATORS = ("|", ";", ",", "/", " ")
MAX_VALUES = 1000  # distinct values of a column with several values in a cell
SEVERAL_NAMES = re.compile(
    r"genre|tag|categor|keyword|topic|type|skill|author|actor|director|language|countr|ingredient",
    re.IGNORECASE,
)
TEXT_NAMES = re.compile(
    r"title|name|text|plot|description|summary|abstract|review|comment|about|body|address",
    re.IGNORECASE,
)
CODE_NAMES = re.compile(
    r"(^|_)(zip|zipcode|postcode|plz|sku|isbn|ean|iban|phone|code)($|_)|(zip|postal|post)_?code"
    r"|Code$",
    re.IGNORECASE,
)
# Letters of scripts without blanks between words: Thai, Lao, Tibetan, Burmese, Khmer, Japanese
# syllables, Chinese characters.
UNSPACED = re.compile(
    r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]"
)
LONG = 16  # characters of a cell, on average: sequences and formulas, not names
NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)?|\.\d+)([eE][-+]?\d+)?\s*")
URL = re.compile(r"(https?://|www\.)\S*", re.IGNORECASE)


def is_code(column: str, padded: bool) -> bool:
    """Return whether a column holds codes, by its name or because its numbers start with zeros."""
    return padded or bool(CODE_NAMES.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column)))


def are_codes(cells: Sequence[str]) -> bool:
    """Return whether cells are short, without blanks, and most have a digit: 85711, T8H1N."""
    if not cells or any(len(cell) > 12 or re.search(r"\s", cell.strip()) for cell in cells):
        return False
    return sum(any(map(str.isdigit, cell)) for cell in cells) >= 0.8 * len(cells)


def are_urls(cells: Sequence[str]) -> bool:
    """Return whether all cells are web addresses."""
    return bool(cells) and all(URL.fullmatch(cell.strip()) for cell in cells)


def are_unspaced(cells: Sequence[str]) -> bool:
    """Return whether most letters are of scripts that have no blanks between words."""
    text = "".join(cells)
    return len(UNSPACED.findall(text)) > 0.5 * sum(map(str.isalpha, text)) > 0


def are_sequences(cells: Sequence[str]) -> bool:
    """Return whether cells are long and have no blanks or other separators: DNA, SMILES."""
    whole = sum(not re.search(r"[\s|;,]", cell.strip()) for cell in cells)
    return sum(map(len, cells)) >= LONG * len(cells) > 0 and whole >= 0.9 * len(cells)


def split(cell: str, separator: str) -> list[str]:
    """Return the values of a cell, trimmed; empty ones are left out."""
    parts = cell.split() if separator == " " else cell.split(separator)
    return [part.strip() for part in parts if part.strip()]


def guess_separator(column: str, cells: Sequence[str]) -> str | None:
    """Return the separator of a column with several values in a cell, such as a|b|c.

    None: a cell has one value or a text. The values of such a column recur in other cells, and do
    not repeat within a cell. A blank separates values only if they are in alphabetical order, or if
    the name of the column says so: the words of a text recur, too.
    """
    for separator in SEPARATORS:
        rows = [split(cell, separator) for cell in cells]
        several = [row for row in rows if len(row) > 1]
        if len(several) < max(2, len(cells) / 20) or not recur(rows):
            continue
        values = {value for row in rows for value in row}
        repeats = sum(len({*row}) < len(row) for row in several)
        if repeats > len(several) / 50 or any(len(value) > 60 for value in values):
            continue
        if separator in ", /" and len({*cells}) <= len(values):
            continue  # whole cells recur: "New York"
        if separator in ",/" and all(value.isdigit() for value in values):
            continue  # decimal commas and dates
        ordered = sum(row == sorted(row) for row in several) >= 0.95 * len(several)
        named = bool(SEVERAL_NAMES.search(column))
        if separator == " " and (TEXT_NAMES.search(column) or not (ordered or named)):
            continue
        return separator
    return None


def recur(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the values of the cells are few and occur three times or more on average."""
    counts = Counter(value for row in rows for value in row)
    return 1 < len(counts) <= MAX_VALUES and sum(counts.values()) >= 3 * len(counts)


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, also one with a comma, or an amount such as $5."""
    return bool(NUMBER.fullmatch(cell)) or is_amount(cell)


def decimal_commas(cells: Sequence[str]) -> str | None:
    """Return "decimal" if all cells are numbers such as 3,5, and "either" for 1,500; else None.

    Amounts such as €1,500 are "thousands" if none has a decimal point or comma.
    """
    if all(map(is_number, cells)) and any(map(is_amount, cells)):
        point, comma, either = decimal_evidence(cells)
        if point is None and comma is not None:
            return "decimal"
        return "thousands" if point is None and either is not None else None
    numbers = [re.fullmatch(r"\s*[-+]?\d+(?:,(\d+))?\s*", cell) for cell in cells]
    digits = [match[1] for match in numbers if match and match[1]]
    if not digits or not all(numbers):
        return None
    return "either" if all(len(part) == 3 for part in digits) else "decimal"
