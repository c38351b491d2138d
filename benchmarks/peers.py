"""Compare PMvGE with other libraries in quality and time, on links of new entities.

Problems: the two-view Poisson problem, weak or strong, linear or not (``problems.poisson_links``),
and a million links of users to films, a fifth of the films new (``problems.film_links``). Methods:
PMvGE with linear maps and with networks, and in ``rivals`` LightFM with three losses, two towers
and GraphSAGE, all with 16 components. DeepWalk cannot embed a new entity and has no curve; "known
entities" compares it with PMvGE on a tenth of the training links, held out.

Quality: ROC AUC and average precision over all test pairs, the mean of the AUC of each left entity
(ranking losses do not learn which entities have many links), and recall@10. Seconds are processor
time on one thread, with set-up and without embedding and scoring the test entities. LightFM's curve
is one run; for all others every point is a separate fit. The table shows PMvGE with its longest fit
and the others with the point of their curve that has the best AUC. "to LightFM" is the time to the
final AUC of the best LightFM, over that LightFM's time; "to towers" is the time to the best AUC of
the two towers, over theirs. Both are medians over seeds, inf if the AUC was not reached.

Settings were chosen by AUC on seed 100, which is not reported, once for all problems. PMvGE's: from
about forty, of similarity, batch (128 to 1,024), rate (2e-3 to 2e-2), decay (0 to 10), dropout
(0 to 0.5), ReLU or tanh, and 64 to 512 hidden units. The rivals': from those in ``rivals``, in
shorter runs; ``--tune`` compares them. The two towers have PMvGE's network.

    OMP_NUM_THREADS=1 python benchmarks/peers.py
    OMP_NUM_THREADS=1 python benchmarks/peers.py --quick          # check that it runs
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from typing import Any

import numpy as np
import rivals
import torch
from output import RESULTS, write
from plotly.colors import qualitative
from plotly.subplots import make_subplots
from problems import ColdStart, film_links, poisson_links
from rivals import CHOICES, Curve, measure

from pmvge import PMvGE

Problem = Callable[[int], ColdStart]

PROBLEMS: dict[str, Problem] = {"films": lambda seed: film_links(seed=seed)} | {
    f"{strength}, {kind}": lambda seed, strong=strength == "strong", bent=kind == "non-linear": (
        poisson_links(strong=strong, nonlinear=bent, seed=seed)
    )
    for strength in ("weak", "strong")
    for kind in ("linear", "non-linear")
}
SMALL = {"small": lambda seed: film_links(seed=seed, n_users=300, n_films=100, n_links=3000)}
TUNING_SEED = 100
FILE = RESULTS / "peers.json"  # keeps the results of problems that are not run again
LIBRARIES = ("lightfm-next", "torch-geometric", "gensim")


SHARED: dict[str, Any] = {
    "n_components": rivals.K,
    "similarity": "inner",
    "effects": "none",
    "hidden_sizes": (rivals.HIDDEN,),  # of "mlp", as the next two
    "activation": "tanh",
    "dropout": 0.0,
    "schedule": "cosine",
    "patience": None,
    "progress": False,
}
NAMES = ("encoder", "batch_size", "learning_rate", "weight_decay")
OURS: dict[str, dict[str, Any]] = {
    "PMvGE linear": dict(zip(NAMES, ("linear", 128, 1e-2, 1.0), strict=True)),
    "PMvGE network": dict(zip(NAMES, ("mlp", rivals.BATCH, 5e-3, 3.0), strict=True)),
}
SETTINGS = OURS | {name: choices[0] for name, choices in CHOICES.items()}
# Steps, and LightFM's epochs, at which a method is scored.
LENGTHS: dict[str, list[int]] = {
    "PMvGE linear": [10, 20, 40, 80, 160, 320, 640, 1280],
    "PMvGE network": [20, 80, 320, 1280],
    "LightFM": [1, 2, 3, 4, 5, 7, 10, 14, 20, 25, 30],
    "two towers": [20, 40, 80, 160, 320, 640, 1280],
    "GraphSAGE": [20, 80, 160],
}
SHORT = {name: [2, 5] for name in LENGTHS}

QUALITIES = {"auc": "AUC", "ap": "AP", "auc_each": "AUC each", "recall": "recall@10"}
GOALS = {"weak": 0.2, "strong": 0.1}  # of LightFM's time; on other problems as on weak ones


def pmvge(problem: ColdStart, seed: int, *, steps: list[int], **settings: Any) -> Curve:
    """Yield fits of growing length, each from the start."""
    tested = (("left", problem.left), ("right", problem.right))
    for length in steps:
        model = PMvGE(**SHARED, **settings, max_steps=length, random_state=seed).fit(problem.train)
        yield lambda model=model: tuple(model.embed(*each) for each in tested)


def curve_of(
    name: str, problem: ColdStart, seed: int, lengths: dict[str, list[int]], settings: Any
) -> Curve:
    if name.startswith("LightFM"):
        loss = name.removeprefix("LightFM ")
        return rivals.light_fm(problem, seed, loss=loss, epochs=lengths["LightFM"], **settings)
    ways = {"two towers": rivals.two_towers, "GraphSAGE": rivals.graph_sage}
    way: Callable[..., Curve] = ways.get(name, pmvge)
    return way(problem, seed, steps=lengths[name], **settings)


def time_to(points: list[dict[str, float]], auc: float) -> float:
    return next((point["seconds"] for point in points if point["auc"] >= auc), np.inf)


def best(points: list[dict[str, float]]) -> dict[str, float]:
    return max(points, key=lambda point: point["auc"])


def summary(curves: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the row of every method for one seed."""
    fm = max((c[-1] for name, c in curves.items() if "LightFM" in name), key=lambda p: p["auc"])
    towers = best(curves["two towers"])
    return {
        name: (points[-1] if name in OURS else best(points))
        | {
            "to_lightfm": time_to(points, fm["auc"]) / fm["seconds"],
            "to_towers": time_to(points, towers["auc"]) / towers["seconds"],
        }
        for name, points in curves.items()
    }


