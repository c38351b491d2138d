"""The header of a table: the names of its columns, and the types that it may declare."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

import duckdb

from pmvge.errors import TableError, short
from pmvge.tables.sources.connection import fetch_all, quote_ident

RECBOLE_TYPES = ("token", "token_seq", "float", "float_seq")
RECBOLE = re.compile(rf"(.+):({'|'.join(RECBOLE_TYPES)})")


class Header(NamedTuple):
    """The names of columns, the types that a header declares, and the delimiter of a text file.

    ``unnamed`` are the positions of columns whose cell is empty; their names are made up.
    """

    names: list[str]
    types: dict[str, str]  # column -> one of RECBOLE_TYPES
    delimiter: str = ","
    unnamed: tuple[int, ...] = ()


def parse_header(where: str, cells: list[str], delimiter: str = ",") -> Header:
    """Return the header whose names are in the cells of a first line.

    Cells ``name:type``, as RecBole writes them, give names and types. Raise TableError, which
    starts with ``where``, if there are no names, or if they repeat or are numbers.
    """
    names = [name.strip() for name in cells]
    if not any(names):
        raise TableError(f"{where}: expected column names in the first line, got empty cells")
    if not names[0]:
        names[0] = "index"  # the index that pandas writes
    unnamed = tuple(at for at, name in enumerate(names) if not name)
    names = [name or f"column {at} without a name" for at, name in enumerate(names)]
    types = {}
    if all(match := [RECBOLE.fullmatch(name) for name in names]):
        types = {m[1]: m[2] for m in match if m}
        names = [m[1] for m in match if m]
    numbers = [name for name in names if re.fullmatch(r"\s*-?\d+(\.\d*)?\s*", name)]
    numbered = {*map(str, range(len(names) + 1))}  # the names 0, 1, 2, ... that pandas writes
    if numbers and (len({*numbers}) < len(numbers) or not {*numbers} <= numbered):
        raise TableError(
            f"{where}: expected column names in the first line, got {short(numbers[0])}; set "
            "header = false if the file has no header"
        )
    counts = Counter(name.lower() for name in names)
    repeated = sorted(name for name in names if counts[name.lower()] > 1)
    if repeated:
        raise TableError(f"{where}: the first line repeats the column name {short(repeated[0])}")
    return Header(names, types, delimiter, unnamed)


def select_named(db: duckdb.DuckDBPyConnection, where: str, rows: str, header: Header) -> str:
    """Return the SQL that selects the columns of a table that have a name.

    ``rows`` is the SQL of the table, with the names of ``header``. Raise TableError, which starts
    with ``where``, if a column without a name has values.
    """
    if not header.unnamed:
        return f"SELECT * FROM {rows}"
    names = [quote_ident(header.names[at]) for at in header.unnamed]
    counts = ", ".join(f"count_if(trim(CAST({name} AS VARCHAR)) <> '')" for name in names)
    (found,) = fetch_all(db, f"SELECT {counts} FROM {rows}")
    for at, count in zip(header.unnamed, found, strict=True):
        if count:
            raise TableError(
                f"{where}: column {at + 1} has {count:,} values, but no name in the first line, "
                f"which starts with {short(header.names[0])}; name it, or if the first line is a "
                "title, delete the lines above the names of the columns"
            )
    return f"SELECT * EXCLUDE ({', '.join(names)}) FROM {rows}"
