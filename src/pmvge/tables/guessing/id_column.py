"""Guess the id column of a table, from the names and the distinct values of its columns."""

from __future__ import annotations

from collections.abc import Mapping

from pmvge.tables.guessing.column_names import (
    GENERIC_NAMES,
    TIME_NAMES,
    WEIGHT_NAMES,
    has_id_suffix,
    is_named_after,
)
from pmvge.tables.guessing.profile import Profile


def id_by_name(view: str, columns: Mapping[str, Profile]) -> str | None:
    """Return the only column that is named like the id of the view, if there is one.

    Its values are not checked: duplicate ids are reported later, instead of choosing another id.
    """
    named = [
        c for c in columns if c.lower() == "id" or (has_id_suffix(c) and is_named_after(c, view))
    ]
    return named[0] if len(named) == 1 else None


def guess_id(view: str, columns: Mapping[str, Profile]) -> str | None:
    """Return the most likely id: a column of distinct values, chosen by its name; None if none."""
    candidates = [
        c
        for c, p in columns.items()
        if p.unique
        and p.kind in ("integer", "word", "text")
        and (has_id_suffix(c) or not (TIME_NAMES.search(c) or c.lower() in WEIGHT_NAMES))
        and (
            p.kind != "integer"
            or has_id_suffix(c)
            or is_named_after(c, view)
            or c == next(iter(columns))
        )
    ]
    return max(
        candidates, key=lambda column: _id_score(column, view, columns[column]), default=None
    )


def guess_key(view: str, columns: Mapping[str, Profile]) -> str | None:
    """Return the most likely id, also if a few of its values are empty or repeat; None if none.

    A column that is named like the id of the view is preferred to another that has no repeats.
    """
    named = id_by_name(view, columns)
    if named is not None and columns[named].nearly_unique(0.8):
        return named
    first = next(iter(columns))
    like_an_id = has_id_suffix(first) or is_named_after(first, view)
    if columns[first].nearly_unique(0.9) and (like_an_id or GENERIC_NAMES.fullmatch(first)):
        return first
    return guess_id(view, columns)


def _id_score(column: str, view: str, profile: Profile) -> float:
    named = is_named_after(column, view)
    return (
        4 * has_id_suffix(column)
        + 3 * named
        + (profile.kind != "text")
        + (column.lower() != "index")
    )