def medians(runs: list[Any]) -> Any:
    """Return the median of every number, in dicts and lists of the same shape."""
    if isinstance(runs[0], dict):
        return {key: medians([run[key] for run in runs]) for key in runs[0]}
    if isinstance(runs[0], list):
        return [medians(list(each)) for each in zip(*runs, strict=True)]
    return float(np.median(runs))


def finite(value: Any) -> Any:
    """Replace infinity, which JSON cannot represent, by None."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [finite(each) for each in value]
    return None if value == np.inf else value


def goals_of(problem: str, rows: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return the goals, each for the better PMvGE."""
    ours, others = ([r for n, r in rows.items() if (n in OURS) is mine] for mine in (True, False))
    goals: dict[str, Any] = {}
    for key, head in QUALITIES.items():
        ahead = max(row[key] for row in ours) - max(row[key] for row in others)
        goals[f"{head}, ahead of the best other"] = {"value": ahead, "goal": 0.0, "met": ahead >= 0}
    share = GOALS.get(problem.partition(",")[0], 0.2)
    for key, head, most in (("to_lightfm", "LightFM", share), ("to_towers", "the towers", 1.0)):
        ratio = min(row[key] for row in ours)
        goals[f"time to the AUC of {head}"] = {"value": ratio, "goal": most, "met": ratio <= most}
    return goals


def print_rows(problem: str, result: dict[str, Any]) -> None:
    heads = [*QUALITIES.values(), "seconds", "to LightFM", "to towers"]
    keys = [*QUALITIES, "seconds", "to_lightfm", "to_towers"]
    print(f"\n{problem:20}" + "".join(f"{head:>12}" for head in heads))
    for name, row in result["rows"].items():
        cells = [f"{row[k]:12.4f}" if k in QUALITIES else f"{row[k]:12.3g}" for k in keys]
        print(f"{name:20}" + "".join(cells))
    for name, row in result["known"].items():
        scores = "  ".join(f"{key} {value:.4g}" for key, value in row.items())
        print(f"  known entities, {name:14} {scores}")
    for name, goal in result["goals"].items():
        met = "met" if goal["met"] else "missed"
        print(f"  {name}: {goal['value']:+.4f}, goal {goal['goal']:g}: {met}")


