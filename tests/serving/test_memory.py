"""Workers share one copy of a model in memory."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE

pytestmark = pytest.mark.slow
N = 60_000
SETTINGS = {"n_components": 64, "max_steps": 2, "random_state": 0, "progress": False}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path]:
    """A large model, and one of the same kind that needs no memory."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("models")
    for name, n in (("large", N), ("empty", 60)):
        X = rng.normal(size=(n, 4)).astype(np.float32)
        ends = (rng.integers(n, size=5 * n), rng.integers(n, size=5 * n))
        ids = {view: [f"{view}{number:06}" for number in range(n)] for view in ("a", "b")}
        graph = MultiViewGraph({"a": X, "b": n}, {("a", "b"): ends}, ids=ids)
        PMvGE(**SETTINGS).fit(graph, hold_out=0).save(folder / name)
    return folder / "large", folder / "empty"


def proportional_size(process: int) -> int:
    """Return the proportional set size of a process, in bytes."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    return 1024 * int(re.search(r"^Pss: +(\d+) kB", text, re.MULTILINE)[1])


def mapped_size(process: int) -> int:
    """Return how many bytes of memory-mapped arrays a process has read."""
    text = Path(f"/proc/{process}/smaps").read_text()
    parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", text, flags=re.MULTILINE)
    sizes = (re.search(r"^Rss: +(\d+) kB", p, re.MULTILINE) for p in parts if "/maps/" in p)
    return 1024 * sum(int(size[1]) for size in sizes if size)


def use(server, read: int) -> None:
    """Send requests until every worker has read the arrays."""
    search = {"view": "a", "among": "b", "ids": ["a000003"], "k": 5, "exclude_known": True}
    embed = {"view": "a", "features": [[0, 0, 0, 1]], "ids": ["a000004"]}
    similar = {"view": "b", "ids": ["b000003"]}

    def ask(_: int) -> None:
        with httpx.Client(base_url=server.url, timeout=300) as client:
            for path, content in (("/search", search), ("/embed", embed), ("/similar", similar)):
                assert client.post(path, json=content).status_code == 200

    def done() -> bool:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, range(16)))
        return min(map(mapped_size, server.workers())) >= read

    server.wait(done, 300)


def size_of(start, model: Path, workers: int, read: int) -> int:
    server = start(model, "--workers", workers)
    server.wait(lambda: len(server.workers()) == workers)
    use(server, read)
    total = sum(map(proportional_size, server.workers()))
    server.stop()
    return total


def test_four_workers_need_little_more_memory_than_one(start, folders):
    large, empty = folders
    vectors = N * 64 * 4
    one = size_of(start, large, 1, vectors) - size_of(start, empty, 1, 0)
    four = size_of(start, large, 4, vectors) - size_of(start, empty, 4, 0)
    assert one > vectors  # the arrays are what is measured
    assert four <= 1.3 * one, f"{one / 1e6:.1f} MB of one worker, {four / 1e6:.1f} MB of four"
