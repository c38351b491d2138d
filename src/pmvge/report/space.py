"""A map of the entities of all views in two dimensions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmvge.model import Labels, PMvGE, sample_map
from pmvge.pages import display_text

MAX_POINTS = 2_000  # on the map
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
    xy: dict[str, NDArray[np.float32]]  # (points, 2)
    method: str
    colorings: list[Coloring]


def draw_map(model: PMvGE, *, points: int = MAX_POINTS, seed: int = 0) -> Map:
    """Return a layout of a sample of the entities of all views in two dimensions."""
    drawn = sample_map(model, points, seed=seed)
    return Map(*drawn, label_colorings(model.labels_, drawn.positions))


def label_colorings(labels: Labels, positions: Mapping[str, NDArray[np.int64]]) -> list[Coloring]:
    """Return the colours of the entities at some positions, by each label."""
    names = dict.fromkeys(name for columns in labels.values() for name in columns)
    return [_coloring(name, labels, positions) for name in names]


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
