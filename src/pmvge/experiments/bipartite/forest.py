"""Forests of bipartite_learn, which run in another Python environment.

bipartite_learn 0.7.5 needs numpy below 2 and scikit-learn below 1.4, which pmvge does not support.
Make an environment for it, and set ``PMVGE_FORESTS_PYTHON`` to its interpreter::

    python -m venv forests
    forests/bin/pip install bipartite-learn==0.7.5
    export PMVGE_FORESTS_PYTHON=$PWD/forests/bin/python

Arrays are passed in files of a temporary folder to ``forest_worker.py``.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import InputError, one_line, short

Array = NDArray[Any]
INTERPRETER = "PMVGE_FORESTS_PYTHON"
WORKER = Path(__file__).with_name("forest_worker.py")
ADVICE = (
    "make an environment with 'python -m venv forests' and 'forests/bin/pip install "
    f"bipartite-learn==0.7.5', and set {INTERPRETER} to its interpreter (forests/bin/python)"
)
LEAVE_OUT = "or leave the method out with --methods"


def missing_interpreter() -> str:
    """Return what to do if ``PMVGE_FORESTS_PYTHON`` is not set, else ""."""
    if os.environ.get(INTERPRETER):
        return ""
    return f"forest needs 'bipartite_learn', but {INTERPRETER} is not set: {ADVICE}"


def check_interpreter() -> None:
    """Raise InputError if ``PMVGE_FORESTS_PYTHON`` is not set or cannot import bipartite_learn."""
    if missing := missing_interpreter():
        raise InputError(f"{missing}, {LEAVE_OUT}")
    if failure := _run():
        raise InputError(
            f"{INTERPRETER}: expected an interpreter that imports 'bipartite_learn', got "
            f"{short(os.environ[INTERPRETER], 200)} ({failure}): {ADVICE}, "
            f"{LEAVE_OUT}"
        )


def forest_scores(
    rows: Array,
    columns: Array,
    links: Array,
    scored_rows: Array,
    scored_columns: Array,
    settings: Mapping[str, Any],
) -> Array:
    """Fit extra-trees to links (n, m) and return the scores (rows, columns) of the pairs to score.

    ``settings`` are parameters of BipartiteExtraTreesRegressor. Raise InputError if the interpreter
    of ``PMVGE_FORESTS_PYTHON`` fails.
    """
    if missing := missing_interpreter():
        raise InputError(missing)
    with TemporaryDirectory(prefix="pmvge-forest-") as folder:
        problem, scores = Path(folder, "problem.npz"), Path(folder, "scores.npz")
        np.savez(
            problem,
            rows=rows,
            columns=columns,
            links=links,
            scored_rows=scored_rows,
            scored_columns=scored_columns,
        )
        if failure := _run(str(problem), str(scores), json.dumps(dict(settings))):
            raise InputError(f"forest: {short(os.environ[INTERPRETER], 200)} failed: {failure}")
        with np.load(scores) as found:
            return np.asarray(found["scores"])


def _run(*arguments: str) -> str:
    """Run the worker; return "" if it succeeds, else the last line of its errors.

    The option -I keeps ``PYTHONPATH`` and the worker's folder, whose files have names of common
    modules, out of ``sys.path``.
    """
    command = [os.environ[INTERPRETER], "-I", str(WORKER), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError as error:
        return one_line(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.strip().splitlines()
    return one_line(lines[-1]) if lines else f"exit status {done.returncode}"
