"""Measure time and memory as the data grow.

Two views of n / 2 entities each, 64 float16 features in memory-mapped files, ten links per entity
in memory-mapped int32 columns; n = 10^5, 10^6, 10^7, so 10^6, 10^7, 10^8 links. Measured are
milliseconds per training step, with the sizes alternating; and for each size, in a separate
process, set-up seconds of graph and sampler, rows embedded and written to Parquet per second, and
peak memory (without cached pages of mapped files) next to the formula of docs/scaling.md. Then
large arrays of which a step uses few rows: 10^6 sparse columns with 50 entries per row, and 10^7
entities without features. Then effects: a step with 10^5 and with 10^7 entities without features
(K = 16, so that it fits into 4 GB), and a step with and without effects, of 10^4 entities with
features. These are medians over runs of 25 steps, because priors are updated every 25 steps.

    python benchmarks/scale.py [--folder FOLDER] [--sizes 100000 1000000] [--only-effects]

It needs 5 GB of disk for the largest size, and 14 GB of memory for the 10^7 vectors.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from output import RESULTS, write
from plotly import graph_objects
from scipy import sparse
from step import median_times

from pmvge import MultiViewGraph, PMvGE
from pmvge.encoders import EncoderSpec, MultiViewEncoder, choose_encoders, schemas_of
from pmvge.experiments.paper_model import paper_model
from pmvge.model.fitting.priors import EVERY as PRIOR_STEPS
from pmvge.model.fitting.trainer import make_trainer
from pmvge.training import Trainer

SIZES = (100_000, 1_000_000, 10_000_000)
LINKS, FEATURES, HIDDEN, K, BATCH = 10, 64, 256, 64, 512
COLUMNS, ENTRIES = 1_000_000, 50
CHUNK = 1 << 16  # rows per write
STEPS = 200
STEP = 32  # megabytes of working memory of a step
FLAT, MATCH = 1.3, 0.7  # goals: step time over that of the smallest; embedding over products
EFFECTS = 1.25  # goal: step time with effects over that without
EFFECTS_K = 16  # dimension of the effects of 10^7 entities
RUNS = 12  # of 25 steps each


# -- data -----------------------------------------------------------------------------------


def make_files(folder: Path, n: int) -> None:
    """Write features of both views, and links, half of them within one of 16 classes."""
    folder.mkdir()
    rng, half = np.random.default_rng(n), n // 2
    centres = rng.standard_normal((16, FEATURES))
    for view in ("left", "right"):
        X = np.lib.format.open_memmap(folder / f"{view}.npy", "w+", np.float16, (half, FEATURES))
        for start in range(0, half, CHUNK):
            rows = np.arange(start, min(start + CHUNK, half))
            X[rows] = centres[rows % 16] + rng.standard_normal((len(rows), FEATURES), np.float32)
    ends = {name: (folder / f"{name}.bin").open("wb") for name in ("rows", "cols")}
    for start in range(0, half, CHUNK):
        rows = np.repeat(np.arange(start, min(start + CHUNK, half)), 2 * LINKS)
        cols = rng.integers(half // 16, size=len(rows)) * 16
        cols += np.where(rng.random(len(rows)) < 0.5, rows % 16, rng.integers(16, size=len(rows)))
        key = np.unique(rows * half + np.minimum(cols, half - 1))
        ends["rows"].write((key // half).astype(np.int32).data)
        ends["cols"].write((key % half).astype(np.int32).data)
    for stream in ends.values():
        stream.close()


def mapped_graph(folder: Path) -> MultiViewGraph:
    views = {view: np.load(folder / f"{view}.npy", mmap_mode="r") for view in ("left", "right")}
    links = tuple(np.memmap(folder / f"{name}.bin", np.int32, "r") for name in ("rows", "cols"))
    return MultiViewGraph(views, {("left", "right"): links})


def sparse_graph() -> MultiViewGraph:
    """Return 10^5 rows with 50 of 10^6 columns each, linked to 1,000 entities."""
    rng, n = np.random.default_rng(0), 100_000
    columns = rng.integers(COLUMNS, size=n * ENTRIES, dtype=np.int32)
    start = np.arange(0, n * ENTRIES + 1, ENTRIES, dtype=np.int32)
    X = sparse.csr_array((np.ones(n * ENTRIES, np.float32), columns, start), shape=(n, COLUMNS))
    links = (rng.integers(n, size=10 * n), rng.integers(1000, size=10 * n))
    return MultiViewGraph({"left": X, "right": 1000}, {("left", "right"): links})


def free_graph(n: int) -> MultiViewGraph:
    """Return n entities without features, linked to 10,000 others."""
    rng = np.random.default_rng(0)
    rows = np.arange(n, dtype=np.int32)
    rows.flags.writeable = False  # read-only arrays are not copied
    links = (rows, rng.integers(10_000, size=n, dtype=np.int32))
    return MultiViewGraph({"left": n, "right": 10_000}, {("left", "right"): links})


# -- measurements in a separate process -----------------------------------------------------


def own_memory() -> float:
    """Return the megabytes of this process without pages of files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this benchmark needs /proc/self/status, which this system does not have")


