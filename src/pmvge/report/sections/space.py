"""The section with the map of all entities."""

from __future__ import annotations

from pmvge.model import PMvGE
from pmvge.pages import (
    GREY,
    HUES,
    SYMBOLS,
    Section,
    color_of_view,
    css_variable,
    figure,
    script_json,
    symbol_of_view,
    user_text,
)
from pmvge.report import figures
from pmvge.report.space import Coloring, draw_map


def space(model: PMvGE, seed: int) -> Section:
    """Return the section with the map of all entities and its controls."""
    labels = model.labels_
    drawn = draw_map(model, seed=seed)
    colorings = [
        {
            "codes": [coloring.codes[view] for view in drawn.positions],
            "colors": _colors(coloring),
        }
        for coloring in drawn.colorings
    ]
    # The first label is the first colour; without labels it is the view.
    choices = {index: user_text(part.name, 30) for index, part in enumerate(drawn.colorings)}
    first = 0 if choices else -1
    switch = "".join(
        f'<button type="button" data-coloring="{index}" '
        f'aria-pressed="{str(index == first).lower()}">{name}</button>'
        for index, name in {**choices, -1: "view"}.items()
    )
    views = "".join(
        f'<button type="button" data-view="{index}" aria-pressed="true">'
        f'<svg viewBox="0 0 12 12" aria-hidden="true"><path style="--c:var({_view_color(index)})" '
        f'd="{SYMBOLS[symbol_of_view(index)]}"/></svg>{user_text(view, 40)} '
        f"<i>{_share(len(at), len(model.ids_[view]))}</i></button>"
        for index, (view, at) in enumerate(drawn.positions.items())
    )
    legends = "".join(
        _label_legend(index, coloring) for index, coloring in enumerate(drawn.colorings)
    )
    controls = (
        f'<div class="controls"><div><span class="name">Colour by</span>{switch}</div>'
        f'<div><span class="name">Show</span>{views}</div></div>{legends}'
    )
    n, shown = sum(map(len, model.ids_.values())), sum(map(len, drawn.positions.values()))
    which = f"All {n:,} entities"
    if shown < n:
        which = f"{shown:,} of {n:,} entities, sampled at random"
    lead = (
        f"{which}. Layout: {drawn.method}. Points that are close are similar, or likely "
        "partners; distances between groups that are far apart mean little. "
        "Click a view to hide it" + (", or a label to highlight it." if legends else ".")
    )
    title = "Map of all entities"
    map_ = figure(
        "map", figures.space_map(drawn, model.ids_, labels, model.names_), title, above=controls
    )
    if colorings:
        map_ = map_.replace('class="figure"', 'class="figure by-label"', 1)
    content = f'<script type="application/json" id="colorings">{script_json(colorings)}</script>'
    return Section("space", title, lead, f'<div class="card">{map_}</div>{content}', "Map")


def _share(shown: int, total: int) -> str:
    return f"{shown:,}" if shown == total else f"{shown:,} of {total:,}"


def _view_color(view: int) -> str:
    return css_variable(color_of_view(view))


def _colors(coloring: Coloring) -> list[str]:
    """Return a colour for each category; "other" and "no label" are grey."""
    return HUES[: len(coloring.categories) - coloring.n_grey] + [GREY] * coloring.n_grey


def _label_legend(index: int, coloring: Coloring) -> str:
    colors = _colors(coloring)
    buttons = "".join(
        f'<button type="button" data-category="{code}" aria-pressed="true">'
        f'<i class="swatch" style="background:var({css_variable(colors[code])})"></i>'
        f"{user_text(name)} <i>{coloring.counts[code]:,}</i></button>"
        for code, name in enumerate(coloring.categories)
        if coloring.counts[code]
    )
    hidden = " hidden" * (index > 0)
    return (
        f'<div class="label-legend" data-legend="{index}"{hidden}>'
        f'<span class="name">{user_text(coloring.name, 30)}</span>{buttons}</div>'
    )
