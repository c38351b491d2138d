"""Join link tables with the ids of views, and count the rows that are dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow
from numpy.typing import NDArray

from pmvge.errors import TableError, short, truncate
from pmvge.graph import Ids
from pmvge.tables.columns.casts import check_column
from pmvge.tables.columns.id_casts import cast_id, check_exact, find_collision, normalize_id
from pmvge.tables.columns.unreadable import advise, comma_fix, first_invalid
from pmvge.tables.project import LinkTable
from pmvge.tables.sources.amounts import cast_amount
from pmvge.tables.sources.connection import (
    fetch_all,
    hex_name,
    quote_ident,
    quote_literal,
    table_errors,
)

Triple = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
# Reasons to drop a row, in this order: the first that applies is counted.
REASONS = ("null id", "unknown id", "no weight", "zero weight", "self-link")


@dataclass(frozen=True)
class IdTable:
    """A table of the connection with the ids of a view in column ``id``, in order of position."""

    view: str
    name: str
    type: str  # BIGINT or VARCHAR
    normalize: bool = False  # whether ids of other tables are read without padding


@dataclass(frozen=True)
class JoinSummary:
    """The numbers of rows of a link table, in total and dropped."""

    pair: tuple[str, str]
    rows: int
    dropped: Mapping[str, int]  # reason -> number of rows
    unknown_ids: Mapping[str, tuple[str, ...]]  # view -> a few ids that it does not have
    # view -> rows whose unknown id differs from an id of the view in type or padding only
    padded: Mapping[str, int] = field(default_factory=dict)
    # view -> two of its ids that differ in padding only
    collisions: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = ", ".join(
            f"{n:,} with {_DESCRIPTIONS[reason]}" for reason, n in self.dropped.items()
        )
        examples = "; ".join(
            f"not in {view!r}: {', '.join(ids)}" for view, ids in self.unknown_ids.items() if ids
        )
        n_dropped = sum(self.dropped.values())
        warning = "MOST ROWS DROPPED, " if n_dropped > self.rows / 2 else ""
        return (
            f"links {','.join(self.pair)}: {warning}{n_dropped:,} of {self.rows:,} rows dropped: "
            f"{counts}" + (f" ({examples})" if examples else "") + self.padding()
        )

    def padding(self) -> str:
        """Return what to do about ids that differ in type or padding only; "" if there are none."""
        parts = []
        for view, n in self.padded.items():
            fix = f"set normalize_ids = true in [views.{view}]"
            if view in self.collisions:
                one, other = map(short, self.collisions[view])
                fix = f"{view!r} has both {one} and {other}, so write the ids alike in all tables"
            parts.append(
                f"; {n:,} of the unknown ids are ids of {view!r} but for leading zeros, blanks or "
                f".0 around them: {fix}"
            )
        return "".join(parts)


_DESCRIPTIONS = {
    "null id": "an empty id",
    "unknown id": "an unknown id",
    "no weight": "no weight",
    "zero weight": "weight zero",
    "self-link": "the same id twice",
}


def register_ids(
    db: duckdb.DuckDBPyConnection, view: str, ids: Ids, *, normalize: bool = False
) -> IdTable:
    """Copy the ids of a view into a table of the connection, in their order.

    With ``normalize`` they have no padding, and ids of other tables are read without it.
    """
    name = f"ids of {hex_name(view)}"
    db.register("given ids", pyarrow.table({"id": pyarrow.array(ids)}))
    db.execute(f'CREATE TEMP TABLE {quote_ident(name)} AS SELECT id FROM "given ids"')
    db.unregister("given ids")
    return IdTable(view, name, "BIGINT" if ids.dtype.kind in "iu" else "VARCHAR", normalize)


def join_links(
    db: duckdb.DuckDBPyConnection,
    raw: str,
    types: Mapping[str, str],
    table: LinkTable,
    left: IdTable,
    right: IdTable,
) -> tuple[Triple, JoinSummary]:
    """Return the links of a staged table, (rows, cols, weights), and a summary of dropped rows.

    There is one entry per pair of ids. Raise TableError if a weight is not a number >= 0, or if no
    row can be used.
    """
    where = f"links {left.view},{right.view} ({table.source})"
    columns = table.columns or ("", "")
    for column in (*columns, *([table.weight] if table.weight else [])):
        check_column(where, column, types)
    with table_errors(where):
        for column in columns:
            check_exact(db, where, raw, column, types)
    weight = _weight(db, where, raw, types, table)
    a, b = (quote_ident(column) for column in columns)
    i, j = (
        cast_id(column, types, side.type, side.normalize)
        for column, side in zip(columns, (left, right), strict=True)
    )
    same = "l.rowid = r.rowid" if left.view == right.view else "false"
    with table_errors(where):
        db.execute(
            f"""CREATE OR REPLACE TEMP TABLE joined AS
            SELECT l.rowid AS i, r.rowid AS j, w, a, b, CASE
                WHEN a IS NULL OR b IS NULL THEN 'null id'
                WHEN l.rowid IS NULL OR r.rowid IS NULL THEN 'unknown id'
                WHEN w IS NULL THEN 'no weight'
                WHEN w = 0 THEN 'zero weight'
                WHEN {same} THEN 'self-link'
                END AS reason
            FROM (
                SELECT {a} AS a, {b} AS b, {i} AS i, {j} AS j, {weight} AS w
                FROM {quote_ident(raw)}
            ) t
            LEFT JOIN {quote_ident(left.name)} l ON t.i = l.id
            LEFT JOIN {quote_ident(right.name)} r ON t.j = r.id"""
        )
        summary = _summarize(db, where, left, right)
        # A sum of floats depends on their order: sort, so that the order of rows does not matter.
        total = "sum(w ORDER BY w)" if table.weight else "sum(w)"
        aggregate = {"sum": total, "count": "count(*)", "max": "max(w)"}[table.aggregate]
        links = db.sql(
            f"SELECT i, j, CAST({aggregate} AS DOUBLE) AS w FROM joined WHERE reason IS NULL "
            "GROUP BY 1, 2 ORDER BY 1, 2"
        ).fetchnumpy()
        db.execute("DROP TABLE joined")
    rows, cols, weights = (np.asarray(links[key]) for key in ("i", "j", "w"))
    return (rows.astype(np.int64), cols.astype(np.int64), weights.astype(np.float64)), summary


def transform_weights(transform: str | None, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weights of links, transformed; ``transform`` is that of a LinkTable."""
    return np.log1p(weights) if transform == "log1p" else weights


