"""What the columns of a table look like, from its first rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from pmvge.tables.columns.casts import as_id, is_wrong
from pmvge.tables.sources.workbench import ask, quoted

SAMPLE = 20_000  # rows looked at,
VALUES = 2_000_000  # or fewer of wide tables: about so many values
_TIMES = ("DATE", "TIME")
_NUMBERS = ("FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN")
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")


@dataclass(frozen=True)
class Profile:
    """One column: "integer", "number", "date", "vector", "word" (short), "text" or "empty"."""

    kind: str
    rows: int
    known: int  # values that are not missing
    distinct: int
    zeros: int
    least: float | None  # of numbers
    wordy: bool = True  # whether it has a word of two letters

    @property
    def unique(self) -> bool:
        """Whether every row has a value of its own."""
        return self.known == self.rows == self.distinct > 0


def profiles(
    db: duckdb.DuckDBPyConnection, raw: str, types: Mapping[str, str]
) -> dict[str, Profile]:
    """A profile of every column."""
    sample = f"sample of {raw}"
    db.execute(
        f"CREATE TEMP TABLE IF NOT EXISTS {quoted(sample)} AS "
        f"SELECT * FROM {quoted(raw)} LIMIT {max(1000, min(SAMPLE, VALUES // len(types)))}"
    )
    numbers = _ask_all(db, sample, {c: _number_facts(c, kind) for c, kind in types.items()})
    # What follows is slow, and needless for measurements: ids are no zeros, texts no numbers.
    others = [c for c, facts in numbers.items() if facts[1] < facts[0] or facts[3] <= 1]
    asked = {c: _word_facts(c, types[c], numbers[c][1] == numbers[c][0] > 0) for c in others}
    words = _ask_all(db, sample, asked)
    ((rows,),) = ask(db, f"SELECT count(*) FROM {quoted(sample)}")
    return {c: _profile(types[c], rows, numbers[c], words.get(c)) for c in types}


def _ask_all(
    db: duckdb.DuckDBPyConnection, table: str, facts: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[Any, ...]]:
    """Several facts about each of many columns."""
    found: dict[str, tuple[Any, ...]] = {}
    columns = list(facts)
    for start in range(0, len(columns), 50):  # a statement has its limits
        part = columns[start : start + 50]
        asked = ", ".join(fact for column in part for fact in facts[column])
        (row,) = ask(db, f"SELECT {asked} FROM {quoted(table)}")
        at = 0
        for column in part:
            found[column] = tuple(fact or 0 for fact in row[at : at + len(facts[column])])
            at += len(facts[column])
    return found


def _opaque(kind: str) -> bool:
    return kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "BLOB"))


def _number_facts(column: str, kind: str) -> tuple[str, ...]:
    """SQL: known, numbers, whole numbers, zeros, the least number, about how many are distinct."""
    name = quoted(column)
    if _opaque(kind):
        return (f"count({name})", "0", "0", "0", "NULL", "0")
    number = f"TRY_CAST(CAST({name} AS VARCHAR) AS DOUBLE)"
    return (
        f"count({name})",
        f"count({number})",
        f"count_if({number} = floor({number}))",
        f"count_if({number} = 0)",
        f"min({number})",
        f"approx_count_distinct({name})",
    )


def _word_facts(column: str, kind: str, numbers: bool) -> tuple[str, ...]:
    """SQL: distinct, dates, lists, mean length, mean number of breaks, those with words.

    Of numbers only the first is of use; what a pattern costs is to be paid for every column.
    """
    name = quoted(column)
    if numbers:
        return (f"count(DISTINCT {name})", "0", "0", "0.0", "0.0", "1")
    if _opaque(kind):
        words = f"count_if(regexp_matches(array_to_string({name}, ' '), '[\\pL\\pN_]{{2}}'))"
        wordy = words if kind == "VARCHAR[]" else "1"
        return ("0", "0", f"count({name})", "0.0", "0.0", wordy)
    text = f"CAST({name} AS VARCHAR)"
    breaks = f"length({text}) - length(regexp_replace({text}, '[\\s|;,/]+', '', 'g'))"
    return (
        f"count(DISTINCT {name})",
        f"count(TRY_CAST({text} AS TIMESTAMP))",
        f"count_if({text} LIKE '[%]') - count_if({is_wrong(column, 'vector', {column: kind})})",
        f"avg(length({text}))",
        f"avg({breaks})",
        f"count_if(regexp_matches({text}, '[\\pL\\pN_]{{2}}'))",
    )


def _profile(
    kind: str, rows: int, counted: tuple[Any, ...], words: tuple[Any, ...] | None
) -> Profile:
    known, numbers, whole, zeros, least, about = counted
    distinct, dates, lists, length, breaks, wordy = words or (about, 0, 0, 0.0, 0.0, 0)

    def is_a() -> str:
        if not known:
            return "empty"
        if kind.startswith(("STRUCT", "MAP", "BLOB")) or kind in ("TIME", "TIME_NS"):
            return "other"
        if kind.endswith("]"):
            return "text" if kind.startswith("VARCHAR") else "vector"
        if kind.startswith(_TIMES):
            return "date"
        if kind.startswith(_NUMBERS):
            return "number"
        if kind.lstrip("U").startswith(_WHOLE) or whole == known:
            return "integer"
        if numbers == known:
            return "number"
        if lists == known:
            return "vector"
        if dates == known:
            return "date"
        return "text" if breaks >= 1.0 or length > 60 else "word"

    return Profile(is_a(), rows, known, int(distinct), zeros, least, wordy > 0)


def share_within(
    db: duckdb.DuckDBPyConnection,
    raw: str,
    column: str,
    types: Mapping[str, str],
    other: str,
    key: str,
    other_types: Mapping[str, str],
) -> float:
    """The share of a column's distinct values (1,000 of them) that are ids of another table."""
    ours, theirs = as_id(column, types, "VARCHAR"), as_id(key, other_types, "VARCHAR")
    ((asked, found),) = ask(
        db,
        f"SELECT count(*), count(o.id) FROM (SELECT DISTINCT {ours} AS id FROM "
        f"{quoted(f'sample of {raw}')} WHERE {quoted(column)} IS NOT NULL ORDER BY 1 LIMIT 1000) t "
        f"LEFT JOIN (SELECT DISTINCT {theirs} AS id FROM {quoted(other)}) o ON t.id = o.id",
    )
    return found / asked if asked else 0.0
