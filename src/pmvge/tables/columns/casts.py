"""Columns of any type as the few types that are worked with, in SQL.

Ids are integers if all of them are written as integers are, else text; numbers are DOUBLE, dates
are days, categories and texts are VARCHAR, vectors are lists of DOUBLE, or of FLOAT as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

import duckdb

from pmvge.errors import TableError, short
from pmvge.tables.sources.workbench import ask, quoted, readable

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_FRACTIONS = ("FLOAT", "DOUBLE", "DECIMAL")
_EXACT = 2**53  # up to here every whole number is a double
PART = 200  # columns in one statement: statements get slow faster than they get long
WHOLE = 512  # columns up to which one slow statement is better than a copy of all rows
_PLAIN_INTEGER = r"-?[1-9]\d*|0"
_INTEGER_LIKE = r"-?\d+(\.0+)?"  # what a whole number may have become on its way
CASTS = {
    "numeric": "coalesce(TRY_CAST({0} AS DOUBLE), "
    "CASE lower(CAST({0} AS VARCHAR)) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END)",
    "date": "epoch(TRY_CAST({} AS TIMESTAMP)) / 86400",
    "category": "CAST({} AS VARCHAR)",
    "text": "CAST({} AS VARCHAR)",
    "vector": "TRY_CAST({0} AS DOUBLE[])",
}
# A list as numpy prints it, blanks between its numbers, with commas.
_COMMAS = "'[' || regexp_replace(trim(trim({0}, '[]')), '\\s+', ', ', 'g') || ']'"
_EXPECTED = {
    "numeric": "numbers",
    "date": "dates",
    "vector": "lists of numbers, such as [0.5, 1.0]",
}


def check_column(where: str, column: str, columns: Collection[str]) -> str:
    """The column, if it is there; else an error with the names closest to it."""
    if column in columns:
        return column
    known = list(columns)
    near = get_close_matches(column, known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(short, near))}?" if near else ""
    listed = ", ".join(map(short, known[:12])) + (", ..." if len(known) > 12 else "")
    raise TableError(f"{where}: no column {short(column)}; the columns are {listed}{hint}")


def cast(column: str, kind: str, types: Mapping[str, str]) -> str:
    """The SQL of a feature column; NULL where it is missing or not finite."""
    name = quoted(column)
    if kind == "text" and types[column].endswith("]"):  # a list of words
        return f"array_to_string({name}, ' ')"
    if kind == "category" and types[column].startswith(_FRACTIONS):  # 1.0 of pandas is 1 of CSV
        return as_id(column, types, "VARCHAR")
    if kind == "date" and types[column] in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        return f"epoch({name}) / 86400"
    if kind == "vector" and re.fullmatch(r"FLOAT\[\d*\]", types[column]):  # half the space
        return f"CAST({name} AS FLOAT[])"
    expression = _plain(column, kind, types)
    if kind == "numeric":
        return f"CASE WHEN isfinite({expression}) THEN {expression} END"
    return expression


def _plain(column: str, kind: str, types: Mapping[str, str]) -> str:
    name = quoted(column)
    if kind == "vector" and types[column] == "VARCHAR":
        blanks = f"{name} LIKE '[%' AND NOT contains({name}, ',')"
        name = f"CASE WHEN {blanks} THEN {_COMMAS.format(name)} ELSE {name} END"
    return CASTS[kind].format(name)


def is_wrong(column: str, kind: str, types: Mapping[str, str]) -> str:
    """The SQL of whether a value is there, but not what its column is said to hold."""
    expression = _plain(column, kind, types)
    wrong = f"{expression} IS NULL"
    if kind == "vector":  # nor may an element be
        wrong += f" OR len({expression}) > list_aggregate({expression}, 'count')"
    return f"{quoted(column)} IS NOT NULL AND ({wrong})"


def check_casts(
    db: duckdb.DuckDBPyConnection,
    where: str,
    table: str,
    kinds: Mapping[str, str],
    types: Mapping[str, str],
) -> None:
    """Raise if a value cannot be what its column is said to hold."""
    doubtful = [
        c
        for c, kind in kinds.items()
        if kind in _EXPECTED and not (kind == "numeric" and types[c] in _INTEGERS)
    ]
    wrong = {column: is_wrong(column, kinds[column], types) for column in doubtful}
    found: list[int] = []
    with readable(where):
        for start in range(0, len(doubtful), PART):
            part = doubtful[start : start + PART]
            counts = ", ".join(f"count_if({wrong[column]})" for column in part)
            (row,) = ask(db, f"SELECT {counts} FROM {quoted(table)}")
            found += row
        for column, count in zip(wrong, found, strict=True):
            if count:
                query = (
                    f"SELECT {quoted(column)} FROM {quoted(table)} WHERE {wrong[column]} LIMIT 1"
                )
                ((example,),) = ask(db, query)
                raise TableError(
                    f"{where}: column {column!r}: expected {_EXPECTED[kinds[column]]}, but "
                    f"{count:,} values are something else, such as {short(example)}"
                )


@contextmanager
def typed(
    db: duckdb.DuckDBPyConnection,
    raw: str,
    others: list[str],
    kinds: Mapping[str, str],
    types: Mapping[str, str],
) -> Iterator[str]:
    """The SQL of a table's rows: other expressions, and each typed column as ``feature NAME``.

    More than ``WHOLE`` are brought to their types in parts, which are laid side by side then.
    """
    columns = others + [
        f"{cast(c, kind, types)} AS {quoted(f'feature {c}')}" for c, kind in kinds.items()
    ]
    if len(columns) <= WHOLE:
        yield f"SELECT {', '.join(columns)} FROM {quoted(raw)}"
        return
    rows = quoted(f"rows of {raw}")  # files are read once, not once for every part
    db.execute(f"CREATE TEMP TABLE {rows} AS SELECT * FROM {quoted(raw)}")
    parts: list[str] = []
    for at in range(0, len(columns), PART):
        parts.append(quoted(f"part {at} of {raw}"))
        part = ", ".join(columns[at : at + PART])
        db.execute(f"CREATE TEMP TABLE {parts[-1]} AS SELECT {part} FROM {rows}")
    db.execute(f"DROP TABLE {rows}")
    yield f"SELECT * FROM {' POSITIONAL JOIN '.join(parts)}"
    for table in parts:
        db.execute(f"DROP TABLE {table}")


def id_type(
    db: duckdb.DuckDBPyConnection, places: Iterable[tuple[str, str, Mapping[str, str]]]
) -> str:
    """BIGINT or VARCHAR: what the ids in (table, column, types of the table) are, together."""
    for table, column, types in places:
        name, kind = quoted(column), types[column]
        if kind in _INTEGERS:
            continue
        if kind in ("UBIGINT", "HUGEINT", "UHUGEINT"):
            condition = f"abs(CAST({name} AS HUGEINT)) > {2**63 - 1}"
        elif kind.startswith(_FRACTIONS):
            condition = f"NOT isnan({name}) AND NOT ({_whole(name)})"
        elif kind == "VARCHAR":
            plain = f"regexp_full_match({name}, '{_PLAIN_INTEGER}')"
            condition = f"NOT ({plain} AND TRY_CAST({name} AS BIGINT) IS NOT NULL)"
        else:
            return "VARCHAR"
        query = f"SELECT 1 FROM {quoted(table)} WHERE {name} IS NOT NULL AND {condition} LIMIT 1"
        if ask(db, query):
            return "VARCHAR"
    return "BIGINT"


def as_id(column: str, types: Mapping[str, str], wanted: str) -> str:
    """The SQL of an id column as ``wanted``; NULL where it cannot be one."""
    name, kind = quoted(column), types[column]
    fraction = kind.startswith(_FRACTIONS)
    if wanted == "VARCHAR":
        whole = f"CASE WHEN {_whole(name)} THEN CAST(CAST({name} AS BIGINT) AS VARCHAR)"
        other = f"WHEN NOT isnan({name}) THEN {_text(name)} END"
        return f"{whole} {other}" if fraction else _text(name)
    if fraction:
        return f"CASE WHEN {_whole(name)} THEN CAST({name} AS BIGINT) END"
    if kind in _INTEGERS:
        return f"CAST({name} AS BIGINT)"
    alike = f"regexp_full_match({_text(name)}, '{_INTEGER_LIKE}')"
    return f"CASE WHEN {alike} THEN TRY_CAST(split_part({_text(name)}, '.', 1) AS BIGINT) END"


def _whole(name: str) -> str:
    return f"{name} = floor({name}) AND abs({name}) < {_EXACT}"


def _text(name: str) -> str:
    return f"CAST({name} AS VARCHAR)"
