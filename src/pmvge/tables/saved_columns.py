"""Read the tables of a project with the columns and encodings of a fitted model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pmvge.errors import TableError
from pmvge.tables.columns.recipe import resolve_features
from pmvge.tables.project import Feature, LinkTable, Project, ViewTable
from pmvge.tables.saved_tables import SavedTables, as_written, saved_recipe


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


def as_in_training(project: Project, tables: SavedTables) -> Project:
    """Return a project whose tables are read as in training, where they have no options.

    The options are how a file is written, its columns and weights, and what a bad cell means. A
    view pair has the order of the training.
    """
    if tables is None:
        return project
    saved = {tuple(entry["pair"]): entry for entry in tables["links"]}
    views = {
        name: _fill_view(table, tables["views"].get(name, {}))
        for name, table in project.views.items()
    }
    links = {}
    for (a, b), table in project.links.items():
        if (b, a) in saved and a != b:
            columns = None if table.columns is None else (table.columns[1], table.columns[0])
            links[b, a] = _fill_links(replace(table, columns=columns), saved[b, a])
        else:
            links[a, b] = _fill_links(table, saved.get((a, b), {}))
    return replace(project, views=views, links=links)


def _fill_view(table: ViewTable, saved: Mapping[str, Any]) -> ViewTable:
    options = _unset(table, saved, ("id", "standardize", "normalize_ids", "on_error"))
    source = None if table.source is None else as_written(table.source, saved)
    return replace(table, source=source, **options)


def _fill_links(table: LinkTable, saved: Mapping[str, Any]) -> LinkTable:
    keys = ("weight", "aggregate", "symmetrize", "transform", "on_error")
    options = _unset(table, saved, keys)
    if table.columns is None and saved.get("columns"):
        options["columns"] = tuple(saved["columns"])
    return replace(table, source=as_written(table.source, saved), **options)


def _unset(
    table: ViewTable | LinkTable, saved: Mapping[str, Any], keys: Iterable[str]
) -> dict[str, Any]:
    """Return the saved options that a table leaves at their defaults."""
    return {
        key: saved[key]
        for key in keys
        if key in saved and getattr(table, key) == getattr(type(table), key)
    }


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
