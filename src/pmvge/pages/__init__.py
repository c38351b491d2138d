"""HTML pages that open offline."""

from pmvge.pages.page import Section, document, figure, key, pair_name, skipped, table
from pmvge.pages.palette import (
    COLORS,
    GREY,
    HELD_OUT,
    HUES,
    NOT_LINKED,
    SYMBOLS,
    TRAINING,
    color_of_view,
    css_variable,
    palette_css,
    symbol_of_view,
)
from pmvge.pages.text import count, data, duration, escaped, number, plot_text, script_json, shown

__all__ = [
    "COLORS",
    "GREY",
    "HELD_OUT",
    "HUES",
    "NOT_LINKED",
    "SYMBOLS",
    "TRAINING",
    "Section",
    "color_of_view",
    "count",
    "css_variable",
    "data",
    "document",
    "duration",
    "escaped",
    "figure",
    "key",
    "number",
    "pair_name",
    "palette_css",
    "plot_text",
    "script_json",
    "shown",
    "skipped",
    "symbol_of_view",
    "table",
]
