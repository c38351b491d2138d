"""Guess the two id columns and the weight column of a link table whose views are known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import permutations

import duckdb

from pmvge.errors import TableError
from pmvge.graph import Pair
from pmvge.tables.guessing.column_names import (
    KEY_NAMES,
    TIME_NAMES,
    WEIGHT_NAMES,
    is_named_after,
)
from pmvge.tables.guessing.profile import Profile, profile_columns, share_of_ids
from pmvge.tables.project import LinkTable, ViewTable
from pmvge.tables.sources.staging import raw_links_name, raw_view_name


def guess_links(
    db: duckdb.DuckDBPyConnection,
    pair: Pair,
    table: LinkTable,
    views: Mapping[str, ViewTable],
    types: Mapping[str, Mapping[str, str]],
    columns: Mapping[str, str],
) -> LinkTable:
    """Return a link table with its two id columns and its weight column guessed.

    Raise TableError if the table has no rows, or fewer than two columns that may be ids.
    """
    raw = raw_links_name(pair)
    profiles = profile_columns(db, raw, columns)
    if not any(profile.rows for profile in profiles.values()):
        raise TableError(f"links {','.join(pair)} ({table.source}): the table has no rows")
    candidates = [
        c
        for c, p in profiles.items()
        if p.kind in ("integer", "word", "text", "number") and c != table.weight
    ]
    score = {}
    for view in set(pair):
        key = views[view].id
        for column in candidates:
            named = 0.5 * is_named_after(column, view)
            inside = (
                0.5
                if view not in types or key is None
                else share_of_ids(db, raw, column, columns, raw_view_name(view), key, types[view])
            )
            penalty = 0.25 * (column.lower() in WEIGHT_NAMES or bool(TIME_NAMES.search(column)))
            score[column, view] = inside + (named if inside > 0 else named / 2) - penalty
    a, b = pair
    # Compare the two best columns of each side only: a wide table has too many pairs.
    top = {c for v in set(pair) for c in sorted(candidates, key=lambda c: -score[c, v])[:2]}
    best = max(
        permutations([c for c in candidates if c in top], 2),
        key=lambda columns: score[columns[0], a] + score[columns[1], b],
        default=None,
    )
    if best is None:
        raise TableError(
            f"links {a},{b} ({table.source}): expected two columns of ids, got "
            f"{', '.join(map(repr, columns))}"
        )
    if table.weight is None and table.aggregate == "sum":
        table = replace(table, weight=guess_weight(profiles, set(best)))
    symmetrize = table.symmetrize or ("max" if a == b else None)
    return replace(table, columns=best, symmetrize=symmetrize)


def guess_weight(columns: Mapping[str, Profile], taken: Collection[str]) -> str | None:
    """Return the weight column: by its name, or the only column of numbers that is not a time.

    A named one may have negative values, which are an error when the links are read.
    """
    candidates = weight_columns(columns, taken)
    named = [c for c in candidates if c.lower() in WEIGHT_NAMES]
    others = [c for c in candidates if (columns[c].minimum or 0) >= 0]
    return named[0] if named else (others[0] if len(others) == 1 else None)


def weight_columns(columns: Mapping[str, Profile], taken: Collection[str]) -> list[str]:
    """Return the columns that may be weights: those with such a name if any, else all numbers."""
    candidates = [
        c
        for c, p in columns.items()
        if c not in taken
        and p.kind in ("integer", "number")
        and (c.lower() in WEIGHT_NAMES or not (TIME_NAMES.search(c) or p.is_time))
        and not KEY_NAMES.search(c)
        and c.lower() != "index"
        and p.distinct > 0
    ]
    return [c for c in candidates if c.lower() in WEIGHT_NAMES] or candidates
