"""Measure how well training recovers a known truth: Poisson links between new entities.

For each problem (weak or strong signal, linear or non-linear features) and each way of training
(``block``, ``paper``, and all pairs exactly): ROC AUC, expected over observed weight, seconds.
Training on all pairs is the reference for the two sampling schemes.

    python benchmarks/recovery.py --signal strong    # block on 20 seeds, others on 3
    python benchmarks/recovery.py --signal weak --seeds 5 --reference-seeds 1
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from output import write
from plotly import graph_objects
from problems import ColdStart, poisson_links

from pmvge.errors import DivergedError
from pmvge.evaluation import expected_over_observed, link_auc
from pmvge.experiments.paper_model import paper_model

PROBLEMS = {
    f"{'strong' if strong else 'weak'}, {'non-linear' if nonlinear else 'linear'}": (
        strong,
        nonlinear,
    )
    for strong in (False, True)
    for nonlinear in (False, True)
}
TOLERANCE = 0.005  # AUC below the all-pairs optimum, on strong signals


def settings_of(way: str, n_links: int) -> dict[str, Any]:
    if way == "all pairs":  # views and links no larger than the batch are used in full
        return {"batch_size": n_links}
    return {"scheme": way}


def run(problem: ColdStart, way: str, seed: int, **options: Any) -> dict[str, float]:
    settings = settings_of(way, problem.train.n_links) | options
    start = time.perf_counter()
    try:
        model = paper_model(n_components=16, random_state=seed, progress=False, **settings)
        model.fit(problem.train)
    except DivergedError:
        return {"auc": np.nan, "e_over_o": np.nan, "seconds": time.perf_counter() - start}
    seconds = time.perf_counter() - start
    mu = model.intensity("left", problem.left, "right", problem.right)
    return {
        "auc": link_auc(problem.W, mu),
        "e_over_o": expected_over_observed(problem.W, mu),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="seeds of block")
    parser.add_argument("--reference-seeds", type=int, default=3, help="seeds of the other ways")
    parser.add_argument("--signal", choices=["weak", "strong"], help="by default both")
    parser.add_argument("--similarity", default=None, help="'inner' or 'cosine'")
    arguments = parser.parse_args()
    options = {} if arguments.similarity is None else {"similarity": arguments.similarity}
    rows = []
    chosen = {name: p for name, p in PROBLEMS.items() if (arguments.signal or "") in name}
    for name, (strong, nonlinear) in chosen.items():
        aucs: dict[str, list[float]] = {}
        for way in ("block", "all pairs", "paper"):
            seeds = range(arguments.seeds if way == "block" else arguments.reference_seeds)
            runs = [
                run(poisson_links(strong=strong, nonlinear=nonlinear, seed=s), way, s, **options)
                for s in seeds
            ]
            aucs[way] = [r["auc"] for r in runs]
            row = {key: float(np.nanmedian([r[key] for r in runs])) for key in runs[0]}
            failed = int(np.isnan(aucs[way]).sum())
            rows.append({"problem": name, "way": way, **row, "diverged": failed, "runs": len(runs)})
            print(
                f"{name:20} {way:10} AUC {row['auc']:.4f}  E/O {row['e_over_o']:6.2f}  "
                f"{row['seconds']:5.1f} s  diverged {failed}/{len(runs)}",
                flush=True,
            )
        shared = min(len(aucs["block"]), len(aucs["all pairs"]))
        gap = float(np.median(np.subtract(aucs["all pairs"][:shared], aucs["block"][:shared])))
        rows[-3]["below_all_pairs"] = gap
        print(f"{name:20} block is {gap:+.4f} below all pairs (goal {TOLERANCE} on strong)\n")
    figure = graph_objects.Figure()
    for way in ("block", "all pairs", "paper"):
        mine = [row for row in rows if row["way"] == way]
        figure.add_bar(name=way, x=[r["problem"] for r in mine], y=[r["auc"] for r in mine])
    figure.update_yaxes(range=[0.5, 1], title="ROC AUC, new entities")
    write(
        "-".join(filter(None, ["recovery", arguments.signal, arguments.similarity])), rows, figure
    )


if __name__ == "__main__":
    main()
