"""What does every method cost? Seconds and memory of one fit of a graph of Cora's size, by default.

Cora if PMVGE_DATA holds it, else a random graph of its size. Methods of at most one view get the
graph as it is; for the others its nodes are split into two views at random, and methods that take
no links within a view get those between the two only. Every fit has a process of its own. Memory is
its peak above that of the same process without the fit (libraries imported, data loaded). Medians.

    PMVGE_DATA=path/to/data python benchmarks/methods.py
    python benchmarks/methods.py --methods SGE PMvGE --repeats 1
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

# A peak cannot be taken back. So the parent stays small until the end, as a child's counts from
# that of the process that started it; and the data are made once and read ready-made.
if TYPE_CHECKING:
    from pmvge import MultiViewGraph

NODES, WORDS, WORDS_A_NODE, LINKS = 2_708, 1_433, 18, 5_278
LIBRARIES = ("scikit-learn", "scipy", "gensim", "cca-zoo", "torch-geometric")


# -- in a process of its own ----------------------------------------------------------------


def method_of(name: str) -> Any:
    from pmvge.experiments import METHODS

    return METHODS[name]


def kind_of(method: Any) -> str:
    """Which graph a method gets, by its flags."""
    if method.n_views in (0, 1):
        return "one view"
    within = method.n_views == "D" and getattr(method, "within_view", True)
    return "two views" if within else "between two views"


def list_methods() -> dict[str, dict[str, Any]]:
    from pmvge.experiments import METHODS

    return {
        name: {"graph": kind_of(method), "libraries": getattr(method, "libraries", ())}
        for name, method in METHODS.items()
    }


def prepare(folder: Path) -> str:
    """Write the graphs that methods get; the name of the data."""
    from pmvge.datasets import load_cora
    from pmvge.errors import InputError

    try:
        name, whole = "Cora", load_cora().graph
    except InputError:
        name, whole = "random", random_graph()
    graphs = {
        "one view": whole,
        "two views": split(whole, within=True),
        "between two views": split(whole, within=False),
    }
    for kind, graph in graphs.items():
        (folder / kind).write_bytes(pickle.dumps(graph))
    return name


def random_graph() -> MultiViewGraph:
    import numpy as np
    from scipy import sparse

    from pmvge import MultiViewGraph

    rng = np.random.default_rng(0)
    words = np.argsort(rng.random((NODES, WORDS)), axis=1)[:, :WORDS_A_NODE]
    starts = np.arange(0, words.size + 1, WORDS_A_NODE)
    X = sparse.csr_array((np.ones(words.size, np.float32), words.ravel(), starts))
    X.resize((NODES, WORDS))
    i, j = np.triu_indices(NODES, k=1)
    chosen = rng.choice(len(i), size=LINKS, replace=False)
    return MultiViewGraph({"paper": X}, {("paper", "paper"): (i[chosen], j[chosen])})


def split(graph: MultiViewGraph, within: bool) -> MultiViewGraph:
    """The nodes in two views at random, with the links between them or with all."""
    import numpy as np

    from pmvge import MultiViewGraph

    (view,), n = graph.view_names, graph.n_nodes
    order = np.random.default_rng(0).permutation(n)
    parts = {"left": np.sort(order[: n // 2]), "right": np.sort(order[n // 2 :])}
    W, X = graph.links[view, view].matrix(), graph.views[view]
    pairs = [("left", "right")] + [("left", "left"), ("right", "right")] * within
    return MultiViewGraph(
        {name: X[rows] for name, rows in parts.items()},
        {(a, b): W[parts[a]][:, parts[b]] for a, b in pairs},
    )


def measure(name: str, folder: Path, fit: bool) -> dict[str, float]:
    """Seconds of a fit and peak memory in bytes, in this process; without the fit, memory alone."""
    method = method_of(name)
    for library in getattr(method, "libraries", ()):
        import_module(library)
    graph = pickle.loads((folder / kind_of(method)).read_bytes())
    model = method()
    quiet = {"progress": False, "random_state": 0}
    model.set_params(**{key: quiet[key] for key in quiet if key in model.get_params()})
    started = time.perf_counter()
    if fit:
        model.fit(graph)
    seconds = time.perf_counter() - started
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return {"seconds": seconds, "peak": peak}


def child(task: str, folder: str = "", name: str = "") -> Any:
    if task == "list":
        return list_methods()
    if task == "prepare":
        return prepare(Path(folder))
    return measure(name, Path(folder), fit=task == "fit")


# -- the parent -----------------------------------------------------------------------------


def ask(*words: str) -> Any:
    """What this script prints when it is started anew."""
    command = [sys.executable, __file__, "--child", *words]
    settings = {"GOMP_SPINCOUNT": "10000", **os.environ}  # as the command line has it
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def versions() -> dict[str, str]:
    found = {}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except ImportError:
            continue
    return found


def run(names: list[str], known: dict[str, Any], folder: str, repeats: int) -> list[dict[str, Any]]:
    idle: dict[tuple[str, ...], float] = {}  # peaks without a fit
    rows: list[dict[str, Any]] = []
    print(f"{'method':22} {'graph':18} {'seconds':>9} {'memory, MB':>11}")
    for name in names:
        kind, libraries = known[name]["graph"], known[name]["libraries"]
        try:
            key = (kind, *libraries)
            if key not in idle:
                idle[key] = median(ask("idle", folder, name)["peak"] for _ in range(repeats))
            runs = [ask("fit", folder, name) for _ in range(repeats)]
        except RuntimeError as error:
            print(f"{name:22} {kind:18} failed: {error}", flush=True)
            rows.append({"method": name, "graph": kind, "error": str(error)})
            continue
        seconds = median(one["seconds"] for one in runs)
        memory = max(0.0, median(one["peak"] for one in runs) - idle[key])
        print(f"{name:22} {kind:18} {seconds:9.2f} {memory / 1e6:11.0f}", flush=True)
        rows.append(
            {"method": name, "graph": kind}
            | {"seconds": seconds, "memory_bytes": memory, "idle_bytes": idle[key]}
            | {"all_seconds": [one["seconds"] for one in runs]}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="by default all")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(*arguments.child)))
        return
    known = ask("list")
    names = arguments.methods or list(known)
    unknown = sorted(set(names) - set(known))
    if unknown:
        parser.error(f"unknown methods {', '.join(unknown)}: expected some of {', '.join(known)}")
    with TemporaryDirectory() as folder:
        data = ask("prepare", folder)
        print(f"data: {data}")
        rows = run(names, known, folder, arguments.repeats)

    from output import write
    from plotly.subplots import make_subplots

    done = [row for row in rows if "seconds" in row]
    figure = make_subplots(1, 2, subplot_titles=["seconds of a fit", "peak memory, MB"])
    for column, heights in enumerate(
        ([row["seconds"] for row in done], [row["memory_bytes"] / 1e6 for row in done]), 1
    ):
        figure.add_bar(x=[row["method"] for row in done], y=heights, row=1, col=column)
    figure.update_layout(showlegend=False)
    told = {"data": data, "repeats": arguments.repeats, "libraries": versions()}
    write("methods", {**told, "methods": rows}, figure)


if __name__ == "__main__":
    main()
