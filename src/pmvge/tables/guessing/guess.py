"""Guess the id column, the kinds of features, the labels, and the columns of links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations

import duckdb

from pmvge.errors import TableError
from pmvge.graph import Pair
from pmvge.tables.columns.casts import check_column
from pmvge.tables.guessing.names import guess_name
from pmvge.tables.guessing.profile import Profile, profile_columns, share_of_ids
from pmvge.tables.project import Feature, LinkTable, Project, ViewTable
from pmvge.tables.sources.connection import table_errors
from pmvge.tables.sources.staging import raw_links_name, raw_view_name

LABEL_NAMES = ("label", "labels", "class", "target")
WEIGHT_NAMES = ("weight", "rating", "count", "counts", "score", "value", "strength", "times",
                "quantity", "amount", "n", "frequency")  # fmt: skip
KEY_NAMES = re.compile(r"(_|^)id$|Id$|ID$")
TIME_NAMES = re.compile(r"time|date|year|month|day|_at$", re.IGNORECASE)
MIN_BAG_COLUMNS = 100  # numeric columns, mostly zeros, that are treated as a bag of words
MIN_NUMBERED = 10  # columns w0, w1, ... that are treated as one group
MAX_CATEGORIES = 1000  # distinct values of a category column


def strip_number(column: str) -> str:
    """Return a column name without the number at its end."""
    return re.sub(r"[0-9]+$", "", column)


def singulars(name: str) -> set[str]:
    """Return possible singulars of a name: movie (and movy) of movies, category of categories."""
    lower = name.lower()
    names = {lower}
    for ending, replacement in (("s", ""), ("es", ""), ("ies", "y")):
        if lower.endswith(ending) and not lower.endswith("ss"):
            names.add(lower[: -len(ending)] + replacement)
    return names - {""}


def is_named_after(column: str, view: str) -> bool:
    """Return whether a column is named after a view: user, user_id, userId or id_user of users."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower()
    return words == view.lower() or not singulars(view).isdisjoint(re.split(r"[\W_]+", words))


def complete_project(
    db: duckdb.DuckDBPyConnection,
    project: Project,
    types: Mapping[str, Mapping[str, str]],
    link_types: Mapping[Pair, Mapping[str, str]],
) -> Project:
    """Return the project with every missing id, feature and link column guessed.

    ``types`` and ``link_types`` are the columns and SQL types of the staged tables.
    """
    views = dict(project.views)
    for name, table in project.views.items():
        if table.source is not None and (table.id is None or table.features is None):
            with table_errors(f"view {name} ({table.source})"):
                views[name] = guess_view(db, name, table, raw_view_name(name), types[name])
    links = dict(project.links)
    for pair, link in project.links.items():
        if link.columns is None:
            with table_errors(f"links {','.join(pair)} ({link.source})"):
                links[pair] = guess_links(db, pair, link, views, types, link_types[pair])
    return replace(project, views=views, links=links)


def guess_view(
    db: duckdb.DuckDBPyConnection,
    name: str,
    table: ViewTable,
    raw: str,
    types: Mapping[str, str],
    links: frozenset[str] = frozenset(),
) -> ViewTable:
    """Return the table of a view with its id, features and labels guessed.

    ``links`` are columns that hold ids of other views; they are not used as features. Raise
    TableError if the table has no rows or no id column.
    """
    where = f"view {name} ({table.source})"
    profiles = profile_columns(db, raw, types)
    if not any(profile.rows for profile in profiles.values()):
        raise TableError(f"{where}: the table has no rows")
    key = check_column(where, table.id, types) if table.id else _id_by_name(name, profiles)
    key = key or guess_id(name, profiles)
    if key is None:
        raise TableError(
            f"{where}: no id column found: no column has a distinct value in every row; "
            "name the id column in pmvge.toml, or as FILE:id=COLUMN"
        )
    if table.features is not None:
        return replace(table, id=key)
    labels = table.labels or tuple(c for c in types if c.lower() in LABEL_NAMES and c != key)
    others = {c: p for c, p in profiles.items() if c not in {key, *labels, *links}}
    kinds = {c: guess_kind(c, p) for c, p in others.items()}
    numbers = [others[c] for c, kind in kinds.items() if kind == "numeric"]
    zeros, values = sum(p.zeros for p in numbers), sum(p.rows for p in numbers)
    if len(numbers) >= MIN_BAG_COLUMNS and zeros > 0.8 * values and table.sparse is None:
        table = replace(table, sparse=True, standardize=False)
    # Keep a constant column of a numbered group w0, w1, ...: new rows may have other values.
    group_sizes = Counter(
        strip_number(c) for c, kind in kinds.items() if kind == "numeric" and c != strip_number(c)
    )
    kinds |= {
        c: "numeric"
        for c, p in others.items()
        if p.kind in ("integer", "number")
        and c != strip_number(c)
        and group_sizes[strip_number(c)] >= MIN_NUMBERED
    }
    features = {c: Feature(kind) for c, kind in kinds.items() if kind}
    called = table.name or guess_name(profiles, key, singulars(name))
    return replace(table, id=key, labels=labels, features=features, name=called)


