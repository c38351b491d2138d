"""Ids that differ in type or padding only are noticed, and one option makes them the same."""

import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from pmvge.cli.app import app
from pmvge.errors import TableError
from pmvge.tables import (
    DroppedRows,
    LinkTable,
    Project,
    ViewTable,
    graph_from_frames,
    project_text,
    read_links,
    read_project,
    read_rows,
    read_tables,
    sketch_project,
)

FILMS = [f"{k:03d}" for k in range(1, 31)]


def plain(text: object) -> str:
    """Return an id without padding, in Python."""
    stripped = str(text).strip()
    whole = stripped.removesuffix(".0")
    return str(int(whole)) if whole.isdigit() else stripped


@pytest.mark.parametrize(
    ("films", "seen"),
    [
        (FILMS, list(range(1, 31))),
        (FILMS, [str(k) for k in range(1, 31)]),
        (FILMS, [float(k) for k in range(1, 31)]),
        ([f" {k}" for k in FILMS], [f"{k:05d}" for k in range(1, 31)]),
        (list(range(1, 31)), [f" {k} " for k in FILMS]),
        (["a1", "0", "b"], [" a1", "000", "b "]),
    ],
)
def test_padding_and_type_do_not_matter_with_normalize_ids(films, seen) -> None:
    table = ViewTable({"film": films}, "film", {}, normalize_ids=True)
    links = {"user": [f"u{k % 4}" for k in range(len(seen))], "film": seen}
    graph = graph_from_frames({"film": table, "user": None}, {("user", "film"): links})
    assert graph.n_links == len(seen)
    assert {*map(str, graph.ids["film"].tolist())} == {plain(film) for film in films}
    found = graph.links["user", "film"]
    for i, j in zip(found.rows, found.cols, strict=True):
        position = [plain(k) for k in seen].index(str(graph.ids["film"][j]))
        assert graph.ids["user"][i] == f"u{position % 4}"


def test_the_note_on_dropped_rows_names_the_option() -> None:
    links = {"user": ["a"] * 31, "film": [*range(1, 30), 500, 100]}
    films = {"film": [*FILMS, "100"]}
    message = (
        r"rows dropped: 30 with an unknown id .*; 29 of the unknown ids are ids of 'film' but for "
        r"leading zeros, blanks or \.0 around them: set normalize_ids = true in \[views\.film\]$"
    )
    with pytest.warns(DroppedRows, match=message):
        graph_from_frames(
            {"film": ViewTable(films, "film", {}), "user": None}, {("user", "film"): links}
        )
    with pytest.raises(TableError, match=r"none of its 1 rows .*normalize_ids = true in"):
        graph_from_frames(
            {"film": ViewTable(films, "film", {}), "user": None},
            {("user", "film"): {"user": ["a"], "film": [7]}},
        )


def test_other_unknown_ids_have_no_such_note() -> None:
    links = {"user": ["a", "a"], "film": ["001", "x7"]}
    with pytest.warns(DroppedRows) as caught:
        graph_from_frames(
            {"film": ViewTable({"film": FILMS}, "film", {}), "user": None},
            {("user", "film"): links},
        )
    assert "normalize_ids" not in str(caught[0].message)


def test_ids_that_become_equal_are_an_error() -> None:
    table = ViewTable({"film": ["1", "001", "2"]}, "film", {}, normalize_ids=True)
    with pytest.raises(TableError, match="expected every id once, but 1 rows repeat one, such as"):
        graph_from_frames(
            {"film": table, "user": None}, {("user", "film"): {"u": [1], "film": [2]}}
        )


