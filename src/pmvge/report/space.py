"""The shared space as a map in two dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.manifold import TSNE

from pmvge.model import Labels
from pmvge.pages import shown

POINTS = 2_000  # on the map
FEWEST = 10  # points that t-SNE needs
CATEGORIES = 10  # of a label that have a colour of their own
OTHER, MISSING = "other", "no label"


@dataclass(frozen=True, eq=False)
class Coloring:
    """A label on the map: categories, and which one each point of each view has."""

    name: str
    categories: list[str]
    counts: list[int]
    codes: dict[str, list[int]]  # {view: (points,)}, positions in categories
    plain: int  # so many categories at the end are "other" and "no label"


@dataclass(frozen=True, eq=False)
class Map:
    """Points on the map by view, how they were found, and the labels to colour them by."""

    positions: dict[str, NDArray[np.int64]]  # which entities
    xy: dict[str, NDArray[np.float64]]  # (points, 2)
    method: str
    colorings: list[Coloring]


def draw_map(
    Y: Mapping[str, NDArray[Any]], labels: Labels, *, points: int = POINTS, seed: int = 0
) -> Map:
    """Lay out a sample of the entities of all views."""
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
    """At most ``budget`` entities: small views whole, the others in equal parts; at least one each.

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
    """Coordinates (n, 2) of vectors (n, K), and by which method."""
    Y = Y.astype(np.float64)
    n, K = Y.shape
    if K <= 2:
        return np.pad(Y, ((0, 0), (0, 2 - K))), "the coordinates as they are"
    centred = Y - Y.mean(axis=0, keepdims=True) if n else Y
    if n < FEWEST or not np.ptp(Y, axis=0).any():
        U, s, _ = np.linalg.svd(centred, full_matrices=False)
        flat = (U * s)[:, :2]
        return np.pad(flat, ((0, 0), (0, 2 - flat.shape[1]))), "principal components"
    layout = TSNE(
        init="pca", metric="cosine", perplexity=min(30.0, (n - 1) / 3), random_state=seed % 2**32
    )
    return layout.fit_transform(Y.astype(np.float32)).astype(np.float64), "t-SNE, cosine distance"


def _coloring(name: str, labels: Labels, positions: Mapping[str, NDArray[np.int64]]) -> Coloring:
    """The most frequent values get a colour of their own; they are listed in their order."""
    values = {
        view: np.asarray(labels[view][name])[at].tolist()
        for view, at in positions.items()
        if name in labels.get(view, {})
    }
    counts = Counter(value for column in values.values() for value in column)
    frequent = [value for value, _ in counts.most_common(CATEGORIES)]
    categories = sorted(frequent, key=_natural)
    rare, missing = len(categories), len(categories) + 1
    code = {value: number for number, value in enumerate(categories)}
    codes = {
        view: [code.get(value, rare) for value in values[view]]
        if view in values
        else [missing] * len(at)
        for view, at in positions.items()
    }
    sizes = Counter(number for column in codes.values() for number in column)
    return Coloring(
        name,
        [*(shown(value, 40) for value in categories), OTHER, MISSING],
        [sizes[number] for number in range(missing + 1)],
        codes,
        2,
    )


def _natural(value: str) -> tuple[int, float, str]:
    """Numbers by size, before words by the alphabet."""
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value
