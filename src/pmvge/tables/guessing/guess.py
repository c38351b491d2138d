"""Guesses: which column is the id, what the others mean, which columns of a table are links."""

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
from pmvge.tables.guessing.profile import Profile, profiles, share_within
from pmvge.tables.project import Feature, LinkTable, Project, ViewTable
from pmvge.tables.sources.workbench import apart, readable

LABELS = ("label", "labels", "class", "target")
WEIGHTS = ("weight", "rating", "count", "counts", "score", "value", "strength", "times", "quantity",
           "amount", "n", "frequency")  # fmt: skip
TIMES = re.compile(r"time|date|year|month|day|_at$", re.IGNORECASE)
BAG = 100  # columns of one kind, nearly all zeros, are a bag of words from here on
MANY = 10  # columns that differ in a number only belong together from here on
CATEGORIES = 1000  # more kinds of a word than this are no categories


def stem(column: str) -> str:
    """The name without the number at its end."""
    return re.sub(r"[0-9]+$", "", column)


def singulars(name: str) -> set[str]:
    """What one of them may be called: movies to movie (and movy), categories to category."""
    lower = name.lower()
    found = {lower}
    for ending, instead in (("s", ""), ("es", ""), ("ies", "y")):
        if lower.endswith(ending) and not lower.endswith("ss"):
            found.add(lower[: -len(ending)] + instead)
    return found - {""}


def names_view(column: str, view: str) -> bool:
    """Whether a column is called after a view: user, user_id, userId, id_user."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower()
    return words == view.lower() or not singulars(view).isdisjoint(re.split(r"[\W_]+", words))


def raw_view(name: str) -> str:
    """The name of a view's raw table on the workbench."""
    return f"raw view {apart(name)}"


def raw_links(pair: Pair) -> str:
    """The name of a raw link table on the workbench."""
    return f"raw links {apart(pair[0])} {apart(pair[1])}"


def complete(
    db: duckdb.DuckDBPyConnection,
    project: Project,
    types: Mapping[str, Mapping[str, str]],
    link_types: Mapping[Pair, Mapping[str, str]],
) -> Project:
    """The project with every id, feature and link column that it leaves open guessed."""
    views = dict(project.views)
    for name, table in project.views.items():
        if table.source is not None and (table.id is None or table.features is None):
            with readable(f"view {name} ({table.source})"):
                views[name] = guess_view(db, name, table, raw_view(name), types[name])
    links = dict(project.links)
    for pair, link in project.links.items():
        if link.columns is None:
            with readable(f"links {','.join(pair)} ({link.source})"):
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
    """A view's table with its id, features and labels guessed; ``links`` are columns of others."""
    where = f"view {name} ({table.source})"
    seen = profiles(db, raw, types)
    if not any(profile.rows for profile in seen.values()):
        raise TableError(f"{where}: the table has no rows")
    key = check_column(where, table.id, types) if table.id else _called_id(name, seen)
    key = key or guess_id(name, seen)
    if key is None:
        raise TableError(
            f"{where}: no column has a value of its own in every row, so none "
            "can be the id; name it in pmvge.toml, or as FILE:id=COLUMN"
        )
    if table.features is not None:
        return replace(table, id=key)
    labels = table.labels or tuple(c for c in types if c.lower() in LABELS and c != key)
    rest = {c: p for c, p in seen.items() if c not in {key, *labels, *links}}
    kinds = {c: guess_kind(c, p) for c, p in rest.items()}
    numbers = [rest[c] for c, kind in kinds.items() if kind == "numeric"]
    zeros, values = sum(p.zeros for p in numbers), sum(p.rows for p in numbers)
    if len(numbers) >= BAG and zeros > 0.8 * values and table.sparse is None:
        table = replace(table, sparse=True, standardize=False)
    # One of many measurements, such as w7 of w0, w1, ..., keeps its column though it is constant.
    family = Counter(stem(c) for c, kind in kinds.items() if kind == "numeric" and c != stem(c))
    kinds |= {
        c: "numeric"
        for c, p in rest.items()
        if p.kind in ("integer", "number") and c != stem(c) and family[stem(c)] >= MANY
    }
    features = {c: Feature(kind) for c, kind in kinds.items() if kind}
    return replace(table, id=key, labels=labels, features=features)


def _called_id(view: str, columns: Mapping[str, Profile]) -> str | None:
    """The column that says it is the id: if it has a value twice, that is to be told."""
    called = [c for c in columns if c.lower() == "id" or (_marked(c) and names_view(c, view))]
    return called[0] if len(called) == 1 else None


