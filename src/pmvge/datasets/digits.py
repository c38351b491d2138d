"""Handwritten digits as a graph of four views, from the 1,797 scans in scikit-learn.

Every scan gives three entities with different features, and every digit has a name:

- ``image``: the 8 x 8 pixels (64 columns);
- ``spectrum``: the magnitudes of their 2-d Fourier transform (40 columns);
- ``profile``: the sum of the pixels of each row and each column (16 columns);
- ``name``: zero to nine, without features.

Links are many-to-many. The weight of a link between an image and a name is the number of scans with
that name among the image and its four nearest scans. An image and a spectrum, or a spectrum and a
profile, are linked if their scans show the same digit and have similar pixels (a distance of at
most 22). Names are linked to images only, so a model has to predict the names of spectra and
profiles.
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
NEIGHBOURS = 5  # nearest scans whose names an image is linked to, itself included
RADIUS = 22.0  # largest Euclidean distance of pixels (0..16) of similar scans


@dataclass(frozen=True, eq=False)
class Digits:
    """The graph, and the digit of each scan; row i of every view but ``name`` is scan i."""

    graph: MultiViewGraph
    labels: NDArray[np.int64]


def load_digits(test_fraction: float = 0.25, *, seed: int = 0) -> tuple[Digits, Digits]:
    """Return a training and a test graph that have no scan and no link in common."""
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
    scans_near = NearestNeighbors(n_neighbors=NEIGHBOURS, radius=RADIUS).fit(pixels)
    names = sparse.csr_array((np.ones(n), (np.arange(n), labels)), shape=(n, len(NAMES)))
    votes = sparse.csr_array(scans_near.kneighbors_graph(pixels)) @ names
    similar = sparse.csr_array(scans_near.radius_neighbors_graph(pixels)).multiply(names @ names.T)
    return MultiViewGraph(
        views={
            "image": pixels.astype(np.float32),
            "spectrum": np.abs(np.fft.rfft2(images)).reshape(n, -1).astype(np.float32),
            "profile": np.hstack([images.sum(1), images.sum(2)]).astype(np.float32),
            "name": len(NAMES),
        },
        links={
            ("image", "name"): votes,
            ("image", "spectrum"): similar,
            ("spectrum", "profile"): similar,
        },
        ids={"image": scans, "spectrum": scans, "profile": scans, "name": list(NAMES)},
    )
