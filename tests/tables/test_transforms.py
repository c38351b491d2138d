"""Transforms of weights, against log(1 + w) of sums by hand."""

import json
import math

import numpy as np
import pytest

from pmvge import PMvGE
from pmvge.errors import TableError
from pmvge.tables import (
    LinkTable,
    Project,
    ViewTable,
    check_saved_tables,
    graph_from_frames,
    project_text,
    read_first_links,
    read_links,
    read_project,
    read_tables,
)

PLAYS = {"user": ["a", "a", "b", "a"], "artist": ["x", "x", "x", "y"], "plays": [3, 4, 1, 1e6]}
COLUMNS = ("user", "artist")


def weights(graph, pair=COLUMNS):
    """Return {(id, id): weight} of the links of a view pair."""
    links = graph.links[pair]
    ids = (graph.ids[pair[0]][links.rows], graph.ids[pair[1]][links.cols])
    return {
        (a, b): w for a, b, w in zip(*(part.tolist() for part in ids), links.weights, strict=True)
    }


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"weight": "plays"}, {"ax": 7, "ay": 1e6, "bx": 1}),
        ({"weight": "plays", "aggregate": "max"}, {"ax": 4, "ay": 1e6, "bx": 1}),
        ({"weight": "plays", "aggregate": "count"}, {"ax": 2, "ay": 1, "bx": 1}),
        ({"aggregate": "count"}, {"ax": 2, "ay": 1, "bx": 1}),
    ],
)
def test_the_weight_of_a_link_is_transformed_after_its_rows_are_combined(table, expected):
    links = LinkTable(PLAYS, COLUMNS, transform="log1p", **table)
    graph = graph_from_frames({"user": None, "artist": None}, {COLUMNS: links})
    logs = {tuple(pair): math.log(1 + w) for pair, w in expected.items()}
    assert weights(graph) == pytest.approx(logs, rel=1e-15)


@pytest.mark.parametrize(("symmetrize", "total"), [("sum", 8.0), ("max", 5.0)])
def test_within_a_view_both_orders_are_merged_first(symmetrize, total):
    table = {"a": ["p", "q", "q"], "b": ["q", "p", "r"], "w": [3.0, 5.0, 2.0]}
    links = LinkTable(table, ("a", "b"), "w", symmetrize=symmetrize, transform="log1p")
    graph = graph_from_frames({"v": None}, {("v", "v"): links})
    found = weights(graph, ("v", "v"))
    assert found == pytest.approx({("p", "q"): math.log1p(total), ("q", "r"): math.log1p(2.0)})


PROJECT = """
[views.user]
[views.artist]
[[links]]
views = ["user", "artist"]
source = "plays.csv"
columns = ["user", "artist"]
"""


@pytest.mark.parametrize(
    ("line", "column"),
    [('weight = { column = "plays", transform = "log1p" }', "plays"),
     ('weight = { transform = "log1p" }', None)],
)  # fmt: skip
def test_a_project_file_is_read_and_written(tmp_path, line, column):
    (tmp_path / "pmvge.toml").write_text(PROJECT + line)
    (link,) = read_project(tmp_path / "pmvge.toml").links.values()
    assert (link.weight, link.transform) == (column, "log1p")
    (tmp_path / "again.toml").write_text(project_text(read_project(tmp_path / "pmvge.toml")))
    (again,) = read_project(tmp_path / "again.toml").links.values()
    assert (again.weight, again.transform, again.aggregate) == (column, "log1p", "sum")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            'weight = { column = "plays", transform = "log" }',
            "unknown transform 'log'.*mean 'log1p'",
        ),
        ('weight = { columns = "plays" }', "links 1: weight: unknown key 'columns'"),
        ("weight = { column = 3 }", "weight: column: expected a string, got 3"),
        ("weight = 3", "weight: expected a string, got 3"),
    ],
)
def test_invalid_weights_are_errors(tmp_path, line, says):
    (tmp_path / "pmvge.toml").write_text(PROJECT + line)
    with pytest.raises(TableError, match=says):
        read_project(tmp_path / "pmvge.toml")


@pytest.fixture(scope="module")
def tables():
    views = {
        "user": ViewTable({"id": ["a", "b", "c"], "x": [1, 2, 4]}, "id", {"x": "numeric"}),
        "artist": ViewTable(),
    }
    links = {COLUMNS: LinkTable(PLAYS, COLUMNS, "plays", transform="log1p")}
    return read_tables(Project(views, links))


def test_later_tables_are_transformed_as_in_training(tables):
    graph = tables.graph
    saved = check_saved_tables(json.loads(json.dumps(graph.tables)))
    later = {"user": ["c", "c"], "artist": ["y", "y"], "plays": [10, 5]}
    links, _ = read_links(saved, graph.ids, COLUMNS, later)
    assert links.weights.tolist() == pytest.approx([math.log1p(15)])
    first = {"user": ["new"], "artist": ["x"], "plays": [8]}
    (rows, partners, w), _ = read_first_links(
        saved, graph.ids, "user", np.array(["new"]), COLUMNS, first
    )
    assert (rows.tolist(), partners.tolist(), w.tolist()) == ([0], ["x"], [math.log1p(8)])


def test_expected_weights_have_the_transformed_unit(tables):
    """The expected weights of all pairs add up to the total of log(1 + w)."""
    model = PMvGE(2, max_steps=5, random_state=0, progress=False).fit(tables.graph)
    mu = model.intensity("user", None, "artist", None)
    assert mu.sum() == pytest.approx(sum(math.log1p(w) for w in (7, 1, 1e6)), rel=1e-5)


def test_a_saved_transform_is_checked(tables):
    damaged = json.loads(json.dumps(tables.graph.tables))
    damaged["links"][0]["transform"] = "exp"
    with pytest.raises(ValueError, match="transform: invalid value 'exp'"):
        check_saved_tables(damaged)
    del damaged["links"][0]["transform"]  # a model of an earlier version
    assert check_saved_tables(damaged) is not None
