"""Assemble a project from the tables of a folder: views first, then the links between them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import duckdb

from pmvge.errors import TableError, short
from pmvge.graph import Pair, pair_key
from pmvge.tables.columns.id_casts import cast_id
from pmvge.tables.guessing.damaged_ids import damaged_keys
from pmvge.tables.guessing.folder import NO_TABLE, explain_encodings
from pmvge.tables.guessing.foreign_keys import ForeignKeys
from pmvge.tables.guessing.guess import guess_view
from pmvge.tables.guessing.link_columns import LinkColumns, given_columns, likely_columns
from pmvge.tables.guessing.link_tables import weight_columns
from pmvge.tables.guessing.questions import Answers, Question
from pmvge.tables.guessing.table import Table
from pmvge.tables.guessing.unused_columns import explain_unused, unused_in_links
from pmvge.tables.project import LinkTable, ViewTable
from pmvge.tables.sources.arrays import ROW
from pmvge.tables.sources.connection import fetch_all, quote_ident, table_errors

NO_WEIGHT = "none"


class Assembly:
    """A project under construction, with reasons and notes."""

    def __init__(
        self,
        db: duckdb.DuckDBPyConnection,
        tables: list[Table],
        keys: ForeignKeys,
        answers: Answers,
    ) -> None:
        self._db, self._tables, self._keys, self._answers = db, tables, keys, answers
        self.views: dict[str, ViewTable] = {}
        self.links: dict[Pair, LinkTable] = {}
        self.reasons: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self.matches: list[str] = []
        self.notes: list[str] = []
        self.unused: dict[str, tuple[str, ...]] = {}
        self._notes: dict[str, list[str]] = {}  # of views, which may turn out not to be linked
        self._entities: list[Table] = []

    def add_views(self) -> None:
        """Add a view for each table that describes entities."""
        referenced = {other for table in self._tables for other in table.foreign.values()}
        for table in self._tables:
            damage = {} if table.key is None else self._damaged_ids(table)
            if not self._is_entity(table, referenced, damage):
                continue
            self._entities.append(table)
            if table.key is None:
                column = next(iter([*damaged_keys(table), *table.columns]))
                raise TableError(
                    f"{table.source}: no id column found: no column has a distinct value in every "
                    "row; name it, such as --choose " + shlex.quote(f"{table.source}:id={column}")
                )
            with table_errors(str(table.source)):
                view = guess_view(
                    table.name,
                    ViewTable(table.source, table.key),
                    table.columns,
                    [c for c in table.foreign if c != table.key],
                    table.declared,
                )
            self.unused[table.name], notes = explain_unused(table, view)
            reason = f"{table.key!r} is distinct in every row of {table.source}"
            if damage:
                view = replace(view, on_error="missing")
                counts = " and ".join(damage.values())
                reason = f"{table.key!r} is the id of {table.source}, but {counts}"
                notes.append(
                    f"{table.source}: id column {table.key!r}: {counts}; with "
                    'on_error = "missing" rows without an id are left out, and of the rows of an '
                    "id only the first is used"
                )
            if table.normalize_ids:
                view = replace(view, normalize_ids=True)
                notes.append(
                    f"{table.source}: other tables write the ids of {table.key!r} with other "
                    "leading zeros or blanks: normalize_ids = true removes them"
                )
            if view.labels and view.labels == (list(table.columns)[-1],):
                notes.append(f"{table.source}: {view.labels[0]!r} is a label, not used in training")
            self.views[table.name], self._notes[table.name] = view, notes
            self.reasons[table.name] = reason

    def add_links(self, folder: Path, not_read: Mapping[str, str]) -> None:
        """Add the links of all tables, and leave out views that nothing links.

        Raise TableError if there are no links; the message has the reasons in ``not_read``, too.
        """
        referenced = {other for table in self._tables for other in table.foreign.values()}
        keys = {t.key for t in self._tables if t.name in referenced}
        orphans = [  # a table with the key of another one has more columns for it
            t
            for t in self._entities
            if t.name not in referenced and not t.foreign and t.key not in {*keys, ROW}
        ]
        finder = LinkColumns(self._db, self._keys, orphans, self._answers)
        for table in self._tables:
            if table in self._entities:
                for column, other in table.foreign.items():
                    self._add(table, (str(table.key), column), (table.name, other))
                continue
            sides = finder.find(table)
            for view, (_, column) in finder.views.items():
                if view not in self.views:
                    self.views[view] = ViewTable()
                    self.reasons[view] = (
                        f"its ids occur in {column!r} of {table.source} only: no features"
                    )
            if not sides:
                reason = "neither a view (no id column) nor links (no two columns of ids)"
                self.skipped[str(table.source)] = "; ".join([reason, *table.rounded.values()])
            for left, a, right, b in sides:
                self._add(table, (left, right), (a, b))
        if not self.links:
            raise TableError(self._explain_no_links(folder, not_read))
        linked = {view for pair in self.links for view in pair}
        for view in [view for view in self.views if view not in linked]:
            source = self.views.pop(view).source
            if source is not None:
                self.skipped[str(source)] = "no link table refers to it"
            self.reasons.pop(view)
            self.unused.pop(view, None)
        sources = [view.source for view in self.views.values()]
        sources += [table.source for table in self.links.values()]
        used = [table for table in self._tables if table.source in sources]
        self.matches = [
            str(match)
            for (name, _), match in self._keys.matches.items()
            if name in {table.name for table in used}
        ]
        self.notes += [note for table in used for note in table.notes]
        self.notes += [note for view in self.views for note in self._notes.get(view, ())]
        for table in used:
            if table not in self._entities:
                links = [link for link in self.links.values() if link.source is table.source]
                self.notes += unused_in_links(table, links)

    def _explain_no_links(self, folder: Path, not_read: Mapping[str, str]) -> str:
        """Return a message with the columns of all tables, and how to name two columns of ids."""
        headers = "; ".join(f"{t.source}: {', '.join(list(t.types)[:8])}" for t in self._tables)
        message = (
            f"{folder}: no link table found: expected a table with two columns of ids, found "
            f"{headers}{explain_encodings(t.source for t in self._tables)}"
        )
        for table in self._tables:
            if len(columns := likely_columns(table)) == 2:
                option = shlex.quote(f"{table.source}:columns={','.join(columns)}")
                rows = "a row" if len(self._tables) == 1 else f"a row of {table.source}"
                message += f"; if {rows} links two entities, name their columns: --choose {option}"
        reasons = [note for table in self._tables for note in table.rounded.values()]
        reasons += [f"left out {name}: {why}" for name, why in not_read.items() if why != NO_TABLE]
        return "; ".join([message, *reasons[:5]])

    def _is_entity(self, table: Table, referenced: set[str], damage: dict[str, str]) -> bool:
        """Return whether a table describes entities; else it is a link table."""
        choices = {"view": "each row describes an entity", "links": "each row links two entities"}
        key = f"{table.source}:as"
        if (given := self._answers.given(key, choices)) is not None:
            return given == "view"
        if table.key is None or given_columns(table, self._answers) is not None:
            return False
        if damage and table.foreign:
            text = (
                f"{table.source}: does a row describe an entity or a link? Its id {table.key!r} "
                f"has damage: {' and '.join(damage.values())}"
            )
            if len(table.foreign) > 1 and table.name not in referenced:  # the likely one first
                choices = dict(reversed(choices.items()))
            return self._answers.answer(Question(key, text, choices)) == "view"
        if table.name in referenced or len(table.foreign) < 2:
            return True
        others = len(table.columns) - len(table.foreign) - 1
        return others > 3  # more columns than a weight and a time

    def _damaged_ids(self, table: Table) -> dict[str, str]:
        """Return the numbers of empty and of repeated ids in all rows, in words."""
        key = cast_id(str(table.key), table.types, "VARCHAR")
        with table_errors(str(table.source)):
            ((n, present, distinct, example),) = fetch_all(
                self._db,
                "SELECT sum(n), sum(n) FILTER (id IS NOT NULL), count(id), "
                "min(id) FILTER (n > 1) FROM (SELECT id, count(*) AS n FROM "
                f"(SELECT {key} AS id FROM {quote_ident(table.raw)}) GROUP BY id)",
            )
        damage = {}
        if present < n:
            damage["empty"] = f"{n - present:,} of {n:,} ids are empty"
        if distinct < present:
            damage["repeated"] = (
                f"{present - distinct:,} of {n:,} rows repeat an id, such as {short(example)}"
            )
        return damage

    def _add(self, table: Table, columns: Pair, pair: Pair) -> None:
        """Add the links in two columns of a table, unless their views are linked already."""
        (left, right), (a, b) = columns, pair
        known = self.links.get((a, b)) or self.links.get((b, a))
        if known is not None:
            if table not in self._entities:
                reason = f"{a} and {b} are already linked by {known.source}"
                (first,) = (t for t in self._tables if t.source is known.source)
                if list(first.columns) == list(table.columns):
                    reason += "; to use both, combine them by a glob or a query"
                self.skipped[str(table.source)] = reason
            return
        if not (a in self.views and b in self.views):
            return
        weight, on_error = None, "stop"
        if table not in self._entities:
            weight, on_error = self._choose_weight(table, {left, right, *table.foreign})
        self.links[a, b] = LinkTable(
            table.source,
            (left, right),
            weight,
            symmetrize="max" if a == b else None,
            on_error=on_error,
        )
        self.reasons[pair_key((a, b))] = (
            f"{left!r} of {table.source} {self._describe_side(a)}, "
            f"{right!r} {self._describe_side(b)}"
        )

    def _describe_side(self, view: str) -> str:
        return f"holds ids of {view}" if self.views[view].source else f"names {view}"

    def _choose_weight(self, table: Table, taken: set[str]) -> tuple[str | None, str]:
        """Return the weight column of a link table, or None, and its ``on_error``.

        Ask if there are several, or if one has negative values.
        """
        candidates = weight_columns(table.columns, taken)
        numbers = [c for c, p in table.columns.items() if p.kind in ("integer", "number")]
        negative = {c for c in candidates if (table.columns[c].minimum or 0) < 0}
        choices = {
            c: f"{c} is the weight"
            + (", and rows with a negative one are dropped" * (c in negative))
            for c in (*candidates, *(c for c in numbers if c not in candidates))
        }
        choices[NO_WEIGHT] = "every row has weight 1"
        key = f"{table.source}:weight"
        answer = self._answers.given(key, choices)
        if answer is None and (len(candidates) > 1 or negative):
            listed = ", ".join(map(repr, candidates))
            text = f"{table.source}: which column is the weight of a link? It has {listed}"
            if negative:
                column = next(iter(negative))
                text += (
                    f". Weights are 0 or more, but {column!r} has values down to "
                    f"{table.columns[column].minimum:g}"
                )
            shown = {c: choices[c] for c in (*candidates, NO_WEIGHT)}
            answer = self._answers.answer(Question(key, text, shown))
        weight = answer or (candidates[0] if candidates else None)
        if weight in (None, NO_WEIGHT):
            return None, "stop"
        return weight, "missing" if (table.columns[str(weight)].minimum or 0) < 0 else "stop"