def _weight(
    db: duckdb.DuckDBPyConnection,
    where: str,
    raw: str,
    types: Mapping[str, str],
    table: LinkTable,
) -> str:
    """Return the SQL of the weight; it is NULL where it is missing.

    Raise TableError if a weight is not a number >= 0, unless such a weight is missing.
    """
    if table.weight is None or table.aggregate == "count":
        return "1.0"
    name = quote_ident(table.weight)
    number = f"TRY_CAST({name} AS DOUBLE)"
    if types[table.weight] == "VARCHAR":  # else DuckDB's CSV reader casts, and raises
        number = f"coalesce(TRY_CAST(trim({name}) AS DOUBLE), {cast_amount(name)})"
    if table.on_error == "missing":
        return f"CASE WHEN {number} >= 0 AND isfinite({number}) THEN {number} END"
    with table_errors(where):
        for condition, expected in (
            (f"{name} IS NOT NULL AND {number} IS NULL", "numbers"),
            (f"{number} < 0", "weights >= 0"),
            (f"isinf({number})", "finite weights"),
        ):
            query = f"SELECT count(*) FROM {quote_ident(raw)} WHERE {condition}"
            ((count,),) = fetch_all(db, query)
            if count:
                row, example, commas = first_invalid(db, raw, table.weight, condition)
                drop = 'drop these rows with on_error = "missing"'
                fix = advise(db, raw, table.weight, (count, example), expected, drop)
                if commas:
                    fix = f"{comma_fix(example)}, or {drop}"
                raise TableError(
                    f"{where}: weight column {table.weight!r}: expected {expected}, but {count:,} "
                    f"are not, such as {short(example)} in row {row:,}; {fix}"
                )
    return f"CASE WHEN NOT isnan({number}) THEN {number} END"


