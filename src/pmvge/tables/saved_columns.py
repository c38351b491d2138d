"""Read the tables of a project with the columns and encodings of a fitted model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pmvge.errors import TableError
from pmvge.tables.columns.recipe import Recipe, resolve_features
from pmvge.tables.project import Feature, Project

SavedTables = Mapping[str, Any] | None  # ``PMvGE.tables_``; None: not fitted to tables


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


def match_columns(
    project: Project, types: Mapping[str, Mapping[str, str]], tables: Mapping[str, Any]
) -> Project:
    """Return a complete project whose columns have the kinds that they had in training.

    ``types`` are the columns of the views' tables. Raise TableError if views differ, or if a view
    has other feature columns than in training.
    """
    if set(project.views) != set(tables["views"]):
        raise TableError(
            f"project: expected the views of the model, {_listed(tables['views'])}, got "
            f"{_listed(project.views)}"
        )
    views = {}
    for name, table in project.views.items():
        where = f"view {name} ({table.source})"
        recipe, columns = saved_recipe(tables, name), types.get(name, {})
        expected = {} if recipe is None else recipe.kinds
        chosen = {**(table.features or {})}
        if table.source is not None and set(expected) <= set(columns):
            chosen = {**resolve_features(where, table, columns)}
        elif table.source is not None:
            chosen = dict.fromkeys(columns)
        if set(chosen) != set(expected):
            raise TableError(
                f"{where}: expected the columns of the training, {_listed(expected)}, got "
                f"{_listed(chosen)}; fit a new model for other columns"
            )
        features = {column: Feature(kind) for column, kind in expected.items()}
        views[name] = replace(table, features=features) if features else table
    return replace(project, views=views)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
