"""``pmvge update``: tables that have grown, bad tables, and kills."""

from __future__ import annotations

import csv
import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pmvge import PMvGE
from pmvge.tables import read_graph


def append(path: Path, *rows: dict[str, object]) -> None:
    """Append rows to a CSV file; columns that a row lacks are those of the first row."""
    with path.open(newline="") as stream:
        first = next(csv.DictReader(stream))
    with path.open("a", newline="") as stream:
        writer = csv.DictWriter(stream, list(first))
        for row in rows:
            writer.writerow({**first, **row})


def read(path: Path) -> list[list[str]]:
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


def grow(tables: Path) -> None:
    """Add two users, one film, and five ratings."""
    append(tables / "users.csv", {"user_id": "new-1", "country": "zz"}, {"user_id": "new-2"})
    append(tables / "films.csv", {"film_id": "f-new"})
    ratings = [("new-1", 0), ("new-1", 1), ("new-2", 0), ("new-2", 2)]
    films = [row[0] for row in read(tables / "films.csv")[1:]]
    links = [{"user_id": user, "film_id": films[film], "stars": 5} for user, film in ratings]
    append(tables / "ratings.csv", *links, {"user_id": "new-1", "film_id": "f-new", "stars": 3})


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_new_rows_are_counted_trained_and_saved(run, tables, own_model):
    grow(tables)
    before = PMvGE.load(own_model)
    printed = run("update", own_model, tables / "pmvge.toml")
    assert "users: entities: 2 new" in printed.out
    assert "films: entities: 1 new" in printed.out
    assert "users - films: links: 5 new" in printed.out
    assert "Updated in" in printed.out
    after = PMvGE.load(own_model)
    assert set(after.ids_["users"]) - set(before.ids_["users"]) == {"new-1", "new-2"}
    assert after.history_[-1].step == 25
    assert after.tables_ == before.tables_  # the encodings of the fit
    assert after.labels_["users"]["country"][after.ids_["users"] == "new-1"] == ["zz"]
    found = run("search", own_model, "--view", "users", "--id", "new-1", "--among", "films")
    assert "best of films" in found.out
    again = run("update", own_model, tables / "pmvge.toml")
    assert "No new rows: the model is unchanged." in again.out


def test_the_json(run, tables, own_model):
    grow(tables)
    found = json.loads(run("update", own_model, tables / "pmvge.toml", "--json").out)
    assert found["updated"] is True
    assert found["steps"] == 25
    assert found["changes"]["views"]["users"] == {"new": 2, "gone": 0}
    assert found["changes"]["links"]["users,films"] == {"new": 5, "changed": 0, "gone": 0}
    assert {"pairs", "overall", "popularity"} <= set(found)
    same = json.loads(run("update", own_model, tables / "pmvge.toml", "--json").out)
    assert same["updated"] is False


def test_without_new_rows_no_file_changes(run, tables, own_model):
    before = contents(own_model)
    assert "No new rows" in run("update", own_model, tables / "pmvge.toml").out
    assert contents(own_model) == before


def test_the_command_does_what_python_does(run, tables, own_model):
    grow(tables)
    model = PMvGE.load(own_model)
    model.update(read_graph(tables / "pmvge.toml", tables=model.tables_))
    run("update", own_model, tables / "pmvge.toml")
    saved = PMvGE.load(own_model)
    for view, Y in model.embeddings_.items():
        np.testing.assert_array_equal(saved.embeddings_[view], Y)


def test_a_project_of_flags(run, papers, paper_model, tmp_path):
    model = Path(shutil.copytree(paper_model, tmp_path / "model"))
    tables = Path(shutil.copytree(papers, tmp_path / "papers"))
    append(tables / "papers.csv", {"paper_id": 5000})
    append(tables / "cites.csv", {"citing": 5000, "cited": 1007})
    flags = ("--view", f"papers={tables / 'papers.csv'}")
    links = ("--links", f"papers,papers={tables / 'cites.csv'}:columns=citing,cited")
    assert "papers: entities: 1 new" in run("update", model, *flags, *links).out
    assert 5000 in PMvGE.load(model).ids_["papers"]


