"""Lay out the vectors of all views in two dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE

TSNE_STEPS = 500  # half of them exaggerate clusters; 1,000 change the map of 2,000 points little
MIN_TSNE_POINTS = 10  # with fewer, use principal components
MAX_FITTED = 5_000  # points that t-SNE is fitted to; others are placed between them
NEIGHBOURS = 5  # that a point is placed between
CHUNK = 1 << 22  # similarities held at once


def layout(
    Y: Mapping[str, NDArray[Any]], *, fitted: int = MAX_FITTED, seed: int = 0
) -> dict[str, NDArray[np.float32]]:
    """Return coordinates (n, 2) of the vectors (n, K) of every view, in one map.

    The layout is fitted to a sample of ``fitted`` vectors. Every other vector is placed at the mean
    of the ``NEIGHBOURS`` vectors of the sample with the largest cosines.
    """
    drawn = stratified({v: len(rows) for v, rows in Y.items()}, fitted, _generator(seed))
    sample = np.concatenate([Y[view][at] for view, at in drawn.items()])
    flat, _ = project(sample, seed)
    places, start = {}, 0
    for view, at in drawn.items():
        xy = np.empty((len(Y[view]), 2), np.float32)
        xy[at] = flat[start : start + len(at)]
        start += len(at)
        rest = np.setdiff1d(np.arange(len(xy)), at)
        xy[rest] = _between(Y[view], rest, sample, flat)
        places[view] = xy
    return places


def _between(
    Y: NDArray[Any], rows: NDArray[np.int64], sample: NDArray[Any], flat: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean coordinates of the neighbours of rows in the sample."""
    xy, unit = np.empty((len(rows), 2)), _unit(sample)
    step = max(1, CHUNK // max(1, len(sample)))
    k = min(NEIGHBOURS, len(sample))
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        cosines = _unit(Y[rows[part]]) @ unit.T
        nearest = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
        xy[part] = flat[nearest].mean(axis=1)
    return xy


def _unit(Y: NDArray[Any]) -> NDArray[np.float32]:
    norms = np.linalg.norm(Y, axis=1, keepdims=True)
    return np.asarray(Y / np.maximum(norms, 1e-12), np.float32)


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 2])


def stratified(
    sizes: Mapping[str, int], budget: int, rng: np.random.Generator
) -> dict[str, NDArray[np.int64]]:
    """Draw at most ``budget`` entities: all of small views, equally many of the others.

    Every view has at least one.

    >>> drawn = stratified({"a": 3, "b": 50, "c": 90}, 23, np.random.default_rng(0))
    >>> {view: len(at) for view, at in drawn.items()}
    {'a': 3, 'b': 10, 'c': 10}
    """
    share: dict[str, int] = {}
    for left, view in enumerate(sorted(sizes, key=lambda view: sizes[view])):
        fair = (budget - sum(share.values())) // (len(sizes) - left)
        share[view] = min(sizes[view], max(1, fair))
    return {view: np.sort(rng.permutation(n)[: share[view]]) for view, n in sizes.items()}


def project(Y: NDArray[Any], seed: int) -> tuple[NDArray[np.float64], str]:
    """Return coordinates (n, 2) of vectors (n, K), and the name of the method."""
    Y = Y.astype(np.float64)
    n, K = Y.shape
    if K <= 2:
        return np.pad(Y, ((0, 0), (0, 2 - K))), "the vectors' own coordinates"
    centred = Y - Y.mean(axis=0, keepdims=True) if n else Y
    if n < MIN_TSNE_POINTS or not np.ptp(Y, axis=0).any():
        U, s, _ = np.linalg.svd(centred, full_matrices=False)
        flat = (U * s)[:, :2]
        return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1]))), "principal components"
    layout = TSNE(
        init="pca",
        metric="cosine",
        perplexity=min(30.0, (n - 1) / 3),
        max_iter=TSNE_STEPS,
        random_state=seed % 2**32,
    )
    return layout.fit_transform(Y.astype(np.float32)).astype(np.float64), "t-SNE, cosine distance"
