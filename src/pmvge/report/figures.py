"""Plotly figures of a report, as dictionaries that plotly.js reads.

Colours are those of a light page; ``page.js`` replaces them on a dark page, and adds fonts, grid
lines and background.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.evaluation import Reliability
from pmvge.graph import Ids
from pmvge.model import Labels
from pmvge.pages import (
    GREY,
    HELD_OUT,
    NOT_LINKED,
    TRAINING,
    color_of_view,
    plot_text,
    symbol_of_view,
)
from pmvge.report.comparison import Degrees
from pmvge.report.space import Map
from pmvge.training import History

Figure = dict[str, Any]
SIMILARITY_COLORS = {
    "training": TRAINING,
    "held out": HELD_OUT,
    "not linked": NOT_LINKED,
}


def _axis(title: str, *, log: bool = False, **more: Any) -> dict[str, Any]:
    axis: dict[str, Any] = {"title": {"text": title, "standoff": 8}}
    if log:
        axis |= {"type": "log", "exponentformat": "power", "dtick": 1, "tickangle": 0}
    return axis | more


def _decades(*values: NDArray[Any]) -> dict[str, Any]:
    """Return the range and ticks of a logarithmic axis around the positive values."""
    positive = np.concatenate([np.ravel(v) for v in values])
    positive = positive[np.isfinite(positive) & (positive > 0)]
    if not len(positive):
        return {}
    low, high = np.log10(positive.min()), np.log10(positive.max())
    margin = 0.06 * max(high - low, 0.5)
    start, stop = low - margin, high + margin
    axis = {"range": [start, stop], "dtick": max(1, round((stop - start) / 4))}
    if stop - start < 1.8:  # too short for powers of ten
        steps = [m * 10.0**k for k in range(int(start) - 2, int(stop) + 2) for m in (1, 2, 5)]
        inside = [step for step in steps if start <= np.log10(step) <= stop]
        axis |= {"tickvals": inside, "ticktext": [f"{step:.3g}" for step in inside]}
    return axis


def training_curves(history: History) -> Figure:
    """Return training and validation gain against steps, with the step of the best weights."""
    columns = history.to_dict()
    step = columns["step"]
    when = [
        f"epoch {epoch:.1f}, {seconds:.1f} s"
        for epoch, seconds in zip(columns["epoch"], columns["seconds"], strict=True)
    ]
    template = "step %{x}: %{y:.4f}<br>%{text}"
    data: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines" if len(step) > 1 else "markers",
            "name": "training",
            "x": step,
            "y": -columns["loss"],
            "text": when,
            "hovertemplate": template + "<extra>training</extra>",
            "line": {"color": TRAINING, "width": 2},
            "marker": {"color": TRAINING},
        }
    ]
    layout: Figure = {
        "xaxis": _axis("step", rangemode="tozero"),
        "yaxis": _axis("gain (nats per unit of weight)"),
        "hovermode": "x",
    }
    if history.kept:
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": "validation",
                "x": step,
                "y": columns["validation"],
                "text": when,
                "hovertemplate": template + "<extra>validation</extra>",
                "line": {"color": HELD_OUT, "width": 2},
                "marker": {"color": HELD_OUT, "size": 6},
                "connectgaps": True,
            }
        )
        at = history.kept.step
        grey = {"color": GREY, "width": 1.5, "dash": "dot"}
        layout["shapes"] = [
            {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": grey}
        ]
        layout["annotations"] = [
            {
                "x": at,
                "y": 0,
                "yref": "paper",
                "text": f"model of step {at:,}",
                "showarrow": False,
                "xanchor": "right",
                "yanchor": "bottom",
                "xshift": -6,
            }
        ]
    return {"data": data, "layout": layout}


def calibration_panel(bins: Reliability, color: str) -> Figure:
    """Return observed against expected weight, and the diagonal of perfect calibration."""
    x, y, error = bins.expected, bins.observed, bins.error
    both = np.concatenate([x, y])
    both = both[both > 0]
    ends = [both.min() / 2, both.max() * 2] if len(both) else [1e-3, 1.0]
    # On a logarithmic axis an error bar down to 0 would leave the figure.
    below = np.minimum(error, 0.9 * y)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "x": ends,
                "y": ends,
                "hoverinfo": "skip",
                "line": {"color": GREY, "width": 1.5, "dash": "dot"},
            },
            {
                "type": "scatter",
                "mode": "lines+markers",
                "x": x,
                "y": y,
                "text": [f"{int(pairs):,} pairs" for pairs in bins.pairs],
                "hovertemplate": "expected %{x:.3g}<br>observed %{y:.3g}<br>%{text}<extra></extra>",
                "line": {"color": color, "width": 1.5},
                "marker": {"color": color, "size": 8},
                "error_y": {
                    "type": "data",
                    "array": error,
                    "arrayminus": below,
                    "thickness": 1.2,
                    "width": 0,
                    "color": color,
                },
            },
        ],
        "layout": {
            "xaxis": _axis("expected weight", log=True, **_decades(x, y)),
            "yaxis": _axis("observed weight", log=True, **_decades(x, y)),
        },
    }


def degree_panel(sides: Sequence[Degrees], colors: Mapping[str, str]) -> Figure:
    """Return the share of entities with at least a degree, one curve for each side."""
    data = [
        {
            "type": "scatter",
            "mode": "lines" if len(side.degree) > 1 else "markers",
            "x": side.degree,
            "y": side.share,
            "hovertemplate": "%{y:.3p} have at least %{x:.4g}"
            f"<extra>{plot_text(side.view, 24)}</extra>",
            # The second curve is dashed, so that the first stays visible where they coincide.
            "line": {
                "color": colors[side.view],
                "width": 2.5,
                "shape": "vh",
                "dash": "dash" if index else "solid",
            },
            "marker": {"color": colors[side.view], "size": 8},
        }
        for index, side in enumerate(sides)
    ]
    x, y = [side.degree for side in sides], [side.share for side in sides]
    return {
        "data": data,
        "layout": {
            "xaxis": _axis("weighted degree", log=True, **_decades(*x)),
            "yaxis": _axis("share with at least this degree", log=True, **_decades(*y)),
        },
    }


def similarity_panel(similarities: Mapping[str, NDArray[Any]], bins: int = 48) -> Figure:
    """Return the densities of similarities of training, held-out and unlinked pairs."""
    low = min(float(g.min()) for g in similarities.values())
    high = max(float(g.max()) for g in similarities.values())
    if low == high:
        low, high = low - 0.5, high + 0.5
    data = []
    for name in ("not linked", "training", "held out"):  # the last one is drawn on top
        if name in similarities:
            # Rice's rule: few similarities have wider bins.
            count = int(np.clip(2 * len(similarities[name]) ** (1 / 3), 6, bins))
            density, edges = np.histogram(similarities[name], count, (low, high), density=True)
            color = SIMILARITY_COLORS[name]
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "x": (edges[1:] + edges[:-1]) / 2,
                    "y": density,
                    "hovertemplate": f"g = %{{x:.2f}}<extra>{name}</extra>",
                    "line": {"color": color, "width": 2, "shape": "spline", "smoothing": 0.5},
                    "fill": "tozeroy",
                    "fillcolor": color + "22",
                }
            )
    return {
        "data": data,
        "layout": {
            "xaxis": _axis("similarity g"),
            "yaxis": _axis("density", rangemode="tozero", showticklabels=False, showgrid=False),
        },
    }


def space_map(
    drawn: Map, ids: Mapping[str, Ids], labels: Labels, names: Mapping[str, NDArray[Any]]
) -> Figure:
    """Return one trace of points for each view; ``page.js`` colours them by view or label."""
    data = []
    n = sum(len(at) for at in drawn.positions.values())
    for index, (view, at) in enumerate(drawn.positions.items()):
        columns = labels.get(view, {})
        hover = [
            "<br>".join(
                [
                    *([f"<b>{plot_text(names[view][i])}</b>"] if view in names else []),
                    f"<b>{plot_text(view)}</b> {plot_text(ids[view][i])}",
                    *(
                        f"{plot_text(name, 24)}: {plot_text(values[i])}"
                        for name, values in columns.items()
                    ),
                ]
            )
            for i in at.tolist()
        ]
        few = len(at) <= 50  # larger points keep a small view visible among thousands
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "x": np.round(drawn.xy[view][:, 0], 3),
                "y": np.round(drawn.xy[view][:, 1], 3),
                "text": hover,
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {
                    "symbol": symbol_of_view(index),
                    "size": 12 if few else 9 if n < 500 else 6,
                    "color": color_of_view(index),
                    "opacity": 1.0 if few else 0.8,
                    "line": {"width": 1.2 if few else 0.4},
                },
            }
        )
    bare = {"visible": False}
    return {
        "data": data,
        "layout": {
            "xaxis": bare,
            "yaxis": bare | {"scaleanchor": "x"},
            "dragmode": "pan",
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        },
    }
