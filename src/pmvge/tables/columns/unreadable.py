"""What to do about values that are not of the kind of their column."""

from __future__ import annotations

import re
from typing import Any

import duckdb

from pmvge.tables.sources.connection import fetch_all, quote_ident, quote_literal
from pmvge.tables.sources.dialect import DECIMAL_COMMA

_CONVERSIONS = {  # a pattern of examples, and SQL that converts them
    "numbers": (r"[^,]*\d[^,]*", "TRY_CAST(regexp_replace({}, '[^0-9.-]', '', 'g') AS DOUBLE)"),
    "dates": (r"\d+/\d+/\d{4}", "strptime({}, '%m/%d/%Y')"),
}


def advise(
    db: duckdb.DuckDBPyConnection,
    table: str,
    column: str,
    invalid: tuple[int, Any],
    expected: str,
    drop: str,
) -> str:
    """Return what to do about values of a column that are not ``expected``: numbers, or dates.

    ``invalid`` is their number and the first of them. If they are most values of the column, it is
    a query that converts them; else to correct them or ``drop``.
    """
    name, (count, example) = quote_ident(column), invalid
    ((present,),) = fetch_all(db, f"SELECT count({name}) FROM {quote_ident(table)}")
    if count <= present / 2 or expected not in _CONVERSIONS:
        return f"correct them, or {drop}"
    pattern, conversion = _CONVERSIONS[expected]
    if not (isinstance(example, str) and re.fullmatch(pattern, example)):
        return "correct them, or choose another column or kind"
    return (
        'convert them, in pmvge.toml by query = """SELECT * REPLACE '
        f'({conversion.format(name)} AS {name}) FROM read_csv(\'FILE\', all_varchar = true)""" '
        "instead of source"
    )


def first_invalid(
    db: duckdb.DuckDBPyConnection, table: str, column: str, condition: str
) -> tuple[int, Any, bool]:
    """Return the first value that meets a condition, after its row, counted from 1.

    The last item is whether all such values are numbers with a comma, such as 3,5.
    """
    name, row = quote_ident(column), quote_ident(f"row of {column}")
    comma = f"regexp_full_match(CAST({name} AS VARCHAR), {quote_literal(DECIMAL_COMMA)})"
    ((number, value, commas),) = fetch_all(
        db,
        f"SELECT min({row}), arg_min({name}, {row}), bool_and({comma}) FROM "
        f"(SELECT {name}, row_number() OVER () AS {row} FROM {quote_ident(table)}) "
        f"WHERE {condition}",
    )
    return int(number), list(value) if isinstance(value, tuple) else value, bool(commas)


def comma_fix(example: str) -> str:
    """Return what to do about a number with a comma.

    >>> comma_fix("3,5")
    'if 3,5 means 3.5, set decimal = ","'
    """
    return f'if {example} means {example.replace(",", ".")}, set decimal = ","'
