"""SQL casts of id and feature columns, and checks of their values.

Ids are integers if all of them are written as integers, else text. Numbers become DOUBLE, dates
days since 1970, categories and texts VARCHAR (lists of categories VARCHAR[]), and vectors lists of
DOUBLE (FLOAT lists stay FLOAT).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

import duckdb

from pmvge.errors import TableError, short
from pmvge.tables.sources.connection import fetch_all, quote_ident, table_errors

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_FRACTIONAL = ("FLOAT", "DOUBLE", "DECIMAL")
_MAX_EXACT = 2**53  # a double represents every integer up to here
PART = 200  # columns per statement: planning time grows faster than linearly in the columns
MAX_COLUMNS = 512  # up to here, one slow statement is faster than copying all rows
_PADDED_NUMBER = re.compile(r"\d+(\.0+)?", re.ASCII)
_PLAIN_INTEGER = r"-?[1-9]\d*|0"
_INTEGER_LIKE = r"-?\d+(\.0+)?"  # such as 7.0, which other tools write for 7
CASTS = {
    "numeric": "coalesce(TRY_CAST({0} AS DOUBLE), "
    "CASE lower(CAST({0} AS VARCHAR)) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END)",
    "date": "epoch(coalesce(TRY_CAST({0} AS TIMESTAMP), "
    "try_strptime(CAST({0} AS VARCHAR), ['%d-%b-%Y', '%d.%m.%Y']))) / 86400",
    "category": "CAST({} AS VARCHAR)",
    "categories": "CAST({} AS VARCHAR)",
    "text": "CAST({} AS VARCHAR)",
    "vector": "TRY_CAST({0} AS DOUBLE[])",
}
NULL_TYPES = {  # of the columns that these casts return
    "numeric": "DOUBLE",
    "date": "DOUBLE",
    "category": "VARCHAR",
    "categories": "VARCHAR",
    "text": "VARCHAR",
    "vector": "DOUBLE[]",
}
# Insert commas into a list as numpy prints it, with blanks between the numbers.
_INSERT_COMMAS = "'[' || regexp_replace(trim(trim({0}, '[]')), '\\s+', ', ', 'g') || ']'"
_EXPECTED = {
    "numeric": "numbers",
    "date": "dates",
    "vector": "lists of numbers, such as [0.5, 1.0]",
}


def check_column(where: str, column: str, columns: Collection[str]) -> str:
    """Return the column if it exists; else raise TableError with the closest names."""
    if column in columns:
        return column
    known = list(columns)
    near = get_close_matches(column, known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(short, near))}?" if near else ""
    listed = ", ".join(map(short, known[:12])) + (", ..." if len(known) > 12 else "")
    raise TableError(f"{where}: no column {short(column)}; the columns are {listed}{hint}")


def cast(column: str, kind: str, types: Mapping[str, str]) -> str:
    """Return the SQL of a feature column; it is NULL where a value is missing or not finite."""
    name = quote_ident(column)
    if kind == "text" and types[column].endswith("]"):  # a list of words
        return f"array_to_string({name}, ' ')"
    if kind == "categories" and types[column].endswith("]"):
        return f"CAST({name} AS VARCHAR[])"
    if kind == "category" and types[column].startswith(_FRACTIONAL):  # 1.0 in pandas is 1 in CSV
        return cast_id(column, types, "VARCHAR")
    if kind == "numeric" and types[column] in _INTEGERS:
        return name  # narrower than DOUBLE; the encoding casts it
    if kind == "date" and types[column] in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        return f"epoch({name}) / 86400"
    if kind == "vector" and re.fullmatch(r"FLOAT\[\d*\]", types[column]):
        # Half the memory of DOUBLE.
        return f"CAST({name} AS FLOAT[])"
    expression = _try_cast(column, kind, types)
    if kind == "numeric":
        return f"CASE WHEN isfinite({expression}) THEN {expression} END"
    if kind == "vector":
        return f"CASE WHEN NOT ({is_invalid(column, kind, types)}) THEN {expression} END"
    return expression


def _try_cast(column: str, kind: str, types: Mapping[str, str]) -> str:
    """Return the SQL of a cast that is NULL where a value cannot be cast."""
    name = quote_ident(column)
    if kind == "vector" and types[column] == "VARCHAR":
        blanks = f"{name} LIKE '[%' AND NOT contains({name}, ',')"
        name = f"CASE WHEN {blanks} THEN {_INSERT_COMMAS.format(name)} ELSE {name} END"
    return CASTS[kind].format(name)


def is_invalid(column: str, kind: str, types: Mapping[str, str]) -> str:
    """Return the SQL condition that a value is not NULL and not of the column's kind."""
    expression = _try_cast(column, kind, types)
    invalid = f"{expression} IS NULL"
    if kind == "vector":  # elements must not be NULL either
        invalid += f" OR len({expression}) > list_aggregate({expression}, 'count')"
    return f"{quote_ident(column)} IS NOT NULL AND ({invalid})"


