"""Tables by flags: the options that commands share, and the project they describe."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from pmvge.errors import ParameterError
from pmvge.tables import LinkTable, Project, ViewTable, read_project

Table = TypeVar("Table", ViewTable, LinkTable)
Views = Annotated[
    list[str] | None,
    typer.Option(
        "--view",
        metavar="NAME=FILE",
        help="A view and its table; FILE:id=COLUMN names the id. NAME alone: known by the links.",
    ),
]
LinkFlags = Annotated[
    list[str] | None,
    typer.Option(
        "--links",
        metavar="VIEW,VIEW=FILE",
        help="A link table; FILE:weight=COLUMN:aggregate=max and columns=A,B may follow.",
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Rows that cannot be used are an error, not a note.")
]
Spill = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="A folder for dense features that do not fit into memory; made once, kept there.",
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A parameter of PMvGE, such as n_components=32."
    ),
]


def project_from(project: Path | None, view: list[str] | None, links: list[str] | None) -> Project:
    """The project that a file or flags describe."""
    if not view and not links:
        return read_project(project or Path("pmvge.toml"))
    if project is not None:
        raise ParameterError("give a project file, or --view and --links, not both")
    if not links:
        raise ParameterError("--view needs --links: which entities go together?")
    tables = _once("--view", map(_view_flag, view or []))
    described = _once("--links", map(_link_flag, links))
    linked = {name for pair in described for name in pair}
    for name in tables:
        if name not in linked:
            near = get_close_matches(name, linked - set(tables), n=1)
            hint = f"; did you mean it by {near[0]!r}?" if near else ""
            raise ParameterError(f"--view {name}: no --links have this view{hint}")
    for name in sorted(linked):
        tables.setdefault(name, ViewTable())
    return Project(tables, described)


def _once(flag: str, items: Iterable[tuple[Any, Table]]) -> dict[Any, Table]:
    """A dict of them; a name that comes twice is an error."""
    found: dict[Any, Table] = {}
    for name, table in items:
        if name in found:
            told = name if isinstance(name, str) else ",".join(name)
            raise ParameterError(f"{flag}: {told} is given twice; a glob or a query joins tables")
        found[name] = table
    return found


def _options(flag: str, text: str, known: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """A file and its options from ``FILE:key=value:key=value``."""
    match = re.fullmatch(r"(.*?)((?::\w+=[^:]*)*)", text)
    file, tail = match.groups() if match else (text, "")
    options = dict(part.split("=", 1) for part in tail.split(":")[1:])
    for key in options:
        if key not in known:
            raise ParameterError(
                f"{flag} {text}: unknown option {key!r}: expected {' or '.join(known)}"
            )
    return file, options


def _view_flag(text: str) -> tuple[str, ViewTable]:
    name, _, place = text.partition("=")
    if not place:
        return name, ViewTable()
    file, options = _options("--view", place, ("id",))
    return name, ViewTable(file, options.get("id"))


def _link_flag(text: str) -> tuple[tuple[str, str], LinkTable]:
    names, _, place = text.partition("=")
    pair = names.split(",")
    if len(pair) != 2 or not all(pair) or not place:
        raise ParameterError(f"--links: expected VIEW,VIEW=FILE, got {text!r}")
    keys = ("columns", "weight", "aggregate", "symmetrize")
    file, options = _options("--links", place, keys)
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
    )
    return (pair[0], pair[1]), table