@contextmanager
def watched_memory() -> Iterator[list[float]]:
    """Yield a list whose only item is the peak so far, sampled 50 times per second."""
    peak, done = [own_memory()], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], own_memory())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def trainer_of(
    graph: MultiViewGraph, effects: str = "none", n_components: int = K
) -> tuple[Trainer, MultiViewEncoder]:
    chosen = {"hidden_sizes": (HIDDEN,), "batch_size": BATCH, "max_steps": 10 * STEPS}
    settings = paper_model(n_components, **chosen).get_params(deep=False)
    spec = EncoderSpec("mlp", (HIDDEN,), "relu", "identity", False, 0.3, 0.0)
    schemas = schemas_of(graph)
    network = MultiViewEncoder(
        choose_encoders("mlp", spec, schemas),
        schemas,
        n_components,
        "cosine",
        effects=dict.fromkeys(graph.view_names, effects),
        pairs=tuple(graph.links),
    )
    network.train()
    device = torch.device("cpu")
    return make_trainer(settings, network, graph, None, device, 0), network


def steps_of(trainer: Trainer) -> Callable[[], None]:
    """Return a function that makes one training step."""
    batches = iter(trainer.batches)
    return lambda: trainer.train_step(next(batches))


def run_steps(folder: Path) -> dict[str, float]:
    """Return the median milliseconds per step of all sizes, timed alternately."""
    graphs = {path.name: mapped_graph(path) for path in folder.iterdir() if path.is_dir()}
    steps = {name: steps_of(trainer_of(graph)[0]) for name, graph in graphs.items()}
    return {name: 1e3 * seconds for name, seconds in median_times(steps, STEPS).items()}


def formula(graph: MultiViewGraph, network: MultiViewEncoder) -> float:
    """Return the megabytes of training by the formula of docs/scaling.md."""
    entities = 12 * graph.n_nodes  # an id and a log weight each
    degrees = 2 * 8 * max(graph.sizes.values())
    weights = 3 * 4 * sum(p.numel() for p in network.parameters())
    return STEP + (entities + degrees + weights) / 2**20


