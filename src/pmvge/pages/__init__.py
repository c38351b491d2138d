"""HTML pages that work offline."""

from pmvge.pages.page import Section, document, figure, legend, pair_name, skipped_section, table
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
    symbol_of_view,
)
from pmvge.pages.text import (
    display_text,
    escape_html,
    format_count,
    format_duration,
    format_number,
    plot_text,
    script_json,
    user_text,
)

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
    "css_variable",
    "display_text",
    "document",
    "escape_html",
    "figure",
    "format_count",
    "format_duration",
    "format_number",
    "legend",
    "pair_name",
    "plot_text",
    "script_json",
    "skipped_section",
    "symbol_of_view",
    "table",
    "user_text",
]
