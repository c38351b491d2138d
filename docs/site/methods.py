"""Write docs/methods.md from the classes themselves: `python docs/site/methods.py`.

A test holds the page to what this would write, so it cannot fall behind.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from pmvge.experiments import TABLE, Card, cards

PAGE = Path(__file__).parents[1] / "methods.md"
COSTS = Path(__file__).parents[2] / "benchmarks" / "results" / "methods.json"

INTRODUCTION = """\
# Other methods

<!-- Written by docs/site/methods.py from the classes' own words: change those, not this page. -->

Every method that the paper compares with or generalises stands under one contract, so that PMvGE
can be exchanged for any of them in one line:

```python
import numpy as np
from pmvge import MultiViewGraph
from pmvge.baselines import CDMCA

rng = np.random.default_rng(0)
words, pixels = rng.normal(size=(50, 8)), rng.normal(size=(40, 12))
links = rng.poisson(0.3, (50, 40))
graph = MultiViewGraph({"text": words, "image": pixels}, {("text", "image"): links})

model = CDMCA(n_components=5).fit(graph)
model.embeddings_["image"]  # (40, 5)
model.embed("text", rng.normal(size=(3, 8)))  # (3, 5): inductive methods place new rows
```

Settings are given to the constructor, `fit(graph)` learns, `embeddings_` holds the vectors of the
training nodes, and `embed(view, X)` places new rows, or raises `NotInductive`. What a graph must
look like is said by the number of views: a method for two views refuses three, one for no views
looks at links alone and takes any graph. A view without features counts as one-hot vectors.
Vectors always have `n_components` columns: what a method finds no use for is 0. Formulas leave out
biases. The libraries that
some need (cca-zoo, gensim, torch-geometric) come with `pip install 'pmvge[baselines]'`.

The same on the command line: `pmvge methods`, and `pmvge methods LINE` for one of them.

## What each can do

"""

ALIGNED = """
The upper part is table 1 of the paper; the lower part are methods that its text names.

**Aligned rows.** CCA, DCCA and MCCA are made for rows that belong together one to one. Here they
see one aligned row per link, weighted by w. That is all the same to a linear method: CCA on such
rows is CvGE. Kernel CCA works on the nodes with the weights W, since a kernel between links would
not fit into memory.

## How they are related

CDMCA is the root of the linear family, each equality tested on numbers
(`tests/baselines/test_lattice.py`):

| this | is |
| --- | --- |
| CvGE | CDMCA of two views |
| CCA | CDMCA of two views with one-to-one links |
| MCCA | CDMCA with one-to-one links between all views, of no more axes than columns |
| LPP | CDMCA of one view |
| SGE | LPP on one-hot vectors |
| HIMFAC | CDMCA, in distances |

PMvGE with linear encoders approaches CDMCA where the signal is weak: to second order around
$`g = 0`$ its likelihood is maximised by

```math
\\hat \\psi_{\\text{PMvGE}} = \\hat \\psi_{\\text{CDMCA}} \\, \\Gamma^{1/2},
\\qquad \\gamma_k = \\lambda_k / \\alpha_0
```

(`pmvge.baselines.cdmca.quadratic_pmvge`). The figure shows the largest angle between what the two
span, the numerical maximum of the likelihood against the closed form (`pmvge reproduce cdmca`).
What is left at the weak end are the terms i = j, which the closed form has and the likelihood has
not; they fade as the graph grows.

![The angle between linear PMvGE and its closed form](images/cdmca-1.svg)
"""


def page() -> str:
    """The whole page."""
    every = cards()
    parts = [INTRODUCTION, *_table(every), ALIGNED, *_costs()]
    for one in every:
        parts += ["\n", *_section(one)]
    return "".join(parts)


def _table(every: list[Card]) -> list[str]:
    lines = [
        "| method | views | many-to-many | non-linear | inductive | likelihood |\n",
        "| --- | :-: | :-: | :-: | :-: | :-: |\n",
    ]
    for one in every:
        flags = (one.many_to_many, one.nonlinear, one.inductive, one.likelihood_based)
        cells = [f"[{one.name}](#{one.name.lower()})", str(one.n_views)]
        lines.append("| " + " | ".join(cells + ["✓" if flag else "" for flag in flags]) + " |\n")
        if one.name == TABLE[-1]:
            lines.append("| | | | | | |\n")
    return lines


def _costs() -> list[str]:
    """Seconds and memory, as the benchmark wrote them down."""
    measured = json.loads(COSTS.read_text(encoding="utf-8"))
    results = measured["results"]
    repeats = results["repeats"]
    runs = "one run each" if repeats == 1 else f"medians of {repeats} runs"
    lines = [
        "\n## What each costs\n\n",
        f"One fit of {results['data']} (2,708 papers, 1,433 words) with the default settings on "
        f"{measured['versions']['threads']} cores; methods of two and more views get the papers "
        "in two views at random. Seconds, and the peak of memory above that of the data "
        f"(`benchmarks/methods.py`; {runs}).\n\n",
        "| method | seconds | memory, MB |\n",
        "| --- | --: | --: |\n",
    ]
    for row in results["methods"]:
        memory = f"{row['memory_bytes'] / 1e6:.0f}"
        lines.append(f"| {row['method']} | {row['seconds']:.1f} | {memory} |\n")
    return lines


def _section(one: Card) -> list[str]:
    title = "" if one.title == one.name else f"*{one.title}.* "
    return [
        f"## {one.name}\n\n",
        f"{title}{_markdown(one.what)}\n\n",
        *(f"```math\n{line.strip()}\n```\n\n" for line in one.objective.split(r"\\")),
        f"{_markdown(one.choose)}\n\n",
        f"{_markdown(one.references)}\n",
    ]


def _markdown(text: str) -> str:
    """A docstring's roles as a page writes them."""
    text = re.sub(r":math:`([^`]+)`", r"$`\1`$", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
