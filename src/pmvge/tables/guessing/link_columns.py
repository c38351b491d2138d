"""Guess the two id columns of a link table whose ids no table describes."""

from __future__ import annotations

import shlex
from itertools import combinations

import duckdb

from pmvge.errors import TableError
from pmvge.tables.columns.casts import check_column
from pmvge.tables.guessing.column_names import (
    EDGE_LIST_NAMES,
    GENERIC_NAMES,
    KEY_NAMES,
    TIME_NAMES,
    WEIGHT_NAMES,
    stem,
    view_name,
)
from pmvge.tables.guessing.damaged_ids import damaged_keys
from pmvge.tables.guessing.folder import explain_encodings
from pmvge.tables.guessing.foreign_keys import ForeignKeys
from pmvge.tables.guessing.matching import Match, match_ids
from pmvge.tables.guessing.profile import Profile
from pmvge.tables.guessing.questions import Answers, Question
from pmvge.tables.guessing.table import Table

MAX_CHOICES = 6


class LinkColumns:
    """The search for the id columns of link tables; ``views`` are those that have no table."""

    def __init__(
        self,
        db: duckdb.DuckDBPyConnection,
        keys: ForeignKeys,
        orphans: list[Table],
        answers: Answers,
    ) -> None:
        self._db, self._keys, self._orphans, self._answers = db, keys, orphans, answers
        self.views: dict[str, tuple[Table, str]] = {}  # view -> the first column with its ids

    def find(self, table: Table) -> list[tuple[str, str, str, str]]:
        """Return the pairs of id columns of a link table as (column, view, column, view).

        A column whose ids no table describes becomes a view without features. Raise UnsureError if
        it is not clear which columns these are, or whose ids they hold.
        """
        sides = dict(table.foreign)
        if (given := given_columns(table, self._answers)) is not None:
            sides = {column: view for column, view in sides.items() if column in given}
            chosen = [column for column in given if column not in sides]
        else:
            chosen = self._choose(table, 2 - len(sides)) if len(sides) < 2 else []
        for column in chosen:
            described = self._keys.find_similar(table, column, self._orphans)
            if described is not None:
                sides[column] = described
        sides |= self._name_views(table, [column for column in chosen if column not in sides])
        ordered = sorted(sides, key=list(table.types).index)
        return [(c, sides[c], d, sides[d]) for c, d in combinations(ordered, 2)]

    def _choose(self, table: Table, n: int) -> list[str]:
        """Return n columns of ids that no table describes; fewer if there are not so many."""
        others = [
            c for c, p in table.columns.items() if c not in table.foreign and _is_id_like(c, p)
        ]
        keys = [c for c in others if KEY_NAMES.search(c)]
        if len(keys) >= n:
            others = keys
        if len(others) <= n or self._are_leading(table, others, n):
            return others[:n]
        likely = likely_columns(table, n)
        pairs = [",".join(columns) for columns in combinations(others, n)]
        pairs.sort(key=lambda pair: pair != ",".join(likely))
        choices = dict.fromkeys(pairs[:MAX_CHOICES], "these are the ids")
        listed = ", ".join(map(repr, others))
        what = "two columns hold" if n == 2 else "column holds"
        question = f"{table.source}: which {what} the ids that are linked? It has {listed}"
        if damaged := damaged_keys(table):
            option = shlex.quote(f"{table.source}:id={damaged[0]}")
            question += f"; if a row describes an entity, name its id: --choose {option}"
        answer = self._answers.answer(Question(f"{table.source}:columns", question, choices))
        return answer.split(",")

    def _are_leading(self, table: Table, others: list[str], n: int) -> bool:
        """Whether a file without a header has ids in its leading columns, then only numbers."""
        columns = list(table.columns)
        rest = [table.columns[c].kind for c in others[n:]]
        leading = len(table.foreign) + n
        return (
            all(GENERIC_NAMES.fullmatch(c) for c in columns[leading:])
            and {*columns[:leading]} == {*table.foreign, *others[:n]}
            and all(kind in ("integer", "number") for kind in rest)
        )

    def _name_views(self, table: Table, columns: list[str]) -> dict[str, str]:
        """Return the view of each column whose ids no table describes."""
        if len(columns) == 2 and (view := self._common_view(table, *columns)) is not None:
            names = dict.fromkeys(columns, view)
        else:
            names = {column: view_name(column) for column in columns}
        for column, view in names.items():
            if view not in self.views:
                self.views[view] = (table, column)
            elif self.views[view][0] is not table:
                names[column] = self._same_or_new(table, column, view)
        return names

    def _same_or_new(self, table: Table, column: str, view: str) -> str:
        """Return the view of a column that is named like one of another link table."""
        other, other_column = self.views[view]
        match = match_ids(self._db, table.column(column), other.column(other_column))
        new = f"{table.name}_{view}"
        choices = {view: f"ids of {view}, as in {other.source}", new: f"a view of its own, {new}"}
        key = f"{table.source}:{column}"
        given = self._answers.given(key, choices)
        if given is None and not match.matched:
            text = f"{table.source}: are the ids of column {column!r} those of {view}? {match}"
            text += explain_encodings([] if match.is_ascii else [table.source, other.source])
            given = self._answers.answer(Question(key, text, choices))
        if given == new:
            self.views[new] = (table, column)
            return new
        self._keys.matches[table.name, column] = match
        return view

    def _common_view(self, table: Table, left: str, right: str) -> str | None:
        """Return the view of both columns if they are two ends of links within it, else None."""
        shared = max(
            match.share
            for match in (self._match(table, left, right), self._match(table, right, left))
        )
        stems = {stem(left), stem(right)}
        if len(stems) == 1 and not GENERIC_NAMES.fullmatch(left):
            return stems.pop()
        if {left.lower(), right.lower()} in EDGE_LIST_NAMES:
            return "node" if shared > 0 else None
        integers = "integer" in (table.columns[left].kind, table.columns[right].kind)
        generic = bool(GENERIC_NAMES.fullmatch(left) and GENERIC_NAMES.fullmatch(right))
        if integers and not generic:
            return None  # any two columns of small integers overlap: the names decide
        if shared == 0 or (not integers and not 0.02 < shared < 0.2):
            return "node" if shared >= 0.2 else None
        choices = {"one": "links within a view", "two": "links between two views"}
        text = (
            f"{table.source}: are columns {left!r} and {right!r} ids of one view or of two? "
            f"{self._match(table, left, right)}"
        )
        answer = self._answers.answer(Question(f"{table.source}:views", text, choices))
        return "node" if answer == "one" else None

    def _match(self, table: Table, left: str, right: str) -> Match:
        return match_ids(self._db, table.column(left), table.column(right))


