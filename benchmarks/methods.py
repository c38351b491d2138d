"""Measure the time and memory of one fit of every method, with default parameters.

The data are Cora if PMVGE_DATA has it, else a random graph of the same size. Methods for at most
one view get the graph as it is. For the others the nodes are split into two views at random;
methods that accept no links within a view get only the links between the two. Every fit runs in its
own process. Memory is the peak minus that of the same process without the fit (libraries imported,
data loaded). The results are medians.

    PMVGE_DATA=path/to/data python benchmarks/methods.py
    python benchmarks/methods.py --methods SGE PMvGE --repeats 1
"""

from __future__ import annotations

import argparse
import json
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

# A child process inherits the memory peak of its parent. So the parent imports nothing large before
# the measurements, and one child writes the data, which the others load.
if TYPE_CHECKING:
    from pmvge import MultiViewGraph

NODES, WORDS, WORDS_A_NODE, LINKS = 2_708, 1_433, 18, 5_278
LIBRARIES = ("scikit-learn", "scipy", "gensim", "cca-zoo", "torch-geometric")


# -- child processes ----------------------------------------------------------------------


def method_of(name: str) -> Any:
    from pmvge.experiments import METHODS

    return METHODS[name]


def kind_of(method: Any) -> str:
    """Return the kind of graph that a method gets, by its flags."""
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
    """Write the graphs that methods get, and return the name of the data."""
    from pmvge.datasets import load_cora
    from pmvge.errors import InputError

    try:
        name, one_view = "Cora", load_cora().graph
    except InputError:
        name, one_view = "random", random_graph()
    graphs = {
        "one view": one_view,
        "two views": split(one_view, within=True),
        "between two views": split(one_view, within=False),
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
    """Split the nodes into two views at random, with all links or only those between the views."""
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
    """Return the seconds of a fit and the peak memory of this process in bytes.

    ``fit=False`` skips the fit, to measure the memory of the data and libraries.
    """
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


# -- parent process -----------------------------------------------------------------------


def run_child(*arguments: str) -> Any:
    """Run this script in a child process, and return the JSON that it prints."""
    command = [sys.executable, __file__, "--child", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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
                idle[key] = median(run_child("idle", folder, name)["peak"] for _ in range(repeats))
            runs = [run_child("fit", folder, name) for _ in range(repeats)]
        except RuntimeError as error:
            print(f"{name:22} {kind:18} failed: {error}", flush=True)
            rows.append({"method": name, "graph": kind, "error": str(error)})
            continue
        seconds = median(fit["seconds"] for fit in runs)
        memory = max(0.0, median(fit["peak"] for fit in runs) - idle[key])
        print(f"{name:22} {kind:18} {seconds:9.2f} {memory / 1e6:11.0f}", flush=True)
        rows.append(
            {"method": name, "graph": kind}
            | {"seconds": seconds, "memory_bytes": memory, "idle_bytes": idle[key]}
            | {"all_seconds": [fit["seconds"] for fit in runs]}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="default: all methods")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(*arguments.child)))
        return
    known = run_child("list")
    names = arguments.methods or list(known)
    unknown = sorted(set(names) - set(known))
    if unknown:
        parser.error(f"unknown methods {', '.join(unknown)}: expected some of {', '.join(known)}")
    with TemporaryDirectory() as folder:
        data = run_child("prepare", folder)
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
    settings = {"data": data, "repeats": arguments.repeats, "libraries": versions()}
    write("methods", {**settings, "methods": rows}, figure)


if __name__ == "__main__":
    main()
