"""Scale and shift that standardise features, computed from the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.graph.features import scan

MAX_ROWS = 1 << 16  # rows that column statistics are computed from
RESOLUTION = 1e-7  # relative resolution of float32
TINY = 1e-30  # deviations and norms up to this count as 0: encoders compute in float32


def column_scaling(X: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the (scale, shift) that standardise each column, x * scale + shift.

    Rows of more than one dimension are flattened. A column that is constant in float32 (see
    :func:`varies`) gets scale 0 and shift 0, which removes it. At most ``MAX_ROWS`` evenly spaced
    rows are read, which limits the cost on a memory map.
    """
    stride = -(-X.shape[0] // MAX_ROWS)
    rows = X[::stride].reshape(-(-X.shape[0] // stride), -1)
    mean = np.zeros(rows.shape[1])
    square = np.zeros(rows.shape[1])
    for _, part in scan(rows):
        mean += part.sum(axis=0, dtype=np.float64)
    mean /= len(rows)
    for _, part in scan(rows):
        square += ((part - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(square / len(rows))
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies(mean, deviation))
    return scale.astype(np.float32), (-mean * scale).astype(np.float32)


def varies(mean: NDArray[np.float64], deviation: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether float32 can represent the variation of columns around their means."""
    return np.asarray(deviation > np.maximum(RESOLUTION * np.abs(mean), TINY))


def row_scaling(X: sparse.csr_array) -> float:
    """Return the factor that scales the rows of a CSR matrix to a mean squared norm of 1."""
    total = sum(float(np.square(part, dtype=np.float64).sum()) for _, part in scan(X))
    norm = float(np.sqrt(total / X.shape[0]))
    return 1 / norm if norm > TINY else 1.0
