"""Link tables to links: ids are joined with those of the views, and what cannot be is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow
from numpy.typing import NDArray

from pmvge.errors import TableError, cut, short
from pmvge.graph import Ids
from pmvge.tables.columns.casts import as_id, check_column
from pmvge.tables.project import LinkTable
from pmvge.tables.sources.workbench import apart, ask, literal, quoted, readable

Triple = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
# The first of these that is true of a row is why it is dropped.
REASONS = ("null id", "unknown id", "no weight", "zero weight", "self-link")


@dataclass(frozen=True)
class IdTable:
    """The ids of a view on the workbench: a table with the column ``id``; rows are positions."""

    view: str
    name: str
    type: str  # BIGINT or VARCHAR


@dataclass(frozen=True)
class Joined:
    """What became of the rows of one link table."""

    pair: tuple[str, str]
    rows: int
    dropped: Mapping[str, int]  # reason to rows
    strangers: Mapping[str, tuple[str, ...]]  # view to a few ids that it does not have

    def __str__(self) -> str:
        counts = ", ".join(f"{n:,} with {_A[reason]}" for reason, n in self.dropped.items())
        some = "; ".join(
            f"not in {view!r}: {', '.join(ids)}" for view, ids in self.strangers.items() if ids
        )
        lost = sum(self.dropped.values())
        how = "MOST ROWS DROPPED, " if lost > self.rows / 2 else ""
        return (
            f"links {','.join(self.pair)}: {how}{lost:,} of {self.rows:,} rows dropped: {counts}"
            + (f" ({some})" if some else "")
        )


_A = {
    "null id": "an empty id",
    "unknown id": "an unknown id",
    "no weight": "no weight",
    "zero weight": "weight zero",
    "self-link": "the same id twice",
}


def register_ids(db: duckdb.DuckDBPyConnection, view: str, ids: Ids) -> IdTable:
    """Put the ids of a view onto the workbench, in their order."""
    name = f"ids of {apart(view)}"
    db.register("given ids", pyarrow.table({"id": pyarrow.array(ids)}))
    db.execute(f'CREATE TEMP TABLE {quoted(name)} AS SELECT id FROM "given ids"')
    db.unregister("given ids")
    return IdTable(view, name, "BIGINT" if ids.dtype.kind in "iu" else "VARCHAR")


def join_links(
    db: duckdb.DuckDBPyConnection,
    raw: str,
    types: Mapping[str, str],
    table: LinkTable,
    left: IdTable,
    right: IdTable,
) -> tuple[Triple, Joined]:
    """Positions and weights of the links in a raw table, one entry for each pair of ids."""
    where = f"links {left.view},{right.view} ({table.source})"
    columns = table.columns or ("", "")
    for column in (*columns, *([table.weight] if table.weight else [])):
        check_column(where, column, types)
    weight = _weight(db, where, raw, types, table)
    a, b = (quoted(column) for column in columns)
    i, j = (
        as_id(column, types, side.type) for column, side in zip(columns, (left, right), strict=True)
    )
    same = "l.rowid = r.rowid" if left.view == right.view else "false"
    with readable(where):
        db.execute(
            f"""CREATE OR REPLACE TEMP TABLE joined AS
            SELECT l.rowid AS i, r.rowid AS j, w, a, b, CASE
                WHEN a IS NULL OR b IS NULL THEN 'null id'
                WHEN l.rowid IS NULL OR r.rowid IS NULL THEN 'unknown id'
                WHEN w IS NULL THEN 'no weight'
                WHEN w = 0 THEN 'zero weight'
                WHEN {same} THEN 'self-link'
                END AS reason
            FROM (SELECT {a} AS a, {b} AS b, {i} AS i, {j} AS j, {weight} AS w FROM {quoted(raw)}) t
            LEFT JOIN {quoted(left.name)} l ON t.i = l.id
            LEFT JOIN {quoted(right.name)} r ON t.j = r.id"""
        )
        joined = _account(db, where, left, right)
        # A sum of fractions depends on their order; that of the rows shall not matter.
        total = "sum(w ORDER BY w)" if table.weight else "sum(w)"
        aggregate = {"sum": total, "count": "count(*)", "max": "max(w)"}[table.aggregate]
        links = db.sql(
            f"SELECT i, j, CAST({aggregate} AS DOUBLE) AS w FROM joined WHERE reason IS NULL "
            "GROUP BY 1, 2 ORDER BY 1, 2"
        ).fetchnumpy()
        db.execute("DROP TABLE joined")
    rows, cols, weights = (np.asarray(links[key]) for key in ("i", "j", "w"))
    return (rows.astype(np.int64), cols.astype(np.int64), weights.astype(np.float64)), joined


def _weight(
    db: duckdb.DuckDBPyConnection,
    where: str,
    raw: str,
    types: Mapping[str, str],
    table: LinkTable,
) -> str:
    """The SQL of the weight, after a look at whether all of them are numbers >= 0."""
    if table.weight is None or table.aggregate == "count":
        return "1.0"
    name = quoted(table.weight)
    number = f"TRY_CAST({name} AS DOUBLE)"
    with readable(where):
        for condition, expected in (
            (f"{name} IS NOT NULL AND {number} IS NULL", "numbers"),
            (f"{number} < 0", "weights >= 0"),
            (f"isinf({number})", "finite weights"),
        ):
            query = f"SELECT count(*), min({name}) FROM {quoted(raw)} WHERE {condition}"
            ((count, example),) = ask(db, query)
            if count:
                raise TableError(
                    f"{where}: weight column {table.weight!r}: expected {expected}, but {count:,} "
                    f"are not, such as {short(example)}"
                )
    return f"CASE WHEN NOT isnan({number}) THEN {number} END"


def _account(db: duckdb.DuckDBPyConnection, where: str, left: IdTable, right: IdTable) -> Joined:
    counts: dict[str | None, int] = dict(ask(db, "SELECT reason, count(*) FROM joined GROUP BY 1"))
    total, kept = sum(counts.values()), counts.pop(None, 0)
    dropped = {str(reason): counts[reason] for reason in REASONS if reason in counts}
    if not total:
        raise TableError(f"{where}: the table has no rows")
    strangers = {
        side.view: tuple(
            _one_line(row[0])
            for row in ask(
                db,
                f"SELECT DISTINCT CAST({column} AS VARCHAR) AS id FROM joined "
                f"WHERE reason = 'unknown id' AND {position} IS NULL ORDER BY 1 LIMIT 3",
            )
        )
        for side, column, position in ((left, "a", "i"), (right, "b", "j"))
    }
    joined = Joined((left.view, right.view), total, dropped, strangers)
    if not kept:
        raise TableError(
            f"{where}: none of its {total:,} rows is a link: {_why(db, joined, left, right)}"
        )
    return joined


def _one_line(value: object) -> str:
    return cut(" ".join(str(value).splitlines()))


def _why(db: duckdb.DuckDBPyConnection, joined: Joined, left: IdTable, right: IdTable) -> str:
    """The reasons, with three ids of each side where they do not meet."""
    told = [f"{n:,} with {_A[reason]}" for reason, n in joined.dropped.items()]
    for side in dict.fromkeys((left, right)):
        if joined.strangers[side.view]:
            query = f"SELECT CAST(id AS VARCHAR) FROM {quoted(side.name)} ORDER BY id LIMIT 3"
            ours = ", ".join(literal(_one_line(row[0])) for row in ask(db, query))
            theirs = ", ".join(map(literal, joined.strangers[side.view]))
            told.append(f"view {side.view!r} has ids like {ours}, the links have {theirs}")
    return "; ".join(told)
