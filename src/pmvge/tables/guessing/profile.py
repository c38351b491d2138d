"""Profiles of columns (kind, distinct values, ...) from the first rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np

from pmvge.tables.columns.casts import AMOUNT, cast, is_invalid
from pmvge.tables.columns.id_casts import cast_id
from pmvge.tables.sources.amounts import is_amount
from pmvge.tables.sources.connection import fetch_all, quote_ident

SAMPLE_ROWS = 20_000  # rows in a sample
SAMPLE_VALUES = 2_000_000  # values in a sample: wide tables have fewer rows
_TIMES = ("DATE", "TIME")
_NUMBERS = ("FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")
_SMALL_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
MAX_AMOUNTS = 100  # first values of a text column that are tested for amounts
MANY_INTEGERS = 100  # columns, from which NumPy is faster than a statement
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")


@dataclass(frozen=True)
class Profile:
    """Statistics of one column.

    ``kind`` is "integer", "number", "date", "vector", "word" (short text), "text", "other" or
    "empty".
    """

    kind: str
    rows: int
    present: int  # values that are not missing
    distinct: int
    zeros: int
    minimum: float | None  # of numbers
    has_words: bool = True  # whether a value has a word of two letters or more
    maximum: float | None = None  # of numbers
    padded: bool = False  # whether a number starts with a zero, such as 02139
    numbers: int = 0  # values that are numbers
    cells: tuple[str, ...] = ()  # the first values of a column of words, text or amounts

    @property
    def unique(self) -> bool:
        """Whether every row has a distinct value."""
        return self.present == self.rows == self.distinct > 0

    def nearly_unique(self, share: float) -> bool:
        """Whether at least half of the values, 20 or more, are present and ``share`` distinct."""
        if self.unique:
            return self.kind in ("integer", "word", "text")
        present = self.present >= max(20, self.rows / 2)
        return (
            present
            and self.distinct >= share * self.present
            and self.kind in ("integer", "word", "text")
        )

    @property
    def is_time(self) -> bool:
        """Whether all values are seconds or milliseconds since 1970, of the years 1980 to 2100."""
        if self.kind not in ("integer", "number") or self.minimum is None or self.maximum is None:
            return False
        years = (3.15e8, 4.1e9)
        return any(
            years[0] * unit <= self.minimum <= self.maximum <= years[1] * unit for unit in (1, 1000)
        )


def profile_columns(
    db: duckdb.DuckDBPyConnection, raw: str, types: Mapping[str, str]
) -> dict[str, Profile]:
    """Return a profile of every column."""
    sample = f"sample of {raw}"
    rows = max(1000, min(SAMPLE_ROWS, SAMPLE_VALUES // len(types)))
    db.execute(
        f"CREATE TEMP TABLE IF NOT EXISTS {quote_ident(sample)} AS "
        f"SELECT * FROM {quote_ident(raw)} LIMIT {int(rows)}"
    )
    integers = {c: kind for c, kind in types.items() if kind in _SMALL_INTEGERS}
    if len(integers) < MANY_INTEGERS:
        integers = {}
    known = _integer_facts(db, sample, list(integers)) if integers else {}
    numbers = known | _fetch_facts(
        db, sample, {c: _number_facts(c, kind) for c, kind in types.items() if c not in known}
    )
    # The other facts are slow to compute; columns of numbers with several zeros do not need them.
    others = [c for c, facts in numbers.items() if facts[1] < facts[0] or facts[3] <= 1]
    expressions = {c: _word_facts(c, types[c], numbers[c][1] == numbers[c][0] > 0) for c in others}
    words = _fetch_facts(db, sample, expressions)
    ((rows,),) = fetch_all(db, f"SELECT count(*) FROM {quote_ident(sample)}")
    profiles = {c: _profile(types[c], rows, numbers[c], words.get(c)) for c in types}
    for column, profile in profiles.items():
        if profile.kind in ("word", "text"):
            profile = replace(profile, cells=_cells(db, sample, column))
            profiles[column] = _with_amounts(db, sample, column, types, profile)
    return profiles


def _with_amounts(
    db: duckdb.DuckDBPyConnection,
    sample: str,
    column: str,
    types: Mapping[str, str],
    profile: Profile,
) -> Profile:
    """Return the profile of a text column with the facts of its amounts, if it has many.

    It is a column of numbers if all values are amounts or numbers.
    """
    amounts = sum(is_amount(cell) for cell in profile.cells[:MAX_AMOUNTS])
    if types[column] != "VARCHAR" or amounts < 0.1 * min(len(profile.cells), MAX_AMOUNTS):
        return profile
    number = cast(column, AMOUNT, types)
    facts = (f"count({number})", f"count_if({number} = 0)", f"min({number})", f"max({number})")
    ((numbers, zeros, minimum, maximum),) = _fetch_facts(db, sample, {column: facts}).values()
    kind = "number" if numbers == profile.present else profile.kind
    return replace(
        profile, kind=kind, numbers=numbers, zeros=zeros, minimum=minimum, maximum=maximum
    )


def _cells(db: duckdb.DuckDBPyConnection, sample: str, column: str) -> tuple[str, ...]:
    """Return the first values of a column as text; those of a list are separated by ``|``."""
    name = quote_ident(column)
    rows = fetch_all(
        db, f"SELECT {name} FROM {quote_ident(sample)} WHERE {name} IS NOT NULL LIMIT 1000"
    )
    return tuple("|".join(map(str, v)) if isinstance(v, list) else str(v) for (v,) in rows)


def _integer_facts(
    db: duckdb.DuckDBPyConnection, table: str, columns: list[str]
) -> dict[str, tuple[Any, ...]]:
    """Return the facts of :func:`_number_facts` for many columns of integers, by NumPy."""
    selection = ", ".join(map(quote_ident, columns))
    arrays = db.sql(f"SELECT {selection} FROM {quote_ident(table)}").to_arrow_table().columns
    facts = {}
    for column, array in zip(columns, arrays, strict=True):
        x = array.drop_null().to_numpy()
        n, zeros = len(x), int(len(x) - np.count_nonzero(x))
        low, high = (float(x.min()), float(x.max())) if n else (0.0, 0.0)
        distinct = len(np.unique(x)) if high - low > 1 or zeros <= 1 else int(n > 0) + (high > low)
        facts[column] = (n, n, n, zeros, low, high, distinct)
    return facts


def _fetch_facts(
    db: duckdb.DuckDBPyConnection, table: str, facts: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[Any, ...]]:
    """Return the values of several SQL expressions for each of many columns; 0 for NULL."""
    values: dict[str, tuple[Any, ...]] = {}
    columns = list(facts)
    for start in range(0, len(columns), 50):  # columns per statement
        part = columns[start : start + 50]
        expressions = ", ".join(fact for column in part for fact in facts[column])
        (row,) = fetch_all(db, f"SELECT {expressions} FROM {quote_ident(table)}")
        start_of_column = 0
        for column in part:
            values[column] = tuple(
                fact or 0 for fact in row[start_of_column : start_of_column + len(facts[column])]
            )
            start_of_column += len(facts[column])
    return values


def _opaque(kind: str) -> bool:
    return kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "BLOB"))


def _number_facts(column: str, kind: str) -> tuple[str, ...]:
    """Return SQL of: present, numbers, integers, zeros, minimum, maximum, distinct values.

    The last is approximate.
    """
    name = quote_ident(column)
    if _opaque(kind):
        return (f"count({name})", "0", "0", "0", "NULL", "NULL", "0")
    number = f"TRY_CAST(CAST({name} AS VARCHAR) AS DOUBLE)"
    return (
        f"count({name})",
        f"count({number})",
        f"count_if({number} = floor({number}))",
        f"count_if({number} = 0)",
        f"min({number})",
        f"max({number})",
        f"approx_count_distinct({name})",
    )


def _word_facts(column: str, kind: str, numbers: bool) -> tuple[str, ...]:
    """Return SQL of: distinct values, dates, lists, mean length and separators, with words, padded.

    For numbers only the first and the last are computed: regular expressions are slow.
    """
    name = quote_ident(column)
    if numbers:
        text = f"CAST({name} AS VARCHAR)"
        padded = f"count_if({text} LIKE '0_%' AND NOT contains({text}, '.'))"
        return (f"count(DISTINCT {name})", "0", "0", "0.0", "0.0", "1", padded)
    if _opaque(kind):
        words = f"count_if(regexp_matches(array_to_string({name}, ' '), '[\\pL\\pN_]{{2}}'))"
        has_words = words if kind == "VARCHAR[]" else "1"
        return ("0", "0", f"count({name})", "0.0", "0.0", has_words, "0")
    text = f"CAST({name} AS VARCHAR)"
    no_vector = is_invalid(column, "vector", {column: kind}, finite=False)
    separators = f"length({text}) - length(regexp_replace({text}, '[\\s|;,/]+', '', 'g'))"
    return (
        f"count(DISTINCT {name})",
        f"count({cast(column, 'date', {column: kind})})",
        f"count_if({text} LIKE '[%]') - count_if({no_vector})",
        f"avg(length({text}))",
        f"avg({separators})",
        f"count_if(regexp_matches({text}, '[\\pL\\pN_]{{2}}'))",
        "0",
    )


def _profile(
    kind: str, rows: int, counted: tuple[Any, ...], words: tuple[Any, ...] | None
) -> Profile:
    present, numbers, integers, zeros, minimum, maximum, approximate = counted
    distinct, dates, lists, length, separators, has_words, padded = words or (
        approximate,
        0,
        0,
        0.0,
        0.0,
        0,
        0,
    )

    def guess_kind() -> str:
        if not present:
            return "empty"
        if kind.startswith(("STRUCT", "MAP", "BLOB")) or kind in ("TIME", "TIME_NS"):
            return "other"
        if kind.endswith("]"):
            return "text" if kind.startswith("VARCHAR") else "vector"
        if kind.startswith(_TIMES):
            return "date"
        if kind.startswith(_NUMBERS):
            return "number"
        if kind.lstrip("U").startswith(_INTEGERS) or integers == present:
            return "integer"
        if numbers == present:
            return "number"
        if lists == present:
            return "vector"
        if dates == present:
            return "date"
        return "text" if separators >= 1.0 or length > 60 else "word"

    return Profile(
        guess_kind(),
        rows,
        present,
        int(distinct),
        zeros,
        minimum,
        has_words > 0,
        maximum,
        padded > 0,
        numbers,
    )


def share_of_ids(
    db: duckdb.DuckDBPyConnection,
    raw: str,
    column: str,
    types: Mapping[str, str],
    other: str,
    key: str,
    other_types: Mapping[str, str],
) -> float:
    """Return the share of a column's first 1,000 distinct values that are ids of another table."""
    id_sql, other_id_sql = cast_id(column, types, "VARCHAR"), cast_id(key, other_types, "VARCHAR")
    ((total, n_ids),) = fetch_all(
        db,
        f"SELECT count(*), count(o.id) FROM (SELECT DISTINCT {id_sql} AS id FROM "
        f"{quote_ident(f'sample of {raw}')} WHERE {quote_ident(column)} IS NOT NULL "
        f"ORDER BY 1 LIMIT 1000) t "
        f"LEFT JOIN (SELECT DISTINCT {other_id_sql} AS id FROM {quote_ident(other)}) o "
        "ON t.id = o.id",
    )
    return n_ids / total if total else 0.0
