"""``pmvge explore``: the map is saved beside the model, and the page is opened."""

from __future__ import annotations

import shutil
import socket
import webbrowser

import pytest

from pmvge import PMvGE, serving
from pmvge.errors import InputError, StorageError
from pmvge.model import Map
from pmvge.model.mapping import compute as mapping


@pytest.fixture
def served(monkeypatch):
    """Record calls instead of serving and opening a browser."""
    calls = []

    def serve(model, listener, settings, **more):
        calls.append((model, listener.getsockname(), settings(model), more))
        more["ready"]()

    opened = []
    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    return calls, opened


@pytest.fixture
def own(model, tmp_path):
    return shutil.copytree(model, tmp_path / "model")


def test_the_map_is_saved_and_the_page_opened(run, own, served):
    calls, opened = served
    printed = run("explore", own, "--port", 0)
    ((folder, (host, port), settings, more),) = calls
    assert (folder, host) == (own, "127.0.0.1")
    assert settings.loopback_only
    assert more["maps"]
    assert opened == [f"http://127.0.0.1:{port}/"]
    assert printed.out == f"Exploring {own} on {opened[0]}\n"
    first = Map.load(own, PMvGE.load(own))
    written = (own / "map.json").stat().st_mtime_ns
    run("explore", own, "--port", 0, "--no-browser")
    assert len(opened) == 1
    assert (own / "map.json").stat().st_mtime_ns == written  # it is not computed again
    assert first.checksum == Map.load(own, PMvGE.load(own)).checksum


def test_another_port_is_taken_if_the_usual_one_is_in_use(run, own, served, monkeypatch):
    calls, _ = served
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = taken.getsockname()[1]
        monkeypatch.setattr("pmvge.cli.commands.explore.PORT", used)
        run("explore", own, "--no-browser")
        assert calls[0][1][1] != used
        with pytest.raises(InputError, match=f"--port {used}: cannot listen there"):
            run("explore", own, "--port", used)


def test_a_map_that_cannot_be_saved_is_a_note(run, own, served, monkeypatch):
    def refuse(self, folder):
        raise StorageError("the folder cannot be written")

    monkeypatch.setattr(mapping.Map, "save", refuse)
    printed = run("explore", own, "--port", 0, "--no-browser")
    assert "the page has no map: the map is computed each time" in printed.err
    assert len(served[0]) == 1


def test_a_folder_without_a_model_is_one_line(main, tmp_path, served):
    printed = main("explore", tmp_path)
    assert printed.code == 2
    assert "there is no model.json" in printed.err
    assert len(printed.err.splitlines()) == 1
    assert served[0] == []
