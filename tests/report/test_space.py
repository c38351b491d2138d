"""The map: samples of entities, layout, and labels."""

from __future__ import annotations

import numpy as np

from pmvge.report.space import draw_map


def test_categories_of_a_label_are_sorted() -> None:
    rng = np.random.default_rng(0)
    Y = {"a": rng.normal(size=(5, 2)), "b": rng.normal(size=(2, 2))}
    labels = {"a": {"year": np.array(["10", "9", "9", "x", "10"])}}
    (coloring,) = draw_map(Y, labels).colorings
    assert coloring.categories == ["9", "10", "x", "other", "no label"]
    assert coloring.codes == {"a": [1, 0, 0, 2, 1], "b": [4, 4]}
    assert coloring.counts == [2, 2, 1, 0, 2]


def test_rare_labels_share_a_colour() -> None:
    values = [str(v) for v in range(12) for _ in range(20 - v)]
    labels = {"a": {"v": np.array(values)}}
    Y = {"a": np.random.default_rng(0).normal(size=(len(values), 2))}
    (coloring,) = draw_map(Y, labels).colorings
    assert coloring.categories == [*map(str, range(10)), "other", "no label"]
    assert coloring.counts == [20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10 + 9, 0]
