"""Projects: read from a file or made from ``--view`` and ``--links``, and described in words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pmvge.cli.output import visible
from pmvge.errors import ParameterError, choose
from pmvge.tables import LinkTable, Project, ViewTable, fold_columns, read_project

Table = TypeVar("Table", ViewTable, LinkTable)


def load_project(project: Path | None, view: list[str] | None, links: list[str] | None) -> Project:
    """Return the project of a file (pmvge.toml if None), or of the flags if there are any."""
    if not view and not links:
        return read_project(project or Path("pmvge.toml"))
    if project is not None:
        raise ParameterError("give a project file, or --view and --links, not both")
    if not links:
        raise ParameterError("--view needs --links: pass at least one link table")
    views = _unique("--view", map(_parse_view, view or []))
    tables = _unique("--links", map(_parse_links, links))
    linked = {name for pair in tables for name in pair}
    for name in views:
        if name not in linked:
            near = get_close_matches(name, linked - set(views), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ParameterError(f"--view {name}: no --links have this view{hint}")
    for name in sorted(linked):
        views.setdefault(name, ViewTable())
    return Project(views, tables)


def find_link_source(table: str) -> Any:
    """Return a table as a link table of ./pmvge.toml describes it, else its name."""
    file = Path("pmvge.toml")
    for described in read_project(file).links.values() if file.exists() else ():
        if described.source.path is not None and Path(described.source.path) == Path(table):
            return described.source
    return table


def describe_project(project: Project) -> list[str]:
    """Return a line for each view and each link table of a project."""
    lines = []
    for name, view in project.views.items():
        if view.source is None:
            lines.append(f"view {name}: no table, ids from the links")
            continue
        features = ", ".join(
            f"{column} ({feature.kind})"
            for column, feature in fold_columns(view.features or {}).items()
        )
        called = f", name {view.name}" if view.name else ""
        lines.append(
            f"view {name}: {view.source}, id {view.id}{called}, features {features or 'none'}"
        )
        if view.labels:
            lines[-1] += f", labels {', '.join(view.labels)}"
    for pair, table in project.links.items():
        left, right = table.columns or ("?", "?")
        weight = f"{table.aggregate} of {table.weight}" if table.weight else "rows counted"
        weight += f", {table.transform}" if table.transform else ""
        lines.append(f"links {','.join(pair)}: {table.source}, {left} - {right}, {weight}")
    return [visible(line) for line in lines]


def _unique(flag: str, items: Iterable[tuple[Any, Table]]) -> dict[Any, Table]:
    """Return a dict of the items; raise ParameterError if a name occurs twice."""
    found: dict[Any, Table] = {}
    for name, table in items:
        if name in found:
            shown = name if isinstance(name, str) else ",".join(name)
            raise ParameterError(
                f"{flag}: {shown} is given twice; join its tables by a glob or a query"
            )
        found[name] = table
    return found


def _parse_view(text: str) -> tuple[str, ViewTable]:
    name, _, source = text.partition("=")
    if not source:
        return name, ViewTable()
    file, options = _parse_options("--view", source, ("id", "name", "normalize_ids"))
    normalize = choose("normalize_ids", options.get("normalize_ids", "false"), ("true", "false"))
    return name, ViewTable(
        file, options.get("id"), name=options.get("name"), normalize_ids=normalize == "true"
    )


def _parse_links(text: str) -> tuple[tuple[str, str], LinkTable]:
    names, _, source = text.partition("=")
    pair = names.split(",")
    if len(pair) != 2 or not all(pair) or not source:
        raise ParameterError(f"--links: expected VIEW,VIEW=FILE, got {text!r}")
    keys = ("columns", "weight", "aggregate", "symmetrize", "transform")
    file, options = _parse_options("--links", source, keys)
    if options.get("aggregate", "sum") not in ("sum", "count", "max"):
        raise ParameterError(f"--links {text}: aggregate: expected sum, count or max")
    columns = tuple(options["columns"].split(",")) if "columns" in options else None
    if columns is not None and len(columns) != 2:
        raise ParameterError(f"--links {text}: columns: expected two names, COLUMN,COLUMN")
    table = LinkTable(
        file,
        columns,
        options.get("weight"),
        options.get("aggregate", "sum"),
        options.get("symmetrize"),
        options.get("transform"),
    )
    return (pair[0], pair[1]), table


def _parse_options(flag: str, text: str, known: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Return the file and the options of ``FILE:key=value:key=value``."""
    match = re.fullmatch(r"(.*?)((?::\w+=[^:]*)*)", text)
    file, tail = match.groups() if match else (text, "")
    options = dict(part.split("=", 1) for part in tail.split(":")[1:])
    for key in options:
        choose("option", key, known, f"{flag} {text}")
    return file, options
