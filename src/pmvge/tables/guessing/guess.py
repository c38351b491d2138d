"""Guess the columns that a project does not name: ids, features, labels and links."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import duckdb

from pmvge.errors import TableError
from pmvge.graph import Pair
from pmvge.tables.columns.casts import check_column
from pmvge.tables.guessing.column_names import singulars
from pmvge.tables.guessing.feature_kinds import guess_features, guess_labels
from pmvge.tables.guessing.id_column import guess_id, id_by_name
from pmvge.tables.guessing.link_tables import guess_links
from pmvge.tables.guessing.names import guess_name
from pmvge.tables.guessing.profile import Profile, profile_columns
from pmvge.tables.project import Project, ViewTable
from pmvge.tables.sources.connection import table_errors
from pmvge.tables.sources.formats import declared_types
from pmvge.tables.sources.staging import raw_view_name

MIN_BAG_COLUMNS = 100  # numeric columns, mostly zeros, that are treated as a bag of words


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