def _summarize(
    db: duckdb.DuckDBPyConnection, where: str, left: IdTable, right: IdTable
) -> JoinSummary:
    counts: dict[str | None, int] = dict(
        fetch_all(db, "SELECT reason, count(*) FROM joined GROUP BY 1")
    )
    total, kept = sum(counts.values()), counts.pop(None, 0)
    dropped = {str(reason): counts[reason] for reason in REASONS if reason in counts}
    if not total:
        raise TableError(f"{where}: the table has no rows")
    unknown_ids: dict[str, tuple[str, ...]] = {}
    padded: Counter[str] = Counter()
    for side, column, position in ((left, "a", "i"), (right, "b", "j")):
        rows = fetch_all(
            db,
            f"SELECT DISTINCT CAST({column} AS VARCHAR) AS id FROM joined "
            f"WHERE reason = 'unknown id' AND {position} IS NULL ORDER BY 1 LIMIT 3",
        )
        # Both columns of links within a view have ids of the same view.
        ids = {*unknown_ids.get(side.view, ()), *(_one_line(row[0]) for row in rows)}
        unknown_ids[side.view] = tuple(sorted(ids)[:3])
        if rows and not side.normalize:
            padded[side.view] += _count_padded(db, side, column, position)
    found = {
        side.view: find_collision(db, side.name, "id", {"id": side.type})
        for side in (left, right)
        if padded[side.view]
    }
    collisions = {view: ids for view, ids in found.items() if ids is not None}
    summary = JoinSummary((left.view, right.view), total, dropped, unknown_ids, +padded, collisions)
    if not kept:
        raise TableError(
            f"{where}: none of its {total:,} rows can be used: {_explain(db, summary, left, right)}"
        )
    return summary


def _count_padded(db: duckdb.DuckDBPyConnection, side: IdTable, column: str, position: str) -> int:
    """Return the rows with an unknown id that is an id of the view in another form."""
    known = normalize_id("CAST(id AS VARCHAR)")
    cell = normalize_id(f"CAST({quote_ident(column)} AS VARCHAR)")
    ((n,),) = fetch_all(
        db,
        "SELECT count(*) FROM joined WHERE reason = 'unknown id' "
        f"AND {quote_ident(position)} IS NULL AND {cell} IN "
        f"(SELECT {known} FROM {quote_ident(side.name)})",
    )
    return int(n)


def _one_line(value: object) -> str:
    return truncate(" ".join(str(value).splitlines()))


def _explain(
    db: duckdb.DuckDBPyConnection, summary: JoinSummary, left: IdTable, right: IdTable
) -> str:
    """Return why no row can be used, with three ids of the view and the links if they differ."""
    parts = [f"{n:,} with {_DESCRIPTIONS[reason]}" for reason, n in summary.dropped.items()]
    for side in dict.fromkeys((left, right)):
        if summary.unknown_ids[side.view]:
            query = f"SELECT CAST(id AS VARCHAR) FROM {quote_ident(side.name)} ORDER BY id LIMIT 3"
            known = ", ".join(quote_literal(_one_line(row[0])) for row in fetch_all(db, query))
            unknown = ", ".join(map(quote_literal, summary.unknown_ids[side.view]))
            parts.append(f"view {side.view!r} has ids like {known}, the links have {unknown}")
    return "; ".join(parts) + summary.padding()