def check_casts(
    db: duckdb.DuckDBPyConnection,
    where: str,
    table: str,
    kinds: Mapping[str, str],
    types: Mapping[str, str],
    on_error: str = "stop",
) -> dict[str, int]:
    """Return the number of values of each column that are not of its kind, where there are any.

    Raise TableError if there are any and ``on_error`` is "stop".
    """
    to_check = [
        c
        for c, kind in kinds.items()
        if kind in _EXPECTED and not (kind == "numeric" and types[c] in _INTEGERS)
    ]
    conditions = {column: is_invalid(column, kinds[column], types) for column in to_check}
    counts: list[int] = []
    with table_errors(where):
        for start in range(0, len(to_check), PART):
            part = to_check[start : start + PART]
            sums = ", ".join(f"count_if({conditions[column]})" for column in part)
            (row,) = fetch_all(db, f"SELECT {sums} FROM {quote_ident(table)}")
            counts += row
        invalid = {column: n for column, n in zip(conditions, counts, strict=True) if n}
        if on_error == "missing":
            return invalid
        for column, count in invalid.items():
            query = (
                f"SELECT {quote_ident(column)} FROM {quote_ident(table)} "
                f"WHERE {conditions[column]} LIMIT 1"
            )
            ((example,),) = fetch_all(db, query)
            raise TableError(
                f"{where}: column {column!r}: expected {_EXPECTED[kinds[column]]}, but "
                f"{count:,} values are something else, such as {short(example)}; correct them, or "
                'set on_error = "missing"'
            )
    return invalid


@contextmanager
def select_typed(
    db: duckdb.DuckDBPyConnection,
    raw: str,
    others: list[str],
    kinds: Mapping[str, str],
    types: Mapping[str, str],
) -> Iterator[str]:
    """Yield the SQL that selects ``others`` and each column, cast, as ``feature NAME``.

    If more than ``MAX_COLUMNS`` columns need a cast, they are cast in parts, in temporary tables
    that are joined by position. They exist inside the context only.
    """
    columns = others + [
        f"{cast(c, kind, types)} AS {quote_ident(f'feature {c}')}" for c, kind in kinds.items()
    ]
    plain = sum(kind == "numeric" and types[c] in _INTEGERS for c, kind in kinds.items())
    if len(columns) - plain <= MAX_COLUMNS:
        yield f"SELECT {', '.join(columns)} FROM {quote_ident(raw)}"
        return
    rows = quote_ident(f"rows of {raw}")  # reads files once instead of once per part
    db.execute(f"CREATE TEMP TABLE {rows} AS SELECT * FROM {quote_ident(raw)}")
    parts: list[str] = []
    for start in range(0, len(columns), PART):
        parts.append(quote_ident(f"part {start} of {raw}"))
        part = ", ".join(columns[start : start + PART])
        db.execute(f"CREATE TEMP TABLE {parts[-1]} AS SELECT {part} FROM {rows}")
    db.execute(f"DROP TABLE {rows}")
    yield f"SELECT * FROM {' POSITIONAL JOIN '.join(parts)}"
    for table in parts:
        db.execute(f"DROP TABLE {table}")


