"""Models for benchmarks of the map: data sets with a tenth of the links left out, and simulations.

A model of a data set depends on a seed, which draws the links that are left out, the practice
tables and the starting weights. Settings of the map are chosen on seeds from 100 on.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pmvge import MultiViewGraph, PMvGE
from pmvge.datasets import load_cora, load_digits, load_lastfm, load_movielens
from pmvge.graph import hold_out_links
from pmvge.tables import read_tables, sketch_project

ROOT = Path(__file__).parents[1]
WIDTH, GROUPS = 32, 50  # of simulated vectors


def data_set(name: str, seed: int) -> PMvGE:
    """Fit a model with the default settings to nine tenths of the links of a data set."""
    graph = GRAPHS[name](seed)
    train, _ = hold_out_links(graph, 0.1, np.random.default_rng(seed))
    return PMvGE(random_state=seed, progress=False).fit(train, hold_out=0)


def films(seed: int) -> MultiViewGraph:
    """Return the graph of the practice tables."""
    with tempfile.TemporaryDirectory() as folder:
        script = ROOT / "examples" / "films.py"
        subprocess.run([sys.executable, script, folder, "--seed", str(seed)], check=True)
        return read_tables(sketch_project(folder).project).graph


def simulated(n: int, seed: int) -> PMvGE:
    """Return a model of n entities in two views, whose vectors are drawn from 50 groups.

    The views lie apart, as those of fitted models do. The encoders return the vectors as they are;
    training takes one step.
    """
    rng = np.random.default_rng(seed)
    centres, side = rng.normal(size=(GROUPS, WIDTH)), 2 * rng.normal(size=WIDTH)
    X = {}
    for view, m, sign in (("user", n // 5, 1), ("film", n - n // 5, -1)):
        group = rng.integers(GROUPS, size=m)
        noise = 0.5 * rng.normal(size=(m, WIDTH))
        X[view] = (0.6 * (centres[group] + noise) + sign * side).astype(np.float32)
    ends = tuple(rng.integers(len(rows), size=1000) for rows in X.values())
    graph = MultiViewGraph(X, {("user", "film"): ends})
    model = PMvGE(WIDTH, encoder="identity", similarity="inner", standardize=False, max_steps=1,
                  patience=None, random_state=seed, progress=False)  # fmt: skip
    return model.fit(graph)


GRAPHS: dict[str, Callable[[int], MultiViewGraph]] = {
    "MovieLens": lambda seed: load_movielens(),
    "LastFM": lambda seed: load_lastfm(),
    "films": films,
    "digits": lambda seed: load_digits(seed=seed)[0].graph,
    "Cora": lambda seed: load_cora().graph,
}
