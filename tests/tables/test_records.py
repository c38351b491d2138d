"""Rows that are given as dicts are those of a table with the same cells."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pmvge.errors import TableError
from pmvge.tables import (
    LinkTable,
    Source,
    graph_from_frames,
    links_of_records,
    read_first_links,
    rows_of,
    rows_of_records,
)
from pmvge.tables.project import AGGREGATES, TRANSFORMS
from pmvge.tables.sources.connection import connect_to_memory

PEOPLE = pd.DataFrame(
    {"person": ["p1", "p2", "p3", "p4"], "age": [10, 20, 30, 45], "town": ["x", "y", "x", "x"]}
)
LIKES = pd.DataFrame({"person": ["p1", "p2", "p3"], "thing": ["t1", "t2", "t1"], "n": [1, 7, 3]})


@pytest.fixture(scope="module")
def tables():
    links = LinkTable(Source(frame=LIKES), ("person", "thing"), "n", transform="log1p")
    return graph_from_frames(
        {"people": PEOPLE, "things": None}, {("people", "things"): links}
    ).tables


def test_records_are_rows_of_a_table(tables):
    records = [{"age": 12, "town": "x"}, {"town": "z", "age": None}, {"age": 40.5}]
    frame = {"age": [12, None, 40.5], "town": ["x", "z", None]}
    notes = Counter()
    ids, X = rows_of_records(tables, "people", records, notes=notes)
    assert ids is None
    np.testing.assert_array_equal(np.asarray(X), np.asarray(rows_of(tables, "people", frame)[1]))
    assert notes["age", "missing"] == 1
    ids, _ = rows_of_records(tables, "people", [{"person": "p9", "age": 3}])
    assert ids.tolist() == ["p9"]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([{"age": 3, "shoe": 44}], "unknown column 'shoe': expected one of 'person', 'age'"),
        ([{"Age": 3}], "did you mean 'age'"),
        ([{}], "expected values of 'person', 'age', 'town', got none"),
        ([{"person": "p1"}], "got ids alone; pass known entities as ids"),
        ([{"person": "p1", "age": 3}, {"age": 4}], "in all rows or in none, got none in row 1"),
        ([{"age": "old"}], "age"),
        ([{"age": 3}, {"age": "x"}], "one type each|age"),
        ([{"age": 10**30}], "age|one type each"),
    ],
)
def test_records_that_are_not_valid_are_refused(tables, records, words):
    with pytest.raises(TableError, match=words):
        rows_of_records(tables, "people", records)


def test_other_columns_can_be_ignored(tables):
    _, X = rows_of_records(tables, "people", [{"age": 3, "shoe": 44}], others=["shoe"])
    np.testing.assert_array_equal(X, rows_of_records(tables, "people", [{"age": 3}])[1])


@pytest.mark.parametrize("transform", [None, *TRANSFORMS])
@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("weight", ["n", None])
def test_links_of_records_are_those_of_a_table(weight, aggregate, transform):
    links = LinkTable(
        Source(frame=LIKES), ("person", "thing"), weight, aggregate, transform=transform
    )
    graph = graph_from_frames({"people": PEOPLE, "things": None}, {("people", "things"): links})
    rows = [1, 0, 1, 1, 0, 1]
    things = ["t1", "t2", "t2", "t1", "t1", "t1"]
    weights = [2.5, 4.0, 3.0, 1.0, 0.5, 7.0] if weight else [1.0] * 6
    new = np.array(["p8", "p9"])
    table = pd.DataFrame({"person": new[rows], "thing": things, "n": weights})
    pair = ("people", "things")
    expected, _ = read_first_links(graph.tables, graph.ids, "people", new, pair, table)
    for order in (pair, pair[::-1]):
        found = links_of_records(
            graph.tables, order, np.array(rows), np.array(things), np.array(weights)
        )
        assert found[0].tolist() == expected[0].tolist()
        assert found[1].tolist() == expected[1].tolist()
        np.testing.assert_allclose(found[2], expected[2], rtol=1e-12)


def test_links_without_a_table_are_not_changed(tables):
    links = (np.array([0, 0]), np.array([5, 5]), np.array([1.0, 2.0]))
    assert links_of_records(tables, ("people", "people"), *links) == links
    assert links_of_records(None, ("people", "things"), *links) == links


def test_no_links(tables):
    none = (np.empty(0, np.int64), np.empty(0, str), np.empty(0))
    assert [len(part) for part in links_of_records(tables, ("people", "things"), *none)] == [0] * 3


def test_records_of_many_threads_are_apart(tables):
    """Threads share one database, in which each has tables of its own."""

    def rows_of_age(age: int) -> list[float]:
        _, X = rows_of_records(tables, "people", [{"age": age, "town": "x"}] * (1 + age % 3))
        if age % 5 == 0:
            with pytest.raises(TableError):
                rows_of_records(tables, "people", [{"age": "old"}])
        return np.asarray(X)[:, 0].tolist()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(rows_of_age, range(200)))
    _, X = rows_of(tables, "people", {"age": list(range(200)), "town": ["x"] * 200})
    assert found == [[x] * (1 + age % 3) for age, x in enumerate(np.asarray(X)[:, 0].tolist())]


def test_the_shared_database_is_locked_and_empty():
    with connect_to_memory() as db, connect_to_memory() as other:
        db.register("raw", pa.table({"x": [1]}))
        db.execute("CREATE TEMP TABLE cells AS SELECT 2 AS x")
        for name in ("raw", "cells"):
            with pytest.raises(duckdb.Error, match="does not exist"):
                other.execute(f"SELECT * FROM {name}")
        with pytest.raises(duckdb.Error, match="locked"):
            db.execute("SET enable_external_access = true")
        hidden = pa.table({"x": [3]})  # not visible to queries, although it is a variable here
        with pytest.raises(duckdb.Error, match="does not exist"):
            db.execute("SELECT * FROM hidden")
        assert len(hidden) == 1
    with connect_to_memory() as db, pytest.raises(duckdb.Error, match="does not exist"):
        db.execute("SELECT * FROM cells")


@pytest.mark.slow
def test_a_process_that_used_records_ends_without_messages():
    script = (
        "from pmvge.tables.sources.connection import connect_to_memory\n"
        "with connect_to_memory() as db:\n"
        "    assert db.execute('SELECT 1').fetchall() == [(1,)]\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