def run_mapped(folder: Path) -> dict[str, Any]:
    trainer_of(free_graph(10))  # torch loads libraries on first use: not part of the set-up
    base = own_memory()
    with watched_memory() as peak:
        start = time.perf_counter()
        graph = mapped_graph(folder)
        trainer, network = trainer_of(graph)
        set_up = time.perf_counter() - start
        step = steps_of(trainer)
        for _ in range(STEPS):
            step()
        training_peak = peak[0] - base
    model = paper_model(
        K, hidden_sizes=(HIDDEN,), max_steps=20, patience=None, random_state=0, progress=False
    )
    small = graph.subgraph({view: np.arange(2000) for view in graph.view_names})
    model.fit(small)
    embedded, products = rows_a_second(model, graph)
    before = own_memory()
    with watched_memory() as peak:
        start = time.perf_counter()
        rows = sum(
            model.embed_to(folder / f"{view}.parquet", view, graph.views[view])
            for view in graph.view_names
        )
        written = rows / (time.perf_counter() - start)
        embedding_peak = peak[0] - before
    return {
        "nodes": graph.n_nodes,
        "links": graph.n_links,
        "set_up_seconds": set_up,
        "training_mb": training_peak,
        "formula_mb": formula(graph, network),
        "embedded": embedded,
        "products": products,
        "written": written,
        "embedding_mb": embedding_peak,
    }


def rows_a_second(model: PMvGE, graph: MultiViewGraph) -> tuple[float, float]:
    """Return the rows per second of `embed`, and of its matrix products alone.

    Both are timed alternately; medians.
    """
    X = graph.views["left"]
    assert isinstance(X, np.ndarray)
    rows = X[: min(len(X), 1 << 16)]
    layers = [torch.randn(a, b) for a, b in itertools.pairwise((FEATURES, HIDDEN, K))]
    x = torch.randn(len(rows), FEATURES)

    def products() -> None:
        for part in x.split(2048):
            part @ layers[0] @ layers[1]

    times: dict[str, list[float]] = {"embedded": [], "products": []}
    for _ in range(25):
        for name, work in (("embedded", lambda: model.embed("left", rows)), ("products", products)):
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    embedded, bare = (len(rows) / float(np.median(times[name])) for name in times)
    return embedded, bare


def run_table(graph: MultiViewGraph) -> dict[str, Any]:
    base = own_memory()
    with watched_memory() as peak:
        trainer, network = trainer_of(graph)
        (step,) = median_times({"": steps_of(trainer)}, STEPS).values()
    table = max(p.numel() for p in network.parameters()) * 4 / 2**20
    return {
        "nodes": graph.n_nodes,
        "step_ms": 1e3 * step,
        "table_mb": table,
        "training_mb": peak[0] - base,
        "formula_mb": formula(graph, network),
    }


def small_graph() -> MultiViewGraph:
    """Return two views of 5,000 entities with 64 dense features, ten links each."""
    rng, half = np.random.default_rng(0), 5000
    views = {v: rng.standard_normal((half, FEATURES), np.float32) for v in ("left", "right")}
    ends = rng.integers(half, size=(2, LINKS * 2 * half))
    return MultiViewGraph(views, {("left", "right"): (ends[0], ends[1])})


def run_effects() -> dict[str, Any]:
    """Return CPU milliseconds per step with effects, by size, and next to those without."""

    def runs(graph: MultiViewGraph, *options: Any) -> Callable[[], None]:
        step = steps_of(trainer_of(graph, *options)[0])
        return lambda: [step() for _ in range(PRIOR_STEPS)] and None

    small = small_graph()
    times = {f"10^4, {kind}": runs(small, kind) for kind in ("none", "bias", "vector")}
    for name, n in (("10^5", 100_000), ("10^7", 10_000_000)):
        times[name] = runs(free_graph(n), "vector", EFFECTS_K)
    return {
        name: 1e3 * seconds / PRIOR_STEPS
        for name, seconds in median_times(times, RUNS, time.process_time).items()
    }


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "mapped": run_mapped,
    "steps": run_steps,
    "sparse": lambda _: run_table(sparse_graph()),
    "free": lambda _: run_table(free_graph(10_000_000)),
    "free, small": lambda _: run_table(free_graph(100_000)),
    "effects": lambda _: run_effects(),
}


# -- the benchmark --------------------------------------------------------------------------