def draw(results: dict[str, Any]) -> Any:
    figure = make_subplots(1, len(results), subplot_titles=list(results))
    for column, result in enumerate(results.values(), 1):
        for colour, (name, points) in zip(qualitative.D3, result["curves"].items(), strict=False):
            figure.add_scatter(
                x=[p["seconds"] for p in points], y=[p["auc"] for p in points], name=name,
                mode="lines+markers", line_color=colour, legendgroup=name,
                showlegend=column == 1, row=1, col=column,
            )  # fmt: skip
    figure.update_xaxes(type="log", dtick=1, title="seconds")
    figure.update_yaxes(title="ROC AUC, new entities", col=1)
    return figure


# -- running ------------------------------------------------------------------------------------


def log(*words: Any) -> None:
    print(time.strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


def make(name: str, seed: int, quick: bool) -> ColdStart:
    torch.set_num_threads(1)
    return (SMALL if quick else PROBLEMS)[name](seed)


def run(name: str, seed: int, method: str, quick: bool) -> list[dict[str, float]]:
    """Return the curve of a method on a problem; called in a separate process."""
    problem, settings = make(name, seed, quick), SETTINGS[method]
    # Load and compile first: this time is not part of the curve.
    list(curve_of(method, make("small", 0, True), 0, SHORT, settings))
    curve = curve_of(method, problem, seed, SHORT if quick else LENGTHS, settings)
    points = measure(curve, problem, resumed="LightFM" in method)
    log(f"{name}, {seed}, {method}: best AUC {best(points)['auc']:.4f}")
    return points


def run_known(name: str, quick: bool) -> dict[str, dict[str, float]]:
    lengths = SHORT if quick else LENGTHS
    models = {name: PMvGE(**SHARED, **OURS[name], max_steps=lengths[name][-1]) for name in OURS}
    return rivals.known_links(make(name, 0, quick), 0, models)


def run_all(names: list[str], seeds: int, jobs: int, quick: bool) -> dict[str, Any]:
    tasks = [
        (name, seed, method, quick)
        for name in names
        for seed in range(1 if name == "films" else seeds)
        for method in SETTINGS
    ]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        found = pool.map(run, *zip(*tasks, strict=True))
        known = pool.map(run_known, names, [quick] * len(names))
        curves: dict[str, dict[int, Any]] = {name: {} for name in names}
        for (name, seed, method, _), points in zip(tasks, found, strict=True):
            curves[name].setdefault(seed, {})[method] = points
        others = dict(zip(names, known, strict=True))
    results = {}
    for name, by_seed in curves.items():
        rows = [summary(each) for each in by_seed.values()]
        results[name] = {
            "seeds": len(rows),
            "rows": medians(rows),
            "goals": goals_of(name, medians(rows)),
            "known": others[name],
            "curves": medians(list(by_seed.values())),
            "by_seed": rows,
        }
    return results


def tune(name: str) -> None:
    """Print the final quality of every choice on the tuning seed, and the best in brackets."""
    problem = PROBLEMS[name](TUNING_SEED)
    for method, choices in CHOICES.items():
        for choice in choices:
            curve = curve_of(method, problem, TUNING_SEED, LENGTHS, choice)
            points = measure(curve, problem, resumed="LightFM" in method)
            scores = "  ".join(
                f"{head} {points[-1][key]:.4f} ({max(p[key] for p in points):.4f})"
                for key, head in QUALITIES.items()
            )
            seconds = f"{best(points)['seconds']:.1f} of {points[-1]['seconds']:.1f} s"
            print(f"{name:18} {method:16} {choice}: {scores}  {seconds}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument(
        "--seeds", type=int, default=3, help="seeds of all problems except films, which has one"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument(
        "--quick", action="store_true", help="a small problem, to check that it runs"
    )
    parser.add_argument("--tune", action="store_true", help="compare the settings in CHOICES")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.tune:
        for name in arguments.problem:
            tune(name)
        return
    names = list(SMALL) if arguments.quick else arguments.problem
    results = run_all(names, arguments.seeds, arguments.jobs, arguments.quick)
    for name, result in results.items():
        print_rows(name, result)
    if arguments.quick:
        return
    kept = json.loads(FILE.read_text())["results"]["problems"] if FILE.exists() else {}
    results = {name: each for name, each in (kept | results).items() if name in PROBLEMS}
    report = {
        "libraries": {name: version(name) for name in LIBRARIES},
        "settings": {"shared by PMvGE": SHARED, **SETTINGS},
        "lengths": LENGTHS,
        "problems": finite(results),
    }
    write("peers", report, draw(results), image=True)


if __name__ == "__main__":
    main()
