"""The repulsive forces of t-SNE, by convolution on a grid.

References
----------
G. C. Linderman et al., "Fast interpolation-based t-SNE for improved visualization of single-cell
RNA-seq data", Nature Methods 2019.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import fft

SPACING = 0.33  # of the grid; the kernel 1 / (1 + d^2) has the width 1
MIN_NODES, MAX_NODES = 50, 700  # along the longer axis; the grid is finer or coarser for that
NODES = np.arange(4)  # of the cubic polynomials that interpolate, along an axis
MARGIN = 2  # nodes around the points


class Repulsion:
    r"""Sums over all points, :math:`\sum_j (y_i - y_j) / (1 + |y_i - y_j|^2)^2`.

    Points are spread over the nodes of a regular grid by cubic interpolation, a fast Fourier
    transform convolves the grid with the kernels, and the sums are interpolated at the points. The
    time is proportional to the number of points and to the area of the map.
    """

    def __init__(self) -> None:
        self._shape: tuple[int, ...] = ()
        self._spacing = 0.0
        self._kernels: list[NDArray[np.complex64]] = []
        self._nearby = np.empty((0, 0))

    def __call__(self, Y: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
        r"""Return the sums (n, 2), and :math:`\sum_{i \ne j} 1 / (1 + |y_i - y_j|^2)`."""
        low = Y.min(axis=0)
        width = Y.max(axis=0) - low
        self._prepare(width.astype(np.float64))
        shape = self._shape
        at, weights = _interpolation((Y - low) / self._spacing, shape[1])
        grid = np.bincount(at.ravel(), weights.ravel(), minlength=shape[0] * shape[1])
        charges = fft.rfft2(grid.reshape(shape).astype(np.float32))
        sums = [
            np.einsum("nk,nk->n", fft.irfft2(charges * kernel, s=shape).ravel()[at], weights)
            for kernel in self._kernels
        ]
        # A point's own term, as the grid has it; it is 0 in the other two sums.
        itself = np.einsum("nk,nk->n", weights @ self._nearby, weights)
        total = float((sums[0] - itself).sum(dtype=np.float64))
        least = len(Y) * (len(Y) - 1) / (1 + float(np.square(width, dtype=np.float64).sum()))
        return np.stack(sums[1:], axis=1), max(total, least) or 1.0

    def _prepare(self, width: NDArray[np.float64]) -> None:
        """Compute the kernels on a grid for points that take up this width, unless they are."""
        longer = max(float(width.max()), 1e-6)
        spacing = min(SPACING, longer / MIN_NODES)
        if (excess := longer / (MAX_NODES * spacing)) > 1:  # in steps, to keep the kernels
            spacing *= 1.1 ** math.ceil(math.log(excess, 1.1))
        nodes = np.ceil(width / spacing).astype(int) + 2 * MARGIN
        shape = tuple(fft.next_fast_len(2 * int(m), real=True) for m in nodes)
        if (shape, spacing) == (self._shape, self._spacing):
            return
        self._shape, self._spacing = shape, spacing
        self._kernels = [fft.rfft2(kernel) for kernel in _kernels(shape, spacing)]
        x, y = (part.ravel() * spacing for part in np.meshgrid(NODES, NODES, indexing="ij"))
        squares = np.square(x[:, None] - x) + np.square(y[:, None] - y)
        self._nearby = (1 / (1 + squares)).astype(np.float32)


def _kernels(shape: tuple[int, ...], spacing: float) -> list[NDArray[np.float32]]:
    """Return 1 / (1 + d^2), and x and y times its square, at all differences of two nodes."""
    x, y = (np.asarray(fft.fftfreq(m, 1 / (m * spacing)), np.float32) for m in shape)
    kernel = 1 / (1 + np.square(x)[:, None] + np.square(y))
    kernels = [kernel, x[:, None] * kernel**2, y * kernel**2]
    return [np.asarray(part, np.float32) for part in kernels]


def _interpolation(
    places: NDArray[np.float32], width: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the nodes (n, 16) around each place, in units of the grid, and their weights.

    All nodes are moved by 1, so that the leftmost one of a place at 0 is 0.
    """
    first = np.floor(places).astype(np.int64)
    u = places - first
    x, y = (_cubic(u[:, axis]) for axis in (0, 1))
    rows, columns = (first[:, axis, None] + NODES for axis in (0, 1))
    at = rows[:, :, None] * width + columns[:, None, :]
    weights = x[:, :, None] * y[:, None, :]
    return at.reshape(len(at), -1), weights.reshape(len(at), -1).astype(np.float32)


def _cubic(u: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return weights (n, 4) of the values at -1, 0, 1 and 2 that interpolate at u in [0, 1)."""
    weights: NDArray[np.float32] = np.stack(
        [
            -u * (u - 1) * (u - 2) / 6,
            (u + 1) * (u - 1) * (u - 2) / 2,
            -(u + 1) * u * (u - 2) / 2,
            (u + 1) * u * (u - 1) / 6,
        ],
        axis=1,
    )
    return weights
