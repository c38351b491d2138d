"""Write docs/results.md from a run of all experiments: `python docs/site/results.py results`.

The run before it is `pmvge reproduce all -o results`. Figures are drawn by kaleido, which needs
Chrome or Chromium.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from pmvge.experiments import recipe as recipes
from pmvge.experiments import report
from pmvge.experiments.run import ORDER, made_with, make

DOCS = Path(__file__).parents[1]
ABSENT = ("awa-a", "awa-b")

INTRODUCTION = """\
# What the experiments found

<!-- Written by docs/site/results.py from a run of all experiments: change that, not this page. -->

The paper's experiments, run by

```bash
pmvge reproduce all --processes 2
python docs/site/results.py results
```

with {versions} on {cores} cores. The settings of methods were searched on validation parts before
(`--tune` searches them anew) and are kept beside the recipes, in `experiments/recipes`. Columns
headed "paper" repeat what Okuno, Hada and Shimodaira (ICML 2018) print. `awa-a` and `awa-b` are not
here: their image features were not at hand. `awa-sim` stands for them, on simulated images.
"""


def main(results: Path) -> None:
    """The page, and its figures beside it."""
    by = made_with()
    versions = ", ".join(f"{library} {number}" for library, number in by["versions"].items())
    parts = [INTRODUCTION.format(versions=versions, cores=by["cores"])]
    for name in ORDER:
        if name in ABSENT:
            continue
        finding = found(name, results / name)
        parts.append(report.markdown(finding, "##", draw(name, finding)))
    (DOCS / "results.md").write_text("\n".join(parts), encoding="utf-8")


def found(name: str, folder: Path) -> report.Finding:
    """What a run found, with the settings that come with the recipe or, by --tune, without."""
    recipe = recipes.load(name)
    for one in (recipe, replace(recipe, tuned={})):
        finding = report.read(make(one, None, None), folder)
        if finding.done == finding.jobs:
            return finding
    sys.exit(f"{folder}: {finding.state}")


def draw(name: str, finding: report.Finding) -> list[str]:
    """Figures as files; their names, as the page has them."""
    files = []
    for k, drawing in enumerate(finding.summary.drawings, start=1):
        file = f"images/{name}-{k}.svg"
        figure = drawing.figure.update_layout(template="plotly_white")
        figure.write_image(DOCS / file, width=900, height=figure.layout.height or 450)
        files.append(file)
    return files


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