def id_type(
    db: duckdb.DuckDBPyConnection,
    columns: Iterable[tuple[str, str, Mapping[str, str]]],
    normalize: bool = False,
) -> str:
    """Return BIGINT if all ids of the given columns are integers, else VARCHAR.

    A column is given as (table, column, types of the table). With ``normalize`` ids are those of
    :func:`normalize_id`.
    """
    for table, column, types in columns:
        name, kind = quote_ident(column), types[column]
        if kind in _INTEGERS:
            continue
        if normalize:
            name, kind = normalize_id(cast_id(column, types, "VARCHAR")), "VARCHAR"
        if kind in ("UBIGINT", "HUGEINT", "UHUGEINT"):
            condition = f"abs(CAST({name} AS HUGEINT)) > {2**63 - 1}"
        elif kind.startswith(_FRACTIONAL):
            condition = f"NOT isnan({name}) AND NOT ({_is_integer(name)})"
        elif kind == "VARCHAR":
            plain = f"regexp_full_match({name}, '{_PLAIN_INTEGER}')"
            condition = f"NOT ({plain} AND TRY_CAST({name} AS BIGINT) IS NOT NULL)"
        else:
            return "VARCHAR"
        query = (
            f"SELECT 1 FROM {quote_ident(table)} WHERE {name} IS NOT NULL AND {condition} LIMIT 1"
        )
        if fetch_all(db, query):
            return "VARCHAR"
    return "BIGINT"


def cast_id(column: str, types: Mapping[str, str], wanted: str, normalize: bool = False) -> str:
    """Return the SQL of an id column as type ``wanted``; it is NULL where the cast fails.

    With ``normalize`` ids are those of :func:`normalize_id`.
    """
    name, kind = quote_ident(column), types[column]
    if normalize:
        text = normalize_id(cast_id(column, types, "VARCHAR"))
        return text if wanted == "VARCHAR" else f"TRY_CAST({text} AS BIGINT)"
    fractional = kind.startswith(_FRACTIONAL)
    if wanted == "VARCHAR":
        integer = f"CASE WHEN {_is_integer(name)} THEN CAST(CAST({name} AS BIGINT) AS VARCHAR)"
        other = f"WHEN NOT isnan({name}) THEN {_as_text(name)} END"
        return f"{integer} {other}" if fractional else _as_text(name)
    if fractional:
        return f"CASE WHEN {_is_integer(name)} THEN CAST({name} AS BIGINT) END"
    if kind in _INTEGERS:
        return f"CAST({name} AS BIGINT)"
    is_integer = f"regexp_full_match({_as_text(name)}, '{_INTEGER_LIKE}')"
    return (
        f"CASE WHEN {is_integer} THEN TRY_CAST(split_part({_as_text(name)}, '.', 1) AS BIGINT) END"
    )


def normalize_id(text: str) -> str:
    """Return the SQL of an id without padding: blanks around it, leading zeros, and .0 at its end.

    ``text`` is SQL of a text. '001', ' 1' and '1.0' become '1'; an empty id is NULL.
    """
    digits = f"coalesce(nullif(ltrim(split_part(trim({text}), '.', 1), '0'), ''), '0')"
    is_number = f"regexp_full_match(trim({text}), '\\d+(\\.0+)?')"
    return f"CASE WHEN {is_number} THEN {digits} ELSE nullif(trim({text}), '') END"


def plain_id(text: str) -> str:
    """Return an id without padding, as the SQL of :func:`normalize_id` does.

    >>> [plain_id(text) for text in ("001", " 1", "1.0", "000", "a01 ")]
    ['1', '1', '1', '0', 'a01']
    """
    stripped = text.strip(" ")
    if not _PADDED_NUMBER.fullmatch(stripped):
        return stripped
    return stripped.partition(".")[0].lstrip("0") or "0"


def _is_integer(name: str) -> str:
    return f"{name} = floor({name}) AND abs({name}) < {_MAX_EXACT}"


def _as_text(name: str) -> str:
    return f"CAST({name} AS VARCHAR)"
