"""Stage and profile the tables of a folder, and guess their ids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb

from pmvge.errors import TableError
from pmvge.tables.guessing.array_rows import join_arrays
from pmvge.tables.guessing.cells import decimal_commas, is_code
from pmvge.tables.guessing.folder import FoundTable
from pmvge.tables.guessing.foreign_keys import MAX_COLUMNS, Table
from pmvge.tables.guessing.guess import GENERIC_NAMES, TIME_NAMES, guess_key, id_by_name
from pmvge.tables.guessing.profile import profile_columns
from pmvge.tables.guessing.questions import Answers, Question, UnsureError
from pmvge.tables.guessing.text_files import NUMBER
from pmvge.tables.sources.connection import table_errors
from pmvge.tables.sources.formats import declared_types
from pmvge.tables.sources.source import Source
from pmvge.tables.sources.staging import stage

MOSTLY = 0.8  # share of numbers in a column whose other values are missing


def stage_tables(
    db: duckdb.DuckDBPyConnection, folder: Path, found: list[FoundTable], answers: Answers
) -> tuple[list[Table], dict[str, str]]:
    """Return the tables that can be read, and the reasons for the others."""
    tables: list[Table] = []
    skipped: dict[str, str] = {}
    for number, given in enumerate(found):
        source, notes = given.source, given.notes
        try:
            table = _stage(db, folder, f"table {number}", given.name, source)
            dialect = source.dialect
            if _has_decimal_commas(table, answers):
                dialect = replace(dialect, decimal=",")
                notes += (f"{source} has numbers with a decimal comma",)
            if words := _missing_words(table):
                dialect = replace(dialect, na_values=words)
                listed = ", ".join(map(repr, words))
                notes += (f"{source}: {listed} among numbers are missing values (na_values)",)
            if dialect != source.dialect:
                written = replace(source, dialect=dialect)
                table = _stage(db, folder, f"table {number} as written", given.name, written)
        except UnsureError:
            raise
        except TableError as error:
            skipped[str(source)] = str(error).removeprefix(f"{source}: ")
            continue
        if not next(iter(table.columns.values())).rows:
            skipped[str(source)] = "no rows"
            continue
        if any(table.name == other.name for other in tables):
            table.name = f"{given.name}_{number}"
        table.notes = notes
        tables.append(table)
    tables = join_arrays(db, folder, tables, answers, _stage)
    for table in tables:
        key = answers.given(f"{table.source}:id", dict.fromkeys(table.columns, ""))
        others = [other for other in tables if other is not table]
        table.key = key or _shared_key(table, others) or guess_key(table.name, table.columns)
    return tables, skipped


def _shared_key(table: Table, others: list[Table]) -> str | None:
    """Return the only column of distinct values whose name occurs in another table with repeats."""
    if id_by_name(table.name, table.columns) is not None:
        return None
    shared = [
        column
        for column, profile in list(table.columns.items())[:MAX_COLUMNS]
        if profile.nearly_unique(0.9)
        and not TIME_NAMES.search(column)
        and not GENERIC_NAMES.fullmatch(column)
        and column != "index"
        and any(
            column in other.columns and not other.columns[column].nearly_unique(0.9)
            for other in others
        )
    ]
    return shared[0] if len(shared) == 1 else None


def _stage(
    db: duckdb.DuckDBPyConnection, folder: Path, raw: str, name: str, source: Source
) -> Table:
    types = stage(db, raw, source, folder)
    with table_errors(str(source)):
        columns = profile_columns(db, raw, types)
        return Table(name, source, raw, types, columns, declared_types(source, folder))


def _has_decimal_commas(table: Table, answers: Answers) -> bool:
    """Return whether a table has numbers such as 3,5; ask if they could be 1,500."""
    if table.source.path is None:
        return False
    found = {c: decimal_commas(p.cells) for c, p in table.columns.items() if p.cells}
    columns = [c for c, kind in found.items() if kind is not None]
    if not columns:
        return False
    choices = {",": "the comma is a decimal comma", ".": "it is not, and these values are texts"}
    key = f"{table.source}:decimal"
    given = answers.given(key, choices)
    if given is None and all(found[c] == "either" for c in columns):
        example = next(cell for cell in table.columns[columns[0]].cells if "," in cell)
        text = f"{table.source}: column {columns[0]!r}: is {example!r} a number below 1,000?"
        given = answers.answer(Question(key, text, choices))
    return given in (None, ",")


def _missing_words(table: Table) -> tuple[str, ...]:
    """Return words without digits, at most three, in columns of which most values are numbers."""
    words: dict[str, None] = {}
    for column, profile in table.columns.items():
        known = column in table.declared or is_code(column, profile.padded)
        if profile.numbers >= MOSTLY * profile.present > 0 and not known:
            others = {cell: None for cell in profile.cells if not NUMBER.fullmatch(cell)}
            if len(others) <= 3 and not any(map(str.isdigit, "".join(others))):
                words |= others
    return tuple(words)
