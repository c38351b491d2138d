"""Read the table of one view: ids, features and labels, sorted by id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from pmvge.errors import TableError, short
from pmvge.graph import Features, Ids, Pair
from pmvge.tables.columns.casts import check_casts, check_column, select_typed
from pmvge.tables.columns.category_encodings import Category
from pmvge.tables.columns.encoded import Notes
from pmvge.tables.columns.fitting import fit_recipe
from pmvge.tables.columns.id_casts import cast_id, check_exact, id_type
from pmvge.tables.columns.recipe import Recipe, concatenate, encode_batches, resolve_features
from pmvge.tables.joining import IdTable
from pmvge.tables.on_disk.feature_cache import FeatureCache, missing_values
from pmvge.tables.project import Feature, Project, ViewTable
from pmvge.tables.sources.connection import fetch_all, hex_name, quote_ident, table_errors
from pmvge.tables.sources.staging import raw_links_name, raw_view_name

MAX_COLOURS = 30  # categories that a report can show in distinct colours
# Columns of a view, and values of all of them, up to which a model keeps them to show; and
# characters of a column of texts, each counted with the length of the longest.
MAX_SHOWN, MAX_SHOWN_VALUES, MAX_TEXT = 20, 5_000_000, 5_000_000


def feature_caches(
    folder: Path, project: Project, types: Mapping[str, Mapping[str, str]]
) -> dict[str, FeatureCache]:
    """Return the feature cache of each view that has features."""
    return {
        name: FeatureCache.of(
            folder,
            name,
            table,
            resolve_features(f"view {name} ({table.source})", table, types[name]),
            project.folder,
        )
        for name, table in project.views.items()
        if table.features
    }


@dataclass(frozen=True, eq=False)
class StagedView:
    """The table of a view's typed rows, and what ``on_error = "missing"`` has ignored in it."""

    side: IdTable
    invalid: dict[str, int]  # column -> values that are not of its kind
    left_out: dict[str, int]  # reason -> rows


@dataclass(frozen=True, eq=False)
class View:
    """The ids, features and labels of one view, and how the features were encoded."""

    ids: Ids
    X: Features | None
    labels: dict[str, NDArray[Any]]
    columns: dict[str, NDArray[Any]]  # other columns to show: names, numbers, categories, texts
    missing: dict[str, int]
    unshared: tuple[str, ...]  # columns of texts in which rows have almost no words in common
    recipe: Recipe | None


def stage_view(
    db: duckdb.DuckDBPyConnection,
    name: str,
    table: ViewTable,
    types: Mapping[str, str],
    cache: FeatureCache | None,
    *,
    text_ids: bool = False,
) -> StagedView:
    """Create a table of a view's rows, with typed columns, sorted by id.

    The position of a row is the position of its entity in the graph. With ``text_ids`` integer ids
    become text. Raise TableError if a column is missing; and, unless ``on_error`` is "missing", if
    a value is not of its kind, or if ids are empty or repeat.
    """
    where = f"view {name} ({table.source})"
    raw = raw_view_name(name)
    column = check_column(where, str(table.id), types)
    with table_errors(where):
        check_exact(db, where, raw, column, types)
    features = resolve_features(where, table, types)
    kinds = {feature: features[feature].kind for feature in features}
    invalid: dict[str, int] = {}
    if table.on_error == "missing":
        invalid, kinds = check_casts(db, where, raw, kinds, types, table.on_error)
    if cache is not None and cache.cached is not None:  # only columns that may be labels
        kinds = {feature: kind for feature, kind in kinds.items() if kind == "category"}
    with table_errors(where):
        normalize = table.normalize_ids
        kind = "VARCHAR" if text_ids else id_type(db, [(raw, column, types)], normalize)
        if table.on_error == "stop":
            _, kinds = check_casts(db, where, raw, kinds, types)
        others = [f"{cast_id(column, types, kind, normalize)} AS id"]
        for label in dict.fromkeys((*table.labels, *_shown_columns(table, features, cache))):
            check_column(where, label, types)
            others.append(
                f"CAST({quote_ident(label)} AS VARCHAR) AS {quote_ident(f'label {label}')}"
            )
        staged = f"view {hex_name(name)}"
        left_out = {}
        with select_typed(db, raw, others, kinds, types) as rows:
            if table.on_error == "missing":
                db.execute(f'CREATE TEMP TABLE "all rows" AS {rows}')
                left_out = _leave_out_rows(db, staged)
            else:
                db.execute(f"CREATE TABLE {quote_ident(staged)} AS {rows} ORDER BY id")
        _check_ids(db, where, staged, column)
    return StagedView(IdTable(name, staged, kind, normalize), invalid, left_out)


