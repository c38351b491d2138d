"""A log that nobody reads, and clients that fill it, do not stop a server."""

from __future__ import annotations

import asyncio
import logging
import logging.config
import os
import signal
import socket
import threading
import time

import httpx
import pytest

from pmvge.serving.logs import LOG_CONFIG, WAITING, QueuedHandler, is_of_the_server
from pmvge.serving.workers import HANG_SECONDS, end_if_blocked


def record(text: str, module: str = "workers", level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("uvicorn.error", level, f"/{module}.py", 1, text, (), None)


def test_a_full_pipe_does_not_block_and_lost_lines_are_counted():
    readable, writable = os.pipe()
    with os.fdopen(readable) as lines, os.fdopen(writable, "w") as stream:
        handler = QueuedHandler(stream)
        text, note = "x" * 1000, "later lines were dropped: the log was not read in time\n"
        for _ in range(3 * WAITING):  # 3 MB: more than the pipe and the queue take
            handler.handle(record(text))
        written = lost = 0
        while written + lost < 3 * WAITING:
            line = lines.readline()
            written += line == f"{text}\n"
            lost += int(line.removesuffix(note).replace(",", "")) if line.endswith(note) else 0
        handler.flush()
        assert written + lost == 3 * WAITING
        assert 0 < lost < 2 * WAITING
        handler.handle(record("later"))
        assert lines.readline() == "later\n"


def test_a_closed_stream_is_ignored():
    readable, writable = os.pipe()
    os.close(readable)
    stream = os.fdopen(writable, "w")
    handler = QueuedHandler(stream)
    for _ in range(3):
        handler.handle(record("nobody reads this"))
        handler.flush()
    assert not handler._lines.unfinished_tasks
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_warnings_on_what_clients_send_are_left_out():
    assert not is_of_the_server(record("Invalid HTTP request received.", "h11_impl"))
    assert is_of_the_server(record("Exception in ASGI application", "h11_impl", logging.ERROR))
    assert is_of_the_server(record("a published model cannot be loaded"))


def test_the_configuration_is_valid(capsys):
    loggers = [logging.getLogger(name) for name in LOG_CONFIG["loggers"]]
    before = [(one.handlers[:], one.level, one.propagate) for one in loggers]
    try:
        logging.config.dictConfig(LOG_CONFIG)
        logging.getLogger("uvicorn.error").info("not this")
        logging.getLogger("pmvge.serving").warning("but %s", "this")
        loggers[-1].handlers[0].flush()
    finally:
        for one, (handlers, level, propagate) in zip(loggers, before, strict=True):
            one.handlers, one.propagate = handlers, propagate
            one.setLevel(level)
    assert capsys.readouterr().err == "WARNING: but this\n"


@pytest.mark.slow
def test_a_worker_with_a_blocked_event_loop_ends():
    ended, free = threading.Event(), threading.Event()

    def end(code: int) -> None:
        assert code == 1
        ended.set()

    async def work() -> None:
        end_if_blocked(asyncio.get_running_loop(), 2.0, end)
        time.sleep(2.5)  # loading, before the loop runs
        await asyncio.sleep(0.5)
        assert not ended.is_set()
        free.wait(60)  # blocks the loop

    runner = threading.Thread(target=asyncio.run, args=(work(),))
    runner.start()
    assert ended.wait(60)
    free.set()
    runner.join()


@pytest.mark.slow
def test_a_log_that_is_not_read_does_not_stop_the_server(start, film_model):
    server = start(film_model)
    for _ in range(2000):  # uvicorn's warnings on these would fill the pipe
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"\0\r\n\r\n")
            assert client.recv(1 << 12).startswith(b"HTTP/1.1 400")
    assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200
    code, errors = server.stop()
    assert code == 0
    assert errors == ""


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_is_asked_is_replaced_at_once(start, film_model):
    server = start(film_model)
    (before,) = server.workers()
    os.kill(before, signal.SIGSTOP)  # it does not answer the supervisor
    threading.Event().wait(2)
    os.kill(before, signal.SIGKILL)
    server.wait(lambda: {*server.workers()} - {before}, seconds=HANG_SECONDS / 2)
    server.wait(lambda: server.get("/health") is not None)
