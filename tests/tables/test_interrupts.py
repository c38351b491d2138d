"""Ctrl-C while DuckDB works on a statement is Ctrl-C, whatever DuckDB makes of it."""

import os
import signal
import threading

import duckdb
import pytest

from pmvge.tables import read_project, read_tables, sketch_project
from pmvge.tables.columns.recipe import batches
from pmvge.tables.sources import staging
from pmvge.tables.sources.workbench import ask, readable, workbench

LONG = "SELECT count(*) AS n FROM range(300000000) WHERE hash(range) % 7 = 3"


@pytest.fixture
def struck():
    """Send Ctrl-C to this process in a moment: DuckDB is at work by then."""
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    yield
    timer.cancel()
    timer.join()


@pytest.mark.parametrize(
    "work",
    [
        lambda db: ask(db, LONG),
        lambda db: db.execute(f"CREATE TABLE t AS {LONG}"),
        lambda db: db.sql(LONG).to_arrow_table(),
        lambda db: db.sql(LONG).fetchnumpy(),
        lambda db: [*batches(db, LONG)],
    ],
)
def test_ctrl_c_in_a_statement(tmp_path, struck, work) -> None:
    with pytest.raises(KeyboardInterrupt), workbench(tmp_path) as db, readable("a table"):
        work(db)


def test_ctrl_c_while_a_project_is_read(write, tmp_path, struck) -> None:
    query = LONG.replace("count(*) AS n", "range AS a, range AS b")
    write(
        "pmvge.toml",
        "[views.a]\n[views.b]\n[[links]]\nviews = ['a', 'b']\ncolumns = ['a', 'b']\n"
        f'query = "{query}"\n',
    )
    with pytest.raises(KeyboardInterrupt):
        read_tables(read_project(tmp_path / "pmvge.toml"))


def test_what_duckdb_calls_an_interrupt_is_no_table_to_be_skipped(
    write, tmp_path, monkeypatch
) -> None:
    def interrupted(*_):
        raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    write("t.csv", "id,b\n1,2\n")
    monkeypatch.setattr(staging, "scan_files", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sketch_project(tmp_path)


def test_other_errors_stay_what_they_are(tmp_path) -> None:
    with pytest.raises(RuntimeError, match="of ours"), workbench(tmp_path), readable("a table"):
        raise RuntimeError("a mistake of ours")
