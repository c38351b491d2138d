"""A map of the vectors of all views in two dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from pmvge.model import Labels
from pmvge.pages import display_text

MAX_POINTS = 2_000  # on the map
MIN_TSNE_POINTS = 10  # with fewer, use principal components
MAX_CATEGORIES = 10  # values of a label with their own colour
OTHER, MISSING = "other", "no label"


@dataclass(frozen=True, eq=False)
class Coloring:
    """A label on the map: its categories, and the category of each point."""

    name: str
    categories: list[str]
    counts: list[int]
    codes: dict[str, list[int]]  # {view: (points,)}, indices into categories
    n_grey: int  # the last categories, "other" and "no label", are grey


@dataclass(frozen=True, eq=False)
class Map:
    """The points of each view, the layout method, and the labels to colour by."""

    positions: dict[str, NDArray[np.int64]]  # of the entities that are shown
    xy: dict[str, NDArray[np.float64]]  # (points, 2)
    method: str
    colorings: list[Coloring]


def draw_map(
    Y: Mapping[str, NDArray[Any]], labels: Labels, *, points: int = MAX_POINTS, seed: int = 0
) -> Map:
    """Return a layout of a sample of the entities of all views in two dimensions."""
    rng = np.random.default_rng([seed, 2])
    positions = stratified({view: len(rows) for view, rows in Y.items()}, points, rng)
    flat, method = project(np.concatenate([Y[view][at] for view, at in positions.items()]), seed)
    ends = np.cumsum([len(at) for at in positions.values()])[:-1]
    xy = dict(zip(positions, np.split(flat, ends), strict=True))
    names = dict.fromkeys(name for columns in labels.values() for name in columns)
    return Map(positions, xy, method, [_coloring(name, labels, positions) for name in names])


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
        init="pca", metric="cosine", perplexity=min(30.0, (n - 1) / 3), random_state=seed % 2**32
    )
    return layout.fit_transform(Y.astype(np.float32)).astype(np.float64), "t-SNE, cosine distance"


def _coloring(name: str, labels: Labels, positions: Mapping[str, NDArray[np.int64]]) -> Coloring:
    """Return the categories of a label; the most frequent ones have their own colour."""
    values = {
        view: np.asarray(labels[view][name])[at].tolist()
        for view, at in positions.items()
        if name in labels.get(view, {})
    }
    counts = Counter(value for column in values.values() for value in column)
    frequent = [value for value, _ in counts.most_common(MAX_CATEGORIES)]
    categories = sorted(frequent, key=_sort_key)
    rare, missing = len(categories), len(categories) + 1
    code = {value: index for index, value in enumerate(categories)}
    codes = {
        view: [code.get(value, rare) for value in values[view]]
        if view in values
        else [missing] * len(at)
        for view, at in positions.items()
    }
    sizes = Counter(code for column in codes.values() for code in column)
    return Coloring(
        name,
        [*(display_text(value, 40) for value in categories), OTHER, MISSING],
        [sizes[index] for index in range(missing + 1)],
        codes,
        2,
    )


def _sort_key(value: str) -> tuple[int, float, str]:
    """Return a sort key: numbers by size, then other values alphabetically."""
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value
