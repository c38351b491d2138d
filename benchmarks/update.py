"""Compare an update of a model with a full refit: held-out AUC and processor time.

MovieLens by time: a model is fitted to the first 90 % of the ratings. Then come the others, with
new users and films, but for a tenth of them, drawn at random, which are held out. LastFM by random
tenths: a model is fitted to 8 tenths of the links, then comes the ninth; the last is held out.
Splits below 100 are for reports, others for choosing settings.

    PMVGE_DATA=path/to/data OMP_NUM_THREADS=1 python benchmarks/update.py
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from output import RESULTS

from pmvge import MultiViewGraph, PMvGE
from pmvge.datasets import load_lastfm, load_movielens
from pmvge.datasets.downloads import data_folder
from pmvge.graph import find_ids

Parts = tuple[MultiViewGraph, MultiViewGraph, MultiViewGraph]  # today, tomorrow, held out


def movielens_by_time(split: int) -> Parts:
    """Return MovieLens at 90 % of the ratings, at the end, and held-out links of the last part."""
    graph, rng = load_movielens(), np.random.default_rng([split, 0])
    rows = np.loadtxt(data_folder() / "movielens" / "ml-100k.inter", skiprows=1)
    user, film = (
        find_ids(graph.ids[view], rows[:, column].astype(np.int64))
        for column, view in enumerate(("user", "film"))
    )
    first = np.zeros(len(rows), bool)
    first[np.argsort(rows[:, 3], kind="stable")[: round(0.9 * len(rows))]] = True
    pair, links = next(iter(graph.links.items()))
    n = graph.sizes["film"]
    early = np.isin(links.rows.astype(np.int64) * n + links.cols, (user * n + film)[first])
    out = ~early & (rng.random(len(links)) < 0.1)
    there = {"user": np.unique(user[first]), "film": np.unique(film[first])}
    today = graph.with_links({pair: links.select(early)}).subgraph(there)
    return (
        today,
        graph.with_links({pair: links.select(~out)}),
        graph.with_links({pair: links.select(out)}),
    )


def lastfm_by_tenths(split: int) -> Parts:
    """Return LastFM with 8 and with 9 tenths of its links, and the last tenth."""
    graph = load_lastfm()
    pair, links = next(iter(graph.links.items()))
    tenth = np.random.default_rng([split, 1]).integers(10, size=len(links))
    parts = (tenth < 8, tenth < 9, tenth == 9)
    today, tomorrow, held = (graph.with_links({pair: links.select(part)}) for part in parts)
    return today, tomorrow, held


PROBLEMS: dict[str, Callable[[int], Parts]] = {
    "MovieLens by time": movielens_by_time,
    "LastFM by tenths": lastfm_by_tenths,
}


def timed(action: Callable[[], PMvGE]) -> tuple[PMvGE, float]:
    """Return a model and the processor seconds that it took."""
    started = time.process_time()
    model = action()
    return model, time.process_time() - started


def compare(name: str, split: int) -> dict[str, Any]:
    """Return AUC and seconds of the old model, of its update, and of a full refit."""
    today, tomorrow, held = PROBLEMS[name](split)

    def new() -> PMvGE:
        return PMvGE(random_state=split, progress=False)

    def auc(model: PMvGE) -> float:
        found = model.evaluate(held)["overall"]
        return round(float(found["roc_auc"]), 4)

    model, first = timed(lambda: new().fit(today))
    steps = model.history_[-1].step
    changes = model.changes(tomorrow)
    model, update = timed(lambda: model.update(tomorrow))
    refit, full = timed(lambda: new().fit(tomorrow))
    row = {"problem": name, "split": split, "new": changes, "steps": steps}
    row |= {"update_steps": model.history_[-1].step, "refit_steps": refit.history_[-1].step}
    row |= {"auc_update": auc(model), "auc_refit": auc(refit)}
    row |= {"difference": round(row["auc_update"] - row["auc_refit"], 4)}
    row |= {"seconds_first": round(first, 2), "seconds_update": round(update, 2)}
    return row | {"seconds_refit": round(full, 2), "time_ratio": round(update / full, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=PROBLEMS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for name in given.problems:
        for split in given.splits:
            rows.append(compare(name, split))
            print(json.dumps(rows[-1]), flush=True)
    if all(split < 100 for split in given.splits):
        (RESULTS / "update.json").write_text(json.dumps(rows, indent=1) + "\n")
    print("| problem | AUC, update | AUC, refit | difference | time of update / refit |")
    print("| --- | --- | --- | --- | --- |")
    for name in given.problems:
        part = [row for row in rows if row["problem"] == name]
        mean = {
            key: np.mean([row[key] for row in part])
            for key in ("auc_update", "auc_refit", "difference", "time_ratio")
        }
        print(
            f"| {name} | {mean['auc_update']:.4f} | {mean['auc_refit']:.4f} | "
            f"{mean['difference']:+.4f} | {mean['time_ratio']:.2f} |"
        )


if __name__ == "__main__":
    main()
