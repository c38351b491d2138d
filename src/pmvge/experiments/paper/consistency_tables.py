"""Results of the consistency experiment: a table, goals, and figures of errors and likelihoods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from plotly.graph_objects import Figure

from pmvge.experiments.base import Goal, Plot, Result, Summary, Table
from pmvge.pages import HUES


def summarize_by_size(
    by_design: Mapping[str, Mapping[int, list[Result]]], sizes: Sequence[int], repetitions: int
) -> Summary:
    """Return errors against n with slopes, and the likelihood with its expectation.

    ``by_design`` has the results of each design by number of entities; some may be missing.
    """
    rows, goals = [], []
    errors, likelihoods = Figure(), Figure()
    for color, (design, by_size) in zip(HUES, by_design.items(), strict=False):
        if not by_size:
            continue
        median = [_median(r, "error") for r in by_size.values()]
        done = list(by_size)
        slope = slope_of(done, median)
        for n, graphs in by_size.items():
            gaps = [abs(r["estimate"] - r["expected"]) for r in graphs]
            missing = f"{_median(graphs, 'missing'):.4f}" if graphs[0]["missing"] else ""
            rows.append(
                [design, f"{n:,}", f"{_median(graphs, 'links'):,.0f}"]
                + [f"{_median(graphs, 'error'):.4f}", missing]
                + [f"{_median(graphs, key):.5f}" for key in ("estimate", "truth", "expected")]
                + [f"{np.median(gaps):.5f}"]
            )
        _points(errors, design, color, by_size, "error", "circle")
        errors.add_scatter(
            x=done, y=median, line={"color": color}, name=f"{design}: slope {slope:.2f}"
        )
        for key, symbol in (("estimate", "circle"), ("truth", "x")):
            name = f"{design}: of the {key}"
            _points(likelihoods, name, color, by_size, key, symbol, legend=True)
        likelihoods.add_scatter(
            x=done,
            y=[_median(graphs, "expected") for graphs in by_size.values()],
            line={"color": color, "dash": "dash"},
            mode="lines",
            name=f"{design}: expectation",
        )
        goals += _goals(design, by_size, slope, len(sizes))
    caption = f"Error of log μ̂ and the likelihood of a pair term, medians of {repetitions} graphs"
    columns = ["design", "entities", "links", "error of log μ̂", "of the missing pair's g"]
    columns += ["ℓₙ/|Iₙ| of the estimate", "of the truth", "expectation", "distance"]
    axis = {"title": "entities n", "type": "log", "tickvals": sizes}
    axis["ticktext"] = [f"{n:,}" for n in sizes]
    errors.update_layout(
        template="plotly_white",
        xaxis=axis,
        yaxis={"title": "root mean square error of log μ̂", "type": "log", "dtick": 1},
    )
    likelihoods.update_layout(
        template="plotly_white", xaxis=axis, yaxis={"title": "log-likelihood per pair term"}
    )
    plots = [
        Plot(
            "The estimate converges to the truth: root mean square of log μ̂ - log μ* over "
            "pairs of new entities. Points are graphs, lines join the medians. The weights of "
            "n² pairs determine a fixed number of parameters, so the expected slope is -1; the "
            "theorem gives no rate.",
            errors,
        ),
        Plot(
            "ℓₙ/|Iₙ| of the estimate (circles) and of the truth (crosses) both converge to the "
            "expectation under the truth (dashed). On each graph the value of the estimate is "
            "larger, because it maximizes the likelihood.",
            likelihoods,
        ),
    ]
    return Summary([Table(caption, columns, rows)], plots if rows else [], goals)


def _goals(
    design: str, by_size: Mapping[int, list[Result]], slope: float, n_sizes: int
) -> list[Goal]:
    """Return the goals of a design; none if sizes are missing."""
    median = [_median(graphs, "error") for graphs in by_size.values()]
    if len(median) < n_sizes:
        return []
    sizes = f"{min(by_size):,} to {max(by_size):,} entities"
    gaps = [
        float(np.median([abs(r["estimate"] - r["expected"]) for r in graphs]))
        for graphs in by_size.values()
    ]
    return [
        Goal(
            f"{design}: error of log μ̂ from {sizes}",
            "decreases with every size",
            f"{median[0]:.3f} to {median[-1]:.4f}, slope {slope:.2f}",
            all(np.diff(median) < 0),
        ),
        Goal(
            f"{design}: distance of ℓₙ/|Iₙ| from its expectation, {sizes}",
            "decreases",
            f"{gaps[0]:.4f} to {gaps[-1]:.5f}",
            gaps[-1] < gaps[0],
        ),
    ]


def slope_of(sizes: list[int], errors: list[float]) -> float:
    """Return the slope of a line through the errors on log-log axes; NaN for one size."""
    if len(sizes) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def _median(results: list[Result], key: str) -> float:
    return float(np.median([result[key] for result in results]))


def _points(
    figure: Figure,
    name: str,
    color: str,
    by_size: Mapping[int, list[Result]],
    key: str,
    symbol: str,
    legend: bool = False,
) -> None:
    figure.add_scatter(
        x=[n for n, graphs in by_size.items() for _ in graphs],
        y=[result[key] for graphs in by_size.values() for result in graphs],
        mode="markers",
        marker={"color": color, "symbol": symbol, "size": 8, "opacity": 0.7},
        name=name,
        showlegend=legend,
    )
