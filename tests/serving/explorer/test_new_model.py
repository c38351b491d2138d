"""A model that is saved while the page is open: `pmvge explore` in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from pmvge import PMvGE
from pmvge.model import Map, saved_map

pytestmark = pytest.mark.slow  # starts a server and a browser


@pytest.fixture
def exploring(own_model):
    """Yield the address of `pmvge explore` on a copy of a model that has a map already."""
    saved_map(PMvGE.load(own_model), own_model, progress=False)
    command = [sys.executable, "-m", "pmvge", "explore", str(own_model), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Exploring"), process.communicate()
    yield line.split()[-1]
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def weights(browser):
    return browser.run(
        "[...document.querySelectorAll('#panel .near')[0].querySelectorAll('.weight .n')]"
        ".map(e => Number(e.textContent))"
    )


def expected(model):
    _, mu = model.search("users", ids=["u00004"], among="films", k=10, exclude="self")
    return mu[0].tolist()


def test_the_page_follows_and_keeps_its_state(browser, exploring, own_model, other_model):
    before, after = PMvGE.load(own_model), PMvGE.load(other_model)
    browser.open(exploring + "#view=users&id=u00004&color=view")
    browser.wait("document.querySelector('.near')")
    assert browser.run("document.body.dataset.model") == before.checksum_[:16]
    assert weights(browser) == pytest.approx(expected(before), rel=0.006)
    after.save(own_model)
    label = PMvGE.load(own_model).checksum_[:16]
    browser.wait(f"document.body.dataset.model === {json.dumps(label)}", 120)
    assert "new model" in browser.run("document.querySelector('#banner').textContent")
    browser.wait("document.querySelector('.near') && !document.querySelector('[aria-busy]')")
    # The same entity, by the new model; its map replaces the old one when it is computed.
    assert browser.run("document.querySelector('#panel .title').textContent") == "u00004"
    assert weights(browser) == pytest.approx(expected(after), rel=0.006)
    browser.wait("document.querySelector('#empty').hidden", 180)
    drawn = Map.load(own_model, PMvGE.load(own_model))
    assert drawn.xy["users"].shape == (len(after.ids_["users"]), 2)
    assert browser.run("location.hash") == "#view=users&id=u00004&color=view"
    assert browser.errors() == []
    seen = [
        event["params"]["response"]
        for event in browser.events
        if event.get("method") == "Network.responseReceived"
    ]
    models = {one["headers"].get("x-model") for one in seen if "/explore/" in one["url"]}
    assert models == {before.checksum_[:16], label}