def test_tables_of_flags_are_read_as_in_the_fit(run, tmp_path, monkeypatch):
    """Without a header, in Latin-1, with decimal commas and a transform of the weights."""
    monkeypatch.chdir(tmp_path)
    rows = [(f"\xfc{n % 7}", f"f{n % 5}", f"{n % 3 + 1},5") for n in range(35)]
    text = "\n".join(";".join(row) for row in rows) + "\n"
    Path("seen.txt").write_text(text, encoding="latin-1")
    Path("pmvge.toml").write_text(
        """
        [views.user]
        [views.film]
        [[links]]
        views = ["user", "film"]
        source = "seen.txt"
        columns = ["column1", "column2"]
        weight = { column = "column3", transform = "log1p" }
        header = false
        encoding = "latin-1"
        delimiter = ";"
        decimal = ","
        """
    )
    run("fit", "--set", "max_steps=5", "--set", "n_components=2")
    fitted = PMvGE.load("model")
    assert "No new rows" in run("update", "model", "--links", "user,film=seen.txt").out
    assert "No new rows" in run("update", "model", "--links", "film,user=seen.txt").out
    Path("seen.txt").write_text(text + "\xfc9;f0;2,5\n", encoding="latin-1")
    assert "user: entities: 1 new" in run("update", "model", "--links", "user,film=seen.txt").out
    updated = PMvGE.load("model")
    assert updated.tables_ == fitted.tables_
    assert "\xfc9" in updated.ids_["user"]


# -- updates that make a model worse -----------------------------------------------------------


@pytest.fixture
def outlier(run, tables, tmp_path) -> Path:
    """A model, and tables to which a link with a weight of a billion was added since."""
    model = tmp_path / "good"
    run("fit", tables / "pmvge.toml", "-o", model, "--set", "n_components=8")
    append(tables / "ratings.csv", {"user_id": "u00001", "film_id": "f00042", "stars": 10**9})
    return model


def test_an_update_that_makes_the_model_worse_does_not_replace_it(main, run, tables, outlier):
    before = contents(outlier)
    printed = main("update", outlier, tables / "pmvge.toml")
    assert printed.code == 2
    *notes, error = printed.err.splitlines()
    assert any(
        line.startswith("warning: links users,films: weights are up to 1e+09") for line in notes
    )
    assert any("try pmvge fit --family negative_binomial" in line for line in notes)
    assert error.startswith(f"pmvge: {outlier}: the model is unchanged, because the update made")
    assert "the validation gain fell from " in error
    assert "worse than equal similarities of all pairs" in error
    assert "--force replaces the model anyway" in error
    assert contents(outlier) == before
    forced = run("update", outlier, tables / "pmvge.toml", "--force")
    assert "warning: the update made the model worse: the validation gain" in forced.err
    assert "Updated in" in forced.out
    assert contents(outlier) != before


def test_models_are_compared_on_the_links_that_both_have_held_out(tables, own_model):
    from dataclasses import replace

    from pmvge.model import find_regressions

    old = PMvGE.load(own_model)
    grow(tables)
    new = PMvGE.load(own_model).update(read_graph(tables / "pmvge.toml", tables=old.tables_))
    assert find_regressions(old, new) == []
    assert find_regressions(old, old) == []
    fitted = new._check_fitted()
    reversed_ = {view: -Y if view == "users" else Y for view, Y in fitted.outputs.items()}
    new._set_fitted(replace(fitted, outputs=reversed_))
    (found,) = find_regressions(old, new)
    held = len(old.links_.held_out["users", "films"])
    assert f"links users,films: the AUC of the same {held} held-out links fell from 0." in found


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [(0.3, -0.2, True), (-0.05, -3.0, True), (0.02, -0.03, False), (2.0, 0.1, False)],
)
def test_a_gain_that_falls_below_0_is_worse_unless_it_hardly_changes(
    own_model, before, after, worse
):
    from dataclasses import replace

    from pmvge.model import find_regressions
    from pmvge.training import History, Record

    models = []
    for gain in (before, after):
        model = PMvGE.load(own_model)
        history = History([Record(1, 1.0, 0.0, gain, 0.1, 1.0, "decay")])
        model._set_fitted(replace(model._check_fitted(), history=history))
        models.append(model)
    assert [f"from {before:.4f} to {after:.4f}" in line for line in find_regressions(*models)] == (
        [True] if worse else []
    )


# -- bad input ------------------------------------------------------------------------------


def rewrite(path: Path, change) -> None:
    rows = read(path)
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows(change(rows))


