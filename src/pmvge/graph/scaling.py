"""Scale and shift that standardise features.

Encoders standardise the rows of a graph in float32. Tables standardise numbers and dates before
they become float32, which would round large ones such as timestamps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from pmvge.graph.features import scan

MAX_ROWS = 1 << 16  # rows that column statistics are computed from
RESOLUTION = 1e-7  # relative resolution of float32
TINY = 1e-30  # deviations and norms up to this count as 0: encoders compute in float32


def column_scaling(X: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the (scale, shift) that standardise each column, x * scale + shift.

    Rows of more than one dimension are flattened. A constant column (see :func:`standard_scale`)
    gets scale 0 and shift 0, which removes it. At most ``MAX_ROWS`` evenly spaced rows are read,
    which limits the cost on a memory map.
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
    scale = standard_scale(mean, np.sqrt(square / len(rows)))
    return scale.astype(np.float32), (-mean * scale).astype(np.float32)


def standard_scale(mean: ArrayLike, deviation: ArrayLike) -> NDArray[np.float64]:
    """Return 1 / deviation of each column, 0 if it is constant.

    A column is constant if float32 cannot represent its variation around its mean.
    """
    deviation = np.asarray(deviation, dtype=np.float64)
    varies = deviation > np.maximum(RESOLUTION * np.abs(mean), TINY)
    scale = np.zeros_like(deviation)
    np.divide(1.0, deviation, out=scale, where=varies)
    return scale


def row_scaling(X: sparse.csr_array) -> float:
    """Return the factor that scales the rows of a CSR matrix to a mean squared norm of 1."""
    total = sum(float(np.square(part, dtype=np.float64).sum()) for _, part in scan(X))
    norm = float(np.sqrt(total / X.shape[0]))
    return 1 / norm if norm > TINY else 1.0
