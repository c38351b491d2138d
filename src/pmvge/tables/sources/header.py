"""The header of a table: the names of its columns, and the types that it may declare."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from pmvge.errors import TableError, short

RECBOLE_TYPES = ("token", "token_seq", "float", "float_seq")
RECBOLE = re.compile(rf"(.+):({'|'.join(RECBOLE_TYPES)})")


class Header(NamedTuple):
    """The names of columns, the types that a header declares, and the delimiter of a text file."""

    names: list[str]
    types: dict[str, str]  # column -> one of RECBOLE_TYPES
    delimiter: str = ","


def parse_header(where: str, cells: list[str], delimiter: str = ",") -> Header:
    """Return the header whose names are in the cells of a first line.

    Cells ``name:type``, as RecBole writes them, give names and types. Raise TableError, which
    starts with ``where``, if names are missing, repeat, or are numbers.
    """
    names = [name.strip() for name in cells]
    if any(not name for name in names):
        unnamed = 1 + names.index("")
        if unnamed == 1 and len(names) > 1 and len({*names}) == len(names):
            names = ["index", *names[1:]]  # the index that pandas writes
        else:
            raise TableError(f"{where}: column {unnamed} has no name in the first line")
    types = {}
    if all(match := [RECBOLE.fullmatch(name) for name in names]):
        types = {m[1]: m[2] for m in match if m}
        names = [m[1] for m in match if m]
    counts = Counter(name.lower() for name in names)
    repeated = sorted(name for name in names if counts[name.lower()] > 1)
    if repeated:
        raise TableError(f"{where}: the first line repeats the column name {short(repeated[0])}")
    numbers = [name for name in names if re.fullmatch(r"\s*-?\d+(\.\d*)?\s*", name)]
    numbered = {*map(str, range(len(names) + 1))}  # the names 0, 1, 2, ... that pandas writes
    if numbers and not {*numbers} <= numbered:
        raise TableError(
            f"{where}: expected column names in the first line, got {short(numbers[0])}; set "
            "header = false if the file has no header"
        )
    return Header(names, types, delimiter)
