"""Long and repeated runs leak no memory, threads or open files.

``make stress`` sets PMVGE_STRESS for longer runs.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy import sparse

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import DivergedError, PmvgeError
from pmvge.report import write_report
from pmvge.tables import (
    LinkTable,
    Project,
    ViewTable,
    graph_from_frames,
    open_features,
    read_rows,
    read_tables,
)

FULL = bool(os.environ.get("PMVGE_STRESS"))
STEPS = 20_000 if FULL else 2_000
FITS = 200 if FULL else 40
PROC = Path("/proc/self")
MEGABYTE = 1 << 20

pytestmark = [
    pytest.mark.slow,  # hundreds of fits and loads
    pytest.mark.skipif(not PROC.is_dir(), reason="memory and files are counted in /proc"),
]

SETTINGS: dict[str, Any] = {
    "n_components": 4,
    "hidden_sizes": (8,),
    "batch_size": 16,
    "max_steps": 20,
    "random_state": 0,
    "progress": False,
}


def resident() -> int:
    """Return the resident memory in bytes."""
    gc.collect()
    return int((PROC / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_resources() -> dict[str, Any]:
    """Return the open files, mapped files and threads of this process."""
    gc.collect()
    files = [str(link.readlink()) for link in (PROC / "fd").iterdir() if link.is_symlink()]
    maps = {line.split()[-1] for line in (PROC / "maps").read_text().splitlines() if "/" in line}
    return {
        "files": sorted(name for name in files if name.startswith("/")),
        "descriptors": len(files),
        "mapped": sorted(name for name in maps if name.endswith((".npy", ".parquet", ".db"))),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "tasks": len(list((PROC / "task").iterdir())),
    }


def settled(before: dict[str, Any]) -> dict[str, Any]:
    """Return the open resources, after waiting until ended threads have left /proc."""
    until = time.monotonic() + 120
    while (after := open_resources()) != before and time.monotonic() < until:
        time.sleep(0.1)
    return after


def tables() -> tuple[dict[str, Any], dict[tuple[str, str], Any]]:
    rng = np.random.default_rng(0)
    views = {
        "a": rng.normal(size=(300, 6)).astype(np.float32),
        "b": sparse.random_array((200, 40), density=0.1, format="csr", rng=0),
        "c": 100,
    }
    links = {
        ("a", "b"): (rng.integers(300, size=900), rng.integers(200, size=900)),
        ("a", "c"): (rng.integers(300, size=900), rng.integers(100, size=900)),
    }
    return views, links


# -- memory ---------------------------------------------------------------------------------


class Watched(torch.nn.Linear):
    """An encoder that records the resident memory at intervals."""

    seen: ClassVar[list[int]] = []  # a fit works on a copy of the encoder
    every = STEPS // 20

    def __init__(self) -> None:
        super().__init__(6, 4)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls % self.every == 0:
            self.seen.append(resident())
        return super().forward(x)


@pytest.mark.parametrize("scheme", ["block", "paper"] if FULL else ["block"])
def test_steps_leak_no_memory(scheme: str) -> None:
    """The first quarter of the steps may allocate buffers."""
    Watched.seen.clear()
    more = {"max_steps": STEPS, "scheme": scheme, "patience": 10**6, "learning_rate": 1e-4}
    PMvGE(**SETTINGS | more, encoder={"a": Watched()}).fit(MultiViewGraph(*tables()))
    seen = Watched.seen
    assert len(seen) >= 20
    assert seen[-1] - seen[len(seen) // 4] < 4 * MEGABYTE


def test_fits_leak_no_memory(tmp_path: Path) -> None:
    """Nor do saving, loading and searching. The first quarter of the fits may fill caches."""
    graph = MultiViewGraph(*tables())
    sizes = []
    for number in range(FITS):
        model = PMvGE(**SETTINGS | {"random_state": number}).fit(graph)
        if number % 5 == 0:  # syncing files is slow
            model.save(tmp_path / "model")
        PMvGE.load(tmp_path / "model").search("a", graph.views["a"], among="c", k=3)
        del model
        sizes.append(resident())
    assert sizes[-1] - sizes[FITS // 4] < 6 * MEGABYTE


# -- files and threads ----------------------------------------------------------------------


def mapped_graph(folder: Path) -> MultiViewGraph:
    views, links = tables()
    np.save(folder / "rows.npy", views["a"])
    return MultiViewGraph({**views, "a": open_features(folder / "rows.npy")}, links)


def fit_mapped(folder: Path) -> None:
    """Fit with rows on disk, which a thread reads."""
    PMvGE(**SETTINGS).fit(mapped_graph(folder))


def fit_with_checkpoints(folder: Path) -> None:
    settings = SETTINGS | {"checkpoint_dir": folder / "checkpoint", "checkpoint_steps": 5}
    PMvGE(**settings).fit(mapped_graph(folder))
    PMvGE(**settings | {"max_steps": 30}).fit(mapped_graph(folder), resume=True)


def diverge(folder: Path) -> None:
    """Raise an error during training while a thread reads rows."""
    settings = SETTINGS | {"learning_rate": 1e30, "clip_norm": None, "similarity": "inner"}
    with suppress(DivergedError):
        PMvGE(**settings).fit(mapped_graph(folder))
        pytest.fail("this should have diverged")


def interrupt(folder: Path) -> None:
    """Raise KeyboardInterrupt during training."""

    class Interrupting(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls = getattr(self, "calls", 0) + self.training
            if self.calls > 5:
                raise KeyboardInterrupt
            return super().forward(x)

    settings = SETTINGS | {
        "checkpoint_dir": folder / "interrupted",
        "encoder": {"a": Interrupting(6, 4)},
    }
    with suppress(KeyboardInterrupt):
        PMvGE(**settings).fit(mapped_graph(folder))
        pytest.fail("this should have been interrupted")


def save_and_load(folder: Path) -> None:
    graph = MultiViewGraph(*tables())
    PMvGE(**SETTINGS).fit(graph).save(folder / "model")
    model = PMvGE.load(folder / "model")
    model.embed_to(folder / "rows.parquet", "a", graph.views["a"])
    write_report(folder / "report.html", model)


def read_and_spill(folder: Path) -> None:
    (folder / "u.csv").write_text("u,x\n" + "".join(f"{i},{i / 7}\n" for i in range(50)))
    (folder / "s.csv").write_text("u,f\n" + "".join(f"{i},f{i % 5}\n" for i in range(50)))
    project = Project(
        {"u": ViewTable("u.csv", "u", {"x": "numeric"}), "f": ViewTable()},
        {("u", "f"): LinkTable("s.csv", ("u", "f"))},
        {},
        folder,
    )
    for _ in range(2):  # the second pass opens the cached features
        graph = read_tables(project, spill=folder / "spill").graph
    next(read_rows(graph.tables, "u", "u.csv", folder=folder))  # and abandon the iterator


def read_invalid_files(folder: Path) -> None:
    (folder / "u.csv").write_text("u,x\n1,2\n1,3\n")
    for frames in ({"u": str(folder / "u.csv")}, {"u": str(folder / "none.csv")}):
        with suppress(PmvgeError):
            graph_from_frames(frames, {("u", "u"): str(folder / "u.csv")})
            pytest.fail("this should have been refused")
    (folder / "model.json").write_text("{")
    with suppress(PmvgeError):
        PMvGE.load(folder)
        pytest.fail("this should have been refused")


WORK = [
    fit_mapped, fit_with_checkpoints, diverge, interrupt, save_and_load, read_and_spill,
    read_invalid_files,
]  # fmt: skip


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__)
def test_files_and_threads_are_closed(work: Callable[[Path], None], tmp_path: Path) -> None:
    work(tmp_path)  # libraries open threads and files of their own on first use
    before = open_resources()
    for _ in range(20 if FULL else 1):
        work(tmp_path)
    assert settled(before) == before


def test_leaks_are_detected(tmp_path: Path) -> None:
    before = open_resources()
    graph = mapped_graph(tmp_path)
    stream = (tmp_path / "rows.npy").open("rb")
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="leaked")
    thread.start()
    after = open_resources()
    assert [key for key in before if before[key] != after[key]] == [*before]
    done.set()
    thread.join()
    stream.close()
    del graph
    assert settled(before) == before
    start = resident()
    kept = np.ones(8 * MEGABYTE, dtype=np.uint8)
    assert resident() - start > 6 * MEGABYTE
    del kept
