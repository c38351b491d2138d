"""Bad input as a user meets it: exit code 2, one line that helps, and no harm done."""

import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from pmvge import PMvGE, storage
from pmvge.search import Embeddings

QUICK = ("--set", "max_steps=5", "--set", "n_components=4")


@pytest.fixture
def fit(refused, tables):
    """What ``pmvge fit`` says of the copy of the tables; no model comes of it."""

    def call(*flags):
        said = refused("fit", tables / "pmvge.toml", "-o", tables / "model", *QUICK, *flags)
        assert not (tables / "model" / "model.json").exists()
        return said

    return call


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def contents(folder):
    """Every file below a folder, byte for byte."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# -- tables ----------------------------------------------------------------------------------------


def test_a_missing_file_and_what_is_there_instead(fit, tables):
    (tables / "films.csv").unlink()
    said = fit()
    assert said.startswith("films.csv: no such file in ")
    assert "; there are film_genres.csv, ratings.csv, users.csv" in said


def test_a_missing_project(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = "pmvge.toml: no such project file; 'pmvge init' writes one from the tables in a folder"
    assert refused("fit") == told


def test_a_missing_folder_or_one_without_tables(refused, tmp_path):
    assert refused("init", tmp_path / "gone") == f"{tmp_path / 'gone'}: no such folder"
    assert "there is no CSV, Parquet or database file" in refused("init", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "old", "new", "column"),
    [
        ("films.csv", "plot", "plott", "'plot'"),
        ("films.csv", "film_id", "filmid", "'film_id'"),
        ("ratings.csv", "user_id", "userid", "'user_id'"),
        ("ratings.csv", "stars", "star", "'stars'"),
    ],
)
def test_a_missing_column_and_the_closest_names(fit, tables, file, old, new, column):
    change(tables / file, old, new)
    said = fit()
    assert file in said
    assert f"no column {column}" in said
    assert repr(new) in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PK\x03\x04" + bytes(100), "is neither: expected a CSV file (text, with a header) or a"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "is neither: expected a CSV file"),
        (b"", "is empty; expected a CSV file"),
        (b"PAR1" + b"x" * 50, "cannot be read"),
    ],
    ids=["zip", "png", "nothing", "half a Parquet"],
)
def test_a_file_that_is_not_a_table(fit, tables, content, says):
    (tables / "films.csv").write_bytes(content)
    said = fit()
    assert "films.csv" in said
    assert says in said


def test_mixed_types_in_a_column_of_numbers(fit, tables):
    change(tables / "users.csv", "u00002,", "u00002,old,de,I like\nu99999,")
    said = fit()
    assert "users.csv" in said
    assert "'age'" in said
    assert "'old'" in said


def test_ids_that_are_empty(fit, tables):
    change(tables / "users.csv", "\nu00002,", "\n,")
    assert "id column 'user_id': 1 of 100 ids are empty" in fit()


def test_ids_that_stand_twice(fit, tables):
    change(tables / "users.csv", "\nu00002,", "\nu00001,")
    said = fit()
    assert "id column 'user_id': expected every id once, but 1 rows repeat one" in said
    assert said.endswith("such as 'u00001'")


@pytest.mark.parametrize(
    ("value", "says"),
    [("many", "expected numbers"), ("-2", "expected weights >= 0"), ("inf", "expected finite")],
)
def test_weights_that_are_none(fit, tables, value, says):
    rows = (tables / "ratings.csv").read_text().splitlines()
    rows[3] = rows[3].rsplit(",", 1)[0] + f",{value}"
    (tables / "ratings.csv").write_text("\n".join(rows) + "\n")
    said = fit()
    assert f"weight column 'stars': {says}" in said
    assert f"such as '{value}'" in said


@pytest.mark.parametrize("file", ["films.csv", "ratings.csv"])
def test_a_table_without_rows(fit, tables, file):
    place = tables / file
    place.write_text(place.read_text().splitlines()[0] + "\n")
    said = fit()
    assert file in said
    assert "the table has no rows" in said


def test_links_none_of_whose_ids_match(fit, tables, table, read):
    rows = [(f"U-{row['user_id']}", row["film_id"], 1) for row in read(tables / "ratings.csv")]
    table(tables / "ratings.csv", ("user_id", "film_id", "stars"), rows)
    said = fit()
    assert "links users,films (ratings.csv): none of its 1,080 rows is a link" in said
    assert "view 'users' has ids like 'u00000', 'u00001', 'u00002', the links have 'U-u0" in said
    assert said.split("the links have")[1].count("'U-u") == 3


def test_flags_meet_the_same_errors(refused, films, tmp_path):
    flags = ("--view", f"users={films / 'users.csv'}:id=name", "-o", tmp_path / "model")
    said = refused("fit", *flags, "--links", f"users,films={films / 'ratings.csv'}")
    assert "no column 'name'" in said
    said = refused("fit", "--links", f"users,films={tmp_path / 'gone.csv'}", "-o", tmp_path / "m")
    assert "gone.csv: no such file" in said


def test_a_database_without_the_table(refused, tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("CREATE TABLE sales (who TEXT, what TEXT)")
    db.close()
    links = f"a,b={tmp_path / 'shop.db'}:sails"
    said = refused("fit", "--links", links, "-o", tmp_path / "m")
    assert "no table 'sails'; there are 'sales'" in said


# -- later tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" + bytes(99), b"user_id,film_id,stars\n"])
@pytest.mark.parametrize("command", ["evaluate", "embed", "search"])
def test_later_tables_are_looked_at_as_well(refused, model, tmp_path, command, content):
    place, output = tmp_path / "new.csv", tmp_path / "v.parquet"
    arguments = {
        "evaluate": ("evaluate", model, "--links", place, "--pair", "users,films"),
        "embed": ("embed", model, place, "--view", "users", "-o", output),
        "search": ("search", model, "--view", "users", "--rows", place, "--among", "films"),
    }[command]
    assert f"{place}: no such file" in refused(*arguments)
    place.write_bytes(content)
    assert str(place) in refused(*arguments)
    assert not output.exists()


def test_held_out_links_none_of_whose_ids_match(refused, model, table, tmp_path):
    rows = [(f"x{n}", f"y{n}", 1) for n in range(9)]
    place = table(tmp_path / "held.csv", ("user_id", "film_id", "stars"), rows)
    said = refused("evaluate", model, "--links", place)
    assert "view 'users' has ids like 'u00000', 'u00001', 'u00002', the links have 'x0', " in said
    assert "view 'films' has ids like 'f00000', 'f00001', 'f00002', the links have 'y0', " in said


# -- models ----------------------------------------------------------------------------------------


def needing_a_model(folder, films):
    held, new = films / "later" / "held_out.csv", films / "later" / "new_users.csv"
    return {
        "inspect": ("inspect", folder),
        "evaluate": ("evaluate", folder, "--links", held, "--pair", "users,films"),
        "embed": ("embed", folder, new, "--view", "users", "-o", films / "never.parquet"),
        "search": ("search", folder, "--view", "users", "--id", "u00001", "--among", "films"),
        "report": ("report", folder, "-o", films / "never.html"),
    }


@pytest.mark.parametrize("command", ["inspect", "evaluate", "embed", "search", "report"])
@pytest.mark.parametrize("kind", ["missing", "empty", "file"])
def test_a_folder_that_is_no_model(refused, tables, tmp_path, command, kind):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    said = refused(*needing_a_model(tmp_path / kind, tables)[command])
    assert said == f"{tmp_path / kind}: not a pmvge model: there is no model.json"
    assert not list(tables.glob("never*"))


@pytest.mark.parametrize("command", ["inspect", "evaluate", "embed", "search", "report"])
def test_a_model_that_is_damaged(refused, own_model, tables, command):
    (part,) = own_model.glob("weights-*")
    part.write_bytes(part.read_bytes()[:-10])
    said = refused(*needing_a_model(own_model, tables)[command])
    assert f"{own_model}: damaged model: {part.name}" in said


@pytest.mark.parametrize("command", ["inspect", "evaluate", "search", "report"])
def test_links_that_are_damaged_are_not_taken_for_none(refused, own_model, tables, command):
    (part,) = own_model.glob("links-0-*")
    part.write_bytes(part.read_bytes()[:-10])
    said = refused(*needing_a_model(own_model, tables)[command])
    assert f"{own_model}: damaged model: {part.name}" in said


def test_a_model_without_its_links(refused, run, model, films, tmp_path):
    PMvGE.load(model).save(tmp_path)
    for flags in (
        needing_a_model(tmp_path, films)["evaluate"],
        (*needing_a_model(tmp_path, films)["search"], "--exclude-known"),
    ):
        said = refused(*flags)
        assert said.startswith(f"{tmp_path}: the model was saved without its links, which this")
        assert "fit it by 'pmvge fit', or save it with background=Background.of(graph)" in said
    assert "f0" in run(*needing_a_model(tmp_path, films)["search"]).out


# -- places that cannot be written -----------------------------------------------------------------


def writing(place, films, model):
    new = films / "later" / "new_users.csv"
    return {
        "init": ("init", films, "-o", place / "p.toml"),
        "fit": ("fit", films / "pmvge.toml", "-o", place, *QUICK),
        "embed": ("embed", model, new, "--view", "users", "-o", place / "v.parquet"),
        "report": ("report", model, "-o", place / "r.html"),
        "tune": ("tune", films / "pmvge.toml", "-o", place / "p.toml", "--trials", 1, *QUICK),
    }


@pytest.mark.parametrize("command", ["init", "fit", "embed", "report", "tune"])
def test_a_place_that_cannot_be_written(refused, films, model, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "deep", Path("/dev/null/x")):
        said = refused(*writing(place, films, model)[command])
        assert said.startswith(str(place))
        assert "cannot be written: " in said
    assert contents(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize("command", ["init", "fit", "embed", "report", "tune"])
def test_a_place_that_is_read_only(refused, films, model, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)

    def touch(self, *arguments, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "touch", touch)
    said = refused(*writing(tmp_path, films, model)[command])
    assert said.endswith("cannot be written: Read-only file system")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("command", ["init", "embed", "report"])
def test_a_folder_where_a_file_should_be(refused, films, model, tmp_path, command):
    arguments = list(writing(tmp_path, films, model)[command])
    place = next(word for word in arguments if isinstance(word, Path) and tmp_path in word.parents)
    place.mkdir()
    said = refused(*arguments, *(["--force"] if command == "init" else []))
    assert said == f"{place}: cannot be written: it is a folder"


# -- a full disk -----------------------------------------------------------------------------------

# No file may grow beyond so many bytes: for a program, what a full disk is.
FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
"""


