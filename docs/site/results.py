"""Write docs/results.md from a run of all experiments: `python docs/site/results.py results`.

The run before it is `pmvge reproduce all -o results`. Figures are drawn by kaleido, which needs
Chrome or Chromium.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from pmvge.experiments import ORDER, make, report
from pmvge.experiments import recipe as recipes

DOCS = Path(__file__).parents[1]
ABSENT = ("awa-a", "awa-b")

INTRODUCTION = """\
# What the experiments found

<!-- Written by docs/site/results.py from a run of all experiments: change that, not this page. -->

The experiments of sections 5 and 6, run by

<!-- not run: it takes the better part of an hour, and the data must be there -->
```bash
pmvge reproduce all --processes 2
python docs/site/results.py results
```

Settings of methods were searched before that, on validation parts, by the same command with
`--tune`, and are kept beside the recipes, in `experiments/recipes`. The last line of a section says
which command its numbers come from, and by which versions. Columns headed "paper" repeat what
Okuno, Hada and Shimodaira (ICML 2018) print. Seconds of `cora-a` were taken with the machine to
itself, those of the others while it had other work to do: they compare rows, and are no measure of
what a fit takes alone. `awa-a` and `awa-b` are not here: their image features were not at hand.
`awa-sim` stands for them, on simulated images.
"""


def main(results: Path) -> None:
    """The page, and its figures beside it."""
    parts = [INTRODUCTION]
    for name in ORDER:
        if name in ABSENT:
            continue
        finding = found(name, results / name)
        parts.append(report.markdown(finding, "##", draw(name, finding)))
    (DOCS / "results.md").write_text("\n".join(parts), encoding="utf-8")


def found(name: str, folder: Path) -> report.Finding:
    """What a run found, with the settings that come with the recipe or, by --tune, without."""
    recipe = recipes.load_recipe(name)
    for one in (recipe, replace(recipe, tuned={})):
        finding = report.read_finding(make(one, None, None), folder)
        if finding.done == finding.jobs:
            return finding
    sys.exit(f"{folder}: {finding.state}")


def draw(name: str, finding: report.Finding) -> list[str]:
    """Figures as files; their names, as the page has them."""
    files = []
    for k, drawing in enumerate(finding.summary.drawings, start=1):
        file = f"images/{name}-{k}.svg"
        figure = drawing.figure.update_layout(
            template="plotly_white", margin={"t": 40, "b": 50, "l": 60, "r": 20}
        )
        figure.write_image(DOCS / file, width=900, height=figure.layout.height or 450)
        files.append(file)
    return files


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
