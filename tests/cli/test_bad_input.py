"""Bad input: exit code 2, a message of one line, and existing files stay unchanged."""

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
    """Run ``pmvge fit`` on the copy of the tables; return the error. No model is written."""

    def call(*flags):
        message = refused("fit", tables / "pmvge.toml", "-o", tables / "model", *QUICK, *flags)
        assert not (tables / "model" / "model.json").exists()
        return message

    return call


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def contents(folder):
    """Return {name: content} of all files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# -- tables ----------------------------------------------------------------------------------------


def test_a_missing_file_lists_the_files_that_exist(fit, tables):
    (tables / "films.csv").unlink()
    message = fit()
    assert message.startswith("films.csv: no such file in ")
    assert "; there are film_genres.csv, ratings.csv, users.csv" in message


def test_a_missing_project(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = "no such project file; 'pmvge init' writes one from the tables in a folder"
    assert refused("fit") == f"pmvge.toml: {message}"


def test_a_missing_folder_or_one_without_tables(refused, tmp_path):
    assert refused("init", tmp_path / "gone") == f"{tmp_path / 'gone'}: no such folder"
    assert "NumPy or database files" in refused("init", tmp_path)
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
def test_a_missing_column_lists_the_closest_names(fit, tables, file, old, new, column):
    change(tables / file, old, new)
    message = fit()
    assert file in message
    assert f"no column {column}" in message
    assert repr(new) in message


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PK\x03\x04" + bytes(100), "expected a CSV file (text, with a header) or a"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "expected a CSV file"),
        (b"", "is empty; expected a CSV file"),
        (b"PAR1" + b"x" * 50, "cannot be read"),
    ],
    ids=["zip", "png", "nothing", "half a Parquet"],
)
def test_a_file_that_is_not_a_table(fit, tables, content, says):
    (tables / "films.csv").write_bytes(content)
    message = fit()
    assert "films.csv" in message
    assert says in message


def test_mixed_types_in_a_column_of_numbers(fit, tables):
    change(tables / "users.csv", "u00002,", "u00002,old,de,I like\nu99999,")
    message = fit()
    assert "users.csv" in message
    assert "'age'" in message
    assert "'old'" in message


def test_empty_ids(fit, tables):
    change(tables / "users.csv", "\nu00002,", "\n,")
    assert "id column 'user_id': 1 of 100 ids are empty" in fit()


def test_repeated_ids(fit, tables):
    change(tables / "users.csv", "\nu00002,", "\nu00001,")
    message = fit()
    assert "id column 'user_id': expected every id once, but 1 rows repeat one" in message
    assert "such as 'u00001'; remove them, or set on_error = " in message


@pytest.mark.parametrize(
    ("value", "says"),
    [("many", "expected numbers"), ("-2", "expected weights >= 0"), ("inf", "expected finite")],
)
def test_invalid_weights(fit, tables, value, says):
    rows = (tables / "ratings.csv").read_text().splitlines()
    rows[3] = rows[3].rsplit(",", 1)[0] + f",{value}"
    (tables / "ratings.csv").write_text("\n".join(rows) + "\n")
    message = fit()
    assert f"weight column 'stars': {says}" in message
    assert f"such as '{value}'" in message


@pytest.mark.parametrize("file", ["films.csv", "ratings.csv"])
def test_a_table_without_rows(fit, tables, file):
    path = tables / file
    path.write_text(path.read_text().splitlines()[0] + "\n")
    message = fit()
    assert file in message
    assert "the table has no rows" in message


def test_links_without_any_matching_id(fit, tables, table, read):
    rows = [(f"U-{row['user_id']}", row["film_id"], 1) for row in read(tables / "ratings.csv")]
    table(tables / "ratings.csv", ("user_id", "film_id", "stars"), rows)
    message = fit()
    assert "links users,films (ratings.csv): none of its 1,080 rows can be used" in message
    assert "view 'users' has ids like 'u00000', 'u00001', 'u00002', the links have 'U-u0" in message
    assert message.split("the links have")[1].count("'U-u") == 3


def test_tables_given_by_flags_have_the_same_errors(refused, films, tmp_path):
    flags = ("--view", f"users={films / 'users.csv'}:id=name", "-o", tmp_path / "model")
    message = refused("fit", *flags, "--links", f"users,films={films / 'ratings.csv'}")
    assert "no column 'name'" in message
    links = f"users,films={tmp_path / 'gone.csv'}"
    message = refused("fit", "--links", links, "-o", tmp_path / "m")
    assert "gone.csv: no such file" in message


def test_a_database_without_the_table(refused, tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("CREATE TABLE sales (who TEXT, what TEXT)")
    db.close()
    links = f"a,b={tmp_path / 'shop.db'}:sails"
    message = refused("fit", "--links", links, "-o", tmp_path / "m")
    assert "unknown table 'sails': expected one of 'sales'" in message


# -- tables of later commands ----------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04" + bytes(99), b"user_id,film_id,stars\n"])
@pytest.mark.parametrize("command", ["evaluate", "embed", "search"])
def test_tables_of_later_commands_are_checked(refused, model, tmp_path, command, content):
    path, output = tmp_path / "new.csv", tmp_path / "v.parquet"
    arguments = {
        "evaluate": ("evaluate", model, "--links", path, "--pair", "users,films"),
        "embed": ("embed", model, path, "--view", "users", "-o", output),
        "search": ("search", model, "--view", "users", "--rows", path, "--among", "films"),
    }[command]
    assert f"{path}: no such file" in refused(*arguments)
    path.write_bytes(content)
    assert str(path) in refused(*arguments)
    assert not output.exists()


def test_held_out_links_without_any_matching_id(refused, model, table, tmp_path):
    rows = [(f"x{n}", f"y{n}", 1) for n in range(9)]
    path = table(tmp_path / "held.csv", ("user_id", "film_id", "stars"), rows)
    message = refused("evaluate", model, "--links", path)
    for view, known, unknown in (("users", "u", "x"), ("films", "f", "y")):
        ids = ", ".join(f"'{known}0000{n}'" for n in range(3))
        assert f"view '{view}' has ids like {ids}, the links have '{unknown}0', " in message


# -- models ----------------------------------------------------------------------------------------


def commands_on_a_model(folder, films):
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
def test_a_folder_that_is_not_a_model(refused, tables, tmp_path, command, kind):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    message = refused(*commands_on_a_model(tmp_path / kind, tables)[command])
    assert message == f"{tmp_path / kind}: not a pmvge model: there is no model.json"
    assert not list(tables.glob("never*"))


@pytest.mark.parametrize("command", ["inspect", "evaluate", "embed", "search", "report"])
def test_a_damaged_model(refused, own_model, tables, command):
    (part,) = own_model.glob("weights-*")
    part.write_bytes(part.read_bytes()[:-10])
    message = refused(*commands_on_a_model(own_model, tables)[command])
    assert f"{own_model}: damaged model: {part.name}" in message


@pytest.mark.parametrize("command", ["inspect", "evaluate", "search", "report"])
def test_damaged_links_are_an_error(refused, own_model, tables, command):
    (part,) = own_model.glob("links-0-*")
    part.write_bytes(part.read_bytes()[:-10])
    message = refused(*commands_on_a_model(own_model, tables)[command])
    assert f"{own_model}: damaged model: {part.name}" in message


def test_a_model_without_its_links(refused, run, model, films, tmp_path):
    PMvGE.load(model).save(tmp_path, links=False)
    for flags in (
        commands_on_a_model(tmp_path, films)["evaluate"],
        (*commands_on_a_model(tmp_path, films)["search"], "--exclude-known"),
    ):
        message = refused(*flags)
        assert "the model has no training links: it was saved with links=False" in message
    assert "f0" in run(*commands_on_a_model(tmp_path, films)["search"]).out


# -- output paths ----------------------------------------------------------------------------------


def writing_commands(path, films, model):
    new = films / "later" / "new_users.csv"
    return {
        "init": ("init", films, "-o", path / "p.toml"),
        "fit": ("fit", films / "pmvge.toml", "-o", path, *QUICK),
        "embed": ("embed", model, new, "--view", "users", "-o", path / "v.parquet"),
        "report": ("report", model, "-o", path / "r.html"),
        "tune": ("tune", films / "pmvge.toml", "-o", path / "p.toml", "--trials", 1, *QUICK),
    }


@pytest.mark.parametrize("command", ["init", "fit", "embed", "report", "tune"])
def test_a_path_that_cannot_be_written(refused, films, model, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "deep", Path("/dev/null/x")):
        message = refused(*writing_commands(path, films, model)[command])
        assert message.startswith(str(path))
        assert "cannot be written: " in message
    assert contents(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize("command", ["init", "fit", "embed", "report", "tune"])
def test_a_read_only_file_system(refused, films, model, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)

    def touch(self, *arguments, **options):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "touch", touch)
    message = refused(*writing_commands(tmp_path, films, model)[command])
    assert message.endswith("cannot be written: Read-only file system")
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("command", ["init", "embed", "report"])
def test_a_folder_at_the_path_of_an_output_file(refused, films, model, tmp_path, command):
    arguments = list(writing_commands(tmp_path, films, model)[command])
    path = next(word for word in arguments if isinstance(word, Path) and tmp_path in word.parents)
    path.mkdir()
    message = refused(*arguments, *(["--force"] if command == "init" else []))
    assert message == f"{path}: cannot be written: it is a folder"


# -- a full disk -----------------------------------------------------------------------------------

# Limits the size of files: writes fail as on a full disk.
FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
"""