@pytest.fixture
def outputs(own_model, tables, run, tmp_path):
    """A folder with every kind of output, all of them old."""
    folder = tmp_path / "old"
    folder.mkdir()
    shutil.move(own_model, folder / "model")
    shutil.copy(tables / "pmvge.toml", folder / "pmvge.toml")
    new = tables / "later" / "new_users.csv"
    run("embed", folder / "model", new, "--view", "users", "-o", folder / "vectors.parquet")
    run("report", folder / "model", "-o", folder / "report.html")
    return folder


def overwriting(folder, tables, model):
    new = tables / "users.csv"
    return {
        "init": ("init", tables, "-o", folder / "pmvge.toml", "--force"),
        "fit": ("fit", tables / "pmvge.toml", "-o", folder / "model", *QUICK),
        "embed": ("embed", model, new, "--view", "users", "-o", folder / "vectors.parquet"),
        "report": ("report", model, "-o", folder / "report.html", "--title", "new"),
    }


def survived(folder, before):
    """Nothing is lost or changed; what is there beside it is none of the output."""
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    beside = {Path(name).name for name in after if name not in before}
    assert all(name.startswith(".") or "checkpoint" in name for name in beside), beside
    assert PMvGE.load(folder / "model").n_components == 8
    assert len(Embeddings.load(folder / "vectors.parquet")) == 20