def _id_by_name(view: str, columns: Mapping[str, Profile]) -> str | None:
    """Return the only column that is named like the id of the view, if there is one.

    Its values are not checked: duplicate ids are reported later, instead of choosing another id.
    """
    named = [
        c for c in columns if c.lower() == "id" or (_has_id_suffix(c) and is_named_after(c, view))
    ]
    return named[0] if len(named) == 1 else None


def guess_id(view: str, columns: Mapping[str, Profile]) -> str | None:
    """Return the most likely id: a column of distinct values, chosen by its name; None if none."""
    candidates = [
        c
        for c, p in columns.items()
        if p.unique
        and p.kind in ("integer", "word", "text")
        and (_has_id_suffix(c) or not (TIME_NAMES.search(c) or c.lower() in WEIGHT_NAMES))
        and (
            p.kind != "integer"
            or _has_id_suffix(c)
            or is_named_after(c, view)
            or c == next(iter(columns))
        )
    ]
    return max(
        candidates, key=lambda column: _id_score(column, view, columns[column]), default=None
    )


def _id_score(column: str, view: str, profile: Profile) -> float:
    named = is_named_after(column, view)
    return (
        4 * _has_id_suffix(column)
        + 3 * named
        + (profile.kind != "text")
        + (column.lower() != "index")
    )


def _has_id_suffix(column: str) -> bool:
    return bool(re.search(r"(_|^)(id|Id|key|code|uuid)$|[a-z]Id$|ID$", column))


def guess_kind(column: str, profile: Profile) -> str | None:
    """Return the feature kind of a column; None if it holds no information."""
    if profile.kind in ("empty", "other") or (
        profile.distinct == 1 and profile.present == profile.rows
    ):
        return None
    is_key_name = bool(KEY_NAMES.search(column)) or column.lower() == "index"
    if profile.kind == "integer" and is_key_name:
        return "category" if profile.distinct <= min(MAX_CATEGORIES, profile.rows // 2) else None
    if profile.kind in ("integer", "number"):
        return "numeric"
    if profile.kind in ("text", "word") and not profile.has_words:  # single letters
        return "category" if 0 < profile.distinct <= MAX_CATEGORIES else None
    if profile.kind in ("date", "vector", "text"):
        return profile.kind
    few = profile.distinct <= max(2, min(MAX_CATEGORIES, profile.rows // 2))
    return "category" if few else ("text" if not is_key_name else None)


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


def guess_weight(columns: Mapping[str, Profile], taken: set[str]) -> str | None:
    """Return the weight column: by its name, or the only column of numbers that is not a time."""
    candidates = [
        c
        for c, p in columns.items()
        if c not in taken
        and p.kind in ("integer", "number")
        and (p.minimum is None or p.minimum >= 0)
        and (c.lower() in WEIGHT_NAMES or not TIME_NAMES.search(c))
        and not KEY_NAMES.search(c)
        and c.lower() != "index"
    ]
    named = [c for c in candidates if c.lower() in WEIGHT_NAMES]
    return named[0] if named else (candidates[0] if len(candidates) == 1 else None)
