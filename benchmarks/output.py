"""What every benchmark does with its numbers: JSON for machines, a figure for people."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy
import torch
from plotly.graph_objects import Figure

import pmvge

RESULTS = Path(__file__).parent / "results"


def write(name: str, results: Any, figure: Figure) -> None:
    """Write results/NAME.json, with versions, and results/NAME.html."""
    RESULTS.mkdir(exist_ok=True)
    made_with = {
        "pmvge": pmvge.__version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
    }
    text = json.dumps({"versions": made_with, "results": results}, indent=1)
    (RESULTS / f"{name}.json").write_text(text + "\n")
    figure.update_layout(template="plotly_white", font_size=14)
    figure.write_html(RESULTS / f"{name}.html", include_plotlyjs=True)
    print(f"written: results/{name}.json and results/{name}.html")


def write_svg(
    name: str, xs: Sequence[float], curves: dict[str, list[float]], x: str, y: str
) -> None:
    """Write docs/images/NAME.svg: curves over the same xs, both axes logarithmic."""
    width, height, left, right, top, bottom = 640, 360, 70, 20, 20, 50
    values = [value for curve in curves.values() for value in curve]

    def scale(value: float, low: float, high: float) -> float:
        return math.log(value / low) / math.log(high / low)

    def at(a: float, b: float) -> tuple[float, float]:
        across = scale(a, min(xs), max(xs))
        up = scale(b, lowest, highest)
        return (
            round(left + across * (width - left - right), 1),
            round(height - bottom - up * (height - top - bottom), 1),
        )

    lowest, highest = 0.8 * min(values), 1.25 * max(values)
    ticks = [
        m * 10.0**e for e in range(-4, 5) for m in (1, 2, 5) if lowest <= m * 10.0**e <= highest
    ]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13" fill="#444">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for tick in ticks:
        _, v = at(min(xs), tick)
        parts.append(f'<path d="M{left} {v}H{width - right}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{v + 4}" text-anchor="end">{tick:g}</text>')
    for tick in xs:
        h, _ = at(tick, lowest)
        parts.append(f'<path d="M{h} {top}V{height - bottom}" stroke="#eee"/>')
        parts.append(
            f'<text x="{h}" y="{height - bottom + 18}" text-anchor="middle">{tick:g}</text>'
        )
    for (label, curve), color in zip(curves.items(), ("#00796b", "#e65100"), strict=False):
        points = [at(a, b) for a, b in zip(xs, curve, strict=True)]
        line = " ".join(f"{h},{v}" for h, v in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{h}" cy="{v}" r="4" fill="{color}"/>' for h, v in points]
        h, v = points[-2]  # where the lines are apart
        parts.append(
            f'<text x="{h - 8}" y="{v - 8}" text-anchor="end" fill="{color}">{label}</text>'
        )
    middle = (left + width - right) / 2
    parts.append(f'<text x="{middle}" y="{height - 8}" text-anchor="middle">{x}</text>')
    parts.append(
        f'<text transform="translate(18 {height / 2}) rotate(-90)" text-anchor="middle">{y}</text>'
    )
    path = Path(__file__).parents[1] / "docs" / "images" / f"{name}.svg"
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")
    print(f"written: docs/images/{name}.svg")
