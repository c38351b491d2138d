"""Write docs/methods.md from the docstrings of the methods: `python docs/site/methods.py`.

A test checks that the committed page is what this script writes.
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

<!-- Written by docs/site/methods.py from the classes' docstrings: edit those, not this page. -->

All methods that the paper compares with or generalises have the interface of PMvGE, so you can
replace PMvGE by any of them in one line:

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
model.embed("text", rng.normal(size=(3, 8)))  # (3, 5): inductive methods embed new rows
```

Pass the parameters to the constructor and call `fit(graph)`. `embeddings_` has the vectors of the
training entities, and `embed(view, X)` returns the vectors of new rows, or raises `NotInductive`. A
method for one or two views accepts only graphs with that number of views. A method for 0 views uses
links only and accepts any graph. A view without features becomes one-hot vectors. Vectors always
have `n_components` columns; columns that a method does not use are 0. Formulas leave out biases.
Methods for plain graphs call entities nodes, as their papers do.
Some methods need cca-zoo, gensim or torch-geometric: `pip install 'pmvge[baselines]'`.

On the command line, `pmvge methods` lists the methods and `pmvge methods LINE` describes one.

## What each method can do

"""

RELATIONS = """
The upper part is table 1 of the paper; the lower part lists methods that only its text mentions.

**Aligned rows.** CCA, DCCA and MCCA are defined for one-to-one links. Here they get one aligned row
per link, weighted by w. For linear methods this makes no difference: CCA on such rows is CvGE.
Kernel CCA uses the kernel between entities and the weights W, as a kernel between links would not
fit into memory.

## How the methods are related

The linear methods are special cases of CDMCA. Tests check each equality on random data
(`tests/baselines/test_lattice.py`):

| method | is |
| --- | --- |
| CvGE | CDMCA of two views |
| CCA | CDMCA of two views with one-to-one links |
| MCCA | CDMCA with one-to-one links between all views, of no more axes than columns |
| LPP | CDMCA of one view |
| SGE | LPP on one-hot vectors |
| HIMFAC | CDMCA, stated with distances |

PMvGE with linear encoders approaches CDMCA for weak signals: to second order around $`g = 0`$, its
likelihood is maximised by

```math
\\hat \\psi_{\\text{PMvGE}} = \\hat \\psi_{\\text{CDMCA}} \\, \\Gamma^{1/2},
\\qquad \\gamma_k = \\lambda_k / \\alpha_0
```

(`pmvge.baselines.cdmca.quadratic_pmvge`). The figure shows the largest angle between the subspaces
of the numerical maximum of the likelihood and of the closed form (`pmvge reproduce cdmca`). The
angle that remains for the weakest signals comes from the terms i = j, which only the closed form
contains; this angle decreases as the graph grows.

![The angle between linear PMvGE and its closed form](images/cdmca-1.svg)
"""


def page() -> str:
    """Return the text of the page."""
    methods = cards()
    parts = [INTRODUCTION, *_table(methods), RELATIONS, *_costs()]
    for card in methods:
        parts += ["\n", *_section(card)]
    return "".join(parts)


def _table(methods: list[Card]) -> list[str]:
    lines = [
        "| method | views | many-to-many | non-linear | inductive | likelihood |\n",
        "| --- | :-: | :-: | :-: | :-: | :-: |\n",
    ]
    for card in methods:
        flags = (card.many_to_many, card.nonlinear, card.inductive, card.likelihood_based)
        cells = [f"[{card.name}](#{card.name.lower()})", str(card.n_views)]
        lines.append("| " + " | ".join(cells + ["✓" if flag else "" for flag in flags]) + " |\n")
        if card.name == TABLE[-1]:
            lines.append("| | | | | | |\n")
    return lines


def _costs() -> list[str]:
    """Return the table of seconds and memory, from the results of the benchmark."""
    measured = json.loads(COSTS.read_text(encoding="utf-8"))
    results = measured["results"]
    repeats = results["repeats"]
    runs = "one run each" if repeats == 1 else f"medians of {repeats} runs"
    lines = [
        "\n## Time and memory\n\n",
        f"One fit of {results['data']} (2,708 papers, 1,433 words) with default parameters on "
        f"{measured['versions']['threads']} cores. For methods with two or more views the papers "
        "are split into two views at random. PMvGE has the defaults of 0.1, before its new ones. "
        "Memory is the peak minus that of the loaded data "
        f"(`benchmarks/methods.py`; {runs}).\n\n",
        "| method | seconds | memory, MB |\n",
        "| --- | --: | --: |\n",
    ]
    for row in results["methods"]:
        memory = f"{row['memory_bytes'] / 1e6:.0f}"
        lines.append(f"| {row['method']} | {row['seconds']:.1f} | {memory} |\n")
    return lines


def _section(card: Card) -> list[str]:
    title = "" if card.title == card.name else f"*{card.title}.* "
    return [
        f"## {card.name}\n\n",
        f"{title}{_markdown(card.what)}\n\n",
        *(f"```math\n{line.strip()}\n```\n\n" for line in card.objective.split(r"\\")),
        f"{_markdown(card.choose)}\n\n",
        f"{_markdown(card.references)}\n",
    ]


def _markdown(text: str) -> str:
    """Return reStructuredText roles and literals as Markdown."""
    text = re.sub(r":math:`([^`]+)`", r"$`\1`$", text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
