"""What the columns of a table look like, from its first rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from pmvge.tables.casts import as_id
from pmvge.tables.sources import ask, quoted

SAMPLE = 20_000  # rows looked at
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
        f"SELECT * FROM {quoted(raw)} LIMIT {SAMPLE}"
    )
    found: dict[str, Profile] = {}
    columns = list(types)
    for start in range(0, len(columns), 50):  # a statement has its limits
        part = columns[start : start + 50]
        asked = ", ".join(_facts(column, types[column]) for column in part)
        (row,) = ask(db, f"SELECT count(*), {asked} FROM {quoted(sample)}")
        for at, column in enumerate(part):
            found[column] = _profile(types[column], row[0], row[1 + 11 * at : 12 + 11 * at])
    return found


def _facts(column: str, kind: str) -> str:
    """SQL: known, distinct, numbers, integers, dates, lists, length, breaks, wordy, zeros and the
    least number."""
    name = quoted(column)
    if kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "BLOB")):
        return f"count({name}), 0, 0, 0, 0, count({name}), 0.0, 0.0, 1, 0, NULL"
    text = f"CAST({name} AS VARCHAR)"
    number = f"TRY_CAST({text} AS DOUBLE)"
    words = f"length({text}) - length(regexp_replace({text}, '[\\s|;,/]+', '', 'g'))"
    return (
        f"count({name}), count(DISTINCT {name}), count({number}), "
        f"count_if(regexp_full_match({text}, '-?\\d+')), "
        f"count(TRY_CAST({text} AS TIMESTAMP)), count_if({text} LIKE '[%]'), "
        f"avg(length({text})), avg({words}), count_if(regexp_matches({text}, '[\\pL\\pN_]{{2}}')), "
        f"count_if({number} = 0), min({number})"
    )


def _profile(kind: str, rows: int, facts: tuple[float, ...]) -> Profile:
    known, distinct, numbers, integers, dates, lists, length, breaks, wordy, zeros, least = (
        *(fact or 0 for fact in facts[:-1]),
        facts[-1],
    )

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
        if kind.lstrip("U").startswith(_WHOLE) or integers == known:
            return "integer"
        if numbers == known:
            return "number"
        if lists == known:
            return "vector"
        if dates == known:
            return "date"
        return "text" if breaks >= 1.0 or length > 60 else "word"

    return Profile(is_a(), int(rows), int(known), int(distinct), int(zeros), least, wordy > 0)


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
