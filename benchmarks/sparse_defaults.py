"""Choose the defaults for sparse features, such as words: dropout and weight decay.

Problems have words as features: MovieLens with titles, the practice films, and Cora. Between two
views, links are those of known or of new entities; Cora also has its papers as a view that cites
and one that is cited. Candidates are the defaults with other rates of the sparse views; splits 100
to 109 are used by no report. Results are appended to results/sparse_defaults.json, and a run
continues where the last one ended. The table shows the mean over splits of the mean of a problem's
scores, in percent: AUC and nDCG@10 of links, or accuracy and NMI of classes.

    PMVGE_DATA=path/to/data python benchmarks/sparse_defaults.py --splits 2
    python benchmarks/sparse_defaults.py --splits 0      # only print the table
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from output import RESULTS
from tasks import Scores, Settings, Task, cora, fit

from pmvge import EncoderSpec, MultiViewGraph, PMvGE
from pmvge.datasets import load_cora
from pmvge.evaluation import evaluate_links
from pmvge.examples import write_films
from pmvge.examples.recommender import write_recommender
from pmvge.graph import Links, Pair, hold_out_links
from pmvge.tables import read_tables, sketch_project

FILE = RESULTS / "sparse_defaults.json"
SHARE = 0.2  # of entities that are new
NAMES = ("dropout", "input_dropout", "weight_decay")
CANDIDATES: dict[str, Settings] = {
    name: dict(zip(NAMES, values, strict=True))
    for name, values in {
        "dropout": (0.5, 0.5, 0.0),
        "dropout of hidden units": (0.5, 0.0, 0.0),
        "dropout of hidden units, decay": (0.5, 0.0, 1.0),
        "neither": (0.0, 0.0, 0.0),
        "decay, as for dense features": (0.0, 0.0, 1.0),
    }.items()
}
SPLITS = range(100, 110)


def between(read: Callable[[int], MultiViewGraph], pair: Pair) -> dict[str, Task]:
    """Return tasks of links between two views: of known entities, and of new ones of each view."""

    def known(settings: Settings, split: int) -> Scores:
        train, held = hold_out_links(read(split), 0.1, np.random.default_rng(split))
        model = fit(train, _for_sparse_views(settings, train), split)
        return _scores(model, pair, held.links[pair], known=train.links[pair])

    def unseen(view: str) -> Task:
        def task(settings: Settings, split: int) -> Scores:
            graph = read(split)
            order = np.random.default_rng(split).permutation(graph.sizes[view])
            n = round(SHARE * len(order))
            train, test = (graph.subgraph({view: np.sort(o)}) for o in (order[n:], order[:n]))
            model = fit(train, _for_sparse_views(settings, train), split)
            return _scores(model, pair, test.links[pair], new={view: test.views[view]})

        return task

    return {"known": known, **{f"new {view}": unseen(view) for view in pair}}


def _for_sparse_views(settings: Settings, graph: MultiViewGraph) -> Settings:
    """Return the settings, with dropout for sparse views only."""
    dense = dict.fromkeys(NAMES[:2], 0.0)
    rates = {name: settings[name] for name in dense}
    encoder = {
        view: EncoderSpec(**(dense if isinstance(X, np.ndarray) else rates))
        for view, X in graph.views.items()
        if X is not None
    }
    return {"weight_decay": settings["weight_decay"], "encoder": encoder}


def _scores(
    model: PMvGE, pair: Pair, truth: Links, *, new: dict[str, Any] | None = None, **known: Any
) -> Scores:
    (a, b), new = pair, new or {}
    query = model.vectors(a, new.get(a), among=b)
    candidate = model.vectors(b, new.get(b), among=a, side="candidate")
    found = evaluate_links(query, candidate, truth, log_alpha=0.0, **known)
    return {"auc": found["roc_auc"], "ndcg": found["ndcg@10"]}


def _read(write: Callable[[Path], None]) -> MultiViewGraph:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        return read_tables(sketch_project(Path(folder)).project).graph


@cache
def titles(split: int) -> MultiViewGraph:
    """Return MovieLens as ``pmvge init`` reads its tables, with the words of titles."""
    return _read(write_recommender)


@cache
def films(split: int) -> MultiViewGraph:
    """Return practice films."""
    return _read(lambda folder: write_films(folder, seed=split))


@cache
def citations(split: int) -> MultiViewGraph:
    """Return Cora as papers that cite and papers that are cited."""
    graph = load_cora().graph
    X, links = graph.views["paper"], graph.links["paper", "paper"].matrix()
    return MultiViewGraph({"citing": X, "cited": X}, {("citing", "cited"): links})


TASKS: dict[str, Task] = {
    **{f"titles, {k}": task for k, task in between(titles, ("users", "films")).items()},
    **{f"films, {k}": task for k, task in between(films, ("users", "films")).items()},
    **{f"Cora, {k}": task for k, task in between(citations, ("citing", "cited")).items()},
    "Cora (A)": cora("A"),
    "Cora (B)": cora("B"),
}


def run(n_splits: int, names: list[str], tasks: list[str]) -> list[dict[str, Any]]:
    """Run the jobs that have no result yet, and return all results."""
    rows = json.loads(FILE.read_text()) if FILE.exists() else []
    done = {(row["candidate"], row["task"], row["split"]) for row in rows}
    wanted = [(n, t, s) for s in SPLITS[:n_splits] for t in tasks for n in names]
    for name, task, split in wanted:
        if (name, task, split) in done:
            continue
        started = time.process_time()
        scores = TASKS[task](CANDIDATES[name], split)
        seconds = time.process_time() - started
        row = {"candidate": name, "task": task, "split": split}
        rows.append(row | {"scores": scores, "seconds": round(seconds, 2)})
        lines = ",\n ".join(json.dumps(row) for row in rows)
        FILE.write_text(f"[\n {lines}\n]\n")
        print(f"{name}: {task}, split {split}: {scores}, {seconds:.1f} s", flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the means of the candidates as Markdown; the number of splits is in parentheses."""
    head = ["candidate (splits)", *TASKS]
    lines = [head, ["---"] * len(head)]
    for name in CANDIDATES:
        own = [row for row in rows if row["candidate"] == name]
        splits = [
            s for s in SPLITS if {row["task"] for row in own if row["split"] == s} == TASKS.keys()
        ]
        means = [
            np.mean(
                [
                    100 * np.mean(list(row["scores"].values()))
                    for row in own
                    if row["task"] == task and row["split"] in splits
                ]
            )
            for task in TASKS
            if splits
        ]
        lines.append([f"{name} ({len(splits)})", *(f"{mean:.1f}" for mean in means)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--candidates", nargs="*", default=list(CANDIDATES), choices=CANDIDATES)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(table(run(given.splits, given.candidates, given.tasks)))


if __name__ == "__main__":
    main()
