"""Frequencies of side effects: 759 drugs, 994 effects, and 37,441 weights from 1 to 5.

The publisher's file ``FrequencyData.mat`` (a MATLAB file with the matrix ``R``) is read from the
folder ``side_effects``. A weight is a class of frequency, from very rare (1) to very frequent (5).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import io, sparse

from pmvge.datasets.downloads import data_folder
from pmvge.errors import InputError, one_line
from pmvge.graph import MultiViewGraph

FILE, MATRIX = "FrequencyData.mat", "R"
SOURCE = "https://github.com/paccanarolab/Side-effect-Frequencies"
ADDRESS = (
    "https://raw.githubusercontent.com/paccanarolab/Side-effect-Frequencies/"
    "519387797c7de233ce91fe86061c7c5bc389f7b6/data%20analysis/data/FrequencyData.mat"
)


def load_side_effects(folder: Path | None = None) -> MultiViewGraph:
    """Return a graph of drugs and side effects, without features and with default ids.

    ``folder`` is by default the folder ``side_effects`` of the data folder. Raise InputError if the
    file is missing or damaged.
    """
    folder = data_folder() / "side_effects" if folder is None else folder
    path = folder / FILE
    if not path.is_file():
        raise InputError(
            f"{folder}: side effects not found: expected {FILE} (from {SOURCE}); run 'pmvge "
            "datasets download side_effects', or set PMVGE_DATA to the folder that contains "
            "'side_effects'"
        )
    try:
        matrix = io.loadmat(path, variable_names=[MATRIX])[MATRIX]
        R = np.asarray(matrix.todense() if sparse.issparse(matrix) else matrix, np.float64)
    except Exception as error:  # scipy raises many kinds for damaged files
        raise InputError(f"{path}: cannot be read as a MATLAB file: {one_line(error)}") from error
    if R.ndim != 2 or not np.isfinite(R).all() or (R < 0).any():
        raise InputError(f"{path}: expected a matrix {MATRIX} of frequencies, got shape {R.shape}")
    return MultiViewGraph({"drug": R.shape[0], "effect": R.shape[1]}, {("drug", "effect"): R})


def find_side_effects(folder: Path) -> Path | None:
    """Return the file that ``load_side_effects`` reads, or None."""
    path = folder / FILE
    return path if path.is_file() else None
