"""``pmvge init``: the file it writes, what it says, and what it leaves alone."""

import json
import tomllib

import pytest

from pmvge.errors import StorageError
from pmvge.tables import read_graph

GUESSED = """\
view films: films.csv, id film_id, features title (text), plot (text), year (numeric)
view users: users.csv, id user_id, features age (numeric), country (category), likes (text)
view genre: no table, known by ids in the links
links films,genre: film_genres.csv, film_id - genre, rows counted
links users,films: ratings.csv, user_id - film_id, sum of stars
"""


def test_init_says_what_it_guessed_and_writes_it(tables, run):
    (tables / "pmvge.toml").unlink()
    said = run("init", tables)
    assert said.out.startswith(GUESSED)
    place = tables / "pmvge.toml"
    assert f"Wrote {place}. Read it, mend it, then: pmvge fit {place}" in said.out.splitlines()
    content = tomllib.loads(place.read_text())
    assert content["views"]["films"]["features"] == {
        "title": "text", "plot": "text", "year": "numeric"
    }  # fmt: skip
    assert content["views"]["genre"] == {}
    assert [entry["views"] for entry in content["links"]] == [
        ["films", "genre"],
        ["users", "films"],
    ]
    assert content["links"][1]["weight"] == "stars"
    assert read_graph(place).sizes == {"films": 60, "users": 100, "genre": 8}


def test_init_looks_at_this_folder_by_default(tables, run, monkeypatch):
    monkeypatch.chdir(tables)
    (tables / "pmvge.toml").unlink()
    assert "then: pmvge fit pmvge.toml" in run("init").out
    assert (tables / "pmvge.toml").exists()


def test_the_file_says_why(films):
    text = (films / "pmvge.toml").read_text()
    assert "\n# every row of films.csv has a 'film_id' of its own\n[views.films]" in text
    assert "\n# 'user_id' of ratings.csv holds ids of users, 'film_id' holds ids of films\n" in text


def test_init_as_json(tables, run, tmp_path):
    (tables / "notes.txt").write_text("Once upon a time\n")
    place = tmp_path / "new" / "of mine.toml"
    said = json.loads(run("init", tables, "-o", place, "--json").out)
    assert set(said) == {"project", "guessed", "skipped"}
    assert said["project"] == str(place)
    assert set(said["guessed"]) == {"films", "users", "genre", "films,genre", "users,films"}
    assert list(said["skipped"]) == ["notes.txt"]
    assert place.exists()


def test_what_is_left_out_is_told(tables, run):
    (tables / "notes.txt").write_text("Once upon a time\n")
    assert "note: left out notes.txt: it has no rows" in run("init", tables, "--force").err


def test_a_file_that_is_there_is_replaced_only_by_force(tables, run):
    place = tables / "pmvge.toml"
    place.write_text("mine")
    with pytest.raises(StorageError, match=r"pmvge\.toml: is there already; --force replaces it"):
        run("init", tables)
    assert place.read_text() == "mine"
    run("init", tables, "--force")
    assert read_graph(place).n_links > 0


def test_names_with_brackets_and_blanks_are_printed_as_they_are(tables, run):
    folder = tables.rename(tables.parent / "my [red] tables, whose name is so long that it breaks")
    said = run("init", folder, "--force").out
    assert f"Wrote {folder / 'pmvge.toml'}. " in said
    assert f"pmvge fit '{folder / 'pmvge.toml'}'\n" in said
