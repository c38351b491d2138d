"""Colours of a column: frequent categories, or a scale of numbers."""

from __future__ import annotations

import base64
from collections import Counter

import numpy as np
import pytest

from pmvge.serving.explorer.coloring import MISSING, OTHER, color_codes


def codes(found):
    return list(base64.b64decode(found["codes"]))


def test_the_most_frequent_categories_have_their_own_codes():
    values = np.array([f"c{k}" for k in range(14) for _ in range(20 - k)] + ["", "nan"])
    found = color_codes(values)
    counts = Counter(values.tolist())
    best = [category for category, _ in counts.most_common(10)]
    assert found["kind"] == "categories"
    assert [(c["text"], c["count"]) for c in found["categories"]] == [(b, counts[b]) for b in best]
    expected = [
        MISSING if v in ("", "nan") else best.index(v) if v in best else OTHER
        for v in values.tolist()
    ]
    assert codes(found) == expected
    assert (found["others"], found["other_values"], found["missing"]) == (34, 4, 2)


def test_numbers_are_a_scale_without_its_outliers():
    values = np.array([*map(str, range(1000)), "1e9", ""])
    found = color_codes(values)
    assert found["kind"] == "numbers"
    assert found["low"] == pytest.approx(10, abs=1)
    assert found["high"] == pytest.approx(990, abs=1)
    given = codes(found)
    assert (given[0], given[999], given[1000], given[1001]) == (0, 250, 250, MISSING)
    assert given[500] == 125
    assert given[:1000] == sorted(given[:1000])


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2", "3"] * 5, "categories"),  # few numbers are categories
        ([str(k) for k in range(11)], "numbers"),
        (["inf", *(str(k) for k in range(20))], "categories"),
        (["", ""], "categories"),
        ([], "categories"),
        (["0"] * 500 + [str(k) for k in range(12)], "numbers"),  # percentiles that are equal
    ],
)
def test_kinds(values, kind):
    found = color_codes(np.array(values, dtype=str))
    assert found["kind"] == kind
    assert len(codes(found)) == len(values)
