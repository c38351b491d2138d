"""Text and JSON for HTML pages. Ids, view names and labels are untrusted: escape all of them."""

from __future__ import annotations

import html
import json
import math
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np

MAX_LENGTH = 80  # characters of an id that are shown


def display_text(value: object, max_length: int | None = MAX_LENGTH) -> str:
    """Return a value as one line of at most ``max_length`` characters (None: no limit).

    Control characters become spaces, unpaired surrogates become question marks, and an ellipsis
    replaces the end of a longer text.
    """
    # Cut first: an id may be as long as a document.
    text = str(value)[: None if max_length is None else max_length + 1]
    text = text.encode("utf-8", "replace").decode()
    text = "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text)
    if max_length is None or len(text) <= max_length:
        return text
    return text[: max_length - 1] + "…"


def escape_html(value: object, max_length: int | None = MAX_LENGTH) -> str:
    """Return a value as HTML text, also safe in a quoted attribute."""
    return html.escape(display_text(value, max_length))


def user_text(value: object, max_length: int | None = MAX_LENGTH) -> str:
    """Return user-defined text as an HTML element that isolates its writing direction."""
    return f"<bdi>{escape_html(value, max_length)}</bdi>"


def plot_text(value: object, max_length: int | None = 40) -> str:
    """Return a value as text in a figure: plotly.js decodes some entities, but not ``&quot;``."""
    return html.escape(display_text(value, max_length), quote=False)


def script_json(content: Any) -> str:
    r"""Return JSON that is safe within <script>: ASCII without ``<``, ``>`` and ``&``.

    Numbers that are not finite become null.

    >>> script_json(["</script>", float("nan")])
    '["\\u003c/script\\u003e",null]'
    """
    text = json.dumps(finite_json(content), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def finite_json(value: Any) -> Any:
    """Return a value in types of JSON; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {key: finite_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite_json(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return finite_json(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def format_number(value: Any) -> str:
    """Return a number for display: 12,345 or 0.0123 or 1.2e-7; NaN is a dash.

    Any other value is returned as text.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return display_text(value)
    if isinstance(value, int | np.integer):
        return f"{int(value):,}"
    x = float(value)
    if math.isnan(x):
        return "–"
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    if x == 0 or 1e-4 <= abs(x) < 1e3:
        return f"{x:.3g}" if abs(x) < 100 else f"{x:.4g}"
    if abs(x) < 1e15 and abs(x) >= 1e3:
        return f"{x:,.0f}"
    mantissa, power = f"{x:.2e}".split("e")
    return f"{mantissa}e{int(power)}"


def format_duration(seconds: float) -> str:
    """Return a duration for display: 9.7 s, 2 min 5 s, 3 h 20 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def format_count(n: int, noun: str) -> str:
    """Return a count with its noun, singular or plural: 1 link, 2 links, 3 entities."""
    plural = noun[:-1] + "ies" if noun.endswith("ty") else noun + "s"
    return f"{n:,} {noun if n == 1 else plural}"
