"""Six interaction sets: drugs and targets, and kinds of RNA, with similarities within each side.

The folder ``bipartite`` has one folder for each set, with ``X1.npy`` and ``X2.npy``, the square
similarity matrices of the rows and columns, and ``y.npy``, links of weight 0 or 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.datasets.downloads import data_folder
from pmvge.errors import InputError, choose, one_line
from pmvge.graph import MultiViewGraph

SOURCE = "https://github.com/pedroilidio/oxytrees2025"
ADDRESS = (
    "https://raw.githubusercontent.com/pedroilidio/oxytrees2025/"
    "a8a9d1cdb75bc02268de35dcaaa25c3aa7a46df8/experiments/datasets/"
)
PARTS = ("X1.npy", "X2.npy", "y.npy")
# The number of folds of each side in the published benchmark.
FOLDS = {"dpi_n": 4, "te_pirna": 4, "dpi_g": 3, "davis": 3, "lncrna_mirna": 3, "dpi_e": 2}


class Bipartite(NamedTuple):
    """Similarities of the rows (n, n) and of the columns (m, m), and links (n, m)."""

    rows: NDArray[np.float64]
    columns: NDArray[np.float64]
    links: NDArray[np.float64]


def load_bipartite(name: str, folder: Path | None = None) -> Bipartite:
    """Return one of the six sets.

    ``folder`` is by default the folder ``bipartite`` of the data folder. Raise InputError if a
    file is missing or damaged, and ParameterError if the name is unknown.
    """
    choose("set", name, FOLDS, "load_bipartite")
    folder = (data_folder() / "bipartite" if folder is None else folder) / name
    found: list[NDArray[Any]] = []
    for part in PARTS:
        path = folder / part
        if not path.is_file():
            raise InputError(
                f"{folder}: {name} not found: expected {part} (from {SOURCE}); run 'pmvge datasets "
                "download bipartite', or set PMVGE_DATA to the folder that contains 'bipartite'"
            )
        try:
            found.append(np.load(path).astype(np.float64))
        except (ValueError, OSError, EOFError) as error:
            raise InputError(f"{path}: cannot be read as an array: {one_line(error)}") from error
    rows, columns, links = found
    n, m = links.shape if links.ndim == 2 else (-1, -1)
    if rows.shape != (n, n) or columns.shape != (m, m):
        shapes = " and ".join(str(each.shape) for each in (rows, columns))
        raise InputError(
            f"{folder}: expected similarities (n, n) and (m, m) of links (n, m), got {shapes} of "
            f"{links.shape}"
        )
    return Bipartite(rows, columns, links)


def bipartite_graph(name: str, folder: Path | None = None) -> MultiViewGraph:
    """Return the graph of one set: the features of an entity are its similarities to its side."""
    data = load_bipartite(name, folder)
    views = {"row": data.rows.astype(np.float32), "column": data.columns.astype(np.float32)}
    return MultiViewGraph(views, {("row", "column"): data.links})


def find_bipartite(folder: Path) -> Path | None:
    """Return the folder if it has all files of the six sets, else None."""
    files = (folder / name / part for name in FOLDS for part in PARTS)
    return folder if all(path.is_file() for path in files) else None
