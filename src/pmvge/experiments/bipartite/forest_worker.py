"""Fit a forest of bipartite_learn and write its predictions: run as a file, in its own environment.

    python -I forest_worker.py problem.npz scores.npz '{"n_estimators": 30, "random_state": 0}'

``problem.npz`` has ``rows`` (n, p), ``columns`` (m, q), ``links`` (n, m), and the features of the
pairs to score, ``scored_rows`` and ``scored_columns``. ``scores.npz`` gets ``scores``, one row for
each scored row. The last argument has the settings as JSON. Without arguments bipartite_learn is
imported, and nothing else is done. This file imports nothing from pmvge.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module


def main(arguments: list[str]) -> None:
    """Read the problem, fit the forest and write the scores."""
    import numpy as np

    ensemble = import_module("bipartite_learn.ensemble")  # not a dependency of pmvge
    if not arguments:
        return
    problem, target, settings = arguments
    with np.load(problem) as given:
        rows, columns, links = given["rows"], given["columns"], given["links"]
        scored = [given["scored_rows"], given["scored_columns"]]
    forest = ensemble.BipartiteExtraTreesRegressor(**json.loads(settings))
    forest.fit([rows, columns], links)
    scores = np.asarray(forest.predict(scored)).reshape(len(scored[0]), len(scored[1]))
    np.savez(target, scores=scores)


if __name__ == "__main__":
    main(sys.argv[1:])
