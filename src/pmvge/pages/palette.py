"""Colours and symbols of all figures, on light and dark pages."""

from __future__ import annotations

# Ten hues and grey: the colour on a light page, and on a dark page. The hues also differ in
# lightness: no two look alike to people who lack one kind of cone.
COLORS = {
    "#1f55b5": "#93aaff",  # blue
    "#e8590c": "#d1741a",  # orange
    "#2f8a50": "#3ccf95",  # green
    "#70558f": "#9a70b8",  # purple
    "#c2b45e": "#f5f27a",  # sand
    "#17b5f2": "#d3fbee",  # sky
    "#7d1644": "#dc4f55",  # wine
    "#2c4a08": "#b0d065",  # olive
    "#2f0a58": "#6a74f0",  # indigo
    "#e5a394": "#f6c8fb",  # salmon
    "#8b93a1": "#868f9c",  # grey
}
*HUES, GREY = COLORS
TRAINING, HELD_OUT, NOT_LINKED = HUES[0], HUES[1], GREY
VIEWS = HUES[2:] + HUES[:2]  # blue and orange last: they also mean training and held out
# Names of plotly.js symbols, with the same shapes as SVG paths in a box of 12 x 12.
SYMBOLS = {
    "circle": "M6 1.5a4.5 4.5 0 1 0 .01 0z",
    "diamond": "M6 .6 11.4 6 6 11.4.6 6z",
    "square": "M2 2h8v8H2z",
    "triangle-up": "M6 1.4 11 10.2H1z",
    "cross": "M4.2 1.2h3.6v3h3v3.6h-3v3H4.2v-3h-3V4.2h3z",
    "star": "M6 .5 7.5 4.2l4 .3-3 2.6.9 3.9L6 8.9 2.6 11l.9-3.9-3-2.6 4-.3z",
    "triangle-down": "M6 10.6 1 1.8h10z",
    "x": "M3.3 1 6 3.7 8.7 1 11 3.3 8.3 6 11 8.7 8.7 11 6 8.3 3.3 11 1 8.7 3.7 6 1 3.3z",
}


def color_of_view(index: int) -> str:
    """Return the colour of the view with this index."""
    return VIEWS[index % len(VIEWS)]


def symbol_of_view(index: int) -> str:
    """Return the plotly.js symbol of the view with this index."""
    return list(SYMBOLS)[index % len(SYMBOLS)]


def css_variable(color: str) -> str:
    """Return the CSS variable that holds a colour in the light or dark theme."""
    return f"--c{list(COLORS).index(color)}"


def palette_css() -> str:
    """Return CSS that defines the colours as variables for both themes."""
    light = "".join(f"{css_variable(color)}:{color};" for color in COLORS)
    dark = "".join(f"{css_variable(color)}:{other};" for color, other in COLORS.items())
    return f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
