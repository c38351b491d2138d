"""The guess of the column with the names of entities."""

import pytest

from pmvge.tables import LinkTable, Project, ViewTable, read_tables
from pmvge.tables.guessing.column_names import singulars
from pmvge.tables.guessing.names import guess_name
from pmvge.tables.guessing.profile import Profile


def column(distinct=100, kind="text"):
    return Profile(kind, 100, 100, distinct, 0, None)


@pytest.mark.parametrize(
    ("view", "columns", "name"),
    [
        ("films", {"film_id": column(), "title": column(), "plot": column()}, "title"),
        ("films", {"id": column(), "film_title": column(), "year_title": column()}, "film_title"),
        ("item", {"item_id:token": column(), "movie_title:token_seq": column(60)}, None),
        ("item", {"id": column(), "movie_title:token_seq": column()}, "movie_title:token_seq"),
        ("artists", {"id": column(), "url": column(), "name": column()}, "name"),
        ("artists", {"id": column(), "artistName": column()}, "artistName"),
        ("users", {"id": column(), "country_name": column(20)}, None),
        ("users", {"id": column(), "job_title": column(60)}, None),
        ("users", {"id": column(), "first_name": column(95), "last_name": column(95)}, None),
        ("users", {"id": column(), "full_name": column(95), "last_name": column(95)}, "full_name"),
        ("users", {"name": column(), "age": column(50, "integer")}, None),  # it is the id
        ("papers", {"id": column(), "title": column(3)}, None),  # a category
        ("papers", {"id": column(), "titles": column(), "subtitle": column()}, None),
        ("papers", {"id": column(), "title": column(kind="integer")}, None),
    ],
)
def test_names_are_guessed_by_column_name_and_distinct_values(view, columns, name):
    key = next(iter(columns))
    assert guess_name(columns, key, singulars(view)) == name


def test_a_model_keeps_names_and_few_other_columns(tmp_path):
    films = {
        "id": [1, 2, 3],
        "title": ["A", None, "C"],
        "year": [1999, 2004, None],
        "g": list("xxy"),
    }
    links = {"user": [7, 7, 8], "film": [1, 2, 3]}
    project = Project(
        {"film": ViewTable(films), "user": ViewTable()},
        {("user", "film"): LinkTable(links, ("user", "film"))},
    )
    tables = read_tables(project)
    assert tables.names == {"film": "title"}
    assert {name: values.tolist() for name, values in tables.columns["film"].items()} == {
        "title": ["A", "", "C"],
        "year": ["1999", "2004", ""],
    }
    assert tables.labels["film"]["g"].tolist() == ["x", "x", "y"]  # a category is a label
    spilled = read_tables(project, spill=tmp_path / "few")  # tables that do not fit into memory
    assert list(spilled.columns["film"]) == ["title"]
    assert spilled.names == {"film": "title"}
    wide = films | {f"x{n}": [n, 0, 1] for n in range(30)}
    project = Project({**project.views, "film": ViewTable(wide)}, project.links)
    assert list(read_tables(project).columns["film"]) == ["title"]
