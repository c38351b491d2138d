"""Choose the default settings: compare candidates on all problems, on splits 100 to 109 only.

Every candidate is BASE with some settings changed. Problems are those of tasks.py; PMVGE_DATA must
name the folder with the real data. Results are appended to results/defaults.json, and a run
continues where the last one ended. The table shows, for each problem, the mean over splits of the
mean of its scores, in percent; the last columns are the largest regret of a candidate, which is the
difference to the best one in the units of the problem's noise, and its mean.

    PMVGE_DATA=path/to/data python benchmarks/defaults.py --minutes 90
    python benchmarks/defaults.py --minutes 0      # only print the table
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from output import RESULTS
from tasks import TASKS

from pmvge.encoders import Effects
from pmvge.training.schedule import WarmupHoldDecay

FILE = RESULTS / "defaults.json"
BASE: dict[str, Any] = {
    "n_components": 100,
    "hidden_sizes": (128,),
    "activation": "relu",
    "dropout": 0.0,
    "effects": "vector",
    "similarity": "inner",
    "batch_size": 256,
    "learning_rate": 5e-3,
    "schedule": "auto",
    "weight_decay": 1.0,
    "patience": 5,
    "validation_fraction": 0.1,
}
OLD: dict[str, Any] = {  # the defaults of 0.1
    "hidden_sizes": (256,),
    "dropout": 0.3,
    "effects": "none",
    "similarity": "cosine",
    "batch_size": 512,
    "learning_rate": 2e-3,
    "schedule": "constant",
    "weight_decay": 0.0,
}
WORDS = {"similarity": "cosine", "dropout": 0.5, "weight_decay": 0.0}  # good on bags of words
# Constants of the code that are compared, too: the attribute of a class that a name stands for.
CONSTANTS = {
    "decay_share": (WarmupHoldDecay, "decay_share"),
    "effects_rate": (Effects, "lr_multiplier"),
}
CANDIDATES: dict[str, dict[str, Any]] = {
    "base": {},
    "defaults of 0.1": OLD,
    "cosine": {"similarity": "cosine"},
    "effects none": {"effects": "none"},
    "effects bias": {"effects": "bias"},
    "decay 0": {"weight_decay": 0.0},
    "decay 3": {"weight_decay": 3.0},
    "rate 2e-3": {"learning_rate": 2e-3},
    "batch 128": {"batch_size": 128},
    "batch 512": {"batch_size": 512},
    "dropout 0.3": {"dropout": 0.3},
    "linear": {"encoder": "linear"},
    "tanh": {"activation": "tanh"},
    "width 256": {"hidden_sizes": (256,)},
    "words": WORDS,
    "decay share 0.25": {"decay_share": 0.25},
    "decay share 1": {"decay_share": 1.0},
    "patience 3": {"patience": 3},
    "patience 8": {"patience": 8},
    "effects rate 1": {"effects_rate": 1.0},
    "effects rate 4": {"effects_rate": 4.0},
    "validation 0.05": {"validation_fraction": 0.05},
    "input dropout 0.2": {"input_dropout": 0.2},
    "prior 0.3": {"effects_prior": 0.3},
}
CHOSEN = {
    "learning_rate": 2e-3,
    "dropout": None,
    "weight_decay": None,
    "similarity": "auto",
    "effects": "auto",
}
# Combinations of the best of these.
SLOW = {"learning_rate": 2e-3, "weight_decay": 0.3}
CANDIDATES |= {
    "slow": SLOW,
    "slow, effects rate 4": {**SLOW, "effects_rate": 4.0},
    "slow, words": {**SLOW, **WORDS},
    "slow, words, decay 0.3": {**SLOW, **WORDS, "weight_decay": 0.3},
    "slow, words, effects bias": {**SLOW, **WORDS, "effects": "bias"},
    "slow, tanh": {**SLOW, "activation": "tanh"},
    "slow, patience 8": {**SLOW, "patience": 8},
    "slow, patience 3": {**SLOW, "patience": 3},
    "chosen": CHOSEN,
    "chosen, patience 3": {**CHOSEN, "patience": 3},
    "chosen, validation 0.05": {**CHOSEN, "validation_fraction": 0.05},
    "chosen, linear": {**CHOSEN, "encoder": "linear"},
}
SPLITS = range(100, 110)


@contextmanager
def constants(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Set the constants among the settings, and yield the parameters of PMvGE."""
    before = {name: getattr(*CONSTANTS[name]) for name in CONSTANTS}
    try:
        for name in CONSTANTS.keys() & settings.keys():
            setattr(*CONSTANTS[name], settings[name])
        yield {key: value for key, value in settings.items() if key not in CONSTANTS}
    finally:
        for name, value in before.items():
            setattr(*CONSTANTS[name], value)


