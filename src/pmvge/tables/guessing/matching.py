"""Match rates: how many values of a column are ids of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import duckdb

from pmvge.errors import truncate
from pmvge.tables.columns.id_casts import cast_id, find_collision, id_type
from pmvge.tables.sources.connection import fetch_all, quote_ident

ROWS = 2_000_000  # of a column that are matched, to bound the time for large tables


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a staged table; ``table`` and ``name`` are for messages."""

    table: str
    name: str
    raw: str
    types: Mapping[str, str]

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


@dataclass(frozen=True)
class Match:
    """How many values of a column are ids of another table, and examples of both."""

    column: str
    key: str
    rows: int  # of the column
    present: int  # rows with a value
    known: int  # rows with a known id
    values: int  # distinct values
    matched: int  # distinct values that are known ids
    ids: int  # distinct ids
    unknown: str | None  # a value that is no id
    example: str | None  # an id
    normalized: bool = False  # whether values and ids were compared without padding
    padded: int = 0  # values that would match without padding, if that would not merge ids
    collision: tuple[str, str] | None = None  # two ids that it would merge

    @property
    def share(self) -> float:
        """The share of known ids among the values, or among the rows if that is more."""
        return max(
            self.matched / self.values if self.values else 0.0,
            self.known / self.present if self.present else 0.0,
        )

    @property
    def overlap(self) -> float:
        """The Jaccard index of the values and the ids: 1 if they are the same."""
        return self.matched / max(1, self.values + self.ids - self.matched)

    @property
    def is_ascii(self) -> bool:
        """Whether both examples are ASCII: then no wrong encoding explains the difference."""
        return f"{self.unknown}{self.example}".isascii()

    def __str__(self) -> str:
        text = f"{self.column} matches {self.key} in {self.matched:,} of {self.values:,} values"
        text += " without leading zeros and blanks" if self.normalized else ""
        if self.unknown is not None:
            text += f": {truncate(repr(self.unknown))} against {truncate(repr(self.example))}"
        if self.collision is not None:
            one, other = (truncate(repr(each)) for each in self.collision)
            text += (
                f"; {self.padded:,} would match without leading zeros and blanks, but then {one} "
                f"and {other} of {self.key} are the same id: write the ids in the same way in both"
            )
        if self.present < self.rows:
            text += f"; {self.rows - self.present:,} of {self.rows:,} are empty"
        return text + (f" (first {ROWS:,} rows)" if self.rows == ROWS else "")


def best_match(db: duckdb.DuckDBPyConnection, column: Column, key: Column) -> Match:
    """Return the match of a column with ids, without padding if more values match then.

    Padding is kept if some ids differ in nothing else; the match names two of them.
    """
    match = match_ids(db, column, key)
    if match.matched == match.values:
        return match
    other = match_ids(db, column, key, normalize=True)
    if other.matched <= match.matched:
        return match
    if other.ids == match.ids:
        return other
    collision = find_collision(db, key.raw, key.name, key.types)
    return replace(match, padded=other.matched, collision=collision)


def match_ids(
    db: duckdb.DuckDBPyConnection, column: Column, key: Column, *, normalize: bool = False
) -> Match:
    """Return the match of a column, in its first ``ROWS`` rows, with the ids of another table.

    Ids are compared as when links are read: as integers if all ids of the table are integers; with
    ``normalize`` without padding.
    """
    kind = id_type(db, [(key.raw, key.name, key.types)], normalize)
    value, known_id = (cast_id(c.name, c.types, kind, normalize) for c in (column, key))
    text = cast_id(column.name, column.types, "VARCHAR")
    (counts,) = fetch_all(
        db,
        f"""WITH c AS (SELECT {value} AS id, {text} AS cell
                   FROM {quote_ident(column.raw)} LIMIT {int(ROWS)}),
        v AS (SELECT cell, any_value(id) AS id, count(*) AS n FROM c GROUP BY cell),
        k AS (SELECT DISTINCT {known_id} AS id FROM {quote_ident(key.raw)}),
        m AS (SELECT cell, n, k.id IS NOT NULL AS is_id FROM v LEFT JOIN k ON v.id = k.id
              WHERE cell IS NOT NULL)
        SELECT (SELECT count(*) FROM c), sum(n), sum(n) FILTER (is_id), count(*), count_if(is_id),
            (SELECT count(id) FROM k), min(cell) FILTER (NOT is_id),
            (SELECT CAST(min(id) AS VARCHAR) FROM k)
        FROM m""",
    )
    rows, present, known, values, matched, ids = (int(n or 0) for n in counts[:6])
    unknown, example = counts[6:]
    return Match(
        str(column),
        str(key),
        rows,
        present,
        known,
        values,
        matched,
        ids,
        unknown,
        example,
        normalize,
    )
