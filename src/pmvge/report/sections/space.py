"""The map of the shared space, with its controls."""

from __future__ import annotations

from pmvge.model import Background, PMvGE
from pmvge.pages import (
    GREY,
    HUES,
    SYMBOLS,
    Section,
    color_of_view,
    css_variable,
    data,
    figure,
    script_json,
    symbol_of_view,
)
from pmvge.report import figures
from pmvge.report.space import Coloring, draw_map


def space(model: PMvGE, background: Background | None, seed: int) -> Section:
    """The map of the shared space, with its controls."""
    labels = background.labels if background else {}
    drawn = draw_map(model.embeddings_, labels, seed=seed)
    colorings = [
        {
            "codes": [part.codes[view] for view in drawn.positions],
            "colors": _colors(part),
        }
        for part in drawn.colorings
    ]
    choices = ["view", *(data(part.name, 30) for part in drawn.colorings)]
    pressed = ["true", *["false"] * len(colorings)]
    switch = "".join(
        f'<button type="button" data-coloring="{place}" aria-pressed="{first}">{name}</button>'
        for place, (name, first) in enumerate(zip(choices, pressed, strict=True), -1)
    )
    views = "".join(
        f'<button type="button" data-view="{place}" aria-pressed="true">'
        f'<svg viewBox="0 0 12 12" aria-hidden="true"><path style="--c:var({_slot(place)})" '
        f'd="{SYMBOLS[symbol_of_view(place)]}"/></svg>{data(view, 40)} '
        f"<i>{_share(len(at), len(model.ids_[view]))}</i></button>"
        for place, (view, at) in enumerate(drawn.positions.items())
    )
    keys = "".join(_category_key(place, part) for place, part in enumerate(drawn.colorings))
    controls = (
        f'<div class="controls"><div><span class="name">Colour by</span>{switch}</div>'
        f'<div><span class="name">Show</span>{views}</div></div>{keys}'
    )
    n, shown = sum(map(len, model.ids_.values())), sum(map(len, drawn.positions.values()))
    which = f"All {n:,} entities" if shown == n else f"{shown:,} of {n:,} entities, drawn at random"
    lead = (
        f"{which}, laid out by {drawn.method}. Near means similar. Entities of a view may be "
        f"more like each other than like their partners, and then views lie apart; "
        "distances between far groups mean little. Click a view to hide it"
        + (", a label to light it up." if keys else ".")
    )
    map_ = figure("map", figures.space_map(drawn, model.ids_, labels), "Map of the space", controls)
    content = f'<script type="application/json" id="colorings">{script_json(colorings)}</script>'
    return Section(
        "space", "The shared space", lead, f'<div class="card">{map_}</div>{content}', "Map"
    )


def _share(part: int, whole: int) -> str:
    return f"{part:,}" if part == whole else f"{part:,} of {whole:,}"


def _slot(view: int) -> str:
    return css_variable(color_of_view(view))


def _colors(part: Coloring) -> list[str]:
    """A colour for each category; what has no colour of its own is grey."""
    return HUES[: len(part.categories) - part.plain] + [GREY] * part.plain


def _category_key(place: int, part: Coloring) -> str:
    colors = _colors(part)
    buttons = "".join(
        f'<button type="button" data-category="{code}" aria-pressed="true">'
        f'<i class="swatch" style="background:var({css_variable(colors[code])})"></i>{data(name)} '
        f"<i>{part.counts[code]:,}</i></button>"
        for code, name in enumerate(part.categories)
        if part.counts[code]
    )
    return (
        f'<div class="keys" data-key="{place}" hidden>'
        f'<span class="name">{data(part.name, 30)}</span>{buttons}</div>'
    )