def test_later_tables_are_read_in_the_same_way() -> None:
    films = {"film": FILMS, "year": list(range(30))}
    table = ViewTable(films, "film", {"year": "numeric"}, normalize_ids=True)
    links = {"user": ["a", "b"], "film": [1, 2]}
    project = Project({"film": table, "user": ViewTable()}, {("user", "film"): LinkTable(links)})
    graph = read_tables(project).graph
    tables = json.loads(json.dumps(graph.tables))
    ((ids, X),) = read_rows(tables, "film", {"film": ["0002", "77"], "year": [1, 2]})
    assert ids.tolist() == [2, 77]
    assert len(X) == 2
    later = {"user": ["a", "b", "a"], "film": [" 002", "3", "x"]}
    found, summary = read_links(tables, graph.ids, ("user", "film"), later)
    assert len(found) == 2
    assert summary.dropped == {"unknown id": 1}
    assert summary.padded == {}


def test_a_view_without_a_table() -> None:
    views = {"a": ViewTable(normalize_ids=True), "b": ViewTable()}
    tables = {
        ("a", "b"): LinkTable({"a": ["01", "2"], "b": ["x", "y"]}, ("a", "b")),
        ("a", "a"): LinkTable({"p": [1], "q": [2]}, ("p", "q")),
    }
    graph = read_tables(Project(views, tables)).graph
    assert graph.ids["a"].tolist() == [1, 2]


@pytest.fixture
def folder(tmp_path):
    frame = pd.DataFrame({"film_id": FILMS, "year": range(1990, 2020)})
    frame.to_csv(tmp_path / "films.csv", index=False)
    seen = [{"user": f"u{k % 9}", "film_id": 1 + k % 30, "stars": 1 + k % 5} for k in range(120)]
    pd.DataFrame(seen).to_csv(tmp_path / "seen.csv", index=False)
    return tmp_path


def test_init_sets_the_option_and_says_so(folder) -> None:
    sketch = sketch_project(folder)
    assert sketch.project.views["films"].normalize_ids
    assert any("normalize_ids = true removes them" in note for note in sketch.notes)
    assert "seen.film_id matches films.film_id in 30 of 30 values without leading zeros" in str(
        sketch.matches
    )
    (folder / "pmvge.toml").write_text(project_text(sketch.project))
    project = read_project(folder / "pmvge.toml")
    assert project.views["films"].normalize_ids
    tables = read_tables(project)
    assert not tables.joined["user", "films"].dropped
    assert tables.graph.ids["films"].tolist() == list(range(1, 31))


def test_init_leaves_padding_that_distinguishes_ids(folder) -> None:
    both = pd.DataFrame({"film_id": [*FILMS, *map(str, range(1, 31))], "year": range(60)})
    both.to_csv(folder / "films.csv", index=False)
    assert not sketch_project(folder).project.views["films"].normalize_ids


def test_ids_that_would_become_equal_are_named(folder) -> None:
    frame = pd.DataFrame({"film_id": [*FILMS, "1"], "year": range(31)})
    frame.to_csv(folder / "films.csv", index=False)
    sketch = sketch_project(folder, {"seen.csv:film_id": "films"})
    assert not sketch.project.views["films"].normalize_ids
    (match,) = sketch.matches
    assert match.startswith("seen.film_id matches films.film_id in 1 of 30 values: ")
    assert "; 30 would match without leading zeros and blanks, but then '001' and '1' of " in match
    assert "are the same id: write the ids in the same way in both" in match
    with pytest.warns(DroppedRows) as caught:
        graph_from_frames(
            {"films": ViewTable(frame, "film_id", {}), "user": None},
            {("user", "films"): pd.read_csv(folder / "seen.csv")},
        )
    (note,) = (str(warning.message) for warning in caught)
    assert "116 of the unknown ids are ids of 'films' but for leading zeros" in note
    assert note.endswith("'films' has both '001' and '1', so write the ids alike in all tables")


def test_the_option_on_the_command_line(folder) -> None:
    arguments = [
        "fit", "--view", f"films={folder / 'films.csv'}:id=film_id:normalize_ids=true", "--links",
        f"user,films={folder / 'seen.csv'}:columns=user,film_id", "-o", str(folder / "model"),
        "--set", "max_steps=2", "--set", "n_components=2",
    ]  # fmt: skip
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "dropped" not in result.output
