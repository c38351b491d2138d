"""Models to serve, applications in this process, and real servers in other processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.testclient import TestClient

from pmvge import MultiViewGraph, PMvGE
from pmvge.examples import write_films
from pmvge.serving.app import build_app
from pmvge.serving.publishing import publish
from pmvge.serving.settings import Settings
from pmvge.tables import graph_from_frames

LOCAL = "http://127.0.0.1"
QUICK: dict[str, Any] = {"n_components": 6, "max_steps": 30, "random_state": 0, "progress": False}


def fit_films(folder: Path, seed: int = 0) -> PMvGE:
    """Fit a model to the practice tables: users, films with names, genres without features."""
    import pandas as pd

    write_films(folder, ratings=1200)
    names = ("users", "films", "ratings", "film_genres")
    users, films, ratings, genres = (pd.read_csv(folder / f"{name}.csv") for name in names)
    graph = graph_from_frames(
        {"users": users, "films": films, "genre": None},
        {
            ("users", "films"): ratings,
            ("films", "genre"): genres,
        },
    )
    model = PMvGE(**{**QUICK, "random_state": seed}, similarity="inner").fit(graph)
    titles = films.set_index("film_id")["title"].loc[model.ids_["films"]].tolist()
    return model.label(columns={"films": {"title": titles}}, names={"films": "title"})


@pytest.fixture(scope="session")
def film_model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    fit_films(folder).save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="session")
def other_model(tmp_path_factory) -> Path:
    """A model of the same tables with other vectors."""
    folder = tmp_path_factory.mktemp("others")
    fit_films(folder, seed=1).save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="session")
def array_model(tmp_path_factory) -> Path:
    """A model that was fitted to arrays; papers cite papers, and integers are ids."""
    rng = np.random.default_rng(0)
    ends = rng.integers(50, size=(2, 200))
    cites = (ends.min(0), ends.max(0))
    keep = cites[0] != cites[1]
    graph = MultiViewGraph(
        {"paper": rng.normal(size=(50, 3)), "word": 20},
        {
            ("paper", "paper"): (cites[0][keep], cites[1][keep]),
            ("paper", "word"): (rng.integers(50, size=200), rng.integers(20, size=200)),
        },
        ids={"paper": 1000 + 7 * np.arange(50)},
    )
    folder = tmp_path_factory.mktemp("arrays") / "model"
    PMvGE(**QUICK).fit(graph).save(folder)
    return folder


@pytest.fixture
def own_model(film_model, tmp_path) -> Path:
    """A copy of the model that a test may change."""
    return Path(shutil.copytree(film_model, tmp_path / "model"))


@pytest.fixture(scope="session")
def cache(film_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    publish(film_model, folder)
    return folder


@contextmanager
def opened(settings: Settings) -> Iterator[TestClient]:
    with TestClient(build_app(settings), LOCAL, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(scope="session")
def client(cache) -> Iterator[TestClient]:
    with opened(Settings(cache)) as client:
        yield client


@pytest.fixture
def serve(cache) -> Iterator[Callable[..., TestClient]]:
    """Return a function that opens an application with other settings."""
    open_now: list[Any] = []

    def start(folder: Path = cache, **settings: Any) -> TestClient:
        context = opened(Settings(folder, **settings))
        open_now.append(context)
        return context.__enter__()

    yield start
    for context in open_now:
        context.__exit__(None, None, None)


@pytest.fixture(scope="session")
def films(film_model) -> PMvGE:
    return PMvGE.load(film_model)


class Server:
    """A server in processes of its own."""

    def __init__(self, model: Path, *options: object) -> None:
        command = [sys.executable, "-m", "pmvge", "serve", model, "--port", 0, *options]
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Serving"), self.process.communicate()
        self.url = line.split()[-1].removesuffix("/docs")
        self.port = int(self.url.rpartition(":")[2])
        self.http = httpx.Client(base_url=self.url, timeout=120)
        try:
            self.wait(lambda: self.get("/health") is not None)
        except BaseException:
            self.stop()
            raise

    def get(self, path: str) -> httpx.Response | None:
        """Return an answer; None if there is no worker yet."""
        try:
            return self.http.get(path)
        except httpx.TransportError:
            return None

    def workers(self) -> list[int]:
        """Return the process ids of the workers: the children that have the listening socket."""
        rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        port = f":{self.port:04X}"
        sockets = {f"socket:[{r[9]}]" for r in rows if r[1].endswith(port) and r[3] == "0A"}
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        found = []
        for child in map(int, children.split()):
            with suppress(OSError):  # it has ended
                files = (file.readlink() for file in Path(f"/proc/{child}/fd").iterdir())
                found += [child] if sockets & set(map(str, files)) else []
        return found

    def wait(self, is_done: Callable[[], bool], seconds: float = 300) -> None:
        end = time.monotonic() + seconds
        while not is_done():
            assert time.monotonic() < end, self.process.poll()
            time.sleep(0.1)

    def stop(self) -> tuple[int, str]:
        """Send SIGTERM, unless it has ended; return the exit code and the error stream."""
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=120)
        return self.process.returncode, errors


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server, which is stopped after the test."""
    servers: list[Server] = []

    def call(model: Path, *options: object) -> Server:
        servers.append(Server(model, *options))
        return servers[-1]

    yield call
    for server in servers:
        if not server.http.is_closed:
            server.stop()
