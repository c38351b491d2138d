"""New tables are read with the column descriptions of the training tables."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pmvge.errors import TableError
from pmvge.tables import (
    DroppedRows,
    LinkTable,
    Notes,
    Project,
    Source,
    ViewTable,
    graph_from_frames,
    pair_of,
    read_labels,
    read_links,
    read_rows,
    read_tables,
    rows_of,
)
from pmvge.tables.columns import recipe
from pmvge.tables.sources.dialect import Dialect

KINDS = {
    "year": "numeric",
    "kind": "category",
    "plot": "text",
    "seen": "date",
    "vector": "vector",
}


def films(n=50, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "film": [f"f{at:04}" for at in rng.permutation(n)],
            "year": rng.integers(1950, 2020, n).astype(float),
            "kind": rng.choice(["war", "love", "it's"], n),
            "plot": [" ".join(rng.choice(["war", "of", "love", "dog"], 3)) for _ in range(n)],
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, n), "h"),
            "vector": rng.normal(size=(n, 3)).tolist(),
        }
    )
    return frame.mask(rng.random(frame.shape) < [0, 0.1, 0.1, 0.1, 0.1, 0.1])


def graph_of(frame, features=None, **options):
    links = {"film": frame["film"], "user": [1, 2] * (len(frame) // 2)}
    return graph_from_frames(
        {"film": ViewTable(frame, "film", KINDS if features is None else features, **options)}
        | {"user": None},
        {("user", "film"): LinkTable(links, ("user", "film"))},
    )


@pytest.mark.parametrize(
    "options", [{}, {"standardize": False}, {"sparse": False}], ids=["default", "raw", "dense"]
)
def test_training_rows_give_the_training_features(dense, options) -> None:
    frame = films()
    graph = graph_of(frame, **options)
    tables = json.loads(json.dumps(dict(graph.tables)))  # as a saved model stores them
    ids, X = rows_of(tables, "film", frame)
    assert ids.tolist() == frame["film"].tolist()
    order = np.argsort(ids)
    assert ids[order].tolist() == graph.ids["film"].tolist()
    assert isinstance(X, np.ndarray) == isinstance(graph.views["film"], np.ndarray)
    assert dense(X)[order].tobytes() == dense(graph.views["film"]).tobytes()


def test_batches_together_are_all_rows(dense, monkeypatch) -> None:
    frame = films(5000)
    graph = graph_of(frame)
    ids, X = rows_of(graph.tables, "film", frame)
    monkeypatch.setattr(recipe, "BATCH", 100)
    parts = list(read_rows(graph.tables, "film", frame))
    assert len(parts) > 1
    assert np.concatenate([part for part, _ in parts]).tolist() == ids.tolist()
    assert np.vstack([dense(part) for _, part in parts]).tobytes() == dense(X).tobytes()


def test_the_same_rows_from_csv(dense, tmp_path) -> None:
    frame = films()
    graph = graph_of(frame)
    frame.to_csv(tmp_path / "films.csv", index=False)
    ids, X = rows_of(graph.tables, "film", tmp_path / "films.csv")
    wanted_ids, wanted = rows_of(graph.tables, "film", frame)
    assert ids.tolist() == wanted_ids.tolist()
    np.testing.assert_allclose(dense(X), dense(wanted), rtol=1e-6, atol=1e-6)
    (again, part) = next(iter(read_rows(graph.tables, "film", "films.csv", folder=tmp_path)))
    assert again.tolist() == ids.tolist()
    assert dense(part).tobytes() == dense(X).tobytes()


def test_rows_without_ids_are_numbered() -> None:
    frame = films()
    graph = graph_of(frame)
    ids, X = rows_of(graph.tables, "film", frame.drop(columns="film"))
    assert ids.tolist() == list(range(50))
    assert X.shape == (50, graph.input_shape("film")[0])


def test_missing_and_unseen_values_are_counted() -> None:
    graph = graph_of(films(), {"year": "numeric", "kind": "category"})
    notes = Notes()
    new = {"film": ["x", "y"], "year": [None, 2000.0], "kind": ["new", None]}
    (_, X), *_ = read_rows(graph.tables, "film", new, notes=notes)
    assert X.shape == (2, 6)
    assert X[0].tolist() == [0, 1, 0, 0, 0, 0]
    assert X[1, 2:].tolist() == [0, 0, 0, 1]
    assert +notes == {("year", "missing"): 1, ("kind", "missing"): 1, ("kind", "unseen"): 1}


def test_a_feature_may_be_called_id() -> None:
    frame = pd.DataFrame({"film": ["b", "a"], "id": [1.0, 5.0]})
    graph = graph_of(frame, {"id": "numeric"})
    ids, X = rows_of(graph.tables, "film", frame)
    assert ids.tolist() == ["b", "a"]
    assert X.tolist() == [[-1], [1]]


def test_ids_that_were_text_stay_text() -> None:
    frame = pd.DataFrame({"film": ["12", "x"]})
    graph = graph_of(frame, {})
    ids, X = rows_of(graph.tables, "film", {"film": [12]})
    assert X is None
    assert ids.tolist() == ["12"]


def test_rows_of_featureless_views_have_ids_only() -> None:
    graph = graph_of(pd.DataFrame({"film": ["b", "a"]}), {})
    assert rows_of(graph.tables, "film", {"film": ["z", "a"]})[0].tolist() == ["z", "a"]
    assert rows_of(graph.tables, "user", {"anything": [7, 2]})[0].tolist() == [7, 2]
    with pytest.raises(TableError, match=r"view film .dict.: no column 'film'; .*did you mean 'fi"):
        rows_of(graph.tables, "film", {"films": ["z"]})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"film": ["a"]}, "view film .dict.: no column 'year'; the columns are 'film'"),
        ({"film": ["a"], "yaer": [1]}, "no column 'year'; .*did you mean 'yaer'"),
        ({"film": ["a"], "year": ["x"]}, "column 'year': expected numbers, but 1 .* such as 'x'"),
        ({"film": pa.array(["a", None]), "year": [1, 2]}, "row 2 has an empty id"),
        ({"film": pa.array([], pa.string()), "year": pa.array([], pa.int64())}, "has no rows"),
    ],
)
def test_new_tables_with_bad_columns_are_refused(table, message) -> None:
    graph = graph_of(films(), {"year": "numeric"})
    with pytest.raises(TableError, match=message):
        rows_of(graph.tables, "film", pa.table(table) if len(table) == 2 else table)


def test_vectors_of_another_length() -> None:
    graph = graph_of(films(), {"vector": "vector"})
    with pytest.raises(TableError, match=r"column 'vector': expected vectors of length 3, got .*2"):
        rows_of(graph.tables, "film", {"film": ["a"], "vector": [[1, 2]]})


def test_models_without_tables_and_unknown_views() -> None:
    with pytest.raises(TableError, match="not fitted to tables"):
        rows_of(None, "film", {})
    graph = graph_of(films())
    with pytest.raises(TableError, match="unknown view 'films': expected one of 'film', 'user'"):
        rows_of(graph.tables, "films", {})


# -- links ------------------------------------------------------------------------------------


def test_the_training_link_table_gives_the_training_links() -> None:
    links = {"u": [1, 1, 2, 3], "f": ["a", "b", "a", None], "w": [1, 2, 3, 4]}
    with pytest.warns(DroppedRows):
        graph = graph_from_frames(
            {"u": None, "f": None}, {("u", "f"): LinkTable(links, ("u", "f"), "w", "max")}
        )
    for pair in (("u", "f"), ("f", "u")):  # in either order: one table
        found, joined = read_links(graph.tables, graph.ids, pair, links)
        for part in ("rows", "cols", "weights"):
            wanted = getattr(graph.links["u", "f"], part)
            assert getattr(found, part).tolist() == wanted.tolist()
        assert joined.dropped == {"null id": 1}


def test_held_out_links(tmp_path) -> None:
    graph = graph_from_frames(
        {"p": None},
        {("p", "p"): LinkTable({"a": [1, 2], "b": [2, 3]}, ("a", "b"), symmetrize="sum")},
    )
    (tmp_path / "test.csv").write_text("b,a\n1,3\n3,1\n9,1\n2,2\n")
    found, joined = read_links(graph.tables, graph.ids, ("p", "p"), "test.csv", folder=tmp_path)
    assert (found.rows.tolist(), found.cols.tolist(), found.weights.tolist()) == ([0], [2], [2.0])
    assert joined.dropped == {"unknown id": 1, "self-link": 1}
    with pytest.raises(TableError, match="no link table of p,q in training: expected p,p"):
        read_links(graph.tables, graph.ids, ("p", "q"), "test.csv", folder=tmp_path)
    with pytest.raises(TableError, match=r"links p,p .dict.: no column 'a'"):
        read_links(graph.tables, graph.ids, ("p", "p"), {"x": [1], "b": [2]})


def test_bad_weights_of_new_links_are_errors_if_they_were_in_training() -> None:
    seen = {"a": [1, 2], "b": [1, 2], "n": ["3", "4"]}
    new = {"a": [1, 2, 2], "b": [2, 1, 2], "n": ["5", "many", "-1"]}
    found = {}
    for on_error in ("stop", "missing"):
        links = {("p", "q"): LinkTable(seen, ("a", "b"), "n", on_error=on_error)}
        found[on_error] = graph_from_frames({"p": None, "q": None}, links)
    strict, lenient = found.values()
    with pytest.raises(TableError, match=r'expected numbers.*on_error = "missing"'):
        read_links(strict.tables, strict.ids, ("p", "q"), new)
    tables = json.loads(json.dumps(dict(lenient.tables)))  # as a saved model stores them
    kept, joined = read_links(tables, lenient.ids, ("p", "q"), new)
    assert (kept.rows.tolist(), kept.cols.tolist(), kept.weights.tolist()) == ([0], [1], [5.0])
    assert joined.dropped == {"no weight": 2}


def test_columns_that_a_table_does_not_have_are_missing(dense) -> None:
    frame = films()
    graph = graph_of(frame)
    for column in KINDS:
        notes = Notes()
        ((_, X),) = read_rows(graph.tables, "film", frame.drop(columns=column), notes=notes)
        empty = frame.assign(**{column: None})
        ((_, wanted),) = read_rows(graph.tables, "film", empty)
        np.testing.assert_array_equal(dense(X), dense(wanted))
        assert notes[column, "absent"] == 1
        assert notes[column, "missing"] == len(frame)
    with pytest.raises(TableError, match="no column 'year'"):
        list(read_rows(graph.tables, "film", frame[["film"]]))


def test_a_similar_column_is_named() -> None:
    notes = Notes()
    new = films().rename(columns={"year": "years"})
    list(read_rows(graph_of(films()).tables, "film", new, notes=notes))
    assert notes["year", "absent, like 'years'"] == 1


def test_new_tables_are_written_as_those_of_the_training(tmp_path) -> None:
    dialect = Dialect(header=False, encoding="latin-1", na_values=("?",))
    (tmp_path / "u.dat").write_bytes("1|3|é\n2|?|b\n".encode("latin-1"))
    (tmp_path / "l.dat").write_text("1 7 2\n2 8 1\n")
    project = Project(
        {
            "u": ViewTable(
                Source("u.dat", dialect=dialect),
                "column1",
                {"column2": "numeric", "column3": "category"},
                standardize=False,
            ),
            "f": ViewTable(),
        },
        {
            ("u", "f"): LinkTable(
                Source("l.dat", dialect=Dialect(delimiter=" ", header=("user", "film"))),
                ("user", "film"),
                "column3",
            )
        },
        folder=tmp_path,
    )
    graph = read_tables(project).graph
    for encoding in ("latin-1", "utf-8", "utf-8-sig"):
        (tmp_path / "new.dat").write_bytes("9|?|é\n".encode(encoding))
        ((ids, X),) = read_rows(graph.tables, "u", tmp_path / "new.dat")
        assert (ids.tolist(), X.tolist()) == ([9], [[3, 1, 0, 1]])
    (tmp_path / "more.dat").write_text("2 7 5\n")
    assert pair_of(graph.tables, tmp_path / "more.dat") == ("u", "f")
    links, _ = read_links(graph.tables, graph.ids, ("u", "f"), tmp_path / "more.dat")
    assert (links.rows.tolist(), links.cols.tolist(), links.weights.tolist()) == ([1], [0], [5])
    labels = read_labels(graph.tables, graph.ids, "u", tmp_path / "u.dat", "column3")
    assert labels.tolist() == ["é", "b"]


def test_vectors_of_another_length_name_the_table(tmp_path) -> None:
    first = {"film": ["a", "b", "c"], "v": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]}
    seen = LinkTable({"user": [1, 2, 3], "film": ["a", "b", "c"]}, ("user", "film"))
    views = {"film": ViewTable(first, "film", {"v": "vector"}), "user": None}
    tables = graph_from_frames(views, {("user", "film"): seen}).tables
    np.savez(tmp_path / "new.npz", film=np.array(["a", "b"]), v=np.ones((2, 3)))
    message = r"view film \(new.npz\): column 'v': expected vectors of length 2, got one of 3"
    with pytest.raises(TableError, match=message):
        list(read_rows(tables, "film", "new.npz", folder=tmp_path))
    film = ViewTable("new.npz", "film", {"v": "vector"})
    later = Project({"film": film, "user": ViewTable()}, {("user", "film"): seen}, folder=tmp_path)
    with pytest.raises(TableError, match=message):
        read_tables(later, tables=tables)
