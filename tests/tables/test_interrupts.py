"""Ctrl-C while DuckDB executes a statement raises KeyboardInterrupt."""

import os
import signal
import threading

import duckdb
import pytest

from pmvge.tables import read_project, read_tables, sketch_project
from pmvge.tables.columns.recipe import fetch_batches
from pmvge.tables.sources import staging
from pmvge.tables.sources.connection import connect, fetch_all, table_errors

LONG = "SELECT count(*) AS n FROM range(300000000) WHERE hash(range) % 7 = 3"


@pytest.fixture
def ctrl_c():
    """Send SIGINT to this process after 0.3 s, while DuckDB executes a statement."""
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    yield
    timer.cancel()
    timer.join()


class Stopped(Exception):
    pass


@pytest.fixture
def handler():
    """Install a handler of SIGINT that raises Stopped, and return it."""

    def stop(number, frame):
        raise Stopped("now")

    before = signal.signal(signal.SIGINT, stop)
    yield stop
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "work",
    [
        lambda db: fetch_all(db, LONG),
        lambda db: db.execute(f"CREATE TABLE t AS {LONG}"),
        lambda db: db.sql(LONG).to_arrow_table(),
        lambda db: db.sql(LONG).fetchnumpy(),
        lambda db: [*fetch_batches(db, LONG)],
    ],
)
def test_ctrl_c_in_a_statement(tmp_path, ctrl_c, work) -> None:
    with pytest.raises(KeyboardInterrupt), connect(tmp_path) as db, table_errors("a table"):
        work(db)


def test_the_exception_of_any_handler_is_raised(tmp_path, ctrl_c, handler) -> None:
    """Whatever the message of DuckDB's own exception is, and whatever the handler raises."""
    with pytest.raises(Stopped, match="now") as caught, connect(tmp_path) as db:
        fetch_all(db, LONG)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_handler_that_does_not_raise_does_not_interrupt(tmp_path) -> None:
    received = []

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        raise RuntimeError("a bug")

    before = signal.signal(signal.SIGINT, lambda *_: received.append(1))
    try:
        with pytest.raises(RuntimeError, match="a bug"), connect(tmp_path):
            work()
    finally:
        signal.signal(signal.SIGINT, before)
    assert received == [1]


def test_a_handler_that_is_set_meanwhile_stays(tmp_path, handler) -> None:
    def later(*_):
        raise AssertionError

    with connect(tmp_path):
        signal.signal(signal.SIGINT, later)
    assert signal.getsignal(signal.SIGINT) is later


def test_connections_in_other_threads_leave_handlers_alone(tmp_path, handler) -> None:
    found = []

    def read() -> None:
        with connect(tmp_path) as db:
            found.append((fetch_all(db, "SELECT 1"), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert found == [([(1,)], handler)]


def test_ctrl_c_while_a_project_is_read(write, tmp_path, ctrl_c) -> None:
    query = LONG.replace("count(*) AS n", "range AS a, range AS b")
    write(
        "pmvge.toml",
        "[views.a]\n[views.b]\n[[links]]\nviews = ['a', 'b']\ncolumns = ['a', 'b']\n"
        f'query = "{query}"\n',
    )
    with pytest.raises(KeyboardInterrupt):
        read_tables(read_project(tmp_path / "pmvge.toml"))


def test_an_interrupt_is_not_a_skipped_table(write, tmp_path, monkeypatch) -> None:
    def interrupted(*_):
        raise duckdb.InterruptException("INTERRUPT Error: Interrupted!")

    write("t.csv", "id,b\n1,2\n")
    monkeypatch.setattr(staging, "common_format", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sketch_project(tmp_path)


def test_other_runtime_errors_are_not_changed(tmp_path) -> None:
    with pytest.raises(RuntimeError, match="a bug"), connect(tmp_path), table_errors("a table"):
        raise RuntimeError("a bug")
