"""The journal in which ``pmvge tune`` stores its trials."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np

from fuzzing.target import Target
from pmvge import MultiViewGraph
from pmvge.tuning import SEARCHED, Tuned, tune

SETTINGS = set(SEARCHED)
FIXED = {"max_steps": 2}


@cache
def graph() -> MultiViewGraph:
    return MultiViewGraph({"a": 4, "b": 3}, {("a", "b"): (np.arange(4), np.arange(4) % 3)})


def search(study: Path, trials: int) -> Tuned:
    """Tune without fits: the file that stores the trials is under test."""
    gains = iter(np.linspace(0.1, 0.9, 9))
    with patch("pmvge.tuning.search._gain", lambda *_: float(next(gains))):
        return tune(graph(), graph(), study=study, trials=trials, fixed=FIXED)


def make_journal(folder: Path) -> None:
    """Write a journal; replace the worker and the times, which differ between runs."""
    path = folder / "study.log"
    search(path, 3)
    text = re.sub(r'("worker_id":")[^"]*', r"\g<1>worker-1", path.read_text())
    path.write_text(re.sub(r'"20\d\d-[^"]*"', '"2020-01-01T00:00:00+00:00"', text))


def make_entries(folder: Path) -> None:
    """Write a journal as one JSON text, so that its values can be mutated."""
    make_journal(folder)
    path = folder / "study.log"
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    path.with_name("entries.json").write_text(json.dumps(entries))
    path.unlink()


# -- readers ------------------------------------------------------------------------------------


def resume(study: Path) -> None:
    """Resume the search twice and check the settings it finds."""
    for trials in (4, 5):
        found = search(study, trials)
        assert found.trials >= trials
        assert math.isfinite(found.gain)
        assert set(found.settings) <= {*SETTINGS, *FIXED}
        assert 8 <= found.settings["n_components"] <= 256


def read_journal(folder: Path, output: Path) -> None:
    study = output / "study.log"
    study.write_bytes((folder / "study.log").read_bytes())
    resume(study)


def read_entries(folder: Path, output: Path) -> None:
    study, data = output / "study.log", (folder / "entries.json").read_bytes()
    try:
        study.write_text("".join(f"{json.dumps(entry)}\n" for entry in json.loads(data)))
    except (ValueError, TypeError, RecursionError):
        study.write_bytes(data)
    resume(study)


TARGETS = [
    Target("journal", make_journal, read_journal, share=0.5),
    Target("journal entries", make_entries, read_entries, as_json=("*.json",), share=0.5),
]
