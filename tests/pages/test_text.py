"""Escaping and formatting of text for pages."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmvge.pages import (
    display_text,
    escape_html,
    format_count,
    format_duration,
    format_number,
    plot_text,
    script_json,
)

VALUES = st.recursive(
    st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_json_in_a_script_keeps_its_value_and_has_no_html(value: Any) -> None:
    text = script_json(value)
    assert json.loads(text) == value
    assert text.isascii()
    assert not set("<>&") & set(text)


def test_numbers_that_are_not_finite_become_null() -> None:
    values = {"a": np.array([1.0, np.nan]), "b": (np.float32(np.inf), np.int64(3))}
    assert json.loads(script_json(values)) == {"a": [1.0, None], "b": [None, 3]}


@given(st.text(st.characters()) | st.integers())
def test_ids_are_shown_in_one_line_and_escaped(value: str | int) -> None:
    text = display_text(value, 30)
    assert len(text) <= 30
    assert not re.search("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029]", text)
    assert text.encode("utf-8").decode() == text
    assert html.unescape(escape_html(value, 30)) == text
    assert not set("<>\"'") & set(escape_html(value, 30))


def test_long_texts_are_cut_unless_there_is_no_limit() -> None:
    assert display_text("a" * 100) == "a" * 79 + "…"
    assert escape_html("<" * 100, None) == "&lt;" * 100


@given(st.text())
def test_text_in_figures_has_no_tags_and_only_entities_that_plotly_decodes(value: str) -> None:
    text = plot_text(value)
    assert not set("<>") & set(text)
    # plotly.js decodes these three, and shows &quot; as it is.
    assert text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") == display_text(
        value, 40
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345, "12,345"),
        (np.int64(7), "7"),
        (0.0, "0"),
        (0.012345, "0.0123"),
        (123.456, "123.5"),
        (12345.6, "12,346"),
        (1.2345e-7, "1.23e-7"),
        (1e20, "1.00e20"),
        (float("nan"), "–"),
        (float("-inf"), "−∞"),
        ("word", "word"),
    ],
)
def test_numbers_are_formatted(value: Any, text: str) -> None:
    assert format_number(value) == text


def test_durations_and_counts_are_formatted() -> None:
    assert [format_duration(s) for s in (1.26, 59, 125, 12_000)] == [
        "1.3 s",
        "59 s",
        "2 min 5 s",
        "3 h 20 min",
    ]
    assert (format_count(1, "entity"), format_count(2000, "entity")) == (
        "1 entity",
        "2,000 entities",
    )
    assert (format_count(1, "link"), format_count(2, "link")) == ("1 link", "2 links")