def given_columns(table: Table, answers: Answers) -> list[str] | None:
    """Return the columns of ids of a table that were chosen in advance; None if none were.

    Raise TableError if they are not columns of the table.
    """
    key = f"{table.source}:columns"
    if (given := answers.given(key)) is None:
        return None
    columns = [check_column(f"--choose {key}", c, table.columns) for c in given.split(",")]
    described = [c for c in table.foreign if c not in columns]
    missing = 2 - len({*columns})
    if missing <= 0 or len(described) == missing == 1:
        return [*described[: max(0, missing)], *columns]
    raise TableError(f"--choose {key}: expected 2 columns of ids, got {given!r}")


def likely_columns(table: Table, n: int = 2) -> list[str]:
    """Return the n most likely columns of ids that no table describes, in their order.

    Their values repeat; names of ids come first, then the columns with the most distinct values.
    Fewer are returned if there are not so many.
    """
    columns = [
        c
        for c, p in table.columns.items()
        if c not in table.foreign and _is_id_like(c, p) and not p.nearly_unique(0.9)
    ]

    def score(column: str) -> tuple[bool, bool, int]:
        profile = table.columns[column]
        return bool(KEY_NAMES.search(column)), profile.kind != "text", profile.distinct

    best = sorted(columns, key=score, reverse=True)[:n]
    return [column for column in columns if column in best]


def _is_id_like(column: str, profile: Profile) -> bool:
    return (
        profile.kind in ("integer", "word", "text")
        and column.lower() not in (*WEIGHT_NAMES, "index")
        and not TIME_NAMES.search(column)
        and not profile.is_time
        and profile.distinct > 1
    )
