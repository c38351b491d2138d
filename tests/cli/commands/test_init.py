"""``pmvge init``: the file it writes, what it prints, and existing files."""

import contextlib
import json
import os
import subprocess
import sys
import tomllib

import pandas as pd
import pytest

from pmvge.errors import StorageError
from pmvge.tables import read_graph

GUESSED = """\
view films: films.csv, id film_id, name title, features title (text), plot (text), year (numeric)
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


def rename_users(tables):
    """Write the ids of users in another way than in the ratings."""
    path = tables / "users.csv"
    path.write_text(path.read_text().replace("\nu", "\nuser_"))


def test_match_rates_and_notes_are_printed(tables, run):
    path = tables / "users.csv"
    lines = path.read_text().splitlines()
    lines = [f"{line},," if at else f"{line},empty,empty2" for at, line in enumerate(lines)]
    path.write_text("\n".join([*lines, lines[1]]))
    printed = run("init", tables, "--force")
    assert "ratings.film_id matches films.film_id in 60 of 60 values" in printed.out
    assert "note: users.csv: left out 2 columns, 'empty', 'empty2': each is empty" in printed.err
    assert "1 of 101 rows repeat an id, such as 'u00000'" in printed.err
    content = tomllib.loads((tables / "pmvge.toml").read_text())
    assert content["views"]["users"]["on_error"] == "missing"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("more.jsonl", b'{"a": \n', "cannot be read: "),
        ("sheet.xlsx", b"PK\x03\x04", "cannot be read: "),
        ("sheet.xls", b"\xd0\xcf\x11\xe0", "save the workbook as .xlsx"),
        ("all.zip", b"PK\x03\x04", "an archive: unpack it"),
        ("split.npz", b"PK\x03\x04", "cannot be read: "),
        ("picture", b"\x89PNG\r\n\x1a\n\0", "expected a CSV file"),
        ("README", b"a,b\nc,d\n", "not a table"),
        ("about", b"These data,\nare free.\n", "not a table: its lines do not have the same"),
    ],
)
def test_files_that_are_not_read_are_listed_with_the_reason(tables, run, name, content, reason):
    (tables / name).write_bytes(content)
    assert f"note: left out {name}: {reason}" in run("init", tables, "--force").err


def test_an_unsure_guess_stops_with_the_readings_and_writes_nothing(tables, refused):
    rename_users(tables)
    (tables / "pmvge.toml").unlink()
    message = refused("init", tables)
    assert (
        "ratings.user_id matches users.user_id in 0 of 100 values: 'u00000' against 'user_00000'"
    ) in message
    assert "--choose ratings.csv:user_id=none (it holds none of these ids" in message
    assert not (tables / "pmvge.toml").exists()


def test_choose_answers_the_question(tables, run, refused):
    rename_users(tables)
    printed = run("init", tables, "--force", "--choose", "ratings.csv:user_id=none")
    assert "view user: no table, ids from the links" in printed.out
    assert "note: left out users.csv: no link table refers to it" in printed.err
    message = refused("init", tables, "--force", "--choose", "ratings.csv=none")
    assert message == "--choose: expected FILE:WHAT=ANSWER, got 'ratings.csv=none'"
    message = refused("init", tables, "--force", "--choose", "ratings.csv:user_id=genres")
    assert "unknown answer 'genres': expected one of" in message


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_questions_are_asked_on_a_terminal(tables, environ):
    import pty

    path = tables / "ratings.csv"
    path.write_text(path.read_text().replace(",1\n", ",-1\n"))
    main, terminal = pty.openpty()
    command = [sys.executable, "-m", "pmvge", "init", str(tables), "--force"]
    os.write(main, b"7\n1\n")  # 7 is not a choice
    process = subprocess.run(
        command, stdin=terminal, stderr=terminal, stdout=subprocess.PIPE, env=environ, check=True
    )
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # the end of the terminal
        while part := os.read(main, 4096):
            shown += part
    os.close(main)
    assert b"which column is the weight of a link?" in shown
    assert b"1  stars: stars is the weight, and rows with a negative one are dropped" in shown
    assert b"--choose ratings.csv:weight=stars" in shown
    assert b"sum of stars" in process.stdout
    content = tomllib.loads((tables / "pmvge.toml").read_text())
    (ratings,) = [entry for entry in content["links"] if entry["source"] == "ratings.csv"]
    assert (ratings["weight"], ratings["on_error"]) == ("stars", "missing")


def test_all_open_questions_have_one_command(tables, refused, run, capsys):
    rename_users(tables)
    path = tables / "ratings.csv"
    path.write_text(path.read_text().replace(",1\n", ",-1\n"))
    message = refused("init", tables, "--force")
    command = (
        f"pmvge init {tables} --force --choose ratings.csv:user_id=none "
        "--choose ratings.csv:weight=stars"
    )
    assert message == f"2 open questions; to take the first reading of each: {command}"
    run(*command.split()[1:])


def test_names_with_colons_are_no_emojis(tables, run):
    (tables / "pmvge.toml").unlink()
    with pd.ExcelWriter(tables / "shop.xlsx") as book:
        for sheet in ("star", "notes"):
            pd.DataFrame({"about": ["this file", "do not edit"]}).to_excel(book, sheet_name=sheet)
    notes = run("init", tables).err
    assert "note: left out shop.xlsx:star: " in notes
    assert "note: left out shop.xlsx:notes: " in notes
