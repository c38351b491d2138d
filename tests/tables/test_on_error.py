"""``on_error = "missing"``: bad cells count as missing, rows without a usable id are left out."""

import numpy as np
import pandas as pd
import pytest

from pmvge.errors import TableError
from pmvge.tables import (
    Feature,
    LinkTable,
    Notes,
    Project,
    ViewTable,
    project_text,
    read_project,
    read_rows,
    read_tables,
)

KINDS = {"age": Feature("numeric"), "born": Feature("date"), "x": Feature("vector")}
USERS = pd.DataFrame(
    {
        "id": ["a", "b", None, "b", "c"],
        "age": ["30", "4o", "50", "60", "20"],
        "born": ["2000-01-01", "2000-01-02", "soon", "2000-01-04", "later"],
        "x": ["[1, 2]", "[3, 4]", "[5, 6]", "[7, 8]", "[9, b]"],
    }
)
SEEN = pd.DataFrame({"id": list("abc"), "f": [1, 1, 2], "n": ["2", "-1", "many"]})


def project(on_error="missing", links_on_error="missing", users=USERS):
    return Project(
        {
            "u": ViewTable(users, "id", KINDS, standardize=False, on_error=on_error),
            "f": ViewTable(),
        },
        {("u", "f"): LinkTable(SEEN, ("id", "f"), "n", on_error=links_on_error)},
    )


def test_bad_cells_are_missing_and_counted() -> None:
    tables = read_tables(project())
    assert tables.graph.ids["u"].tolist() == ["a", "b", "c"]
    X = tables.graph.views["u"]
    # age and its indicator, born and its indicator, x and its indicator; missing: the mean.
    days = (pd.Timestamp("2000-01-01") - pd.Timestamp("1970-01-01")).days
    np.testing.assert_allclose(
        X,
        [
            [30, days, 0, 0, 1, 2, 0],
            [25, days + 1, 1, 0, 3, 4, 0],
            [20, days + 0.5, 0, 1, 2, 3, 1],
        ],
    )
    assert tables.invalid == {"u": {"age": 1, "born": 2, "x": 1}}
    assert tables.left_out == {"u": {"an empty id": 1, "a repeated id": 1}}
    notes = "\n".join(tables.notes())
    assert "not of their kind, counted as missing: 'age' 1, 'born' 2, 'x' 1" in notes
    assert "view u: rows left out: 1 with an empty id, 1 with a repeated id" in notes
    assert tables.graph.links["u", "f"].total == 2
    assert "2 of 3 rows dropped: 2 with no weight" in notes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_an_array_that_are_not_finite_are_missing(tmp_path, dtype) -> None:
    x = np.array([[1, 2], [np.nan, 3], [3, 6], [5, np.inf]], dtype)
    np.save(tmp_path / "x.npy", x)
    links = LinkTable({"row": [0, 1, 2, 3], "f": [1, 1, 2, 2]}, ("row", "f"))

    def read(on_error):
        view = ViewTable(
            "x.npy", "row number", {"vector": "vector"}, standardize=False, on_error=on_error
        )
        return read_tables(
            Project({"u": view, "f": ViewTable()}, {("u", "f"): links}, folder=tmp_path)
        )

    tables = read("missing")
    X = tables.graph.views["u"]
    assert X.tolist() == [[1, 2, 0], [2, 4, 1], [3, 6, 0], [2, 4, 1]]  # as missing ones: the mean
    assert tables.invalid == {"u": {"vector": 2}}
    with pytest.raises(TableError, match=r"2 values .* \[nan, 3.0\] in row 2; .*on_error"):
        read("stop")


@pytest.mark.parametrize(
    ("users", "message"),
    [
        (USERS, "column 'age': expected numbers, but 1 values are something else, such as '4o'"),
        (USERS.assign(age="1", born=None, x=None), "id column 'id': 1 of 5 ids are empty"),
        (
            USERS.assign(age="1", born=None, x=None, id=list("aabcd")),
            "id column 'id': expected every id once, but 1 rows repeat one, such as 'a'",
        ),
    ],
)
def test_by_default_they_are_errors_that_name_the_remedy(users, message) -> None:
    with pytest.raises(TableError, match=f'{message}.*set on_error = "missing"'):
        read_tables(project("stop", users=users))


def test_negative_weights_name_the_remedy() -> None:
    with pytest.raises(TableError, match=r'expected numbers, .* with on_error = "missing"'):
        read_tables(project(links_on_error="stop"))


def test_features_on_disk_are_the_same(tmp_path, same) -> None:
    USERS.to_csv(tmp_path / "u.csv", index=False)
    SEEN.to_csv(tmp_path / "s.csv", index=False)
    described = Project(
        {"u": ViewTable("u.csv", "id", KINDS, on_error="missing"), "f": ViewTable()},
        {("u", "f"): LinkTable("s.csv", ("id", "f"), "n", on_error="missing")},
        folder=tmp_path,
    )
    (tmp_path / "pmvge.toml").write_text(project_text(described))
    again = read_project(tmp_path / "pmvge.toml")
    memory = read_tables(again)
    for _ in range(2):  # the second run reuses the file, and counts again
        mapped = read_tables(again, spill=tmp_path / "spill")
        np.testing.assert_array_equal(mapped.graph.views["u"], memory.graph.views["u"])
        assert mapped.invalid == memory.invalid


def test_new_rows_are_read_in_the_same_way() -> None:
    graph = read_tables(project()).graph
    notes = Notes()
    new = pd.DataFrame({"id": ["z"], "age": ["x"], "born": ["2000-01-01"], "x": ["[1, 2]"]})
    ((_, X),) = read_rows(graph.tables, "u", new, notes=notes)
    assert (X[0, 0], X[0, 2]) == (25, 1)
    assert notes["age", "invalid"] == 1
    strict = read_tables(project("stop", users=USERS[:1])).graph
    with pytest.raises(TableError, match="column 'age': expected numbers"):
        list(read_rows(strict.tables, "u", new))


def test_unknown_values_are_refused() -> None:
    with pytest.raises(TableError, match="unknown on_error 'ignore': expected one of 'stop'"):
        ViewTable("u.csv", on_error="ignore")
    with pytest.raises(TableError, match="unknown on_error 'drop'"):
        LinkTable("u.csv", on_error="drop")
