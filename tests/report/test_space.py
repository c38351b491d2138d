"""The labels on the map."""

from __future__ import annotations

import numpy as np

from pmvge.report.space import label_colorings


def test_categories_of_a_label_are_sorted() -> None:
    labels = {"a": {"year": np.array(["10", "9", "9", "x", "10"])}}
    (coloring,) = label_colorings(labels, {"a": np.arange(5), "b": np.arange(2)})
    assert coloring.categories == ["9", "10", "x", "other", "no label"]
    assert coloring.codes == {"a": [1, 0, 0, 2, 1], "b": [4, 4]}
    assert coloring.counts == [2, 2, 1, 0, 2]


def test_rare_labels_share_a_colour() -> None:
    values = [str(v) for v in range(12) for _ in range(20 - v)]
    labels = {"a": {"v": np.array(values)}}
    (coloring,) = label_colorings(labels, {"a": np.arange(len(values))})
    assert coloring.categories == [*map(str, range(10)), "other", "no label"]
    assert coloring.counts == [20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10 + 9, 0]