def run(minutes: float, n_splits: int, names: list[str], tasks: list[str]) -> list[dict[str, Any]]:
    """Run the jobs that have no result yet, until time is up, and return all results."""
    rows = json.loads(FILE.read_text()) if FILE.exists() else []
    done = {(row["candidate"], row["task"], row["split"]) for row in rows}
    until = time.monotonic() + 60 * minutes
    for split in SPLITS[:n_splits]:
        for name in names:
            for task in tasks:
                if (name, task, split) in done or time.monotonic() > until:
                    continue
                with constants(BASE | CANDIDATES[name]) as settings:
                    started = time.process_time()
                    scores = TASKS[task](settings, split)
                    seconds = time.process_time() - started
                rows.append(
                    {"candidate": name, "task": task, "split": split}
                    | {"scores": scores, "seconds": round(seconds, 2)}
                )
                lines = ",\n ".join(json.dumps(row) for row in rows)
                FILE.write_text(f"[\n {lines}\n]\n")
                print(f"{name}: {task}, split {split}: {scores}, {seconds:.1f} s", flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Return the means of all candidates, their regrets and their processor seconds, as Markdown.

    The noise of a problem is the standard deviation, over splits and candidates, of the difference
    between a candidate and the base on one split, about the candidate's mean.
    """
    splits = {row["split"] for row in rows if row["candidate"] == "base"}
    value = {
        (row["candidate"], row["task"], row["split"]): 100 * np.mean(list(row["scores"].values()))
        for row in rows
        if row["split"] in splits
    }
    names = [n for n in CANDIDATES if all((n, t, s) in value for t in TASKS for s in splits)]
    means = np.array([[np.mean([value[n, t, s] for s in splits]) for t in TASKS] for n in names])
    paired = np.array(
        [[[value[n, t, s] - value["base", t, s] for s in splits] for t in TASKS] for n in names]
    )
    spread = paired[1:] - paired[1:].mean(2, keepdims=True)
    freedom = max(1, (len(names) - 1) * (len(splits) - 1))
    noise = np.maximum(np.sqrt((spread**2).sum((0, 2)) / freedom / len(splits)), 0.1)
    regret = (means.max(0) - means) / noise
    seconds = {
        n: sum(row["seconds"] for row in rows if row["candidate"] == n) / len(splits) for n in names
    }
    head = ["candidate", *TASKS, "largest regret", "mean regret", "seconds"]
    lines = [head, ["---"] * len(head)]
    for name, row, regrets in zip(names, means, regret, strict=True):
        numbers = [f"{mean:.1f}" for mean in row]
        lines.append(
            [
                name,
                *numbers,
                f"{regrets.max():.1f}",
                f"{regrets.mean():.2f}",
                f"{seconds[name]:.0f}",
            ]
        )
    lines.append(["noise", *(f"{each:.1f}" for each in noise), "", "", ""])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--candidates", nargs="*", default=list(CANDIDATES), choices=CANDIDATES)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=TASKS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = run(given.minutes, given.splits, given.candidates, given.tasks)
    print(table([row for row in rows if row["split"] in SPLITS[: given.splits]]))


if __name__ == "__main__":
    main()
