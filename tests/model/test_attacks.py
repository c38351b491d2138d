"""Injection attacks with names and values: SQL, paths, terminal control characters."""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pmvge.cli
from pmvge import MultiViewGraph, PMvGE
from pmvge.tables import LinkTable, Project, Source, ViewTable, read_rows, read_tables
from pmvge.tables.sources.connection import connect, fetch_all, quote_ident, quote_literal

# OWNED is replaced with the path of a file that must not be created.
HOSTILE = [
    "x'; DROP TABLE raw; --",
    "'; COPY (SELECT 1) TO 'OWNED'; --",
    "x\"; COPY (SELECT 1) TO 'OWNED'; --",
    '"quoted" AS a, (SELECT 1) AS "b',
    "<script>alert(1)</script>",
    "two\nlines, a comma",
    "日本 é \u202e",
    "$(touch OWNED) `touch OWNED`",
    "{0} {name} %s %(x)s \\",
    "../../OWNED",
    "=HYPERLINK(1)",
    "[bold]x[/red]",
    "\x1b]0;title\x07\x1b[2J",
    "rowid",
]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hostile names, in a working folder two levels below tmp_path."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    return [name.replace("OWNED", str(tmp_path / "owned")) for name in HOSTILE]


def columns_of(names: list[str]) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return a table of users, with one column per name, and a table of links."""
    key, *others = names
    ids = [f"{name} {i}" for i in range(2) for name in names]
    users: dict[str, list[Any]] = {key: ids}
    for at, name in enumerate(others):
        users[name] = [names[(at + i) % len(names)] for i in range(len(ids))]
    pairs = [(i, j) for i in range(len(ids)) for j in range(len(names)) if (i + 3 * j) % 4 == 0]
    seen = {
        f"a {key}": [ids[i] for i, _ in pairs],
        f"b {key}": [names[j] for _, j in pairs],
        f"w {key}": [1.0 + i % 3 for i, _ in pairs],
    }
    return users, seen


def as_frame(folder: Path, name: str, columns: dict[str, list[Any]]) -> Any:
    return pd.DataFrame(columns)


def as_csv(folder: Path, name: str, columns: dict[str, list[Any]]) -> str:
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([[*columns], *zip(*columns.values(), strict=True)])
    return f"{name}.csv"


def as_parquet(folder: Path, name: str, columns: dict[str, list[Any]]) -> str:
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return f"{name}.parquet"


def as_sqlite(folder: Path, name: str, columns: dict[str, list[Any]]) -> Source:
    """Write with pandas, which has its own binding and quoting."""
    connection = sqlite3.connect(folder / f"{name}.db")
    pd.DataFrame(columns).to_sql(f"of {name}", connection, index=False)
    connection.close()
    return Source(database=f"{name}.db", table=f"of {name}")


def as_duckdb(folder: Path, name: str, columns: dict[str, list[Any]]) -> Source:
    with duckdb.connect(str(folder / f"{name}.duckdb")) as db:
        db.register("given", pa.table(columns))
        table = f"of {name}".replace('"', '""')
        db.execute(f'CREATE TABLE "{table}" AS SELECT * FROM given')
    return Source(database=f"{name}.duckdb", table=f"of {name}")


WAYS = [as_frame, as_csv, as_parquet, as_sqlite, as_duckdb]


def all_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_hostile_names_and_values_are_read_literally(
    way: Callable[..., Any], names: list[str], tmp_path: Path
) -> None:
    users, seen = columns_of(names)
    here = Path.cwd()
    files = [name.replace("/", "_") for name in names[:2]]  # a file's name has no slash
    key, view, other = names[0], names[3], names[9]
    kinds = dict.fromkeys(names[1:], "category")
    project = Project(
        {
            view: ViewTable(way(here, f"u {files[0]}", users), key, kinds, tuple(names[1:])),
            other: ViewTable(),
        },
        {
            (view, other): LinkTable(
                way(here, f"s {files[1]}", seen), (f"a {key}", f"b {key}"), f"w {key}"
            )
        },
        {},
        here,
    )
    before = all_files(tmp_path)
    tables = read_tables(project, spill=here / "spill")
    graph = tables.graph
    # Ids, labels and links equal the written values.
    ids = graph.ids[view].tolist()
    assert sorted(ids) == sorted(users[key])
    assert sorted(graph.ids[other]) == sorted(set(seen[f"b {key}"]))
    order = [users[key].index(name) for name in ids]
    for column in names[1:]:
        assert tables.labels[view][column].tolist() == [users[column][i] for i in order]
    links = graph.links[view, other]
    found = {
        (ids[i], graph.ids[other][j]): w
        for i, j, w in zip(links.rows, links.cols, links.weights, strict=True)
    }
    assert found == dict(zip(zip(*[seen[f"{c} {key}"] for c in "ab"], strict=True),
                             seen[f"w {key}"], strict=True))  # fmt: skip
    # A saved and loaded model has the same names.
    fitted = PMvGE(2, max_steps=3, batch_size=8, random_state=0, progress=False).fit(graph)
    fitted.label(tables.labels).save(here / "model")
    model = PMvGE.load(here / "model")
    assert set(model.labels_[view]) == set(names[1:])
    best, _ = model.search(other, [names[5]], among=view, k=len(ids))
    assert sorted(best[0]) == sorted(ids)
    source = project.views[view].source
    ((again, rows),) = read_rows(model.tables_, view, source, folder=here)
    assert sorted(again) == sorted(ids)
    assert model.embed(view, rows).shape == (len(ids), 2)
    # No other files were written.
    new = {name.split("/")[2] for name in all_files(tmp_path) - before}
    assert new == {"spill", "model"}


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_quoting_is_safe(text: str) -> None:
    """DuckDB reads quoted texts and names unchanged."""
    with connect(Path()) as db:
        assert fetch_all(db, f"SELECT {quote_literal(text)}, {quote_literal(text + '--')}") == [
            (text, text + "--")
        ]
        name = text + "x"
        db.execute(f"CREATE TABLE {quote_ident(name)} ({quote_ident(name)} INTEGER)")
        assert fetch_all(db, "SELECT table_name FROM duckdb_tables()") == [(name,)]
        assert [row[0] for row in fetch_all(db, f"DESCRIBE {quote_ident(name)}")] == [name]


# -- terminals ------------------------------------------------------------------------------


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Return a function that runs a command and returns its output; it may fail."""

    def call(*words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["pmvge", *map(str, words)])
        with pytest.raises(SystemExit):
            pmvge.cli.main()
        return "".join(capsys.readouterr())

    return call


