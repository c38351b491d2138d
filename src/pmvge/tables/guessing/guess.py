"""Guess the id column, the kinds of features, the labels, and the columns of links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import permutations

import duckdb

from pmvge.errors import TableError
from pmvge.graph import Pair
from pmvge.tables.columns.casts import check_column
from pmvge.tables.guessing.cells import (
    are_codes,
    are_unspaced,
    are_urls,
    guess_separator,
    is_code,
    recur,
    split,
)
from pmvge.tables.guessing.names import guess_name
from pmvge.tables.guessing.profile import Profile, profile_columns, share_of_ids
from pmvge.tables.project import Feature, LinkTable, Project, ViewTable
from pmvge.tables.sources.connection import table_errors
from pmvge.tables.sources.formats import declared_types
from pmvge.tables.sources.staging import raw_links_name, raw_view_name

LABEL_NAMES = ("label", "labels", "class", "target")
WEIGHT_NAMES = ("weight", "rating", "ratings", "stars", "count", "counts", "score", "value",
                "strength", "times", "quantity", "qty", "amount", "n", "frequency", "freq", "plays",
                "playcount", "clicks", "visits", "purchases")  # fmt: skip
KEY_NAMES = re.compile(r"(_|^)id$|Id$|ID$")
# Words beside the name of the view in the name of a column of its ids, as in from_user_id.
ID_WORDS = frozenset(
    {"id", "ids", "key", "code", "uuid", "no", "nr", "number", "from", "to", "source", "target"}
    | {"src", "dst", "left", "right", "parent", "child", "other", "first", "second", "1", "2", ""}
)
TIME_NAMES = re.compile(r"time|date|year|month|day|_at$", re.IGNORECASE)
EDGE_LIST_NAMES = [  # names of the two columns of an edge list
    {"source", "target"},
    {"src", "dst"},
    {"from", "to"},
    {"head", "tail"},
    {"start", "end"},
    {"u", "v"},
    {"i", "j"},
    {"a", "b"},
    {"node1", "node2"},
    {"id1", "id2"},
    {"cited", "citing"},
    {"left", "right"},
]
MIN_BAG_COLUMNS = 100  # numeric columns, mostly zeros, that are treated as a bag of words
MIN_NUMBERED = 10  # columns w0, w1, ... that are treated as one group
MAX_CATEGORIES = 1000  # distinct values of a category column
MAX_CLASSES = 50  # distinct values of a label that is guessed without its name
NGRAMS = (1, 3)  # lengths of sequences of characters, for scripts without blanks
GENERIC_NAMES = re.compile(r"column\d+")  # of columns in a file without a header


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


def holds_ids_of(column: str, view: str) -> bool:
    """Return whether a name says that a column holds ids of a view: user_id, but not user_age."""
    words = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower())
    name = "_".join(word for word in words if word not in ID_WORDS)
    return column.lower() == view.lower() or name in {
        re.sub(r"[\W_]+", "_", single) for single in singulars(view)
    }


def view_name(column: str) -> str:
    """Return the name of the view whose ids a column holds: user of user_id."""
    return re.sub(r"[_\s]?(id|Id|ID)$", "", stem(column)) or column


def stem(column: str) -> str:
    """Return a column name without what tells two columns of one view apart: user of user_2."""
    if GENERIC_NAMES.fullmatch(column):
        return column
    return re.sub(r"(?<=[^\W\d_])([_\s]?[12]|[_\s][abAB])$", "", column)


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
                declared = declared_types(table.source, project.folder)
                profiles = profile_columns(db, raw_view_name(name), types[name])
                views[name] = guess_view(name, table, profiles, declared=declared)
    links = dict(project.links)
    for pair, link in project.links.items():
        if link.columns is None:
            with table_errors(f"links {','.join(pair)} ({link.source})"):
                links[pair] = guess_links(db, pair, link, views, types, link_types[pair])
    return replace(project, views=views, links=links)


def guess_view(
    name: str,
    table: ViewTable,
    profiles: Mapping[str, Profile],
    links: Collection[str] = (),
    declared: Mapping[str, str] | None = None,
) -> ViewTable:
    """Return the table of a view with its id, features and labels guessed.

    ``links`` are columns that hold ids of other views; they are not used as features. ``declared``
    are types in the header of the file. Raise TableError if the table has no rows or no id column.
    """
    where = f"view {name} ({table.source})"
    if not any(profile.rows for profile in profiles.values()):
        raise TableError(f"{where}: the table has no rows")
    key = check_column(where, table.id, profiles) if table.id else id_by_name(name, profiles)
    key = key or guess_id(name, profiles)
    if key is None:
        raise TableError(
            f"{where}: no id column found: no column has a distinct value in every row; "
            "name the id column in pmvge.toml, or as FILE:id=COLUMN"
        )
    if table.features is not None:
        return replace(table, id=key)
    features, _ = guess_features(
        {c: p for c, p in profiles.items() if c not in {key, *links}}, declared or {}
    )
    numbers = [profiles[c] for c, feature in features.items() if feature.kind == "numeric"]
    zeros, values = sum(p.zeros for p in numbers), sum(p.rows for p in numbers)
    is_bag = len(numbers) >= MIN_BAG_COLUMNS and zeros > 0.8 * values
    if is_bag and table.sparse is None:
        table = replace(table, sparse=True, standardize=False)
    labels = table.labels or guess_labels(key, features, profiles, is_bag)
    features = {c: feature for c, feature in features.items() if c not in labels}
    called = table.name or guess_name(profiles, key, singulars(name))
    return replace(table, id=key, labels=labels, features=features, name=called)


def guess_labels(
    key: str, features: Mapping[str, Feature], profiles: Mapping[str, Profile], is_bag: bool
) -> tuple[str, ...]:
    """Return the columns that are labels: by their names, or the last one of a bag of words.

    The latter is for files without a header: a last column that is not a word count like the others
    is the class of the row.
    """
    named = tuple(
        c
        for c in profiles
        if c.lower() in LABEL_NAMES
        and c != key
        and not (c in features and features[c].kind == "categories")
    )
    last = list(profiles)[-1]
    if named or not is_bag or not GENERIC_NAMES.fullmatch(last) or last not in features:
        return named
    counts = max((profiles[c].maximum or 0 for c in features if c != last), default=0)
    few = profiles[last].distinct <= MAX_CLASSES
    is_class = features[last].kind == "category" or (profiles[last].maximum or 0) > counts == 1
    return (last,) if few and is_class else ()


def guess_features(
    columns: Mapping[str, Profile], declared: Mapping[str, str]
) -> tuple[dict[str, Feature], dict[str, str]]:
    """Return the features of a view, and for each other column why it is none."""
    guessed = {c: guess_feature(c, p, declared.get(c)) for c, p in columns.items()}
    # Keep a constant column of a numbered group w0, w1, ...: new rows may have other values.
    numbered = Counter(
        strip_number(c)
        for c, found in guessed.items()
        if found == Feature("numeric") and c != strip_number(c)
    )
    for column, profile in columns.items():
        group = strip_number(column)
        if (
            profile.kind in ("integer", "number")
            and group != column
            and numbered[group] >= MIN_NUMBERED
        ):
            guessed[column] = Feature("numeric")
    return (
        {c: found for c, found in guessed.items() if isinstance(found, Feature)},
        {c: found for c, found in guessed.items() if isinstance(found, str)},
    )


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


def has_id_suffix(column: str) -> bool:
    """Return whether a name ends as that of an id: user_id, userId, film_code."""
    return bool(re.search(r"(_|^)(id|Id|key|code|uuid)$|[a-z]Id$|ID$", column))


def guess_feature(column: str, profile: Profile, declared: str | None = None) -> Feature | str:
    """Return the feature of a column; or a text that says why it has no use."""
    if profile.kind == "empty":
        return "is empty"
    if profile.kind == "other":
        return "has values of a type that is not a feature"
    if profile.distinct == 1 and profile.present == profile.rows and profile.kind != "vector":
        return "is constant"
    if declared is not None:
        return _declared_feature(profile, declared)
    is_key_name = bool(KEY_NAMES.search(column)) or column.lower() == "index"
    few = profile.distinct <= min(MAX_CATEGORIES, profile.rows // 2)
    if profile.kind in ("integer", "word", "text") and is_code(column, profile.padded):
        return "has a code in every row" if profile.unique else Feature("category")
    if profile.kind == "integer" and is_key_name:
        return Feature("category") if few else "is named like an id"
    if profile.kind in ("integer", "number"):
        return Feature("numeric")
    if profile.kind in ("date", "vector"):
        return Feature(profile.kind)
    if are_urls(profile.cells):
        return "has web addresses"
    if (separator := guess_separator(column, profile.cells)) is not None:
        return Feature("categories", separator=separator)
    if not profile.has_words:  # single letters
        return Feature("category") if 0 < profile.distinct <= MAX_CATEGORIES else "has no words"
    is_category = few or profile.distinct <= 2 or (are_codes(profile.cells) and not profile.unique)
    if profile.kind == "word" and is_category:
        return Feature("category")
    if profile.kind == "word" and is_key_name:
        return "is named like an id"
    return Feature("text", ngrams=NGRAMS if are_unspaced(profile.cells) else None)


def _declared_feature(profile: Profile, declared: str) -> Feature:
    """Return the feature for a type in a RecBole header."""
    if declared == "token_seq":
        several = recur([split(cell, " ") for cell in profile.cells])
        return Feature("categories", separator=" ") if several else Feature("text")
    return Feature({"token": "category", "float": "numeric", "float_seq": "vector"}[declared])


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
