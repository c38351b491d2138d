"""Start the workers of a server, restart them, and stop them; publish the model when it changes.

The supervisor loads no model: a process of its own copies and checks each model before workers get
it. Uvicorn's supervisor starts the workers, replaces those that end, and stops all on SIGTERM after
the requests that run.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.supervisors import Multiprocess

from pmvge.errors import InputError, PmvgeError, StorageError, one_line
from pmvge.serving.logs import LOG_CONFIG, flush_log
from pmvge.serving.map_keeper import MapKeeper
from pmvge.serving.published import FIXED, FRESH, Watcher
from pmvge.serving.settings import Settings

log = logging.getLogger("pmvge.serving")
STOP_SECONDS = 30  # how long running requests may take after SIGTERM
HANG_SECONDS = 60  # a worker that does not answer the supervisor for so long is replaced
BACKLOG = 1024


class Supervisor(Multiprocess):
    """Notice at once that a worker has ended, also while it is asked whether it is alive.

    The pipe of a worker that was killed ends only when no other process holds the worker's end.
    """

    def init_processes(self) -> None:
        """Start the workers."""
        super().init_processes()
        self._close_pipes()

    def keep_subprocess_alive(self) -> None:
        """Replace workers that have ended, or do not answer."""
        super().keep_subprocess_alive()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for process in self.processes:
            process.child_conn.close()


class Protocol(H11Protocol):
    """HTTP whose own errors are one JSON object, too."""

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not valid HTTP, and close the connection."""
        body = b'{"error": "the request is not valid HTTP"}'
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        events = (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections; raise InputError if the address cannot be used."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio turns off Nagle's algorithm, by which the body of an answer would wait for the
        # acknowledgement of its header, only on sockets with this protocol number.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":  # elsewhere the option would let others take the port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, port))
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            raise
        return listener
    except OSError as error:
        raise InputError(
            f"--host {host} --port {port}: cannot listen there: {error.strerror or error}"
        ) from error


def serve(
    model: Path,
    listener: socket.socket,
    settings: Callable[[Path], Settings],
    *,
    workers: int = 1,
    reload: bool = True,
    maps: bool = False,
    ready: Callable[[], object] = lambda: None,
) -> None:
    """Serve the model in a folder until SIGTERM or SIGINT; ``settings`` is called with a cache.

    With ``maps``, the map of a model that is saved later is computed, and saved beside it.
    Raise StorageError, before anything is served, if the folder holds no model or a damaged one.
    """
    with tempfile.TemporaryDirectory(prefix="pmvge-serve-", ignore_cleanup_errors=True) as folder:
        cache = Path(folder)
        if problem := publish(model, cache, reload):
            raise StorageError(problem)
        config = uvicorn.Config(
            partial(start_worker, settings(cache), os.getpid()),
            factory=True,
            http=Protocol,
            ws="none",
            workers=workers,
            log_config=LOG_CONFIG,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=STOP_SECONDS,
            timeout_worker_healthcheck=HANG_SECONDS,
        )
        supervisor = Supervisor(config, [listener])
        watch = _watch(model, cache, maps, supervisor.should_exit) if reload else None
        ready()
        supervisor.run()
        if watch is not None:  # a process that it is just starting would print a traceback
            watch.join()


def publish(model: Path, cache: Path, reload: bool, stopped: threading.Event | None = None) -> str:
    """Publish a model in a process of its own; return an error message, or "" if it is served.

    The memory that loading needs is free afterwards. The process is ended when ``stopped`` is set.
    """
    answer = cache / "published"
    answer.unlink(missing_ok=True)
    arguments = (model, cache, FRESH if reload else FIXED, answer)
    # A daemon: it is ended with the supervisor.
    process = get_context("spawn").Process(target=_publish, args=arguments, daemon=True)
    process.start()
    while process.exitcode is None:
        process.join(0.2)
        if stopped is not None and stopped.is_set():
            process.terminate()
            process.join()
            return ""
    try:
        return answer.read_text()
    except FileNotFoundError:
        return f"{model}: the process that loads it ended with code {process.exitcode}"


def _publish(model: Path, cache: Path, reload: str, answer: Path) -> None:
    """Publish a model, and write an error message to the file ``answer``."""
    from pmvge.serving.publishing import publish as publish_model

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor
    try:
        publish_model(model, cache, reload)
        text = ""
    except (PmvgeError, OSError, MemoryError) as error:
        text = one_line(error)
    answer.write_text(text)


def _watch(model: Path, cache: Path, maps: bool, stopped: threading.Event) -> threading.Thread:
    """Publish the model whenever its folder changes; compute its map on demand.

    Return the thread that does so. It ends soon after ``stopped`` is set.
    """
    watcher = Watcher(model, cache, partial(publish, model, cache, True, stopped), log.warning)
    keeper = MapKeeper(model, cache) if maps else None

    def loop() -> None:
        while not stopped.wait(1.0):
            watcher.check()
            if keeper is not None and not stopped.is_set():
                keeper.check()

    thread = threading.Thread(target=loop, name="pmvge-watch", daemon=True)
    thread.start()
    return thread


def start_worker(settings: Settings, supervisor: int) -> ASGIApp:
    """Return the application of a worker: one thread for each product, and an end if orphaned.

    Uvicorn calls it in the event loop of the worker.
    """
    import torch

    from pmvge.serving.app import build_app

    torch.set_num_threads(1)
    threading.Thread(target=_end_without, args=(supervisor,), daemon=True).start()
    end_if_blocked(asyncio.get_running_loop(), HANG_SECONDS)
    return build_app(settings)


def _end_without(supervisor: int) -> None:
    """Stop this process when the supervisor has ended, even if it was killed."""
    while os.getppid() == supervisor:
        threading.Event().wait(1.0)
    os.kill(os.getpid(), signal.SIGTERM if sys.platform != "win32" else signal.SIGINT)


def end_if_blocked(
    loop: asyncio.AbstractEventLoop, seconds: float, end: Callable[[int], object] = os._exit
) -> None:
    """End this process when its event loop has not run for so long; the supervisor replaces it.

    The supervisor's own question is answered by a thread, even if the event loop is blocked. Time
    counts from the first run of the loop: loading a model comes before that.
    """
    runs = [math.inf]

    def run() -> None:
        runs[0] = time.monotonic()

    def watch() -> None:
        with suppress(RuntimeError):  # the loop is closed
            while time.monotonic() - runs[0] < seconds:
                loop.call_soon_threadsafe(run)
                time.sleep(min(1.0, seconds / 4))
            log.error("a worker was blocked for %g seconds and is replaced", seconds)
            flush_log()
            end(1)

    threading.Thread(target=watch, name="pmvge-blocked", daemon=True).start()
