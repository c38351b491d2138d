"""Cells with several values, codes, web addresses and decimal commas."""

import numpy as np
import pytest

from pmvge.tables.guessing.cells import (
    are_codes,
    are_urls,
    decimal_commas,
    guess_separator,
    is_code,
)

GENRES = ["Action", "Children's", "Comedy", "Drama", "Film-Noir", "Sci-Fi", "War"]


def sets(separator, n=100, order=sorted):
    """Return cells of one to three genres."""
    rng = np.random.default_rng(0)
    draws = (rng.choice(GENRES, rng.integers(1, 4), replace=False) for _ in range(n))
    return [separator.join(order(draw)) for draw in draws]


@pytest.mark.parametrize("separator", ["|", ";", ", ", "/", " "])
def test_separators_of_sets(separator) -> None:
    assert guess_separator("kinds", sets(separator)) == (separator.strip() or " ")


def test_words_in_any_order_are_text_unless_the_name_says_otherwise() -> None:
    cells = sets(" ", order=list)
    assert guess_separator("x", cells) is None
    assert guess_separator("genres", cells) == " "
    assert guess_separator("title", sets(" ")) is None
    assert guess_separator("title", sets("|")) == "|"


@pytest.mark.parametrize(
    "cells",
    [
        ["New York", "Los Angeles", "San Francisco"] * 30,  # whole cells recur
        [f"The film {n} of war, of love, and of dogs" for n in range(100)],
        ["1/2/2003", "1/3/2003", "2/2/2004"] * 30,
        ["3,5", "4,5", "5,4"] * 30,
        ["a", "b"] * 50,
        [f"tag{n}|tag{n + 1}" for n in range(100)],  # every value is rare
        ["war|war|love", "love|love|war"] * 50,  # values repeat in a cell
        [],
    ],
)
def test_other_texts_have_one_value(cells) -> None:
    assert guess_separator("x", cells) is None


@pytest.mark.parametrize(
    ("column", "code"),
    [
        ("zip", True), ("zip_code", True), ("zipCode", True), ("postcode", True), ("PLZ", True),
        ("country_code", True), ("age", False), ("zipper", False), ("encoded", False),
    ],
)  # fmt: skip
def test_codes_by_name(column, code) -> None:
    assert is_code(column, padded=False) == code
    assert is_code(column, padded=True)


def test_codes_and_addresses_by_value() -> None:
    assert are_codes(["85711", "T8H1N", "94043-12"])
    assert not are_codes(["red", "blue", "x1"])
    assert not are_codes(["12 monkeys", "7 days"])
    assert are_urls(["http://us.imdb.com/M/title-exact?Toy%20Story", "www.example.org"])
    assert not are_urls(["http://x", "see http://x"])
    assert not are_urls([])


@pytest.mark.parametrize(
    ("cells", "found"),
    [
        (["3,5", "4"], "decimal"),
        (["-3,25", "+4,5"], "decimal"),
        (["1,500", "2,250"], "either"),
        (["1,500", "2,5"], "decimal"),
        (["1", "2"], None),
        (["3,5", "x"], None),
        (["1,2,3", "4,5"], None),
    ],
)
def test_decimal_commas(cells, found) -> None:
    assert decimal_commas(cells) == found
