"""Time until a million points are on the screen, and until a click is answered, in Chromium.

    python benchmarks/explorer.py            # writes benchmarks/results/explorer.json

The browser draws without a graphics card (SwiftShader). The model has random vectors and a random
map: what is measured is the page and the server, not the model.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "explorer.json"
CLICKS = 7
# Resolves when the details show the entity of the click, with its partners.
ANSWERED = (
    "new Promise(done => { const look = () => document.querySelector('#panel .near')"
    " && location.hash.includes('id=') && !document.querySelector('#panel[aria-busy]')"
    " ? done(true) : setTimeout(look, 5); look(); })"
)
OVERVIEW = "document.querySelector('#panel .title')?.textContent === 'What you see'"


def make_model(folder: Path, n: int) -> dict[str, Any]:
    """Save a model of n entities and 8 others with a random map; return its coordinates."""
    from pmvge import MultiViewGraph, PMvGE
    from pmvge.model import Map
    from pmvge.model.mapping.map_file import vectors_checksum

    rng = np.random.default_rng(0)
    rows = np.concatenate([np.arange(0, n, max(1, n // 20_000)), rng.integers(n, size=20_000)])
    graph = MultiViewGraph(
        {"point": n, "kind": 8}, {("point", "kind"): (rows, rng.integers(8, size=len(rows)))}
    )
    settings: dict[str, Any] = {"effects": "none", "similarity": "inner", "patience": None}
    model = PMvGE(4, max_steps=2, random_state=0, progress=False, **settings).fit(graph)
    model.save(folder)
    model = PMvGE.load(folder)
    xy = {view: rng.normal(size=(len(ids), 2)) for view, ids in model.ids_.items()}
    xy = {view: places.astype(np.float32) for view, places in xy.items()}
    Map(xy, "Random places.", None, None, vectors_checksum(model)).save(folder)
    return xy


def measure(url: str, n: int) -> dict[str, float]:
    """Return seconds until the map is drawn, and of clicks until the details are shown."""
    sys.path.insert(0, str(ROOT / "tools"))
    from chromium import Chromium, find_chromium

    program = find_chromium()
    if program is None:
        raise SystemExit("benchmark: expected chromium or google-chrome on the PATH, found none")
    with tempfile.TemporaryDirectory() as profile:
        browser = Chromium(program, Path(profile))
        try:
            browser.open(url + "#color=view")  # the server's caches are filled
            started = time.perf_counter()
            browser.open(url + "#color=view")
            browser.wait("document.querySelector('#stage').dataset.drawn === 'all'")
            loaded = time.perf_counter() - started
            x, y = browser.center("#marks")
            seconds = []
            rng = np.random.default_rng(1)
            for dx, dy in rng.uniform(-120, 120, size=(CLICKS, 2)):
                browser.click("#home")
                browser.wait(OVERVIEW)
                started = time.perf_counter()
                browser.click((x + dx, y + dy))  # after a move, which looks for a point, too
                browser.run(ANSWERED)
                seconds.append(time.perf_counter() - started)
        finally:
            browser.close()
    return {
        "points": n + 8,
        "load_seconds": round(loaded, 2),
        "first_click_seconds": round(seconds[0], 2),
        "click_seconds": round(statistics.median(seconds), 2),
        "slowest_click_seconds": round(max(seconds), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        make_model(model, given.points)
        command = [sys.executable, "-m", "pmvge", "serve", str(model), "--port", "0"]
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1].removesuffix("docs")
            found = measure(url, given.points)
        finally:
            server.terminate()
            server.wait()
    print(json.dumps(found, indent=2))
    RESULT.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
