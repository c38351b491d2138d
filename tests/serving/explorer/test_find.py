"""The search box: beginnings first, then parts; the same as comparing every text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmvge.serving.explorer.finding import LENGTH, Finder, Texts

WORDS = st.text(st.sampled_from("abAB \nİß😀"), max_size=6)


def plain(text: str) -> str:
    return " ".join(text[:LENGTH].lower().split())


@given(st.lists(WORDS, max_size=12), WORDS)
def test_texts_are_found_as_by_a_loop(texts, wanted):
    found = Texts(texts)
    part = plain(wanted)
    starting = [at for at, text in enumerate(texts) if plain(text).startswith(part)]
    assert list(found.search(wanted, prefix=True)) == starting
    containing = [at for at, text in enumerate(texts) if part in plain(text)] if part else []
    assert list(found.search(wanted, prefix=False)) == containing


class _Model:
    def __init__(self, ids, names):
        import numpy as np

        self.ids_ = {view: np.array(one) for view, one in ids.items()}
        self.names_ = {view: np.array(one) for view, one in names.items()}


@pytest.fixture(scope="module")
def finder():
    ids = {"film": ["f1", "f2", "f3", "f4"], "user": [1, 21, 12]}
    names = {"film": ["Rain Man", "The Rain", "Rainbow", "Sun"]}
    return Finder(_Model(ids, names))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rain", [("film", 0), ("film", 2), ("film", 1)]),
        ("RAIN M", [("film", 0)]),
        ("f3", [("film", 2)]),
        ("2", [("user", 1), ("film", 1), ("user", 2)]),
        ("moon", []),
    ],
)
def test_beginnings_come_first_and_views_take_turns(finder, text, expected):
    found, more = finder.find(text, ["film", "user"], 10)
    assert found == expected
    assert not more


def test_an_empty_text_lists_the_first_entities_of_each_view(finder):
    found, more = finder.find("", ["film", "user"], 4)
    assert found == [("film", 0), ("user", 0), ("film", 1), ("user", 1)]
    assert more


def test_at_most_so_many_are_listed(finder):
    found, more = finder.find("rain", ["film"], 2)
    assert found == [("film", 0), ("film", 2)]
    assert more