@pytest.mark.skipif(os.name != "posix", reason="limits of files are POSIX's")
@pytest.mark.parametrize(
    ("command", "limit"), [("init", 500), ("fit", 3000), ("embed", 500), ("report", 50_000)]
)
def test_a_full_disk_leaves_what_was_there(
    outputs, tables, model, shell, monkeypatch, command, limit
):
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # what it writes is too large, too
    before = contents(outputs)
    arguments = overwriting(outputs, tables, model)[command]
    done = shell(*arguments, before=FULL.format(limit))
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("pmvge: ")
    assert "too large" in lines[0]
    survived(outputs, before)


@pytest.mark.parametrize("command", ["init", "fit", "embed", "report"])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_fills_up_at_the_last_moment(
    outputs, tables, model, refused, monkeypatch, command, call
):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = contents(outputs)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        said = refused(*overwriting(outputs, tables, model)[command])
    assert "No space left on device" in said
    survived(outputs, before)


def test_once_there_is_space_again_a_fit_cleans_up(
    outputs, tables, model, refused, run, monkeypatch
):
    def full(*arguments, **options):
        raise storage.StorageError("No space left on device")

    fit = overwriting(outputs, tables, model)["fit"]
    with monkeypatch.context() as patch:
        patch.setattr(PMvGE, "save", full)
        refused(*fit)
    assert (outputs / "model" / "checkpoint" / "checkpoint.json").exists()
    run(*fit, "--resume")
    assert PMvGE.load(outputs / "model").n_components == 4
    names = {path.name for path in (outputs / "model").iterdir()}
    assert "checkpoint" not in names
    assert not any(name.startswith(".") for name in names)


def test_a_view_that_no_links_name_is_a_slip(refused, tables):
    flags = (
        "--view",
        f"films={tables / 'films.csv'}",
        "--links",
        f"users,flims={tables / 'ratings.csv'}",
    )
    told = "--view films: no --links have this view; did you mean it by 'flims'?"
    assert refused("fit", *flags) == told
