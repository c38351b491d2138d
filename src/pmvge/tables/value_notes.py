"""Notes on the values of new rows, and on which rows are known."""

from __future__ import annotations

from pmvge.tables.columns.encoded import Notes


def describe_values(view: str, notes: Notes) -> list[str]:
    """Return notes on known and new rows, and on values that were missing or not in training."""
    lines = []
    absent = {column: kind for column, kind in notes if kind.startswith("absent")}
    for column, kind in absent.items():
        near = kind.partition(", like ")[2]
        lines.append(
            f"view {view}: no column {column!r}: all its values count as missing and are filled in"
            + (f"; did you mean {near}?" if near else "")
        )
    for (column, kind), count in notes.items():
        if kind in ("known", "new", "linked") or column in absent:
            continue
        if count and kind == "invalid":
            lines.append(
                f"view {view}: {count:,} values of {column!r} are not of its kind: missing"
            )
        elif count and kind == "missing":
            lines.append(f"view {view}: {count:,} values of {column!r} are missing: filled in")
        elif count and kind == "numbered":
            lines.append(f"view {view}: no column {column!r}: rows are numbered from 0")
        elif count:
            lines.append(
                f"view {view}: {count:,} values of {column!r} were not seen in training: treated "
                "as none of the known values"
            )
    if ("rows", "known") in notes:
        rows = f"{notes['rows', 'known']:,} known from training, {notes['rows', 'new']:,} new"
        first = f", {notes['rows', 'linked']:,} of them with first links"
        lines.append(f"view {view}: {rows}{first if ('rows', 'linked') in notes else ''}")
    return lines