def test_output_has_no_control_characters(names: list[str], command: Callable[..., str]) -> None:
    """Control characters are escaped, and rich markup is shown literally."""
    control, markup = "\x1b]0;title\x07", "[bold]x[/red]"
    view, other = f"{control}{markup}", f"{markup}[/]\x9b2J"
    ids = {view: [f"{name} {i}" for i in range(3) for name in names], other: [control, markup]}
    n = len(ids[view])
    links = {(view, other): (np.arange(n), np.arange(n) % 2)}
    graph = MultiViewGraph({view: np.eye(n), other: 2}, links, ids)
    model = PMvGE(2, max_steps=2, progress=False).fit(graph)
    model.save("model")
    as_csv(Path.cwd(), "control", {control: [1], markup: [2], "w": [3]})
    as_csv(Path.cwd(), "u", {"u": [*range(9)], control: [f"{control}{i}" for i in range(9)]})
    as_csv(Path.cwd(), "l", {"u": [*range(8)], "v": [*range(1, 9)]})
    flags = ("--view", other, "--id", control, "--among", view)
    outputs = {
        "inspect": command("inspect", "model"),
        "search": command("search", "model", *flags),
        "unknown id": command("search", "model", "--view", other, "--id", "?", "--among", view),
        "unknown view": command("search", "model", "--view", control, "--id", "?", "--among", view),
        "init": command("init"),
        "columns": command("fit", "--view", "a=control.csv:id=b", "--links", "a,a=control.csv"),
        "fit": command(
            "fit",
            "-o",
            "fitted",
            "--set",
            "max_steps=2",
            "--set",
            "n_components=2",
            "--view",
            f"{control}=u.csv:id=u",
            "--links",
            f"{control},{control}=l.csv",
        ),
        "no file": command("fit", "--view", f"a={control}.csv", "--links", f"a,a={control}.csv"),
    }
    for name, text in outputs.items():
        assert "Traceback" not in text, name
        steering = [c for c in text if (c < " " and c != "\n") or "\x7f" <= c <= "\x9f"]
        assert steering == [], (name, text)
    assert "Model: fitted" in outputs["fit"]
    for name in ("inspect", "search"):
        assert "[bold]x[/red]" in "".join(outputs[name].split()), name
        assert "\\x1b]0;title\\x07" in "".join(outputs[name].split()), name
    found = json.loads(command("search", "model", *flags, "--json"))
    assert found["results"][0]["id"] == control
