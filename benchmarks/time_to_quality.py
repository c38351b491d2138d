"""Measure AUC of unseen entities against processor seconds, for a default fit and for rivals.

Problems are the four simulated ones (``problems.poisson_links``), seeds 0 to 2. PMvGE is fitted
with its defaults, except for 16 components as all methods; its curve has shorter trainings, too,
and its last point is the default fit, to which the goals apply. LightFM (logistic and WARP) is one
run of 30 epochs, scored in between; two towers are separate runs. Their settings are those of
``rivals``, chosen on seed 100. Times are processor time on one thread, medians over seeds.

    OMP_NUM_THREADS=1 python benchmarks/time_to_quality.py
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import rivals
import torch
from output import write
from peers import best, draw, finite, medians, time_to
from problems import ColdStart, poisson_links
from rivals import CHOICES, Curve, measure

from pmvge import PMvGE

PROBLEMS = {
    f"{strength}, {kind}": {"strong": strength == "strong", "nonlinear": kind == "non-linear"}
    for strength in ("weak", "strong")
    for kind in ("linear", "non-linear")
}
GOALS = {"weak": 0.2, "strong": 0.1}  # of LightFM's time
STEPS = [25, 50, 100, 200, 400, None]  # None: the default
EPOCHS = [1, 2, 3, 5, 8, 12, 20, 30]
TOWER_STEPS = [20, 40, 80, 160, 320, 640, 1280]


def pmvge(problem: ColdStart, seed: int) -> Curve:
    """Yield default fits of at most so many steps."""
    for steps in STEPS:
        model = PMvGE(rivals.K, max_steps=steps, random_state=seed, progress=False)
        model.fit(problem.train)
        yield lambda model=model: (
            model.vectors("left", problem.left, among="right"),
            model.vectors("right", problem.right, among="left", side="candidate"),
        )


def curves(problem: ColdStart, seed: int) -> dict[str, list[dict[str, float]]]:
    """Return the points of all methods on one problem."""
    found = {"PMvGE, defaults": measure(pmvge(problem, seed), problem, resumed=False)}
    for loss in ("logistic", "warp"):
        settings = CHOICES[f"LightFM {loss}"][0]
        curve = rivals.light_fm(problem, seed, loss=loss, epochs=EPOCHS, **settings)
        found[f"LightFM {loss}"] = measure(curve, problem, resumed=True)
    towers = rivals.two_towers(problem, seed, steps=TOWER_STEPS, **CHOICES["two towers"][0])
    found["two towers"] = measure(towers, problem, resumed=False)
    return found


def summary(points: dict[str, list[dict[str, float]]]) -> dict[str, float]:
    """Return the default fit's AUC and time, and both relative to the rivals'."""
    ours, fm = points["PMvGE, defaults"], points["LightFM logistic"][-1]
    towers, default = best(points["two towers"]), ours[-1]

    def ratio(rival: dict[str, float]) -> float:
        reached = default["auc"] >= rival["auc"]
        return default["seconds"] / rival["seconds"] if reached else np.inf

    return {
        "auc": default["auc"],
        "seconds": default["seconds"],
        "lightfm_auc": fm["auc"],
        "lightfm_seconds": fm["seconds"],
        "towers_auc": towers["auc"],
        "towers_seconds": towers["seconds"],
        "over_lightfm": ratio(fm),
        "over_towers": ratio(towers),
        "shorter_over_lightfm": time_to(ours, fm["auc"]) / fm["seconds"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    list(pmvge(poisson_links(strong=False, nonlinear=False, seed=99), 99))[:1]  # load and compile
    results: dict[str, Any] = {}
    for name, kind in PROBLEMS.items():
        by_seed = [curves(poisson_links(**kind, seed=s), s) for s in range(given.seeds)]
        row = medians([summary(each) for each in by_seed])
        goal = GOALS[name.partition(",")[0]]
        results[name] = {"row": row, "curves": medians(by_seed)}
        print(
            f"{name:20} AUC {row['auc']:.4f} in {row['seconds']:.1f} s; LightFM "
            f"{row['lightfm_auc']:.4f} in {row['lightfm_seconds']:.1f} s, ratio "
            f"{row['over_lightfm']:.2f} (goal {goal}); towers {row['towers_auc']:.4f} in "
            f"{row['towers_seconds']:.1f} s, ratio {row['over_towers']:.2f} (goal 1); a shorter "
            f"fit reaches LightFM's AUC at {row['shorter_over_lightfm']:.2f}",
            flush=True,
        )
    write("time_to_quality", finite(results), draw(results), image=True)


if __name__ == "__main__":
    main()