def test_other_columns_are_refused(refused, tables, own_model):
    before = contents(own_model)
    drop = read(tables / "films.csv")[0].index("plot")
    rewrite(tables / "films.csv", lambda rows: [r[:drop] + r[drop + 1 :] for r in rows])
    message = refused("update", own_model, tables / "pmvge.toml")
    assert "view films" in message
    expected, found = message.split(", got ")
    assert "expected the columns of the training" in expected
    assert "plot" in expected
    assert "plot" not in found
    assert "film_id" in found
    assert contents(own_model) == before


def test_more_columns_than_in_training_are_refused(refused, papers, paper_model, tmp_path):
    tables = Path(shutil.copytree(papers, tmp_path / "papers"))
    rewrite(
        tables / "papers.csv",
        lambda rows: [[*rows[0], "pages"], *([*r, str(n % 7)] for n, r in enumerate(rows[1:]))],
    )
    flags = ("--view", f"papers={tables / 'papers.csv'}")
    links = ("--links", f"papers,papers={tables / 'cites.csv'}:columns=citing,cited")
    message = refused("update", paper_model, *flags, *links)
    assert "expected the columns of the training, x, y, got x, y, pages" in message


def test_ids_of_another_type_are_refused(refused, papers, paper_model, tmp_path):
    tables = Path(shutil.copytree(papers, tmp_path / "papers"))
    append(tables / "papers.csv", {"paper_id": "p-5000"})
    flags = ("--view", f"papers={tables / 'papers.csv'}")
    links = ("--links", f"papers,papers={tables / 'cites.csv'}:columns=citing,cited")
    message = refused("update", paper_model, *flags, *links)
    assert "expected ids of the model's type, integers such as 1000, got text" in message


def test_ids_of_which_none_is_known_are_refused(refused, tables, own_model):
    before = contents(own_model)
    for name in ("users.csv", "ratings.csv"):  # integers instead of text
        rewrite(
            tables / name,
            lambda rows: [rows[0], *([str(7000 + int(r[0].strip("u"))), *r[1:]] for r in rows[1:])],
        )
    message = refused("update", own_model, tables / "pmvge.toml")
    assert "view 'users': expected the entities of the model, with ids such as 'u" in message
    assert "got none of them, but ids such as '7" in message
    assert contents(own_model) == before


def test_other_views_are_refused(refused, papers, own_model):
    flags = ("--view", f"papers={papers / 'papers.csv'}")
    links = ("--links", f"papers,papers={papers / 'cites.csv'}:columns=citing,cited")
    message = refused("update", own_model, *flags, *links)
    assert "expected the views of the model, " in message
    assert "got papers" in message


def test_tables_encoded_by_themselves_are_refused_in_python(tables, own_model):
    from pmvge.errors import InputError

    grow(tables)
    model = PMvGE.load(own_model)
    with pytest.raises(InputError, match=r"read_graph\(path, tables=model.tables_\)"):
        model.update(read_graph(tables / "pmvge.toml"))


def test_a_model_of_arrays_is_refused(refused, tables, tmp_path):
    from pmvge import MultiViewGraph

    graph = MultiViewGraph({"a": 3, "b": 2}, {("a", "b"): ([0, 1, 2], [0, 1, 1])})
    PMvGE(2, max_steps=1, progress=False).fit(graph).save(tmp_path / "arrays")
    message = refused("update", tmp_path / "arrays", tables / "pmvge.toml")
    assert "the model was not fitted to tables" in message


# -- kills ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_update_leaves_the_old_model_or_the_new_one(run, tables, own_model, environ, sent):
    old = PMvGE.load(own_model)
    grow(tables)
    whole = Path(shutil.copytree(own_model, own_model.parent / "whole"))
    command = [sys.executable, "-m", "pmvge", "update"]
    began = time.perf_counter()
    project = str(tables / "pmvge.toml")
    subprocess.run([*command, str(whole), project], env=environ, check=True, capture_output=True)
    seconds = time.perf_counter() - began
    new = PMvGE.load(whole)
    for attempt in range(3):
        process = subprocess.Popen(
            [*command, str(own_model), project],
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # Most of the time is the start of Python; training and saving are at the end.
        time.sleep(seconds * random.Random(attempt).uniform(0.5, 1.0))
        process.send_signal(sent)
        process.wait(timeout=60)
        model = PMvGE.load(own_model)
        same = old if len(model.ids_["users"]) == len(old.ids_["users"]) else new
        for view, Y in same.embeddings_.items():
            np.testing.assert_array_equal(model.embeddings_[view], Y)
    run("update", own_model, project)
    for view, Y in new.embeddings_.items():
        np.testing.assert_array_equal(PMvGE.load(own_model).embeddings_[view], Y)
