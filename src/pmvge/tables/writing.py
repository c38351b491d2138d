"""A project as the text of a ``pmvge.toml``, with comments that say what was guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pmvge.tables.guessing.guess import MANY, stem
from pmvge.tables.project import Feature, LinkTable, Project, ViewTable
from pmvge.tables.sources.source import Source

_HEAD = """\
# What pmvge reads, and what the columns mean. File names are relative to this file.
#
# A view is a kind of entity. Its source is a CSV or Parquet file, or a glob of them:
#     source = "films-*.csv"
# or a table of a DuckDB or SQLite file, or a query:
#     database = "shop.duckdb"
#     table = "films"
#     query = "SELECT * FROM 'films.csv' WHERE year > 1990"
# Features are column = kind: "numeric", "date", "category", "text" or "vector"; without features
# a view is known by its ids alone. Labels are shown in the report and not used in training.
"""
_TAIL = """
# Settings of the model; those not named have their defaults. 'pmvge tune' finds better ones.
[model]
random_state = 0
"""


def project_text(project: Project, reasons: Mapping[str, str] | None = None) -> str:
    """The text of a project file."""
    why = reasons or {}
    lines = [_HEAD]
    for name, view in project.views.items():
        lines += _comment(why.get(name))
        lines += [f"[views.{_key(name)}]", *_view_lines(view)]
        if view.features:
            lines += [f"[views.{_key(name)}.features]", *_feature_lines(view.features), ""]
    for pair, table in project.links.items():
        lines += _comment(why.get(",".join(pair)))
        lines += ["[[links]]", *_link_lines(pair, table)]
    return "\n".join(lines).rstrip() + "\n" + _TAIL


def _comment(text: str | None) -> list[str]:
    printable = "".join(letter if letter.isprintable() else " " for letter in text or "")
    return [f"# {' '.join(printable.split())}"] if text else []


def _view_lines(view: ViewTable) -> Iterator[str]:
    if view.source is None:
        yield "# no source: its ids are those that the links name"
    else:
        yield from _source_lines(view.source)
        yield f"id = {_value(view.id)}"
    if view.labels:
        yield f"labels = {_value(list(view.labels))}"
    if not view.standardize:
        yield "standardize = false"
    if view.sparse is not None:
        yield f"sparse = {_value(view.sparse)}"
    yield ""


def _link_lines(pair: tuple[str, str], table: LinkTable) -> Iterator[str]:
    yield f"views = {_value(list(pair))}"
    yield from _source_lines(table.source)
    yield f"columns = {_value(list(table.columns or ()))}"
    if table.weight is not None:
        yield f"weight = {_value(table.weight)}"
        yield f"aggregate = {_value(table.aggregate)}  # of rows with the same ids: sum, count, max"
        yield "# A larger weight is a closer link; the lowest rating is a weak link, not a dislike."
    else:
        yield f"aggregate = {_value(table.aggregate)}  # no weight column: every row counts 1"
    if table.symmetrize is not None:
        yield f"symmetrize = {_value(table.symmetrize)}  # links within a view have no direction"
    yield ""


def _source_lines(source: Source) -> Iterator[str]:
    for key, value in (
        ("source", source.path),
        ("database", source.database),
        ("table", source.table),
        ("query", source.query),
    ):
        if value is not None:
            yield f"{key} = {_value(value)}"


def _feature_lines(features: Mapping[str, Any]) -> Iterator[str]:
    for name, feature in folded(features).items():
        options: dict[str, Any] = {"kind": feature.kind}
        if feature.size is not None:
            options["size"] = feature.size
        if feature.hashed:
            options["hashed"] = True
        plain = _value(feature.kind) if len(options) == 1 else _inline(options)
        yield f"{_key(name)} = {plain}"


def folded(features: Mapping[str, Any]) -> dict[str, Feature]:
    """Features with columns such as w0, w1, ... as one pattern, w[0-9]*, where that is safe."""
    groups: dict[tuple[str, Any], list[str]] = {}
    for name, feature in features.items():
        groups.setdefault((stem(name), feature), []).append(name)
    short: dict[str, Feature] = {}
    for (start, feature), names in groups.items():
        pattern = f"{start}[0-9]*"
        others = [name for name in features if name not in names]
        plain = start and not re.search(r"[*?\[\]]", start)
        if len(names) >= MANY and plain and not any(fnmatchcase(o, pattern) for o in others):
            short[pattern] = feature
        else:
            short |= dict.fromkeys(names, feature)
    return short


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _value(name)


def _inline(options: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {_value(value)}" for key, value in options.items()) + " }"


def _value(value: Any) -> str:
    """JSON's texts, numbers, truth values and lists are TOML's, too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
