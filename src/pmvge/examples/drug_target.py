"""Kinase inhibitors and kinases (the set davis) as arrays, with unseen ones of both kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pmvge.datasets import FOLDS, load_bipartite
from pmvge.examples.csv_files import write_csv

SET = "davis"
VIEWS = ("drug", "kinase")


def write_drug_target(folder: Path) -> None:
    """Write similarities and links of training entities, and of a third of each side ``later``.

    The features of every entity, unseen ones too, are its similarities to training entities.
    """
    data = load_bipartite(SET)
    rng = np.random.default_rng(0)
    (folder / "later").mkdir(parents=True, exist_ok=True)
    parts, names = [], []
    for view, similarity in zip(VIEWS, (data.rows, data.columns), strict=True):
        n = len(similarity)
        order = rng.permutation(n)
        train, new = np.sort(order[n // FOLDS[SET] :]), np.sort(order[: n // FOLDS[SET]])
        name = np.array([f"{view}-{row:03d}" for row in range(n)])
        for path, rows in ((f"{view}s.npz", train), (f"later/new_{view}s.npz", new)):
            columns: dict[str, Any] = {
                f"{view}_id": name[rows],
                "similarity": similarity[np.ix_(rows, train)].astype(np.float32),
            }
            np.savez(folder / path, **columns)
        parts.append((train, new))
        names.append(name)
    for path, at in (("bindings.csv", 0), ("later/new_bindings.csv", 1)):
        drugs, kinases = parts[0][at], parts[1][at]
        i, j = np.nonzero(data.links[np.ix_(drugs, kinases)])
        pairs = zip(names[0][drugs[i]], names[1][kinases[j]], strict=True)
        write_csv(folder / path, ("drug_id", "kinase_id"), pairs)
