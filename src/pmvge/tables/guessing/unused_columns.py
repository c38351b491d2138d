"""Notes on columns that are not used, and on columns of numbers with errors."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from pmvge.errors import short
from pmvge.tables.guessing.cells import are_codes, is_code, is_number
from pmvge.tables.guessing.column_names import TIME_NAMES
from pmvge.tables.guessing.feature_kinds import guess_features
from pmvge.tables.guessing.table import Table
from pmvge.tables.project import LinkTable, ViewTable

MOSTLY_NUMBERS = 0.8  # share of numbers from which the other values may be errors


def explain_unused(table: Table, view: ViewTable) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns of a view that are not used, and notes on the reasons."""
    used = {table.key, *table.foreign, *view.labels}
    columns = {c: p for c, p in table.columns.items() if c not in used}
    _, reasons = guess_features(columns, table.declared)
    grouped: dict[str, list[str]] = {}
    for column, reason in reasons.items():
        grouped.setdefault(reason, []).append(column)
    notes = []
    for reason, names in grouped.items():
        listed = ", ".join(map(short, names[:5])) + (", ..." if len(names) > 5 else "")
        what, it = ("column", "it") if len(names) == 1 else (f"{len(names):,} columns,", "each")
        notes.append(f"{table.source}: left out {what} {listed}: {it} {reason}")
    for column, p in columns.items():
        feature = (view.features or {}).get(column)
        mostly = MOSTLY_NUMBERS * p.present <= p.numbers < p.present
        if feature is None or feature.kind not in ("category", "text") or not mostly:
            continue
        codes = are_codes(p.cells) and min(map(len, p.cells)) >= 4  # 85711 and T8H1N
        known = codes or is_code(column, p.padded) or column in table.declared
        if not known:
            examples = (short(c) for c in p.cells if not is_number(c))
            notes.append(
                f"{table.source}: column {column!r} is a {feature.kind}: {p.numbers:,} of "
                f"{p.present:,} values are numbers, but not {next(examples, 'later ones')}; if "
                'these are errors, set its kind to numeric and on_error = "missing"'
            )
    return (*reasons, *table.foreign), notes


def unused_in_links(table: Table, links: Iterable[LinkTable]) -> list[str]:
    """Return a note on the columns of a link table that are neither ids nor weights.

    It names the command that splits the table by a time, if it has one.
    """
    used = {column for link in links for column in (*(link.columns or ()), link.weight)}
    unused = [column for column in table.columns if column not in used]
    if not unused:
        return []
    listed = ", ".join(unused[:8]) + (", ..." if len(unused) > 8 else "")
    note = f"{table.source}: columns not used: {listed}"
    times = [column for column in unused if _is_time(table, column)]
    if times:
        options = f"{shlex.quote(str(table.source))} --time {shlex.quote(times[0])}"
        note += f"; to hold out the latest links: pmvge split {options}"
    return [note]


def _is_time(table: Table, column: str) -> bool:
    profile = table.columns[column]
    number = profile.kind in ("integer", "number")
    return profile.kind == "date" or profile.is_time or (number and bool(TIME_NAMES.search(column)))
