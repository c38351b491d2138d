"""Read the project file, ``pmvge.toml``, and check every key of it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pmvge.errors import TableError, choose, one_line, short
from pmvge.tables.project import (
    AGGREGATES,
    ON_ERROR,
    SYMMETRIZE,
    TRANSFORMS,
    Feature,
    LinkTable,
    Project,
    ViewTable,
    check_keys,
)
from pmvge.tables.sources.dialect import KEYS, Dialect
from pmvge.tables.sources.source import Source, as_source

SOURCE_KEYS = ("source", "database", "table", "query")
MAX_DOTS = 2000  # in a line of TOML


def read_project(path: str | Path) -> Project:
    """Return the project of a project file; raise TableError if it is not valid."""
    file = Path(path)
    try:
        content = parse_toml(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TableError(
            f"{file}: no such project file; 'pmvge init' writes one from the tables in a folder"
        ) from None
    except OSError as error:
        raise TableError(f"{file}: cannot be read: {error}") from error
    except ValueError as error:
        raise TableError(f"{file}: not valid TOML: {one_line(error)}") from error
    return parse_project(str(file), content, file.resolve().parent)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the content of a TOML file; raise ValueError if it is not valid TOML."""
    # The time of Python's parser is quadratic in the number of dotted parts of a key.
    if any(line.count(".") > MAX_DOTS for line in text.splitlines()):
        raise ValueError(f"a line has more than {MAX_DOTS:,} dots")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("too deeply nested") from error


def parse_project(where: str, content: Mapping[str, Any], folder: Path) -> Project:
    """Return the project for the content of a project file; raise TableError if it is not valid."""
    check_keys(where, content, ("views", "links", "model"))
    views, links = content.get("views"), content.get("links")
    if not isinstance(views, Mapping) or not views:
        raise TableError(f"{where}: expected at least one view, like [views.films], got none")
    if not isinstance(links, list) or not links:
        raise TableError(f"{where}: expected at least one link table, like [[links]], got none")
    tables: dict[tuple[str, str], LinkTable] = {}
    for number, entry in enumerate(links, 1):
        pair, table = _link_table(f"{where}: links {number}", entry, views)
        if pair in tables or pair[::-1] in tables:
            raise TableError(
                f"{where}: links {number}: expected one table per view pair, got another of "
                f"{pair[0]!r} and {pair[1]!r}; combine the two with a glob or a query"
            )
        tables[pair] = table
    model = content.get("model", {})
    if not isinstance(model, Mapping):
        raise TableError(
            f"{where}: model: expected parameters, like n_components = 32, got {short(model)}"
        )
    return Project(
        {name: _view_table(f"{where}: views.{name}", entry) for name, entry in views.items()},
        tables,
        model,
        folder,
    )


def _view_table(where: str, entry: Any) -> ViewTable:
    if not isinstance(entry, Mapping):
        raise TableError(f"{where}: expected a table of keys, got {short(entry)}")
    flags = ("standardize", "sparse", "normalize_ids")
    keys = ("id", "name", "features", "labels", "on_error", *flags)
    check_keys(where, entry, (*SOURCE_KEYS, *KEYS, *keys))
    source = _source(where, entry)
    features = entry.get("features", {})
    if not isinstance(features, Mapping):
        raise TableError(f"{where}: features: expected column = kind, got {short(features)}")
    if source is None and (features or "id" in entry or "name" in entry):
        raise TableError(f"{where}: id, name and features need a source; add one, or remove them")
    for key in flags:
        if not isinstance(entry.get(key, False), bool):
            raise TableError(f"{where}: {key}: expected true or false, got {short(entry[key])}")
    return ViewTable(
        source,
        None if source is None else _string(where, entry, "id"),
        {name: Feature.of(f"{where}: features.{name}", kind) for name, kind in features.items()},
        tuple(_strings(where, entry, "labels")),
        entry.get("standardize", True),
        entry.get("sparse"),
        _string(where, entry, "name") if "name" in entry else None,
        _on_error(where, entry),
        entry.get("normalize_ids", False),
    )


def _link_table(
    where: str, entry: Any, views: Mapping[str, Any]
) -> tuple[tuple[str, str], LinkTable]:
    if not isinstance(entry, Mapping):
        raise TableError(f"{where}: expected a table of keys, got {short(entry)}")
    keys = ("views", "columns", "weight", "aggregate", "symmetrize", "on_error")
    check_keys(where, entry, (*SOURCE_KEYS, *KEYS, *keys))
    pair, columns = _strings(where, entry, "views"), _strings(where, entry, "columns")
    for key, names in (("views", pair), ("columns", columns)):
        if len(names) != 2:
            raise TableError(f"{where}: {key}: expected two names, got {short(names)}")
    for name in pair:
        choose("view", name, views, where, error=TableError)
    source = _source(where, entry)
    if source is None:
        raise TableError(f"{where}: expected source, or database and table, or query, got none")
    weight, transform = _weight(where, entry)
    aggregate = choose(
        "aggregate", entry.get("aggregate", "sum"), AGGREGATES, where, error=TableError
    )
    symmetrize = entry.get("symmetrize")
    if symmetrize is not None:
        choose("symmetrize", symmetrize, SYMMETRIZE, where, error=TableError)
    left, right = columns
    table = LinkTable(
        source, (left, right), weight, aggregate, symmetrize, transform, _on_error(where, entry)
    )
    return (pair[0], pair[1]), table


def _weight(where: str, entry: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the weight column and its transform, from a name or { column, transform }."""
    given = entry.get("weight")
    if given is None or not isinstance(given, Mapping):
        return _string(where, entry, "weight") if "weight" in entry else None, None
    check_keys(f"{where}: weight", given, ("column", "transform"))
    column = _string(f"{where}: weight", given, "column") if "column" in given else None
    transform = given.get("transform")
    if transform is not None:
        choose("transform", transform, TRANSFORMS, f"{where}: weight", error=TableError)
    return column, transform


def _on_error(where: str, entry: Mapping[str, Any]) -> str:
    given = entry.get("on_error", "stop")
    return choose("on_error", given, ON_ERROR, where, error=TableError)


def _source(where: str, entry: Mapping[str, Any]) -> Source | None:
    given = {key: _string(where, entry, key) for key in SOURCE_KEYS if key in entry}
    if not given:
        return None
    allowed = ("source", "source table", "database table", "database query", "query")
    if set(given) not in [{*keys.split()} for keys in allowed]:
        raise TableError(
            f"{where}: expected source, or database and table, or database and query, or query; "
            f"got {' and '.join(given)}"
        )
    source = as_source(given["source"]) if "source" in given else Source()
    return replace(
        source,
        database=given.get("database", source.database),
        table=given.get("table", source.table),
        query=given.get("query"),
        dialect=Dialect.of(where, {key: entry[key] for key in KEYS if key in entry}),
    )


def _string(where: str, entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        got = "the key is missing" if value is None else f"got {short(value)}"
        raise TableError(f"{where}: {key}: expected a string, {got}")
    return value


def _strings(where: str, entry: Mapping[str, Any], key: str) -> list[str]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TableError(f"{where}: {key}: expected a list of strings, got {short(value)}")
    return value