def _leave_out_rows(db: duckdb.DuckDBPyConnection, staged: str) -> dict[str, int]:
    """Create a table of the rows with an id, the first of each; return the numbers left out."""
    ((n, known, distinct),) = fetch_all(
        db, 'SELECT count(*), count(id), count(DISTINCT id) FROM "all rows"'
    )
    db.execute(
        f'CREATE TABLE {quote_ident(staged)} AS SELECT * FROM "all rows" WHERE rowid IN '
        '(SELECT min(rowid) FROM "all rows" WHERE id IS NOT NULL GROUP BY id) ORDER BY id'
    )
    db.execute('DROP TABLE "all rows"')
    counts = {"an empty id": n - known, "a repeated id": known - distinct}
    return {reason: count for reason, count in counts.items() if count}


def _check_ids(db: duckdb.DuckDBPyConnection, where: str, staged: str, column: str) -> None:
    counts = f"SELECT count(*), count(id), count(DISTINCT id) FROM {quote_ident(staged)}"
    ((n, known, distinct),) = fetch_all(db, counts)
    if not n:
        raise TableError(f"{where}: the table has no rows")
    if known < n:
        raise TableError(
            f"{where}: id column {column!r}: {n - known:,} of {n:,} ids are empty; "
            'correct them, or set on_error = "missing"'
        )
    if distinct < n:
        ((example,),) = fetch_all(
            db,
            f"SELECT id FROM {quote_ident(staged)} GROUP BY id HAVING count(*) > 1 "
            "ORDER BY 1 LIMIT 1",
        )
        raise TableError(
            f"{where}: id column {column!r}: expected every id once, but {n - distinct:,} rows "
            f'repeat one, such as {short(example)}; remove them, or set on_error = "missing"'
        )


def collect_ids(
    db: duckdb.DuckDBPyConnection,
    name: str,
    project: Project,
    link_types: Mapping[Pair, Mapping[str, str]],
    *,
    text_ids: bool = False,
) -> StagedView:
    """Create a table of the ids of a view without a source: those in the link tables.

    With ``text_ids`` integer ids become text. Raise TableError if no link table has ids of the
    view.
    """
    columns = []
    for pair, table in project.links.items():
        for view, column in zip(pair, table.columns or (), strict=False):
            if view == name:
                where = f"links {','.join(pair)} ({table.source})"
                check_column(where, column, link_types[pair])
                columns.append((raw_links_name(pair), column, link_types[pair]))
    if not columns:
        raise TableError(
            f"view {name}: it has no source, and no link table has its ids; "
            "add a source or a link table"
        )
    with table_errors(f"view {name}"):
        normalize = project.views[name].normalize_ids
        kind = "VARCHAR" if text_ids else id_type(db, columns, normalize)
        union = " UNION ALL ".join(
            f"SELECT {cast_id(column, types, kind, normalize)} AS id FROM {quote_ident(raw)}"
            for raw, column, types in columns
        )
        staged = f"view {hex_name(name)}"
        query = f"SELECT DISTINCT id FROM ({union}) WHERE id IS NOT NULL ORDER BY id"
        db.execute(f"CREATE TABLE {quote_ident(staged)} AS {query}")
        _check_ids(db, f"view {name}", staged, columns[0][1])
    return StagedView(IdTable(name, staged, kind, normalize), {}, {})


