"""Scale and shift of features, from the training rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.graph.features import SMALLEST, scan

SAMPLE = 1 << 16  # rows that column statistics are taken from


def column_scaling(X: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The (scale, shift) that standardises each column (rows flattened): x * scale + shift.

    A column that is constant, up to what float32 can on_progress, gets 0 and 0: it is left out.
    Taken from at most ``SAMPLE`` evenly spaced rows, so that it costs little on a memory map.
    """
    stride = -(-X.shape[0] // SAMPLE)
    rows = X[::stride].reshape(-(-X.shape[0] // stride), -1)
    mean = np.zeros(rows.shape[1])
    square = np.zeros(rows.shape[1])
    for _, part in scan(rows):
        mean += part.sum(axis=0, dtype=np.float64)
    mean /= len(rows)
    for _, part in scan(rows):
        square += ((part - mean) ** 2).sum(axis=0)
    deviation = np.sqrt(square / len(rows))
    varies = deviation > np.maximum(1e-7 * np.abs(mean), SMALLEST)
    scale = np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
    return scale.astype(np.float32), (-mean * scale).astype(np.float32)


def row_scaling(X: sparse.csr_array) -> float:
    """The factor that brings the rows of a CSR matrix to a mean square norm of 1."""
    total = sum(float(np.square(part, dtype=np.float64).sum()) for _, part in scan(X))
    norm = float(np.sqrt(total / X.shape[0]))
    return 1 / norm if norm > SMALLEST else 1.0
