"""The tables that a model was fitted to: their columns, recipes, ids, and how files are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pmvge.errors import TableError, choose
from pmvge.graph import Pair, pair_key
from pmvge.tables.columns.id_casts import plain_id
from pmvge.tables.columns.recipe import Recipe
from pmvge.tables.sources.dialect import DEFAULT, Dialect
from pmvge.tables.sources.source import Source

SavedTables = Mapping[str, Any] | None  # ``PMvGE.tables_``; None: not fitted to tables


def require_tables(tables: SavedTables) -> Mapping[str, Any]:
    """Return the descriptions of all tables; raise TableError if there are none."""
    if tables is None:
        raise TableError(
            "this model was not fitted to tables, so it has no column descriptions; "
            "pass arrays as in training"
        )
    return tables


def saved_view(tables: SavedTables, view: str) -> Mapping[str, Any]:
    """Return the description of a view's table; raise TableError if there is none."""
    views: Mapping[str, Any] = require_tables(tables)["views"]
    description: Mapping[str, Any] = views[choose("view", view, views, error=TableError)]
    return description


def saved_links(tables: SavedTables, pair: Pair) -> Mapping[str, Any]:
    """Return the description of a view pair's link table; raise TableError if there is none."""
    for entry in require_tables(tables)["links"]:
        if tuple(entry["pair"]) in (pair, pair[::-1]):
            description: Mapping[str, Any] = entry
            return description
    listed = " or ".join(pair_key(entry["pair"]) for entry in require_tables(tables)["links"])
    raise TableError(f"no link table of {pair_key(pair)} in training: expected {listed}")


def link_pairs(tables: SavedTables) -> list[Pair]:
    """Return the view pairs of the training link tables."""
    return [(a, b) for a, b in (entry["pair"] for entry in require_tables(tables)["links"])]


def saved_recipe(tables: SavedTables, view: str) -> Recipe | None:
    """Return how the columns of a view were encoded in training; None without features."""
    plain = None if tables is None else tables["views"][view]["recipe"]
    return None if plain is None else Recipe.from_dict(plain)


def feature_columns(tables: SavedTables, view: str) -> dict[str, str]:
    """Return the feature columns of a view's table and their kinds; none without a table."""
    recipe = saved_recipe(tables, view)
    return {} if recipe is None else recipe.kinds


def text_ids(tables: SavedTables, view: str) -> bool:
    """Return whether the ids of a view were text in training: then 12 is the id '12'."""
    return tables is not None and tables["views"][view].get("ids") == "text"


def saved_id(tables: SavedTables | None, view: str, text: str) -> str:
    """Return an id as the training tables had it: without padding if the view normalizes ids."""
    views: Mapping[str, Any] = {} if tables is None else tables["views"]
    return plain_id(text) if views.get(view, {}).get("normalize_ids", False) else text


def as_written(source: Source, saved: Mapping[str, Any]) -> Source:
    """Return the source of a new table, written as the table in training was."""
    if source.dialect != DEFAULT or "dialect" not in saved:
        return source
    return replace(source, dialect=Dialect.of(str(source), saved["dialect"]))