def read_view(
    db: duckdb.DuckDBPyConnection,
    side: IdTable,
    table: ViewTable,
    types: Mapping[str, str],
    cache: FeatureCache | None,
    saved: Recipe | None = None,
) -> View:
    """Return ids, labels and features of a staged view; dense features go to the cache, if any.

    With ``saved`` columns are encoded as it says, not as the table suggests.
    """
    where = f"view {side.view} ({table.source})"
    with table_errors(where):
        ids = _array(db, side.name, "id")
        labels = {label: _array(db, side.name, f"label {label}") for label in table.labels}
        shown = _shown_columns(table, resolve_features(where, table, types), cache)
        if len(ids) * len(shown) > MAX_SHOWN_VALUES:
            shown = [column for column in shown if column == table.name]
        columns = {
            column: _array(db, side.name, f"label {column}")
            for column in shown
            if column not in labels
        }
        if not table.features:
            return View(ids, None, labels, columns, {}, (), None)
        notes: Notes = Counter()
        if cache is not None and cache.cached is not None:
            recipe, X, missing = cache.cached
        else:
            recipe = saved or fit_recipe(
                db, where, side.name, table, resolve_features(where, table, types), notes
            )
            parts = encode_batches(db, where, recipe, side.name, notes)
            if cache is None or recipe.sparse:
                X = concatenate(recipe, len(ids), parts)
            else:
                X = cache.write(recipe, len(ids), parts, notes)
            missing = missing_values(notes)
        for encoding in recipe.encodings:  # categories are also labels, to colour reports by
            if isinstance(encoding, Category) and len(encoding.values) <= MAX_COLOURS:
                (column,) = encoding.columns
                if column == table.name:
                    continue
                labels.setdefault(column, _array(db, side.name, f"feature {column}"))
        columns |= _short_texts(db, side.name, recipe, cache)
    columns = {column: values for column, values in columns.items() if column not in labels}
    unshared = tuple(column for column, kind in notes if kind == "unshared")
    return View(ids, X, labels, columns, missing, unshared, recipe)


def _shown_columns(
    table: ViewTable, features: Mapping[str, Feature], cache: FeatureCache | None
) -> list[str]:
    """Return the columns that a model keeps as text: the names, and a few others.

    The others are numbers, dates and categories; none if there are many, or if the table is so
    large that its features are cached on disk.
    """
    names = [] if table.name is None else [table.name]
    scalars = [c for c, f in features.items() if f.kind in ("numeric", "date", "category")]
    few = cache is None and len(scalars) <= MAX_SHOWN
    return list(dict.fromkeys(names + (scalars if few else [])))


def _short_texts(
    db: duckdb.DuckDBPyConnection, staged: str, recipe: Recipe, cache: FeatureCache | None
) -> dict[str, NDArray[Any]]:
    """Return the columns of texts, and of several categories in a cell, that are short.

    With the other shown columns they are all features of most tables, so that ``PMvGE.explain``
    finds the features of known entities. Lists are not kept.
    """
    if cache is not None or len(recipe.kinds) > MAX_SHOWN:
        return {}
    found = {}
    for column in (c for c, kind in recipe.kinds.items() if kind in ("text", "categories")):
        feature = quote_ident(f"feature {column}")
        ((kind, n, longest),) = fetch_all(
            db,
            f"SELECT any_value(typeof({feature})), count(*), "
            f"max(length(CAST({feature} AS VARCHAR))) FROM {quote_ident(staged)}",
        )
        if kind == "VARCHAR" and n * (longest or 0) <= MAX_TEXT:
            found[column] = _array(db, staged, f"feature {column}")
    return found


def _array(db: duckdb.DuckDBPyConnection, staged: str, column: str) -> NDArray[Any]:
    """Return a column as an array of integers or of strings, "" for missing values."""
    column_data = db.sql(
        f"SELECT {quote_ident(column)} AS value FROM {quote_ident(staged)}"
    ).to_arrow_table()["value"]
    values = column_data.to_numpy()
    if values.dtype != object:
        return np.asarray(values)
    return np.array(["" if value is None else str(value) for value in values], dtype=str)
