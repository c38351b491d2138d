"""Models with maps, and servers in this process for the browser."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from pmvge import PMvGE
from pmvge.model import saved_map
from pmvge.serving.app import build_app
from pmvge.serving.publishing import publish
from pmvge.serving.settings import Settings

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="session")
def mapped_model(film_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of the practice tables with labels and a saved map."""
    folder = Path(shutil.copytree(film_model, tmp_path_factory.mktemp("mapped") / "model"))
    model = PMvGE.load(folder)
    countries = [("de", "fr", "jp")[at % 3] for at in range(len(model.ids_["users"]))]
    years = [str(1950 + at) if at % 7 else "" for at in range(len(model.ids_["films"]))]
    model.label({"users": {"country": countries}}, columns={"films": {"year": years}})
    model.save(folder)
    saved_map(PMvGE.load(folder), folder, progress=False)
    return folder


@pytest.fixture(scope="session")
def mapped(mapped_model: Path) -> PMvGE:
    return PMvGE.load(mapped_model)


@pytest.fixture(scope="session")
def mapped_cache(mapped_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mapped-cache")
    publish(mapped_model, folder)
    return folder


class Served:
    """A server in a thread of this process."""

    def __init__(self, cache: Path, **settings: Any) -> None:
        app = build_app(Settings(cache, poll_seconds=0.05, **settings))
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, ws="none", log_level="error", access_log=False
        )
        self.cache, self.server = cache, uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, daemon=True)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.02)
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(60)


@pytest.fixture(scope="session")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Served]]:
    """Return a function that serves a model folder until the end of the session."""
    servers: list[Served] = []

    def start(model: Path, **settings: Any) -> Served:
        cache = tmp_path_factory.mktemp("served")
        publish(model, cache)
        servers.append(Served(cache, **settings))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def server(open_server: Callable[..., Served], mapped_model: Path) -> Served:
    return open_server(mapped_model)


@pytest.fixture(scope="module")
def serve_module() -> Iterator[Callable[..., Any]]:
    """Return a function that opens an application in this process, until the end of the module."""
    from fastapi.testclient import TestClient

    open_now: list[Any] = []

    def start(folder: Path, **settings: Any) -> Any:
        app = build_app(Settings(folder, **settings))
        context = TestClient(app, "http://127.0.0.1", raise_server_exceptions=False)
        open_now.append(context)
        return context.__enter__()

    yield start
    for context in open_now:
        context.__exit__(None, None, None)
