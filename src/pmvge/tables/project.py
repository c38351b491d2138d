"""The project file, ``pmvge.toml``: which tables there are and what their columns mean."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pmvge.errors import ParameterError, TableError, choose, one_line, short
from pmvge.tables.sources.files import find
from pmvge.tables.sources.source import Source, as_source

KINDS = ("numeric", "date", "category", "text", "vector")
AGGREGATES = ("sum", "count", "max")
PLACES = ("source", "database", "table", "query")
DOTS = 2000  # in a line
LARGEST = 2**31 - 1  # columns that a feature may become


@dataclass(frozen=True)
class Feature:
    """What a column means, and how it becomes numbers.

    ``kind`` is "numeric", "date" (days), "category" (one column per category), "text" (a bag of
    words, weighted by TF-IDF) or "vector" (a list of numbers). ``size`` limits the categories
    (default 1,000) or words (default 20,000) that get a column, the most frequent first;
    ``hashed`` words share that many columns instead (default 16,384), and no vocabulary is kept.
    """

    kind: str
    size: int | None = None
    hashed: bool = False

    @classmethod
    def of(cls, where: str, given: Any) -> Feature:
        """A feature as a user writes it: its kind, or ``{ kind = ..., size = ... }``."""
        if isinstance(given, Feature):
            return given
        options = {"kind": given} if isinstance(given, str) else given
        if not isinstance(options, Mapping):
            raise TableError(
                f"{where}: expected a kind, one of {', '.join(KINDS)}, got {short(given)}"
            )
        _check_keys(where, options, ("kind", "size", "hashed"))
        kind = _known(where, "kind", options.get("kind"), KINDS)
        size, hashed = options.get("size"), options.get("hashed", False)
        if size is not None and (type(size) is not int or not 1 <= size <= LARGEST):
            raise TableError(
                f"{where}: size: expected a positive integer up to {LARGEST:,}, got {short(size)}"
            )
        if not isinstance(hashed, bool) or (hashed and kind != "text"):
            raise TableError(f"{where}: hashed = true is for text, got {short(hashed)} for {kind}")
        return cls(kind, size, hashed)


@dataclass(frozen=True, eq=False)
class ViewTable:
    """One view: its source, its id column, its features, and what is to be made of them.

    Without a source a view has no features, and its ids are those that the link tables name. Keys
    of ``features`` are column names, or patterns such as ``"word_*"``. None for ``id`` or
    ``features`` means: guess. ``labels`` are columns that no training sees; a report shows them.
    ``standardize`` numbers by the training rows. ``sparse`` makes the rows a CSR matrix; None: if
    there is text, or more than 256 columns come from categories.
    """

    source: Any = None  # a file name, a frame or a Source
    id: str | None = None
    features: Mapping[str, Any] | None = None
    labels: tuple[str, ...] = ()
    standardize: bool = True
    sparse: bool | None = None

    def __post_init__(self) -> None:
        if self.source is not None:
            object.__setattr__(self, "source", as_source(self.source))
        if self.features is not None and not isinstance(self.features, Mapping):
            raise TableError(
                f"features: expected {{column: kind}} with kinds {', '.join(KINDS)}, "
                f"got {short(self.features)}"
            )
        if isinstance(self.labels, str):
            raise TableError(f"labels: expected a list of columns, got {short(self.labels)}")


@dataclass(frozen=True, eq=False)
class LinkTable:
    """One link table: its source, the id columns of its two sides, and how weights add up.

    Rows with the same two ids are one link: their weights, or 1 each without a weight column, are
    aggregated by "sum", "count" (of rows) or "max". Within a view ``symmetrize`` says how the two
    orders of a pair are merged, "sum" or "max". None for ``columns`` means: guess.
    """

    source: Any  # a file name, a frame or a Source
    columns: tuple[str, str] | None = None
    weight: str | None = None
    aggregate: str = "sum"
    symmetrize: str | None = None

    def __post_init__(self) -> None:
        if self.source is None:
            raise TableError("links: expected a file name or a table, got None")
        object.__setattr__(self, "source", as_source(self.source))
        two = self.columns is None or (len(self.columns) == 2 and not isinstance(self.columns, str))
        if not two:
            raise TableError(f"links: columns: expected two names, got {short(self.columns)}")
        _known("links", "aggregate", self.aggregate, AGGREGATES)
        if self.symmetrize is not None:
            _known("links", "symmetrize", self.symmetrize, ("sum", "max"))


@dataclass(frozen=True, eq=False)
class Project:
    """Views, links, settings of the model, and the folder that file names are relative to."""

    views: Mapping[str, ViewTable]
    links: Mapping[tuple[str, str], LinkTable]
    model: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()


def share_links(project: Project, rank: int, size: int) -> Project:
    """The project with the link files of one of several processes: every ``size``-th of a glob's.

    Shares must be alike, so that the files of each table must divide by the number of processes.
    """
    shared = {}
    for (a, b), table in project.links.items():
        where = f"links {a},{b} ({table.source})"
        if table.source.path is None:
            raise TableError(f"{where}: only files, named by a glob, can be shared by processes")
        files = find(project.folder, table.source.path)
        if len(files) % size:
            fit = [str(n) for n in range(1, len(files) + 1) if len(files) % n == 0]
            raise TableError(
                f"{where}: {len(files)} files cannot be shared equally by {size} processes; start "
                f"{' or '.join(fit)}, or cut the links into another number of files"
            )
        for view in (a, b):
            if project.views[view].source is None:
                raise TableError(
                    f"view {view}: the link files of one process do not name all ids: give the "
                    "view a table with them"
                )
        shared[a, b] = replace(table, source=replace(table.source, share=(rank, size)))
    return replace(project, links=shared)


def read_project(path: str | Path) -> Project:
    """Read and check a project file."""
    place = Path(path)
    try:
        content = parse_toml(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TableError(
            f"{place}: no such project file; 'pmvge init' writes one from the tables in a folder"
        ) from None
    except OSError as error:
        raise TableError(f"{place}: cannot be read: {error}") from error
    except ValueError as error:
        raise TableError(f"{place}: not valid TOML: {one_line(error)}") from error
    return parse_project(str(place), content, place.resolve().parent)


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML file; a ValueError says why it is none."""
    # The time that Python's reader takes for a key grows with the square of its parts.
    if any(line.count(".") > DOTS for line in text.splitlines()):
        raise ValueError(f"a line has more than {DOTS:,} dots")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_project(where: str, content: Mapping[str, Any], folder: Path) -> Project:
    """Check the content of a project file."""
    _check_keys(where, content, ("views", "links", "model"))
    views, links = content.get("views"), content.get("links")
    if not isinstance(views, Mapping) or not views:
        raise TableError(f"{where}: expected at least one view, like [views.films]")
    if not isinstance(links, list) or not links:
        raise TableError(f"{where}: expected at least one link table, like [[links]]")
    tables: dict[tuple[str, str], LinkTable] = {}
    for number, entry in enumerate(links, 1):
        pair, table = _link_table(f"{where}: links {number}", entry, views)
        if pair in tables or pair[::-1] in tables:
            raise TableError(
                f"{where}: links {number}: there is another table of {pair[0]!r} and {pair[1]!r}; "
                "join the two by a glob or a query"
            )
        tables[pair] = table
    model = content.get("model", {})
    if not isinstance(model, Mapping):
        raise TableError(f"{where}: model: expected settings, like n_components = 32")
    return Project(
        {name: _view_table(f"{where}: views.{name}", entry) for name, entry in views.items()},
        tables,
        model,
        folder,
    )


