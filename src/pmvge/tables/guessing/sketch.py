"""Guess a project from the tables in a folder: which are views, which are links, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pmvge.errors import TableError
from pmvge.tables.guessing.assembly import Assembly
from pmvge.tables.guessing.folder import find_database_tables, find_tables
from pmvge.tables.guessing.foreign_keys import ForeignKeys
from pmvge.tables.guessing.questions import Answers, Question, UnsureError
from pmvge.tables.guessing.staged_tables import stage_tables
from pmvge.tables.project import Project
from pmvge.tables.sources.connection import connect, table_errors
from pmvge.tables.sources.source import ADDRESSES, without_password


@dataclass(frozen=True, eq=False)
class Sketch:
    """A guessed project, with reasons for the user."""

    project: Project
    reasons: Mapping[str, str]  # view, or "view,view" -> why it was chosen
    skipped: Mapping[str, str]  # file or table -> why it was left out
    matches: tuple[str, ...]  # match rates of the id columns of links
    notes: tuple[str, ...]  # how files are written, columns without use, damaged ids
    unused: Mapping[str, tuple[str, ...]]  # view -> columns that are not used


def sketch_project(
    folder: str | Path,
    answers: Mapping[str, str] | None = None,
    ask: Callable[[Question], str] | None = None,
) -> Sketch:
    """Return a project guessed from the files in a folder, or from a PostgreSQL database.

    ``folder`` is a folder, or an address such as ``postgresql://host/name``.

    If two readings are close, ``ask`` gets a :class:`Question` and returns one of its choices;
    without it UnsureError with all questions is raised. ``answers`` are answers in advance, by the
    keys of questions; they also overrule guesses. Raise TableError if there are no tables, or none
    that links two entities.
    """
    open_questions: dict[str, Question] = {}

    def take_first(question: Question) -> str:
        open_questions[question.key] = question
        return question.first

    try:
        sketch = _sketch(folder, Answers(answers, ask or take_first))
    except TableError as error:
        # What follows from a reading that may be wrong is no error yet, but a wrong answer is.
        if not open_questions or str(error).startswith("--choose"):
            raise
    if open_questions:
        raise UnsureError(*open_questions.values())
    return sketch


def _sketch(folder: str | Path, decisions: Answers) -> Sketch:
    """Return a project guessed from a folder or a database, with the answers to all questions."""
    address = str(folder) if str(folder).startswith(ADDRESSES) else None
    path = Path(folder) if address is None else Path()
    if not path.is_dir():
        raise TableError(f"{path}: no such folder")
    with connect(path) as db:
        if address is None:
            found, skipped = find_tables(path, decisions)
        else:
            found, skipped = find_database_tables(address)
        tables, not_read = stage_tables(db, path, found, decisions)
        skipped |= not_read
        if not tables:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in list(skipped.items())[:5])
            where = f"{path}: expected CSV, JSON, Parquet, Arrow, Excel, NumPy or database files"
            if address is not None:
                where = f"{without_password(address)}: expected tables with rows"
            raise TableError(f"{where}, found no tables" + (f" ({reasons})" if reasons else ""))
        keys = ForeignKeys(db, tables, decisions)
        with table_errors(str(path)):
            keys.find_all()
        referenced = {other for table in tables for other in table.foreign.values()}
        for table in tables:
            if table.key == "index" and table.name not in referenced:  # row numbers
                table.key = None
            if table.key in table.foreign:  # distinct, but ids of another table: (movie, genre)
                if len(table.foreign) > 1:
                    table.key = None
                else:
                    del table.foreign[table.key]
        assembly = Assembly(db, tables, keys, decisions)
        assembly.add_views()
        assembly.add_links(path, skipped)
    decisions.check_used()
    return Sketch(
        Project(assembly.views, assembly.links, {}, path),
        assembly.reasons,
        skipped | assembly.skipped,
        tuple(assembly.matches),
        tuple(assembly.notes),
        assembly.unused,
    )
