"""Handwritten digits as a graph of four views, from the 1,797 scans that come with scikit-learn.

Every scan is seen in three ways, as three entities of different dimension, and digits have names:

- ``image``: the 8 x 8 pixels (64 columns);
- ``spectrum``: the magnitudes of their 2-d Fourier transform (40 columns);
- ``profile``: the ink in each row and each column (16 columns);
- ``name``: zero to nine, without features.

Links are many-to-many: an image is linked to a name as often as the name stands among the image and
its four nearest scans; an image and a spectrum, or a spectrum and a profile, are linked if they are
of one scan, or of near scans of one digit. The pairs (profile, name) and (image, profile) are never
observed: that they match in the shared space is something to be learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_digits as load_scans
from sklearn.neighbors import NearestNeighbors

from pmvge.graph import MultiViewGraph

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
NEIGHBOURS = 5  # the scan itself included


@dataclass(frozen=True, eq=False)
class Digits:
    """The graph, and the digit of each scan: row i of every view but ``name`` is scan i."""

    graph: MultiViewGraph
    labels: NDArray[np.int64]


def load_digits(test_fraction: float = 0.25, *, seed: int = 0) -> tuple[Digits, Digits]:
    """Training and test graphs without a scan, or a link, in common."""
    pixels, labels = load_scans(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    n_test = round(test_fraction * len(labels))
    parts = (np.sort(order[n_test:]), np.sort(order[:n_test]))
    train, test = (
        Digits(_graph(pixels[rows], labels[rows], rows), labels[rows].astype(np.int64))
        for rows in parts
    )
    return train, test


def _graph(pixels: NDArray[Any], labels: NDArray[Any], scans: NDArray[Any]) -> MultiViewGraph:
    n = len(labels)
    images = pixels.reshape(n, 8, 8)
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(pixels).kneighbors_graph(pixels)
    names = sparse.csr_array((np.ones(n), (np.arange(n), labels)), shape=(n, len(NAMES)))
    votes = sparse.csr_array(near) @ names
    same_digit = sparse.csr_array(near).multiply(names @ names.T)
    alike = ((same_digit + same_digit.T) > 0).astype(np.float64)
    return MultiViewGraph(
        views={
            "image": pixels.astype(np.float32),
            "spectrum": np.abs(np.fft.rfft2(images)).reshape(n, -1).astype(np.float32),
            "profile": np.hstack([images.sum(1), images.sum(2)]).astype(np.float32),
            "name": len(NAMES),
        },
        links={
            ("image", "name"): votes,
            ("image", "spectrum"): alike,
            ("spectrum", "profile"): alike,
        },
        ids={"image": scans, "spectrum": scans, "profile": scans, "name": list(NAMES)},
    )
