"""Guess id columns with damage: a few values are empty or repeat, but other tables use them."""

from __future__ import annotations

import duckdb

from pmvge.tables.guessing.column_names import (
    GENERIC_NAMES,
    TIME_NAMES,
    WEIGHT_NAMES,
    holds_ids_of,
)
from pmvge.tables.guessing.foreign_keys import CERTAIN, MAX_COLUMNS
from pmvge.tables.guessing.matching import best_match
from pmvge.tables.guessing.table import Table

NEARLY = 0.9  # share of distinct values from which the others may be errors


def damaged_keys(table: Table) -> list[str]:
    """Return the columns that are ids but for a few values that are empty or repeat."""
    return [
        column
        for column, profile in list(table.columns.items())[:MAX_COLUMNS]
        if profile.nearly_unique(NEARLY)
        and not profile.unique
        and not profile.is_time
        and not TIME_NAMES.search(column)
        and not GENERIC_NAMES.fullmatch(column)
        and column.lower() not in (*WEIGHT_NAMES, "index")
    ]


def find_damaged_key(
    db: duckdb.DuckDBPyConnection, table: Table, guessed: str | None, others: list[Table]
) -> str | None:
    """Return the only damaged id of a table whose values are those of a column of another table.

    None: there is none, or another table refers to the column that was guessed.
    """
    damaged = damaged_keys(table)
    if not damaged or (guessed is not None and _is_referred_to(db, table, guessed, others)):
        return None
    found = [column for column in damaged if _is_referred_to(db, table, column, others)]
    return found[0] if len(found) == 1 else None


def _is_referred_to(
    db: duckdb.DuckDBPyConnection, table: Table, key: str, others: list[Table]
) -> bool:
    """Return whether a column of another table, with repeats, holds values of a column.

    Any two columns of integers overlap: such a column has to be named after the table, too.
    """
    integers = table.columns[key].kind == "integer"
    for other in others:
        for column, profile in list(other.columns.items())[:MAX_COLUMNS]:
            alike = (profile.kind == "integer") == integers and profile.distinct > 1
            if not alike or profile.kind not in ("integer", "word", "text"):
                continue
            if profile.nearly_unique(NEARLY) or (integers and not holds_ids_of(column, table.name)):
                continue
            match = best_match(db, other.column(column), table.column(key))
            if match.share > CERTAIN:
                return True
    return False