def guess_id(view: str, columns: Mapping[str, Profile]) -> str | None:
    """The column that tells rows apart, by its values and then by its name."""
    able = [
        c
        for c, p in columns.items()
        if p.unique
        and p.kind in ("integer", "word", "text")
        and (_marked(c) or not (TIMES.search(c) or c.lower() in WEIGHTS))
        and (p.kind != "integer" or _marked(c) or names_view(c, view) or c == next(iter(columns)))
    ]
    return max(able, key=lambda column: _id_score(column, view, columns[column]), default=None)


def _id_score(column: str, view: str, profile: Profile) -> float:
    ours = names_view(column, view)
    return 4 * _marked(column) + 3 * ours + (profile.kind != "text") + (column.lower() != "index")


def _marked(column: str) -> bool:
    return bool(re.search(r"(_|^)(id|Id|key|code|uuid)$|[a-z]Id$|ID$", column))


def guess_kind(column: str, profile: Profile) -> str | None:
    """What a column means; None if there is nothing to learn from it."""
    if profile.kind in ("empty", "other") or (
        profile.distinct == 1 and profile.known == profile.rows
    ):
        return None
    is_key = bool(re.search(r"(_|^)id$|Id$|ID$", column)) or column.lower() == "index"
    if profile.kind == "integer" and is_key:
        return "category" if profile.distinct <= min(CATEGORIES, profile.rows // 2) else None
    if profile.kind in ("integer", "number"):
        return "numeric"
    if profile.kind in ("text", "word") and not profile.wordy:  # letters
        return "category" if 0 < profile.distinct <= CATEGORIES else None
    if profile.kind in ("date", "vector", "text"):
        return profile.kind
    few = profile.distinct <= max(2, min(CATEGORIES, profile.rows // 2))
    return "category" if few else ("text" if not is_key else None)


def guess_links(
    db: duckdb.DuckDBPyConnection,
    pair: Pair,
    table: LinkTable,
    views: Mapping[str, ViewTable],
    types: Mapping[str, Mapping[str, str]],
    columns: Mapping[str, str],
) -> LinkTable:
    """A link table with its two id columns, and its weight, guessed."""
    raw = raw_links(pair)
    seen = profiles(db, raw, columns)
    if not any(profile.rows for profile in seen.values()):
        raise TableError(f"links {','.join(pair)} ({table.source}): the table has no rows")
    able = [
        c
        for c, p in seen.items()
        if p.kind in ("integer", "word", "text", "number") and c != table.weight
    ]
    score = {}
    for view in set(pair):
        key = views[view].id
        for column in able:
            named = 0.5 * names_view(column, view)
            inside = (
                0.5
                if view not in types or key is None
                else share_within(db, raw, column, columns, raw_view(view), key, types[view])
            )
            odd = 0.25 * (column.lower() in WEIGHTS or bool(TIMES.search(column)))
            score[column, view] = inside + (named if inside > 0 else named / 2) - odd
    a, b = pair
    # The two best of each side are enough: all pairs of a wide table are too many.
    top = {c for v in set(pair) for c in sorted(able, key=lambda c: -score[c, v])[:2]}
    best = max(
        permutations([c for c in able if c in top], 2),
        key=lambda two: score[two[0], a] + score[two[1], b],
        default=None,
    )
    if best is None:
        raise TableError(
            f"links {a},{b} ({table.source}): expected two columns of ids, got "
            f"{', '.join(map(repr, columns))}"
        )
    if table.weight is None and table.aggregate == "sum":
        table = replace(table, weight=guess_weight(seen, set(best)))
    symmetrize = table.symmetrize or ("max" if a == b else None)
    return replace(table, columns=best, symmetrize=symmetrize)


def guess_weight(columns: Mapping[str, Profile], taken: set[str]) -> str | None:
    """The column of weights: by its name, or the only number there is that is no time."""
    able = [
        c
        for c, p in columns.items()
        if c not in taken
        and p.kind in ("integer", "number")
        and (p.least is None or p.least >= 0)
        and (c.lower() in WEIGHTS or not TIMES.search(c))
        and not re.search(r"(_|^)id$|Id$|ID$", c)
        and c.lower() != "index"
    ]
    named = [c for c in able if c.lower() in WEIGHTS]
    return named[0] if named else (able[0] if len(able) == 1 else None)
