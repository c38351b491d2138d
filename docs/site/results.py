"""Write docs/results.md from a run of all experiments: `python docs/site/results.py results`.

Run `pmvge reproduce all -o results` first. With names, `python docs/site/results.py results sbm
wordnet`, the sections of these experiments are written and the others stay. Figures are drawn by
kaleido, which needs Chrome or Chromium.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from pmvge.experiments import (
    ORDER,
    ExperimentReport,
    load_recipe,
    make,
    read_experiment_report,
    to_markdown,
)

DOCS = Path(__file__).parents[1]
WITHOUT_DATA = ("awa-a", "awa-b")

INTRODUCTION = """\
# Results of the experiments

<!-- Written by docs/site/results.py from a run of all experiments. Do not edit this page. -->

These are the results of the paper's experiments (sections 3, 5 and 6), and of comparisons of
recommenders, similarities and families. To run them all:

<!-- not run: it takes almost an hour and needs the data sets -->
```bash
pmvge reproduce all --processes 2
python docs/site/results.py results
```

- The settings of the methods were searched before, on validation parts, by the same command with
  `--tune`. They are stored with the recipes in `experiments/recipes`.
- The last line of each section has the command and the versions.
- Columns named "paper" are the numbers of Okuno, Hada and Shimodaira (ICML 2018).
- Seconds of `cora-a` were measured on an idle machine, all others on a busy one: use them to
  compare rows only.
- `awa-a` and `awa-b` are missing, because their image features were not available. `awa-sim`
  replaces them, with simulated images.
"""


def main(results: Path, names: list[str]) -> None:
    """Write the page, or the sections of some experiments, and figures next to it."""
    page = DOCS / "results.md"
    kept = read_sections(page.read_text(encoding="utf-8")) if names else {}
    parts = [INTRODUCTION]
    for name in ORDER:
        if name in WITHOUT_DATA:
            continue
        if names and name not in names:
            parts += [kept[name]] if name in kept else []
            continue
        report = read_complete_report(name, results / name)
        parts.append(to_markdown(report, "##", write_figures(name, report)))
    page.write_text("\n".join(parts), encoding="utf-8")


def read_sections(text: str) -> dict[str, str]:
    """Return the sections of the page by the name of the experiment."""
    parts = text.split("\n## ")[1:]
    return {part.partition(":")[0]: f"## {part.rstrip()}\n" for part in parts}


def read_complete_report(name: str, folder: Path) -> ExperimentReport:
    """Return the report of a complete run, with the recipe's tuned settings or from --tune.

    Exits if jobs are missing.
    """
    recipe = load_recipe(name)
    for variant in (recipe, replace(recipe, tuned={})):
        report = read_experiment_report(make(variant, None, None), folder)
        if report.done == report.jobs:
            return report
    sys.exit(f"{folder}: {report.state}")


def write_figures(name: str, report: ExperimentReport) -> list[str]:
    """Write the figures as SVG files and return their paths relative to the page."""
    files = []
    for k, plot in enumerate(report.summary.plots, start=1):
        file = f"images/{name}-{k}.svg"
        figure = plot.figure.update_layout(
            template="plotly_white", margin={"t": 40, "b": 50, "l": 60, "r": 20}
        )
        figure.write_image(DOCS / file, width=900, height=figure.layout.height or 450)
        files.append(file)
    return files


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"), sys.argv[2:])
