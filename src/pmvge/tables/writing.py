"""Write a project as the text of a ``pmvge.toml``, with the reasons of guesses as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pmvge.graph import pair_key
from pmvge.tables.guessing.column_names import strip_number
from pmvge.tables.guessing.feature_kinds import MIN_NUMBERED
from pmvge.tables.project import Feature, LinkTable, Project, ViewTable
from pmvge.tables.sources.source import Source, without_password

_HEAD = """\
# The tables that pmvge reads, and the kinds of their columns. File names are relative to this file.
#
# A view is a kind of entity. Its source is a file (CSV, JSON lines, Parquet, Arrow, Excel, .npy,
# .npz), a glob of files, or a table with the rows of an array:
#     source = "films-*.csv"
#     source = "films.csv + posters.npy"
# or a table of a DuckDB or SQLite file or of a PostgreSQL server, or a query:
#     database = "shop.duckdb"
#     table = "films"
#     query = "SELECT * FROM 'films.csv' WHERE year > 1990"
# Features are column = kind: "numeric", "date", "category", "categories" (several in a cell),
# "text" or "vector"; without features a view has ids only. Labels are shown in the report and not
# used in training; name is the column with the names of the entities.
"""
_TAIL = """
# Settings of the model; all others have their defaults. 'pmvge tune' searches for better ones.
[model]
random_state = 0
"""


def project_text(
    project: Project,
    reasons: Mapping[str, str] | None = None,
    unused: Mapping[str, Collection[str]] | None = None,
) -> str:
    """Return the text of a project file.

    ``reasons`` are its comments, and ``unused`` the columns of each view that no pattern may match,
    as in a ``Sketch``.
    """
    comments = reasons or {}
    lines = [_HEAD]
    for name, view in project.views.items():
        lines += _comment(comments.get(name))
        lines += [f"[views.{_key(name)}]", *_view_lines(view)]
        if view.features:
            features = fold_columns(view.features, (unused or {}).get(name, ()))
            lines += [f"[views.{_key(name)}.features]", *_feature_lines(features), ""]
    for pair, table in project.links.items():
        lines += _comment(comments.get(pair_key(pair)))
        lines += ["[[links]]", *_link_lines(pair, table)]
    return "\n".join(lines).rstrip() + "\n" + _TAIL


def _comment(text: str | None) -> list[str]:
    printable = "".join(letter if letter.isprintable() else " " for letter in text or "")
    return [f"# {' '.join(printable.split())}"] if text else []


def _view_lines(view: ViewTable) -> Iterator[str]:
    if view.source is None:
        yield "# no source: its ids are those in the link tables"
    else:
        yield from _source_lines(view.source)
        yield f"id = {_value(view.id)}"
    if view.name is not None:
        yield f"name = {_value(view.name)}  # shown in results, before the id"
    if view.labels:
        yield f"labels = {_value(list(view.labels))}"
    if not view.standardize:
        yield "standardize = false"
    if view.sparse is not None:
        yield f"sparse = {_value(view.sparse)}"
    if view.normalize_ids:
        yield "normalize_ids = true  # the ids 001 and 1 are the same"
    yield from _on_error_lines(view, "rows with an empty or a repeated id are left out")
    yield ""


def _link_lines(pair: tuple[str, str], table: LinkTable) -> Iterator[str]:
    yield f"views = {_value(list(pair))}"
    yield from _source_lines(table.source)
    yield f"columns = {_value(list(table.columns or ()))}"
    if table.transform is not None:
        weight = {} if table.weight is None else {"column": table.weight}
        yield f"weight = {_inline({**weight, 'transform': table.transform})}"
    elif table.weight is not None:
        yield f"weight = {_value(table.weight)}"
    if table.weight is not None:
        yield f"aggregate = {_value(table.aggregate)}  # of rows with the same ids: sum, count, max"
        yield "# A larger weight is a stronger link; a low rating is a weak link, not a dislike."
    else:
        yield f"aggregate = {_value(table.aggregate)}  # no weight column: every row has weight 1"
    if table.symmetrize is not None:
        yield f"symmetrize = {_value(table.symmetrize)}  # links within a view are undirected"
    yield from _on_error_lines(table, "rows whose weight is not a number >= 0 are dropped")
    yield ""


def _on_error_lines(table: ViewTable | LinkTable, meaning: str) -> Iterator[str]:
    if table.on_error != "stop":
        yield f"on_error = {_value(table.on_error)}  # {meaning}"


def _source_lines(source: Source) -> Iterator[str]:
    for key, value in (
        ("source", source.path and " + ".join((source.path, *source.arrays))),
        ("database", source.database and without_password(source.database)),
        ("table", source.table),
        ("query", source.query),
    ):
        if value is not None:
            yield f"{key} = {_value(value)}"
    for key, value in source.dialect.to_dict().items():
        yield f"{key} = {_value(value)}"


def _feature_lines(features: Mapping[str, Feature]) -> Iterator[str]:
    for name, feature in features.items():
        options: dict[str, Any] = {"kind": feature.kind}
        if feature.size is not None:
            options["size"] = feature.size
        if feature.hashed:
            options["hashed"] = True
        if feature.separator is not None:
            options["separator"] = feature.separator
        if feature.ngrams is not None:
            options["ngrams"] = list(feature.ngrams)
        plain = _value(feature.kind) if len(options) == 1 else _inline(options)
        yield f"{_key(name)} = {plain}"


def fold_columns(features: Mapping[str, Any], unused: Collection[str] = ()) -> dict[str, Feature]:
    """Return features with columns w0, w1, ... replaced by one pattern, w[0-9]*.

    They are replaced only if no other feature or unused column matches the pattern.
    """
    groups: dict[tuple[str, Any], list[str]] = {}
    for name, feature in features.items():
        groups.setdefault((strip_number(name), feature), []).append(name)
    folded: dict[str, Feature] = {}
    for (start, feature), names in groups.items():
        pattern = f"{start}[0-9]*"
        others = [*unused, *(name for name in features if name not in names)]
        plain = start and not re.search(r"[*?\[\]]", start)
        if (
            len(names) >= MIN_NUMBERED
            and plain
            and not any(fnmatchcase(o, pattern) for o in others)
        ):
            folded[pattern] = feature
        else:
            folded |= dict.fromkeys(names, feature)
    return folded


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _inline(options: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {_value(value)}" for key, value in options.items()) + " }"


def _value(value: Any) -> str:
    """Return a value in TOML: JSON strings, numbers, booleans and lists are valid TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
