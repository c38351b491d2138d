"""What every benchmark does with its numbers: JSON for machines, a figure for people."""

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