def apart(case: str, folder: Path) -> dict[str, Any]:
    """Run a case in a separate process."""
    command = [sys.executable, __file__, "--case", case, "--folder", str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--only-effects", action="store_true", help="measure effects alone")
    options = parser.parse_args()
    if options.case:
        print(json.dumps(CASES[options.case](options.folder)))
        return
    effects = apart("effects", Path())
    print_effects(effects)
    if options.only_effects:
        path = RESULTS / "scale.json"
        stored = json.loads(path.read_text())
        stored["results"]["effects"] = effects
        path.write_text(json.dumps(stored, indent=1) + "\n")
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        for n in options.sizes:
            start = time.perf_counter()
            make_files(folder / str(n), n)
            seconds = time.perf_counter() - start
            print(f"{n:,} entities: files written in {seconds:.0f} s", file=sys.stderr)
        steps = apart("steps", folder)
        rows = [
            {**apart("mapped", folder / str(n)), "step_ms": steps[str(n)]} for n in options.sizes
        ]
        for row in rows:
            print_mapped(row, rows[0])
        tables = {case: apart(case, folder) for case in ("sparse", "free", "free, small")}
    for case, row in tables.items():
        print(
            f"{case:>11}: {row['step_ms']:.1f} ms per step; vectors {row['table_mb']:,.0f} MB, "
            f"training {row['training_mb']:,.0f} MB, formula {row['formula_mb']:,.0f} MB"
        )
    results = {"mapped": rows, "tables": tables, "effects": effects}
    write("scale", results, draw(rows), image=True)


def draw(rows: list[dict[str, Any]]) -> graph_objects.Figure:
    """Draw time and memory against the number of entities."""
    figure = graph_objects.Figure()
    nodes = [row["nodes"] for row in rows]
    figure.add_scatter(x=nodes, y=[r["step_ms"] for r in rows], name="milliseconds per step")
    figure.add_scatter(x=nodes, y=[r["set_up_seconds"] for r in rows], name="seconds of set-up")
    figure.add_scatter(x=nodes, y=[r["training_mb"] for r in rows], name="MB of training")
    figure.add_scatter(x=nodes, y=[r["formula_mb"] for r in rows], name="MB by the formula")
    figure.update_xaxes(type="log", dtick=1, title="entities (ten links each)")
    figure.update_yaxes(type="log", dtick=1)
    return figure


def print_effects(times: dict[str, float]) -> None:
    """Print the times of steps with effects, and their ratios."""
    print("effects:", ", ".join(f"{name} {ms:.1f} ms" for name, ms in times.items()))
    plain = times["10^4, none"]
    print(
        f"{'':>11}10^7 over 10^5 entities: {times['10^7'] / times['10^5']:.2f} x (goal {FLAT}); "
        f"with over without effects: bias {times['10^4, bias'] / plain:.2f} x, "
        f"vector {times['10^4, vector'] / plain:.2f} x (goal {EFFECTS})"
    )


def print_mapped(row: dict[str, Any], first: dict[str, Any]) -> None:
    """Print the results of one size in two lines."""
    set_up, step = row["set_up_seconds"], row["step_ms"]
    print(
        f"{row['nodes']:>10,} entities, {row['links']:>11,} links: set-up {set_up:.1f} s"
        f" ({1e9 * set_up / row['links']:.0f} ns per link), step {step:.1f} ms"
        f" ({row['step_ms'] / first['step_ms']:.2f} x, goal {FLAT}), training "
        f"{row['training_mb']:,.0f} MB (formula {row['formula_mb']:,.0f})\n"
        f"{'':>11}embedded {row['embedded']:,.0f} rows/s, "
        f"{row['embedded'] / row['products']:.0%} of the products (goal {MATCH:.0%}); to Parquet "
        f"{row['written']:,.0f} rows/s in {row['embedding_mb']:,.0f} MB"
    )


if __name__ == "__main__":
    main()
