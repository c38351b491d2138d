"""Samples of entities, and coordinates of entities outside the sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.maps.affinities import Relation, affinities, relation_weights
from pmvge.maps.tsne import tsne
from pmvge.progress import OnProgress

MIN_TSNE_POINTS = 5  # with fewer, use principal components
PLACING_STEPS = 10
Coordinates = dict[str, NDArray[np.float32]]  # {view: (n, 2)}


def layout(
    Y: Mapping[str, NDArray[Any]],
    relations: Sequence[Relation],
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> tuple[Coordinates, str]:
    """Return coordinates of the entities of all views, and the name of the method.

    The method is t-SNE of the affinities that the relations give. Fewer than ``MIN_TSNE_POINTS``
    entities, and entities whose vectors (n, K) in ``Y`` are all equal, have their principal
    components as coordinates.
    """
    vectors = np.concatenate(list(Y.values())).astype(np.float64)
    sizes = {view: len(rows) for view, rows in Y.items()}
    if len(vectors) < MIN_TSNE_POINTS or not np.ptp(vectors, axis=0).any():
        flat, method = _principal_components(vectors), "principal components"
    else:
        flat = tsne(affinities(sizes, relations), seed=seed, on_progress=on_progress)
        method = "t-SNE"
    ends = np.cumsum(list(sizes.values()))[:-1]
    return dict(zip(sizes, np.split(flat, ends), strict=True)), method


def place(xy: Coordinates, relations: Sequence[Relation]) -> NDArray[np.float32]:
    """Return coordinates (n, 2) of entities of one view from those of their nearest ones.

    The nearest ones are entities of the sample, whose coordinates are ``xy``. An entity is placed
    where their attraction, as t-SNE has it, is balanced: near most of them. Entities without any
    are placed in the middle.
    """
    weights = np.hstack(relation_weights(relations))
    nearest = [xy[other][near.clip(0)] for _, other, near, _ in relations]
    anchors = np.concatenate(nearest, axis=1).astype(np.float64)  # (n, k, 2)
    places = np.median(anchors, axis=1)
    for _ in range(PLACING_STEPS):
        squares = np.square(anchors - places[:, None]).sum(axis=2)
        pull = weights / (1 + squares)
        total = np.maximum(pull.sum(axis=1, keepdims=True), 1e-300)
        places = np.einsum("nk,nkd->nd", pull / total, anchors)
    return places.astype(np.float32)


def _principal_components(Y: NDArray[np.float64]) -> NDArray[np.float32]:
    centred = Y - Y.mean(axis=0, keepdims=True) if len(Y) else Y
    U, s, _ = np.linalg.svd(centred, full_matrices=False)
    flat = (U * s)[:, :2]
    return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1]))).astype(np.float32)


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
