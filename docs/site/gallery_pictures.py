"""The pictures of the gallery, from the names that the code of a page defines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go
from sklearn.manifold import TSNE
from sklearn.preprocessing import normalize

from pmvge.pages.palette import GREY, HUES

Names = dict[str, Any]
STYLE = {
    "template": "plotly_white",
    "margin": {"t": 20, "b": 20, "l": 20, "r": 20},
    "font": {"family": "DejaVu Sans, Arial, sans-serif", "size": 13},
}
NO_AXIS = {"visible": False}
NO_LINES = {"showticklabels": False, "showgrid": False, "zeroline": False}


def flat(vectors: Any) -> Any:
    """Return coordinates (n, 2) of vectors, by t-SNE of their directions."""
    return TSNE(random_state=0).fit_transform(normalize(vectors))


def points(xy: Any, name: str, color: str, **marker: Any) -> go.Scatter:
    """Return points of one colour."""
    style = {"color": color, "size": 5, "opacity": 0.8, **marker}
    return go.Scatter(x=xy[:, 0], y=xy[:, 1], mode="markers", name=name, marker=style)


def legend_entry(name: str, color: str, **marker: Any) -> go.Scatter:
    """Return a trace without points, for the legend: its markers are those of its points."""
    return points(np.array([[None, None]]), name, color, size=10, opacity=1, **marker)


def recommender(names: Names) -> go.Figure:
    """Draw the films with at least 30 likes by their vectors, coloured by genre."""
    model, tables = names["model"], names["tables"]
    degree = np.asarray(names["graph"].links["users", "films"].matrix().sum(axis=0)).ravel()
    shown = np.flatnonzero(degree >= 30)
    xy = flat(model.embeddings_["films"][shown])
    columns = tables.columns["films"]
    genres = [str(cell).split("|") for cell in np.asarray(columns["genres"])[shown]]
    rarest = ("Animation", "Horror", "Sci-Fi", "War", "Romance", "Thriller", "Comedy", "Drama")
    kind = [next((g for g in rarest if g in own), "other") for own in genres]
    figure = go.Figure()
    for number, genre in enumerate((*rarest, "other")):
        at = [k == genre for k in kind]
        color = GREY if genre == "other" else HUES[number]
        figure.add_trace(points(xy[at], genre, color, size=7))
    titles = np.asarray(columns["title"])[shown]
    scale, placed = np.ptp(xy, axis=0) * (0.2, 0.05), list[Any]()  # the size of a label
    for at in np.argsort(-degree[shown])[:40]:
        if len(placed) < 16 and all((np.abs(xy[at] - other) > scale).any() for other in placed):
            placed.append(xy[at])
            figure.add_annotation(
                x=xy[at, 0], y=xy[at, 1], text=titles[at], showarrow=False, yshift=11,
                font={"size": 11}, bgcolor="rgba(255,255,255,0.7)",
            )  # fmt: skip
    return figure.update_layout(**STYLE, xaxis=NO_AXIS, yaxis=NO_AXIS)


def drug_target(names: Names) -> go.Figure:
    """Draw expected weights of all new pairs, with a dot on those that bind."""
    expected, truth = names["expected"], names["truth"]
    rows, columns = np.argsort(expected.sum(1)), np.argsort(-expected.sum(0))
    ordered = np.log10(expected[np.ix_(rows, columns)])
    title = {"text": "log10 of the expected weight", "side": "right"}
    figure = go.Figure(
        go.Heatmap(
            z=ordered,
            colorscale="Blues",
            zmin=np.quantile(ordered, 0.2),
            colorbar={"title": title, "thickness": 12, "dtick": 1},
        )
    )
    y, x = np.nonzero(truth[np.ix_(rows, columns)])
    dots = {"color": HUES[1], "size": 5}
    figure.add_trace(go.Scatter(x=x, y=y, mode="markers", marker=dots, showlegend=False))
    return figure.update_layout(
        **{**STYLE, "margin": {"t": 20, "b": 50, "l": 50, "r": 20}},
        xaxis={**NO_LINES, "title": f"{len(columns)} new kinases", "range": [-1, len(columns)]},
        yaxis={**NO_LINES, "title": f"{len(rows)} new drugs", "range": [-0.5, len(rows) - 0.5]},
    )


def image_tag(names: Names) -> go.Figure:
    """Draw the ten new images with the largest expected weights for some tags.

    Raise ValueError if a tag does not fit: the caption says that all do.
    """
    tags, new, truth = names["tags"], names["new"], names["truth"]
    chosen, k, cell = (
        ("two loops", "has a loop", "straight lines", "open to the left", "even"),
        10,
        9,
    )
    scores = names["scores"]["pmvge"]
    sheet = np.zeros((cell * len(chosen), cell * k))
    figure = go.Figure()
    for row, tag in enumerate(chosen):
        column = tags.index(tag)
        for place, image in enumerate(np.argsort(-scores[:, column])[:k]):
            top, left = row * cell, place * cell
            sheet[top : top + 8, left : left + 8] = new["pixels"][image].reshape(8, 8)
            if not truth[image, column]:
                raise ValueError(f"{tag}: an image does not fit: change the caption of the page")
        figure.add_annotation(
            x=-1.5,
            y=row * cell + 3.5,
            text=tag,
            showarrow=False,
            xanchor="right",
            font={"size": 15},
        )
    figure.add_trace(go.Heatmap(z=sheet, colorscale="Greys", showscale=False))
    axis = {"visible": False, "range": [cell * len(chosen), -1], "scaleanchor": "x"}
    return figure.update_layout(
        **{**STYLE, "margin": {"t": 10, "b": 10, "l": 10, "r": 10}},
        xaxis={"visible": False, "range": [-2.6 * cell, cell * k]},
        yaxis=axis,
    )


def papers(names: Names) -> go.Figure:
    """Draw known papers as dots and new ones as diamonds, coloured by field."""
    model, field, new = names["model"], names["field"], names["new"]
    Y = [model.embeddings_["papers"], model.embed("papers", names["X"])]
    xy, n = flat(np.vstack(Y)), len(Y[0])
    known = np.array([field[paper] for paper in model.ids_["papers"]])
    later = np.array([new[paper]["label"] for paper in names["ids"]])
    dot, diamond = {"size": 5, "opacity": 0.6}, {"size": 8, "symbol": "diamond", "opacity": 1}
    diamond["line"] = {"width": 0.7, "color": "white"}
    figure = go.Figure()
    for number, (label, _) in enumerate(Counter(known).most_common()):
        title, color = label.replace("_", " ").lower(), HUES[number]
        figure.add_trace(points(xy[:n][known == label], title, color, **dot))
        figure.add_trace(points(xy[n:][later == label], title, color, **diamond))
        figure.add_trace(legend_entry(title, color, symbol="square"))
    figure.update_traces(showlegend=False, selector=lambda trace: trace.x[0] is not None)
    figure.add_trace(legend_entry("known paper", GREY))
    figure.add_trace(legend_entry("new paper", GREY, symbol="diamond"))
    return figure.update_layout(**STYLE, xaxis=NO_AXIS, yaxis=NO_AXIS)


def microbes(names: Names) -> go.Figure:
    """Draw the ranks of known compounds, by similarity and by correlation."""
    masses, figure = names["masses"], go.Figure()
    rows = [
        (title, names["rank"][name], names["rank_by_correlation"][name])
        for title, mass in names["MADE_BY_PSEUDOMONAS"].items()
        for name, found in masses.items()
        if abs(found - mass) < 0.005
    ][::-1]
    titles = [row[0] for row in rows]
    for title, one, other in rows:
        figure.add_trace(
            go.Scatter(
                x=[one, other],
                y=[title, title],
                mode="lines",
                line={"color": "#ccc", "width": 3},
                showlegend=False,
            )
        )
    for name, column, color in (("pmvge", 1, HUES[0]), ("correlation", 2, HUES[1])):
        figure.add_trace(
            go.Scatter(
                x=[row[column] for row in rows],
                y=titles,
                mode="markers",
                name=name,
                marker={"color": color, "size": 13},
            )
        )
    ticks = [1, 2, 5, 10, 20, 50, 100, 200, len(masses)]
    return figure.update_layout(
        **{**STYLE, "margin": {"t": 20, "b": 50, "l": 20, "r": 20}},
        xaxis={"type": "log", "tickvals": ticks, "title": f"rank among {len(masses)} metabolites"},
        yaxis={"automargin": True},
    )


PICTURES: dict[str, tuple[Callable[[Names], go.Figure], str, int, int]] = {
    "recommender": (recommender, ".svg", 820, 560),
    "drug-target": (drug_target, ".png", 820, 320),
    "image-tag": (image_tag, ".png", 820, 360),
    "papers": (papers, ".png", 820, 560),
    "microbes": (microbes, ".svg", 820, 320),
}  # name: function, ending, width, height
