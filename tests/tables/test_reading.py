"""A project becomes a graph that depends on the content of its files only."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from pmvge.errors import GraphError, TableError
from pmvge.tables import (
    DroppedRows,
    LinkTable,
    Project,
    ViewTable,
    graph_from_frames,
    read_graph,
    read_tables,
)
from pmvge.tables.sources import connection

PROJECT = """
[views.users]
source = "users.csv"
id = "user"
features.age = "numeric"
labels = ["city"]

[views.films]
source = "films.csv"
id = "film"
features = { plot = "text", kind = { kind = "category", size = 2 } }

[views.tags]

[[links]]
views = ["users", "films"]
source = "seen.csv"
columns = ["user", "film"]
weight = "times"

[[links]]
views = ["films", "tags"]
source = "tags.csv"
columns = ["film", "tag"]
"""


@pytest.fixture
def project(write, tmp_path):
    write("users.csv", "user,age,city\n2,30,Bonn\n1,,\n10,50,Rome\n")
    write("films.csv", "film,plot,kind\nb,war and love,x\na,love,y\nc,,x\n")
    write("seen.csv", "user,film,times\n1,a,2\n1,a,3\n10,c,1\n99,a,1\n,b,1\n")
    write("tags.csv", "film,tag\na,007\nb,7\nb,007\n")
    write("pmvge.toml", PROJECT)
    return tmp_path / "pmvge.toml"


def test_a_project_becomes_a_graph(project, dense) -> None:
    with pytest.warns(DroppedRows, match="links users,films: 2 of 5 rows dropped") as caught:
        graph = read_graph(project)
    assert caught[0].filename == __file__
    assert {view: ids.tolist() for view, ids in graph.ids.items()} == {
        "users": [1, 2, 10],
        "films": ["a", "b", "c"],
        "tags": ["007", "7"],
    }
    assert graph.given_ids == {"users", "films", "tags"}
    assert graph.views["users"].tolist() == [[0, 1], [-1, 0], [1, 0]]
    assert dense(graph.views["films"])[:, -2:].tolist() == [[0, 1], [1, 0], [1, 0]]
    assert graph.views["tags"] is None
    seen = graph.links["users", "films"]
    assert (seen.rows.tolist(), seen.cols.tolist()) == ([0, 2], [0, 2])
    assert seen.weights.tolist() == [5, 1]
    assert graph.links["films", "tags"].matrix().toarray().tolist() == [[1, 0], [1, 1], [0, 0]]
    with pytest.raises(TableError, match="strict allows none"):
        read_graph(project, strict=True)


def test_a_graph_records_the_dense_views_that_are_not_standardised() -> None:
    frame = {"id": ["a", "b"], "x": [1.0, 5.0]}

    def view(**options):
        return ViewTable(frame, "id", {"x": "numeric"}, **options)

    plain = {"standardize": False}
    views = {"raw": view(**plain), "sparse": view(**plain, sparse=True), "scaled": view()}
    views["links"] = ViewTable(standardize=False)
    pairs = {(v, "links"): {v: ["a", "b"], "links": [1, 2]} for v in ("raw", "sparse", "scaled")}
    graph = graph_from_frames(views, pairs)
    assert graph.unscaled_views == {"raw"}
    assert graph.views["raw"].tolist() == [[1], [5]]
    for part in (graph.with_links(graph.links), graph.subgraph({"raw": [0]})):
        assert part.unscaled_views == {"raw"}
    assert graph.with_tables({}).unscaled_views == frozenset()


def test_labels_missing_values_and_notes(project) -> None:
    from pmvge.tables import read_project

    tables = read_tables(read_project(project))
    assert tables.labels["users"]["city"].tolist() == ["", "Bonn", "Rome"]
    assert tables.missing == {"users": {"age": 1}, "films": {"plot": 1}}
    notes = tables.notes()
    assert len(notes) == 3
    assert "'age' 1" in notes[1]


def test_the_order_of_rows_does_not_matter(project, same) -> None:
    with pytest.warns(DroppedRows):
        first = read_graph(project)
    for path in project.parent.glob("*.csv"):
        header, *rows = path.read_text().splitlines()
        path.write_text("\n".join([header, *reversed(rows)]) + "\n")
    with pytest.warns(DroppedRows):
        same(first, read_graph(project))


def large(tmp_path, rng, shuffled=False):
    """Write 150,000 entities, more than one DuckDB row group, and 200,000 weighted links."""
    views = pd.DataFrame({"id": np.arange(150_000)})
    for at in range(3):
        views[f"x{at}"] = rng.normal(at, 10.0**at, len(views))
    links = pd.DataFrame(
        {
            "a": rng.integers(0, 150_000, 200_000),
            "b": rng.integers(0, 5, 200_000),
            "w": rng.random(200_000),
        }
    )
    links["a"] //= 1000
    if shuffled:
        order = np.random.default_rng(1)
        views = views.iloc[order.permutation(len(views))]
        links = links.iloc[order.permutation(len(links))]
    views.to_parquet(tmp_path / "views.parquet")
    links.to_parquet(tmp_path / "links.parquet")
    return Project(
        {"v": ViewTable("views.parquet", "id", {"x*": "numeric"}), "b": ViewTable()},
        {("v", "b"): LinkTable("links.parquet", ("a", "b"), "w")},
        folder=tmp_path,
    )


def test_the_graph_does_not_depend_on_threads_or_row_order(tmp_path, same, monkeypatch) -> None:
    connect = duckdb.connect
    graphs = []
    for threads, shuffled in ((1, False), (4, False), (3, True)):

        def with_threads(*args, threads=threads, config, **options):
            return connect(*args, config=config | {"threads": threads}, **options)

        monkeypatch.setattr(connection.duckdb, "connect", with_threads)
        project = large(tmp_path, np.random.default_rng(0), shuffled)
        graphs.append(read_tables(project).graph)
    assert graphs[0].ids["v"].tolist() == list(range(150_000))
    for graph in graphs[1:]:
        same(graphs[0], graph)


def test_a_graph_of_200_000_links_from_csv(tmp_path) -> None:
    rng = np.random.default_rng(0)
    users = pd.DataFrame(rng.normal(size=(20_000, 5)), columns=[f"x{at}" for at in range(5)])
    users.assign(id=[f"u{at}" for at in range(20_000)]).to_csv(tmp_path / "u.csv", index=False)
    ids = [f"u{at}" for at in rng.integers(0, 20_000, 200_000)]
    links = pd.DataFrame({"u": ids, "i": rng.integers(0, 3000, 200_000), "rating": 1.5})
    links.to_csv(tmp_path / "links.csv", index=False)
    graph = graph_from_frames(
        {"u": str(tmp_path / "u.csv"), "i": None}, {("u", "i"): str(tmp_path / "links.csv")}
    )
    assert graph.total_weight == 300_000
    assert graph.input_shape("u") == (5,)


@pytest.mark.parametrize("views", [[("a", "A"), ("b", "B")], [("a,b", "c"), ("a", "b,d")]])
def test_view_names_with_commas_or_that_differ_in_case(views) -> None:
    names = [name for pair in views for name in pair]
    frames = [{"x": [1, 2], "y": ["p", "q"]}, {"x": [3, 4, 5], "y": ["r", "s", "t"]}]
    links = {p: LinkTable(f, ("x", "y")) for p, f in zip(views, frames, strict=True)}
    graph = graph_from_frames(dict.fromkeys(names), links)
    assert {name: graph.sizes[name] for name in names} == dict(
        zip(names, (2, 2, 3, 3), strict=True)
    )
    assert graph.n_links == 5


GOOD = {"id": ["a", "b"], "x": [1, 2]}
LINKS = {"id": ["a", "b"], "t": [1, 2]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ViewTable(GOOD, "id", ["x"]), r"features: expected {column: kind} .*got \['x'\]"),
        (lambda: ViewTable(GOOD, "id", labels="x"), "labels: expected a list of .* got 'x'"),
        (lambda: LinkTable(None), "links: expected a file name or a table, got None"),
        (lambda: LinkTable(LINKS, ("id",)), r"columns: expected two names, got \('id',\)"),
        (lambda: LinkTable(LINKS, "id"), "columns: expected two names, got 'id'"),
        (lambda: LinkTable(LINKS, aggregate="mean"), "unknown aggregate 'mean': .*'sum', 'count'"),
        (lambda: LinkTable(LINKS, symmetrize="min"), "unknown symmetrize 'min'"),
        (lambda: graph_from_frames([GOOD], {}), "expected views as {name: table}"),
        (lambda: graph_from_frames({1: GOOD}, {}), "names must be non-empty strings, got 1"),
        (lambda: graph_from_frames({"v": GOOD}, {"v": LINKS}), r"keys \(view, view\), got 'v'"),
        (lambda: graph_from_frames({"v": GOOD}, {("v", "t"): LINKS}), "unknown view 't'"),
        (lambda: graph_from_frames({"v": GOOD}, {}), "at least one link"),
        (
            lambda: graph_from_frames({"v": GOOD, "t": None}, {("v", "t"): LINKS, ("t", "v"): 1}),
            "same view pair",
        ),
        (
            lambda: graph_from_frames({"v": ViewTable(GOOD, "ID"), "t": None}, {("v", "t"): LINKS}),
            "view v .dict.: no column 'ID'; the columns are 'id', 'x'",
        ),
        (
            lambda: graph_from_frames({"v": GOOD, "t": None, "s": None}, {("v", "t"): LINKS}),
            "view s: it has no source, and no link table has its ids",
        ),
        (
            lambda: graph_from_frames({"v": np.eye(2), "t": None}, {("v", "t"): LINKS}),
            "ndarray: expected a pandas, polars or Arrow table",
        ),
    ],
)
def test_bad_arguments_raise_a_one_line_error(make, message) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


# -- with the encodings of a model ------------------------------------------------------------


def later(tables=None):
    users = {"user": ["a", "b", "c"], "age": [10.0, 20.0, 90.0], "city": ["x", "y", "z"]}
    links = {"user": ["a", "b", "c"], "film": [1, 2, 2]}
    views = {
        "users": ViewTable(users, "user", {"age": "numeric", "city": "category"}),
        "films": ViewTable(),
    }
    project = Project(views, {("users", "films"): LinkTable(links, ("user", "film"))})
    return read_tables(project, tables=tables).graph


def test_tables_are_read_with_the_encodings_of_a_model():
    first = graph_from_frames(
        {
            "users": ViewTable(
                {"user": ["a", "b"], "age": [10.0, 20.0], "city": ["x", "y"]},
                "user",
                {"age": "numeric", "city": "category"},
            ),
            "films": None,
        },
        {("users", "films"): LinkTable({"user": ["a", "b"], "film": [1, 2]}, ("user", "film"))},
    )
    alone, like = later(), later(first.tables)
    assert like.tables == first.tables
    assert alone.tables != first.tables
    np.testing.assert_array_equal(like.views["users"][:2], first.views["users"])
    assert like.views["users"][2, 0] == pytest.approx((90 - 15) / 5)  # scaled as before
    assert alone.views["users"].shape[1] == like.views["users"].shape[1] + 1  # a third city


def test_integer_ids_stay_text_if_they_were():
    before = later().tables
    numbers = Project(
        {
            "users": ViewTable(
                {"user": [1, 2], "age": [1.0, 2.0], "city": ["x", "y"]},
                "user",
                {"age": "numeric", "city": "category"},
            ),
            "films": ViewTable(),
        },
        {("users", "films"): LinkTable({"user": [1, 2], "film": [1, 2]}, ("user", "film"))},
    )
    assert read_tables(numbers).graph.ids["users"].tolist() == [1, 2]
    assert read_tables(numbers, tables=before).graph.ids["users"].tolist() == ["1", "2"]


def test_other_columns_than_those_of_the_model_are_refused(tmp_path):
    before = later().tables
    views = {"users": ViewTable({"user": ["a"], "age": [1.0]}, "user"), "films": ViewTable()}
    links = {("users", "films"): LinkTable({"user": ["a"], "film": [1]}, ("user", "film"))}
    with pytest.raises(TableError, match="expected the columns of the training, age, city, got"):
        read_tables(Project(views, links), tables=before)
    with pytest.raises(TableError, match="expected the views of the model, users, films, got a, b"):
        read_tables(
            Project(
                {"a": ViewTable(), "b": ViewTable()},
                {("a", "b"): LinkTable({"a": [1], "b": [2]}, ("a", "b"))},
            ),
            tables=before,
        )
    with pytest.raises(TableError, match="expected spill or tables, got both"):
        read_tables(Project(views, links), tables=before, spill=tmp_path)
