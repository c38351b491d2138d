"""SQL casts of id columns: integers if all ids are written as integers, else text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import duckdb

from pmvge.errors import TableError
from pmvge.tables.sources.connection import fetch_all, quote_ident

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
FRACTIONAL = ("FLOAT", "DOUBLE", "DECIMAL")
_MAX_EXACT = 2**53  # a double represents every integer up to here
MAX_EXACT = {"DOUBLE": _MAX_EXACT, "FLOAT": 2**24}
ROUNDED = "floating-point numbers so large that digits are lost; store ids as integers or texts"
_PADDED_NUMBER = re.compile(r"\d+(\.0+)?", re.ASCII)
_PLAIN_INTEGER = r"-?[1-9]\d*|0"
_INTEGER_LIKE = r"-?\d+(\.0+)?"  # such as 7.0, which other tools write for 7


def check_exact(
    db: duckdb.DuckDBPyConnection, where: str, table: str, column: str, types: Mapping[str, str]
) -> None:
    """Raise TableError if ids are floating-point numbers that are rounded: ids may be merged."""
    limit, name = MAX_EXACT.get(types[column]), quote_ident(column)
    if limit is None:
        return
    ((count, example),) = fetch_all(
        db,
        f"SELECT count(*), min({name}) FROM {quote_ident(table)} "
        f"WHERE isfinite({name}) AND abs({name}) > {int(limit)}",
    )
    if count:
        raise TableError(
            f"{where}: id column {column!r}: {count:,} ids, such as {example:.0f}, are {ROUNDED}"
        )


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
        if kind in INTEGERS:
            continue
        if normalize:
            name, kind = normalize_id(cast_id(column, types, "VARCHAR")), "VARCHAR"
        if kind in ("UBIGINT", "HUGEINT", "UHUGEINT"):
            condition = f"abs(CAST({name} AS HUGEINT)) > {2**63 - 1}"
        elif kind.startswith(FRACTIONAL):
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
    fractional = kind.startswith(FRACTIONAL)
    if wanted == "VARCHAR":
        integer = f"CASE WHEN {_is_integer(name)} THEN CAST(CAST({name} AS BIGINT) AS VARCHAR)"
        other = f"WHEN NOT isnan({name}) THEN {_as_text(name)} END"
        return f"{integer} {other}" if fractional else _as_text(name)
    if fractional:
        return f"CASE WHEN {_is_integer(name)} THEN CAST({name} AS BIGINT) END"
    if kind in INTEGERS:
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


def find_collision(
    db: duckdb.DuckDBPyConnection, table: str, column: str, types: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return two ids of a column that differ in padding only, such as '001' and '1'; or None."""
    text = cast_id(column, types, "VARCHAR")
    found = fetch_all(
        db,
        f"SELECT min(id), max(id) FROM (SELECT {text} AS id FROM {quote_ident(table)}) "
        f"GROUP BY {normalize_id('id')} HAVING min(id) <> max(id) ORDER BY 1 LIMIT 1",
    )
    return (str(found[0][0]), str(found[0][1])) if found else None


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
