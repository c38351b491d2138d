"""Guess which columns hold ids of which tables, by names first and then by match rates."""

from __future__ import annotations

import re
from dataclasses import dataclass

import duckdb

from pmvge.tables.guessing.column_names import (
    EDGE_LIST_NAMES,
    KEY_NAMES,
    TIME_NAMES,
    WEIGHT_NAMES,
    holds_ids_of,
    is_generic,
    is_self_reference,
    names_an_entity,
    plain_name,
    view_name,
)
from pmvge.tables.guessing.folder import explain_encodings
from pmvge.tables.guessing.matching import Match, best_match
from pmvge.tables.guessing.profile import Profile
from pmvge.tables.guessing.questions import Answers, Question
from pmvge.tables.guessing.table import Table

MAX_COLUMNS = 40  # leading columns that are tested for ids of other tables
TRUSTED = 0.5  # match rate from which a name is trusted
CERTAIN = 0.9  # match rate from which texts are ids of a table without a name that says so
SAME = 0.8  # overlap from which a column of integers holds the ids of a table
NO_VIEW = "none"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A table whose ids a column may hold."""

    table: Table
    match: Match


class _NotSure(Exception):
    """A question has to wait until the clear cases are decided."""


class ForeignKeys:
    """The search for columns that hold ids of other tables; ``matches`` are those it has found."""

    def __init__(
        self, db: duckdb.DuckDBPyConnection, tables: list[Table], answers: Answers
    ) -> None:
        self._db, self._tables, self._answers = db, tables, answers
        self.matches: dict[tuple[str, str], Match] = {}  # (table, column) -> match
        self.denied: set[tuple[str, str]] = set()  # (table, column) that hold no ids of a table
        self._may_ask = False

    def find_all(self) -> None:
        """Set the foreign keys of all tables: clear cases first, then those that need a question.

        A table with the columns of one that is clear has the same foreign keys.
        """
        unclear = []
        for table in self._tables:
            try:
                table.foreign = self._find(table)
            except _NotSure:
                unclear.append(table)
        self._may_ask = True
        for table in unclear:
            table.foreign = self._find(table)

    def _find(self, table: Table) -> dict[str, str]:
        """Return the columns that hold ids of other tables.

        Columns that are named after a table, or like its id, are tested first. If fewer than two
        are, the values of the others decide. Raise UnsureError if two readings are close.
        """
        columns = [
            c
            for c, p in list(table.columns.items())[:MAX_COLUMNS]
            if p.kind in ("integer", "word", "text", "number")
        ]
        found: dict[str, str] = {}
        for column in columns:
            if given := self._given(table, column):
                found |= given
        rest = [c for c in columns if c not in found and (table.name, c) not in self.denied]
        for column in rest:
            candidates = self._candidates(table, column, named=True)
            if candidates and (view := self._choose_named(table, column, candidates)):
                found[column] = view
        unnamed: list[str] = []
        if len(found) < 2:
            for column in rest:
                if column not in found and (table.name, column) not in self.denied:
                    candidates = self._candidates(table, column, named=False)
                    if candidates and (view := self._choose_unnamed(table, column, candidates)):
                        found[column] = view
                        unnamed.append(column)
        self._check_distinct(table, found, unnamed)
        return found

    def _check_distinct(self, table: Table, found: dict[str, str], unnamed: list[str]) -> None:
        """Ask about columns that hold ids of the same table, if they are more than two ends.

        The one that is named after the table, or else whose values are most similar, is sure.
        """
        if len(found) < 3:
            return
        sure = {view for column, view in found.items() if column not in unnamed}
        for column in sorted(unnamed, key=lambda c: -self.matches[table.name, c].overlap):
            (other,) = (other for other in self._tables if other.name == found[column])
            match = self.matches[table.name, column]
            if other.name not in sure or other is table:
                sure.add(other.name)
            elif self._ask(table, column, [Candidate(other, match)]) is None:
                del found[column], self.matches[table.name, column]

    def _given(self, table: Table, column: str) -> dict[str, str]:
        """Return the answer that was given in advance for a column."""
        described = {other.name: other for other in self._tables if other.key}
        view = view_name(column)  # of a column whose ids no table describes, see LinkColumns
        choices = dict.fromkeys([*described, NO_VIEW, view, f"{table.name}_{view}"], "")
        given = self._answers.given(f"{table.source}:{column}", choices)
        if given == NO_VIEW:
            self.denied.add((table.name, column))
        elif given in described:
            other = described[given]
            match = best_match(self._db, table.column(column), other.column(str(other.key)))
            self._accept(table, column, Candidate(other, match))
            return {column: given}
        return {}

    def _candidates(self, table: Table, column: str, *, named: bool) -> list[Candidate]:
        """Return the tables whose ids a column may hold, with their match rates."""
        profile, candidates = table.columns[column], []
        is_key = column == table.key
        for other in self._tables:
            if other.key is None or (other is table and is_key):
                continue
            # Names that were taken from the name of the file are less sure than the values.
            in_header = not isinstance(table.source.dialect.header, tuple)
            after = in_header and holds_ids_of(column, other.name)
            equal = plain_name(column) == plain_name(other.key) and not is_generic(other.key)
            if is_key and (holds_ids_of(column, table.name) or not after):
                continue
            if other is table:
                after = equal = False
            if (after or equal) != named:
                continue
            if not named and not self._may_match(table, column, profile, other):
                continue
            match = best_match(self._db, table.column(column), other.column(other.key))
            candidates.append(Candidate(other, match))
        return candidates

    def _may_match(self, table: Table, column: str, profile: Profile, other: Table) -> bool:
        """Return whether a column without a name that says so may hold ids of a table."""
        number = profile.kind in ("integer", "number")
        if other is table:  # links within the view: a boss, a parent, a reply
            return not number or bool(KEY_NAMES.search(column))
        if column.lower() in WEIGHT_NAMES or TIME_NAMES.search(column) or profile.is_time:
            return False
        if not number:
            return True
        if names_an_entity(column):
            return False
        # Small integers occur among the ids of any table: there must be many distinct ones, and
        # the table must have no id, else they may be ages.
        enough = max(20, 0.1 * other.columns[str(other.key)].distinct)
        return table.key is None and profile.distinct >= enough

    def _choose_named(self, table: Table, column: str, candidates: list[Candidate]) -> str | None:
        """Return the table that a column is named after, if its values agree."""
        best = max(
            candidates,
            key=lambda c: (
                c.match.share >= TRUSTED,
                holds_ids_of(column, c.table.name),
                c.match.share,
            ),
        )
        if best.match.share >= TRUSTED:
            return self._accept(table, column, best)
        like_a_key = KEY_NAMES.search(column) or plain_name(column) == plain_name(
            str(best.table.key)
        )
        if table.key is not None and not like_a_key:
            return None  # a property, such as a country
        return self._ask(table, column, [best])

    def _choose_unnamed(self, table: Table, column: str, candidates: list[Candidate]) -> str | None:
        """Return the table whose ids are the values of a column, if that is clear."""
        number = table.columns[column].kind in ("integer", "number")
        number = number and any(_is_dense(c.table) for c in candidates)
        candidates = sorted(candidates, key=lambda c: (-c.match.overlap, -c.match.share))
        likely = [c for c in candidates if c.match.share > CERTAIN]
        if not likely:
            return None
        if not number:
            own = [c for c in likely if c.table is table or len(likely) == 1]
            if own or likely[0].match.overlap > 2 * likely[1].match.overlap:
                return self._accept(table, column, (own or likely)[0])
            return self._ask(table, column, likely)
        # Integers from 1 are among the ids of every larger table: the sets must be the same.
        first, others = likely[0], likely[1:]
        if first.table is table and is_self_reference(column):
            return self._accept(table, column, first)
        if not others and _is_end(table, column):
            return self._accept(table, column, first)
        if first.match.overlap >= SAME and all(
            c.match.overlap < SAME * first.match.overlap for c in others
        ):
            return self._accept(table, column, first)
        initials = [c for c in likely if _has_initial(column, c.table)]
        if len(initials) == 1 and initials[0].match.share >= 0.99:
            return self._accept(table, column, initials[0])
        for other in self._tables:  # another part of the same data
            if other is not table and list(other.columns) == list(table.columns):
                for candidate in likely:
                    if other.foreign.get(column) == candidate.table.name:
                        return self._accept(table, column, candidate)
        return self._ask(table, column, likely, candidates)

    def _accept(self, table: Table, column: str, candidate: Candidate) -> str:
        self.matches[table.name, column] = candidate.match
        candidate.table.normalize_ids |= candidate.match.normalized
        return candidate.table.name

    def _ask(
        self,
        table: Table,
        column: str,
        candidates: list[Candidate],
        compared: list[Candidate] | None = None,
    ) -> str | None:
        """Ask which table's ids a column holds; ``compared`` are all that it was compared with."""
        if not self._may_ask:
            raise _NotSure
        choices = {
            c.table.name: f"it holds ids of {c.table.name}" for c in candidates if c.match.matched
        }
        choices[NO_VIEW] = "it holds none of these ids; they are of a view without a table, if any"
        shown = (compared or candidates)[:4]
        rates = "; ".join(str(c.match) for c in shown)
        text = f"{table.source}: whose ids does column {column!r} hold? {rates}"
        text += f". {table.rounded[column]}" if column in table.rounded else ""
        if not candidates[0].match.matched:
            text += ". To link the two, write the ids in the same way in both files"
            unlike = [c.table.source for c in shown if not c.match.is_ascii]
            text += explain_encodings([table.source, *unlike] if unlike else [])
        answer = self._answers.answer(Question(f"{table.source}:{column}", text, choices))
        if answer == NO_VIEW:
            self.denied.add((table.name, column))
            return None
        (chosen,) = (c for c in candidates if c.table.name == answer)
        return self._accept(table, column, chosen)

    def find_similar(self, table: Table, column: str, orphans: list[Table]) -> str | None:
        """Return the table whose ids a column holds that would else be a view of its own.

        Ask if some of its values are ids, or if nothing refers to a table with about as many ids.
        """
        if (table.name, column) in self.denied:
            return None
        number = table.columns[column].kind == "integer"
        names_another = number and names_an_entity(column)
        candidates = []
        for other in self._tables:
            taken = other.name in table.foreign.values() and (number or KEY_NAMES.search(column))
            if other.key is None or other is table or taken:
                continue
            match = best_match(self._db, table.column(column), other.column(other.key))
            as_many = other in orphans and 0.2 * match.ids <= match.values <= 5 * match.ids
            some = match.share >= (0.3 if number else 0.1)
            if as_many or (some and not names_another):
                candidates.append(Candidate(other, match))
        return self._ask(table, column, candidates) if candidates else None


def _is_dense(table: Table) -> bool:
    """Return whether ids are integers with few gaps, so that other integers are among them."""
    key = table.columns[str(table.key)]
    if key.minimum is None or key.maximum is None:
        return False
    return key.distinct > 0.2 * (key.maximum - key.minimum + 1)


def _is_end(table: Table, column: str) -> bool:
    """Return whether a column is one of the two ends in an edge list, such as source and target."""
    names = {name.lower() for name in table.columns}
    return any(column.lower() in ends and ends <= names for ends in EDGE_LIST_NAMES)


def _has_initial(column: str, table: Table) -> bool:
    """Return whether a column is named by a table's first letter: uid of users."""
    match = re.fullmatch(r"([a-z])_?id", column.lower())
    return match is not None and match[1] == table.name.lower()[:1]