@pytest.fixture(scope="module")
def old_outputs(model, films, run, tmp_path_factory):
    """A folder with an output of each kind."""
    folder = tmp_path_factory.mktemp("old")
    shutil.copytree(model, folder / "model")
    shutil.copy(films / "pmvge.toml", folder / "pmvge.toml")
    new = films / "later" / "new_users.csv"
    run("embed", folder / "model", new, "--view", "users", "-o", folder / "vectors.parquet")
    run("report", folder / "model", "-o", folder / "report.html")
    return folder


@pytest.fixture
def outputs(old_outputs, tmp_path):
    """A copy of the outputs that a test may overwrite."""
    return Path(shutil.copytree(old_outputs, tmp_path / "old"))


def overwriting_commands(folder, tables, model):
    new = tables / "users.csv"
    return {
        "init": ("init", tables, "-o", folder / "pmvge.toml", "--force"),
        "fit": ("fit", tables / "pmvge.toml", "-o", folder / "model", *QUICK),
        "embed": ("embed", model, new, "--view", "users", "-o", folder / "vectors.parquet"),
        "report": ("report", model, "-o", folder / "report.html", "--title", "new"),
    }


def assert_unchanged(folder, before):
    """Check that all files are unchanged, and that new ones are temporary or checkpoints."""
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    new = {Path(name).name for name in after if name not in before}
    assert all(name.startswith(".") or "checkpoint" in name for name in new), new
    assert PMvGE.load(folder / "model").n_components == 8
    assert len(Embeddings.load(folder / "vectors.parquet")) == 20


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits on file sizes need POSIX")
@pytest.mark.parametrize(
    ("command", "limit"), [("init", 500), ("fit", 3000), ("embed", 500), ("report", 50_000)]
)
def test_a_full_disk_leaves_existing_files(
    outputs, tables, model, shell, monkeypatch, command, limit
):
    monkeypatch.delenv(
        "COVERAGE_PROCESS_CONFIG", raising=False
    )  # its data file would exceed the limit
    before = contents(outputs)
    arguments = overwriting_commands(outputs, tables, model)[command]
    done = shell(*arguments, before=FULL.format(limit))
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("pmvge: ")
    assert "too large" in lines[0]
    assert_unchanged(outputs, before)


