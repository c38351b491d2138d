"""Stage and profile the tables of a folder, and guess their ids."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import duckdb

from pmvge.errors import TableError
from pmvge.tables.guessing.array_rows import join_arrays
from pmvge.tables.guessing.cells import decimal_commas, is_code, is_number
from pmvge.tables.guessing.column_names import GENERIC_NAMES, TIME_NAMES
from pmvge.tables.guessing.damaged_ids import find_damaged_key
from pmvge.tables.guessing.folder import FoundTable
from pmvge.tables.guessing.foreign_keys import MAX_COLUMNS
from pmvge.tables.guessing.id_column import guess_key, id_by_name
from pmvge.tables.guessing.profile import profile_columns
from pmvge.tables.guessing.questions import Answers, Question, UnsureError
from pmvge.tables.guessing.table import Table
from pmvge.tables.sources.amounts import decimal_evidence
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
            else:
                notes += _thousands(table)
            notes += _mixed_amounts(table)
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
        table.notes = notes + tuple(table.rounded.values())
        tables.append(table)
    tables = join_arrays(db, folder, tables, answers, _stage)
    for table in tables:
        key = answers.given(f"{table.source}:id", dict.fromkeys(table.columns, ""))
        others = [other for other in tables if other is not table]
        table.key = key or _shared_key(table, others) or _guess_key(db, table, others)
    return tables, skipped


def _guess_key(db: duckdb.DuckDBPyConnection, table: Table, others: list[Table]) -> str | None:
    """Return the most likely id of a table, by its own columns and those that refer to it."""
    guessed = guess_key(table.name, table.columns)
    if guessed is not None and id_by_name(table.name, table.columns) == guessed:
        return guessed
    with table_errors(str(table.source)):
        return find_damaged_key(db, table, guessed, others) or guessed


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
    columns = [c for c, kind in found.items() if kind in ("decimal", "either")]
    if not any(found.values()):
        return False
    choices = {",": "the comma is a decimal comma", ".": "it is not, and these values are texts"}
    key = f"{table.source}:decimal"
    given = answers.given(key, choices)
    if not columns:
        return given == ","
    if given is None and "decimal" not in found.values():
        example = next(cell for cell in table.columns[columns[0]].cells if "," in cell)
        text = f"{table.source}: column {columns[0]!r}: is {example!r} a number below 1,000?"
        given = answers.answer(Question(key, text, choices))
    return given in (None, ",")


def _thousands(table: Table) -> tuple[str, ...]:
    """Return notes on columns of amounts such as €1,500, whose comma separates thousands."""
    notes = []
    for column, profile in table.columns.items():
        if decimal_commas(profile.cells) == "thousands":
            example = next(cell for cell in profile.cells if "," in cell)
            digits = re.sub(r"[^0-9]", "", example)
            notes.append(
                f"{table.source}: column {column!r}: {example!r} is read as {digits}; "
                'decimal = "," makes the comma a decimal one'
            )
    return tuple(notes)


def _mixed_amounts(table: Table) -> tuple[str, ...]:
    """Return notes on columns of amounts of which some have decimal points and some commas."""
    notes = []
    for column, profile in table.columns.items():
        point, comma, _ = decimal_evidence(profile.cells if profile.kind == "number" else ())
        if point is not None and comma is not None:
            digits = re.sub(r"[^0-9,]", "", comma).replace(",", ".")
            notes.append(
                f"{table.source}: column {column!r} has decimal points and decimal commas: "
                f"{comma!r} is read as {digits}"
            )
    return tuple(notes)


def _missing_words(table: Table) -> tuple[str, ...]:
    """Return words without digits, at most three, in columns of which most values are numbers."""
    words: dict[str, None] = {}
    for column, profile in table.columns.items():
        known = column in table.declared or is_code(column, profile.padded)
        if profile.numbers >= MOSTLY * profile.present > 0 and not known:
            others = {cell: None for cell in profile.cells if not is_number(cell)}
            if len(others) <= 3 and not any(map(str.isdigit, "".join(others))):
                words |= others
    return tuple(words)
