"""Guess whose rows the rows of a NumPy array are: ``films.csv + posters.npy``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb

from pmvge.tables.guessing.column_names import is_named_after
from pmvge.tables.guessing.id_column import guess_key
from pmvge.tables.guessing.questions import Answers, Question
from pmvge.tables.guessing.table import Table
from pmvge.tables.sources.arrays import ROW
from pmvge.tables.sources.connection import fetch_all, quote_ident
from pmvge.tables.sources.files import ARRAYS
from pmvge.tables.sources.source import Source

ALONE = "none"
Stage = Callable[[duckdb.DuckDBPyConnection, Path, str, str, Source], Table]


def join_arrays(
    db: duckdb.DuckDBPyConnection, folder: Path, tables: list[Table], answers: Answers, stage: Stage
) -> list[Table]:
    """Return the tables, with arrays added to those whose rows they have.

    An array belongs to the table that it is named after, if both have the same number of rows. If
    it is named after none, but a table has as many rows, ask. Other arrays stay tables of their
    own, whose ids are row numbers.
    """
    arrays = [t for t in tables if ROW in t.types and str(t.source.path).lower().endswith(ARRAYS)]
    joined = [table for table in tables if table not in arrays]
    for array in arrays:
        n = _count(db, array)
        hosts = {
            str(table.source): table
            for table in joined
            if table not in arrays
            and guess_key(table.name, table.columns)
            and _count(db, table) == n
        }
        chosen = _choose(array, hosts, n, answers)
        if chosen is None:
            joined.append(array)
            continue
        host = hosts[chosen]
        source = replace(host.source, arrays=(*host.source.arrays, str(array.source.path)))
        new = stage(db, folder, f"{host.raw} + {array.raw}", host.name, source)
        note = f"the rows of {array.source} are those of {host.source}, in their order"
        new.notes = (*host.notes, note)
        joined[joined.index(host)] = new
    return joined


def _choose(array: Table, hosts: dict[str, Table], n: int, answers: Answers) -> str | None:
    """Return the source of the table that an array belongs to; None if it stands alone."""
    choices = {name: f"its rows are those of {name}, in their order" for name in hosts}
    choices[ALONE] = "it is a view of its own, whose ids are row numbers from 0"
    key = f"{array.source}:rows"
    given = answers.given(key, choices)
    if given is None and hosts:
        named = [name for name, table in hosts.items() if is_named_after(array.name, table.name)]
        if len(named) == 1:
            return named[0]
        text = f"{array.source}: whose rows are its {n:,} rows? {', '.join(hosts)} has as many"
        given = answers.answer(Question(key, text, choices))
    return None if given in (None, ALONE) else given


def _count(db: duckdb.DuckDBPyConnection, table: Table) -> int:
    ((n,),) = fetch_all(db, f"SELECT count(*) FROM {quote_ident(table.raw)}")
    return int(n)
