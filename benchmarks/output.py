"""Write the results of a benchmark as JSON and as a figure."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import numpy
import torch
from plotly.graph_objects import Figure

import pmvge

RESULTS = Path(__file__).parent / "results"
IMAGES = Path(__file__).parents[1] / "docs" / "images"


def write(name: str, results: Any, figure: Figure, *, image: bool = False) -> None:
    """Write results/NAME.json, with versions, and results/NAME.html.

    With ``image``, also write docs/images/NAME.svg, which needs a browser for kaleido.
    """
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
    if image:
        try:
            figure.write_image(
                IMAGES / f"{name}.svg", width=900, height=figure.layout.height or 450
            )
        except (ValueError, RuntimeError) as error:
            print(f"docs/images/{name}.svg was not written: {error}")
    print(f"written: results/{name}.json and results/{name}.html")
