"""SQL casts of feature columns, and checks of their values.

Numbers become DOUBLE, dates days since 1970, categories and texts VARCHAR (lists of categories
VARCHAR[]), and vectors lists of DOUBLE (FLOAT lists stay FLOAT).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

import duckdb

from pmvge.errors import TableError, short
from pmvge.tables.columns.id_casts import FRACTIONAL, INTEGERS, cast_id
from pmvge.tables.columns.unreadable import advise, comma_fix, first_invalid
from pmvge.tables.sources.amounts import cast_amount
from pmvge.tables.sources.connection import fetch_all, quote_ident, table_errors

AMOUNT = "amount"  # a numeric column with values such as $5, which take long to plan and to cast
PART = 200  # columns per statement: planning time grows faster than linearly in the columns
MAX_COLUMNS = 512  # up to here, one slow statement is faster than copying all rows
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
    AMOUNT: "numbers",
    "date": "dates",
    "vector": "lists of finite numbers, such as [0.5, 1.0]",
}
_EXAMPLES = {"dates": " (1975-02-01, 1975-02-01 13:45:00, 01.02.1975 or 01-Feb-1975)"}


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
    if kind == "category" and types[column].startswith(FRACTIONAL):  # 1.0 in pandas is 1 in CSV
        return cast_id(column, types, "VARCHAR")
    if kind == "numeric" and types[column] in INTEGERS:
        return name  # narrower than DOUBLE; the encoding casts it
    if kind == "date" and types[column] in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        return f"epoch({name}) / 86400"
    expression = _try_cast(column, kind, types)
    if kind == "vector" and re.fullmatch(r"FLOAT\[\d*\]", types[column]):
        expression = f"CAST({name} AS FLOAT[])"  # half the memory of DOUBLE
    if kind in ("numeric", AMOUNT):
        return f"CASE WHEN isfinite({expression}) THEN {expression} END"
    if kind == "vector":
        return f"CASE WHEN NOT ({is_invalid(column, kind, types)}) THEN {expression} END"
    return expression


def _try_cast(column: str, kind: str, types: Mapping[str, str]) -> str:
    """Return the SQL of a cast that is NULL where a value cannot be cast."""
    name = quote_ident(column)
    if kind == AMOUNT:
        return f"coalesce({_try_cast(column, 'numeric', types)}, {cast_amount(name)})"
    if kind == "vector" and types[column] == "VARCHAR":
        blanks = f"{name} LIKE '[%' AND NOT contains({name}, ',')"
        name = f"CASE WHEN {blanks} THEN {_INSERT_COMMAS.format(name)} ELSE {name} END"
    return CASTS[kind].format(name)


def is_invalid(column: str, kind: str, types: Mapping[str, str], *, finite: bool = True) -> str:
    """Return the SQL condition that a value is not NULL and not of the column's kind.

    With ``finite`` a vector that has an element NaN or infinity is invalid, too.
    """
    expression = _try_cast(column, kind, types)
    invalid = f"{expression} IS NULL"
    if kind == "vector":  # elements must not be NULL either
        invalid += f" OR len({expression}) > list_aggregate({expression}, 'count')"
        if finite:  # NaN is the largest number
            for extreme in ("min", "max"):
                invalid += f" OR NOT isfinite(list_aggregate({expression}, '{extreme}'))"
    return f"{quote_ident(column)} IS NOT NULL AND ({invalid})"


def check_casts(
    db: duckdb.DuckDBPyConnection,
    where: str,
    table: str,
    kinds: Mapping[str, str],
    types: Mapping[str, str],
    on_error: str = "stop",
    remedy: str | None = None,
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the number of values of each column that are not of its kind, where there are any.

    Also return the kinds to cast the columns to: numeric columns with amounts are of kind AMOUNT.
    Raise TableError if there are such values and ``on_error`` is "stop". Its message ends with
    ``remedy``, or with what to change in the project file.
    """
    to_check = [
        c
        for c, kind in kinds.items()
        if kind in _EXPECTED and not (kind == "numeric" and types[c] in INTEGERS)
    ]
    with table_errors(where):
        invalid = _count_invalid(db, table, to_check, kinds, types)
        amounts = [c for c in invalid if kinds[c] == "numeric" and types[c] == "VARCHAR"]
        kinds = {**kinds, **dict.fromkeys(amounts, AMOUNT)}
        found = _count_invalid(db, table, amounts, kinds, types)
        invalid = {c: found.get(c, 0) if c in amounts else n for c, n in invalid.items()}
        invalid = {c: n for c, n in invalid.items() if n}
        if on_error == "missing":
            return invalid, kinds
        for column, count in invalid.items():
            condition = is_invalid(column, kinds[column], types)
            at, example, commas = first_invalid(db, table, column, condition)
            expected = _EXPECTED[kinds[column]]
            drop = 'set on_error = "missing"'
            if remedy is not None:
                fix = remedy
            elif commas and kinds[column] == AMOUNT:
                fix = f"{comma_fix(example)}, or {drop}"
            else:
                fix = advise(db, table, column, (count, example), expected, drop)
            raise TableError(
                f"{where}: column {column!r}: expected {expected}{_EXAMPLES.get(expected, '')}, "
                f"but {count:,} values are something else, such as {short(example)} in row "
                f"{at:,}; {fix}"
            )
    return invalid, kinds


def _count_invalid(
    db: duckdb.DuckDBPyConnection,
    table: str,
    columns: list[str],
    kinds: Mapping[str, str],
    types: Mapping[str, str],
) -> dict[str, int]:
    """Return the number of values of each column that are not of its kind, where there are any."""
    counts: list[int] = []
    for start in range(0, len(columns), PART):
        part = columns[start : start + PART]
        sums = ", ".join(f"count_if({is_invalid(c, kinds[c], types)})" for c in part)
        (row,) = fetch_all(db, f"SELECT {sums} FROM {quote_ident(table)}")
        counts += row
    return {column: n for column, n in zip(columns, counts, strict=True) if n}


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
    plain = sum(kind == "numeric" and types[c] in INTEGERS for c, kind in kinds.items())
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
