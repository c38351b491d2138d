"""``pmvge report``: the page is one file, with the labels of the options."""

import pytest

from pmvge import PMvGE
from pmvge.errors import ParameterError, TableError


def test_the_page_is_one_file(run, model, tmp_path):
    path = tmp_path / "my [red] report.html"
    printed = run("report", model, "-o", path, "--title", "Who watches what")
    assert f"Report: {path} (" in printed.out
    assert printed.err == ""
    page = path.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<title>Who watches what" in page
    assert "u00001" in page
    assert "country" in page  # a category of the training's tables
    assert [path.name for path in path.parent.iterdir()] == [path.name]


def test_the_default_title_is_the_folder_of_the_model(run, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("report", model)
    assert "<title>model" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_labels_come_from_any_table_with_the_ids(run, model, films, table, tmp_path):
    shelf = table(tmp_path / "t:1.csv", ("film_id", "shelf"), [("f00000", "top-left-shelf")])
    labels = ("--label", f"films={shelf}:shelf", "--label", f"users={films / 'users.csv'}:age")
    run("report", model, "-o", tmp_path / "r.html", *labels)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "top-left-shelf" in page
    run("report", model, "-o", tmp_path / "r.html")
    assert "top-left-shelf" not in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_the_id_column_of_labels_may_be_called_id(run, table, tmp_path):
    rows = [(f"f{n}", n % 3, f"shelf-{n}") for n in range(9)]
    films = table(tmp_path / "films.csv", ("id", "year", "shelf"), rows)
    links = table(tmp_path / "l.csv", ("film", "tag"), [(f"f{n}", f"t{n % 2}") for n in range(9)])
    flags = ("--view", f"films={films}", "--links", f"films,tag={links}:columns=film,tag")
    run("fit", *flags, "-o", tmp_path / "m", "--set", "max_steps=2", "--set", "n_components=2")
    label = f"films={films}:shelf"
    run("report", tmp_path / "m", "-o", tmp_path / "r.html", "--label", label)
    assert "shelf-7" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_model_without_its_links_has_a_smaller_page(run, model, films, tmp_path):
    PMvGE.load(model).save(tmp_path / "bare", links=False)
    label = f"films={films / 'films.csv'}:year"
    printed = run("report", tmp_path / "bare", "-o", tmp_path / "r.html", "--label", label)
    assert "was saved without its links: the report will show less" in printed.err
    assert (tmp_path / "r.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("label", "error", "says"),
    [
        ("films", ParameterError, "--label: expected VIEW=FILE:COLUMN, got 'films'"),
        ("films=films.csv", ParameterError, "--label: expected VIEW=FILE:COLUMN"),
        ("movies=films.csv:year", TableError, "unknown view 'movies': expected one of 'films'"),
        ("films=films.csv:yaer", TableError, "no column 'yaer'.*'year'"),
        ("films=gone.csv:year", TableError, r"gone\.csv: no such file"),
        ("films=users.csv:age", TableError, "no column 'film_id'"),
    ],
)
def test_invalid_labels_are_errors(run, model, films, tmp_path, monkeypatch, label, error, says):
    monkeypatch.chdir(films)
    path = tmp_path / "r.html"
    path.write_text("old")
    with pytest.raises(error, match=says):
        run("report", model, "-o", path, "--label", label)
    assert path.read_text() == "old"


def test_folders_are_not_created(refused, model, tmp_path):
    page = tmp_path / "reprots" / "report.html"
    assert refused("report", model, "-o", page) == (
        f"{page}: cannot be written: there is no folder {page.parent}; create it first"
    )
    assert not page.parent.exists()