def _view_table(where: str, entry: Any) -> ViewTable:
    if not isinstance(entry, Mapping):
        raise TableError(f"{where}: expected a table of keys, got {short(entry)}")
    keys = ("id", "features", "labels", "standardize", "sparse")
    _check_keys(where, entry, (*PLACES, *keys))
    source = _source(where, entry)
    features = entry.get("features", {})
    if not isinstance(features, Mapping):
        raise TableError(f"{where}: features: expected column = kind, got {short(features)}")
    if source is None and (features or "id" in entry):
        raise TableError(f"{where}: id and features need a source")
    for key in ("standardize", "sparse"):
        if not isinstance(entry.get(key, False), bool):
            raise TableError(f"{where}: {key}: expected true or false, got {short(entry[key])}")
    return ViewTable(
        source,
        None if source is None else _text(where, entry, "id"),
        {name: Feature.of(f"{where}: features.{name}", kind) for name, kind in features.items()},
        tuple(_texts(where, entry, "labels")),
        entry.get("standardize", True),
        entry.get("sparse"),
    )


def _link_table(
    where: str, entry: Any, views: Mapping[str, Any]
) -> tuple[tuple[str, str], LinkTable]:
    if not isinstance(entry, Mapping):
        raise TableError(f"{where}: expected a table of keys, got {short(entry)}")
    _check_keys(where, entry, (*PLACES, "views", "columns", "weight", "aggregate", "symmetrize"))
    pair, columns = _texts(where, entry, "views"), _texts(where, entry, "columns")
    for key, names in (("views", pair), ("columns", columns)):
        if len(names) != 2:
            raise TableError(f"{where}: {key}: expected two names, got {short(names)}")
    for name in pair:
        _known(where, "view", name, views)
    source = _source(where, entry)
    if source is None:
        raise TableError(f"{where}: expected source, or database and table, or query")
    weight = _text(where, entry, "weight") if "weight" in entry else None
    aggregate = _known(where, "aggregate", entry.get("aggregate", "sum"), AGGREGATES)
    symmetrize = entry.get("symmetrize")
    if symmetrize is not None:
        _known(where, "symmetrize", symmetrize, ("sum", "max"))
    left, right = columns
    return (pair[0], pair[1]), LinkTable(source, (left, right), weight, aggregate, symmetrize)


def _source(where: str, entry: Mapping[str, Any]) -> Source | None:
    given = {key: _text(where, entry, key) for key in PLACES if key in entry}
    if not given:
        return None
    if set(given) not in ({"source"}, {"database", "table"}, {"database", "query"}, {"query"}):
        raise TableError(
            f"{where}: expected source, or database and table, or database and query, or query; "
            f"got {' and '.join(given)}"
        )
    return Source(
        given.get("source"), given.get("database"), given.get("table"), given.get("query")
    )


def _text(where: str, entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        came = "it is missing" if value is None else f"got {short(value)}"
        raise TableError(f"{where}: {key}: expected a text, {came}")
    return value


def _texts(where: str, entry: Mapping[str, Any], key: str) -> list[str]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise TableError(f"{where}: {key}: expected a list of texts, got {short(value)}")
    return value


def _check_keys(where: str, entry: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in entry:
        _known(where, "key", key, known)


def _known(where: str, what: str, name: Any, known: Any) -> str:
    try:
        return choose(what, name, known, where)
    except ParameterError as error:
        raise TableError(str(error)) from error