@pytest.mark.parametrize("command", ["init", "fit", "embed", "report"])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_is_full_when_files_are_committed(
    outputs, tables, model, refused, monkeypatch, command, call
):
    def full(*arguments, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    before = contents(outputs)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        message = refused(*overwriting_commands(outputs, tables, model)[command])
    assert "No space left on device" in message
    assert_unchanged(outputs, before)


def test_a_fit_after_a_full_disk_removes_temporary_files(
    outputs, tables, model, refused, run, monkeypatch
):
    def full(*arguments, **options):
        raise storage.StorageError("No space left on device")

    fit = overwriting_commands(outputs, tables, model)["fit"]
    with monkeypatch.context() as patch:
        patch.setattr(PMvGE, "save", full)
        refused(*fit)
    assert (outputs / "model" / "checkpoint" / "checkpoint.json").exists()
    run(*fit, "--resume")
    assert PMvGE.load(outputs / "model").n_components == 4
    names = {path.name for path in (outputs / "model").iterdir()}
    assert "checkpoint" not in names
    assert not any(name.startswith(".") for name in names)


def test_a_view_without_links_suggests_a_name(refused, tables):
    flags = (
        "--view",
        f"films={tables / 'films.csv'}",
        "--links",
        f"users,flims={tables / 'ratings.csv'}",
    )
    expected = "--view films: no --links have this view; did you mean 'flims'?"
    assert refused("fit", *flags) == expected
