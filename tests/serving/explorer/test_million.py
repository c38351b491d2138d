"""A map of a million points in a browser: it is drawn, and a click gives the right entity."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from pmvge import PMvGE

pytestmark = pytest.mark.slow  # starts a browser

N = 1_000_000


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    """The model and the map of ``benchmarks/explorer.py``."""
    path = Path(__file__).parents[3] / "benchmarks" / "explorer.py"
    spec = importlib.util.spec_from_file_location("explorer_benchmark", path)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    folder = tmp_path_factory.mktemp("million") / "model"
    return folder, script.make_model(folder, N)


def test_a_million_points_are_drawn_and_picked(browser, open_server, million):
    folder, xy = million
    server = open_server(folder)
    browser.open(server.url + "#color=view")
    browser.wait("document.querySelector('#stage').dataset.drawn === 'all'")
    assert browser.run("document.querySelector('#marks').getAttribute('aria-label')") == (
        f"Map of {N + 8:,} entities"
    )
    rows = np.concatenate(list(xy.values())).astype(float)
    low, high = rows.min(0), rows.max(0)
    places = (xy["point"] - (low + high) / 2) * [2, -2] / (high - low).max()
    model = PMvGE.load(folder)
    for at in (123_456, 999_999):
        # So near that no other point is within reach of the pointer.
        x, y = places[at]
        browser.open(f"{server.url}#color=view&camera={x:.9f},{y:.9f},5000")
        browser.click(browser.center("#marks"))
        browser.wait("location.hash.includes('id=')")
        assert f"id={model.ids_['point'][at]}" in browser.run("location.hash").split("&")
        browser.wait("document.querySelector('.near')")
    assert browser.errors() == []
