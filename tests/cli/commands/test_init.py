"""``pmvge init``: the file it writes, what it prints, and existing files."""

import json
import tomllib

import pytest

from pmvge.errors import StorageError
from pmvge.tables import read_graph

GUESSED = """\
view films: films.csv, id film_id, features title (text), plot (text), year (numeric)
view users: users.csv, id user_id, features age (numeric), country (category), likes (text)
view genre: no table, ids from the links
links films,genre: film_genres.csv, film_id - genre, rows counted
links users,films: ratings.csv, user_id - film_id, sum of stars
"""


def test_init_prints_and_writes_its_guesses(tables, run):
    (tables / "pmvge.toml").unlink()
    printed = run("init", tables)
    assert printed.out.startswith(GUESSED)
    path = tables / "pmvge.toml"
    assert f"Wrote {path}. Check it, then run: pmvge fit {path}" in printed.out.splitlines()
    content = tomllib.loads(path.read_text())
    assert content["views"]["films"]["features"] == {
        "title": "text", "plot": "text", "year": "numeric"
    }  # fmt: skip
    assert content["views"]["genre"] == {}
    assert [entry["views"] for entry in content["links"]] == [
        ["films", "genre"],
        ["users", "films"],
    ]
    assert content["links"][1]["weight"] == "stars"
    assert read_graph(path).sizes == {"films": 60, "users": 100, "genre": 8}


def test_init_reads_the_current_folder_by_default(tables, run, monkeypatch):
    monkeypatch.chdir(tables)
    (tables / "pmvge.toml").unlink()
    assert "then run: pmvge fit pmvge.toml" in run("init").out
    assert (tables / "pmvge.toml").exists()


def test_the_file_has_the_reasons_of_the_guesses(films):
    text = (films / "pmvge.toml").read_text()
    assert "\n# 'film_id' is distinct in every row of films.csv\n[views.films]" in text
    assert "\n# 'user_id' of ratings.csv holds ids of users, 'film_id' holds ids of films\n" in text


def test_init_as_json(tables, run, tmp_path):
    (tables / "notes.txt").write_text("Once upon a time\n")
    path = tmp_path / "new" / "of mine.toml"
    printed = json.loads(run("init", tables, "-o", path, "--json").out)
    assert set(printed) == {"project", "guessed", "matches", "notes", "skipped"}
    assert printed["project"] == str(path)
    assert set(printed["guessed"]) == {"films", "users", "genre", "films,genre", "users,films"}
    assert list(printed["skipped"]) == ["notes.txt"]
    assert path.exists()


def test_files_that_are_left_out_are_notes(tables, run):
    (tables / "notes.txt").write_text("Once upon a time\n")
    assert "note: left out notes.txt: no rows" in run("init", tables, "--force").err


def test_an_existing_file_is_replaced_only_by_force(tables, run):
    path = tables / "pmvge.toml"
    path.write_text("mine")
    with pytest.raises(
        StorageError, match=r"pmvge\.toml: the file exists; pass --force to replace it"
    ):
        run("init", tables)
    assert path.read_text() == "mine"
    run("init", tables, "--force")
    assert read_graph(path).n_links > 0


def test_paths_with_brackets_and_spaces_are_printed_unchanged(tables, run):
    folder = tables.rename(tables.parent / "my [red] tables, whose name is so long that it breaks")
    printed = run("init", folder, "--force").out
    assert f"Wrote {folder / 'pmvge.toml'}. " in printed
    assert f"pmvge fit '{folder / 'pmvge.toml'}'\n" in printed
