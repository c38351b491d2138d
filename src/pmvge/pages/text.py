"""Text for a page: ids and view names are other people's data, so nothing goes in unescaped."""

from __future__ import annotations

import html
import json
import math
import unicodedata
from typing import Any

import numpy as np

LONGEST = 80  # characters of an id that are shown


def shown(value: object, longest: int = LONGEST) -> str:
    """A value in one line: no control characters, half surrogate pairs, or endless ids."""
    # Only as much as can be seen is looked at: an id may be a whole document.
    text = str(value)[: longest + 1].encode("utf-8", "replace").decode()
    text = "".join(" " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c for c in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def escaped(value: object, longest: int = LONGEST) -> str:
    """A value as HTML text or a quoted attribute."""
    return html.escape(shown(value, longest))


def data(value: object, longest: int = LONGEST) -> str:
    """A value of the user's as an HTML element, which may be written in either direction."""
    return f"<bdi>{escaped(value, longest)}</bdi>"


def plot_text(value: object, longest: int = 40) -> str:
    """A value as text in a figure: plotly.js knows some HTML, but no ``&quot;``."""
    return html.escape(shown(value, longest), quote=False)


def script_json(content: Any) -> str:
    r"""JSON that is safe within <script>: ASCII, and no character that HTML gives a meaning.

    Numbers that are not finite become null.

    >>> script_json(["</script>", float("nan")])
    '["\\u003c/script\\u003e",null]'
    """
    text = json.dumps(_plain(content), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(value: Any) -> str:
    """A number to read: 12,345 or 0.0123 or 1.2e-7, and a dash for what is not a number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return shown(value)
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


def duration(seconds: float) -> str:
    """Seconds to read: 9.7 s, 2 min 5 s, 3 h 20 min."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def count(n: int, thing: str) -> str:
    """1 link, 2 links, 3 entities."""
    plural = thing[:-1] + "ies" if thing.endswith("ty") else thing + "s"
    return f"{n:,} {thing if n == 1 else plural}"
