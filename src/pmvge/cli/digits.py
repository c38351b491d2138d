"""The tables and pictures of ``pmvge demo``: a model of handwritten digits on unseen scans."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pmvge.datasets import NAMES, Digits
from pmvge.evaluation import link_prediction
from pmvge.model import PMvGE

SHADES = " ░▒▓█"
EXAMPLES = 5


def score(model: PMvGE, train: Digits, test: Digits) -> dict[str, Any]:
    """Return how well the model predicts links and names of scans that it has not seen."""
    Y = model.embed_graph(test.graph)
    likelihood = model.log_likelihood(test.graph, by_pair=True)
    pairs = {}
    for (a, b), links in test.graph.links.items():
        rows = {view: X if X is not None else list(NAMES) for view, X in test.graph.views.items()}
        density = train.graph.links[a, b].total / train.graph.links[a, b].n_terms
        constant = links.total * np.log(density) - links.n_terms * density
        pairs[f"{a} - {b}"] = {
            "log_likelihood": likelihood[a, b] / links.n_terms,
            "constant_intensity": float(constant / links.n_terms),
            **link_prediction(links, model.intensity(a, rows[a], b, rows[b])),
        }
    named = {}
    for view in ("image", "spectrum", "profile"):
        g = Y[view] @ Y["name"].T
        named[view] = float(np.mean(g.argmax(axis=1) == test.labels))
    wrong = np.flatnonzero((Y["image"] @ Y["name"].T).argmax(axis=1) != test.labels)
    return {"pairs": pairs, "names": {"accuracy": named, "wrong": wrong.tolist()}}


def links_table(pairs: dict[str, dict[str, float]]) -> Table:
    """Return the scores of the links, by view pair."""
    table = Table(
        title="Links between scans that were not in training",
        caption="log-lik.: log-likelihood per pair of entities; constant: that of a model with the "
        "same expected weight for all pairs; AP: average precision; E/O: expected over observed "
        "total weight",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("view pair", no_wrap=True)
    for column in ("log-lik.", "constant", "ROC AUC", "AP", "E/O"):
        table.add_column(column, justify="right")
    for pair, row in pairs.items():
        table.add_row(pair, *(f"{value:.3f}" for value in row.values()))
    return table


def names_table(names: dict[str, Any]) -> Table:
    """Return how often the best name is right, by view."""
    observed = {"image": "yes", "spectrum": "no", "profile": "no"}
    table = Table(title="How often the best name for a new scan is correct", title_justify="left")
    table.add_column("searched from")
    table.add_column("linked to names in training?")
    table.add_column("correct", justify="right")
    for view, accuracy in names["accuracy"].items():
        table.add_row(view, observed[view], f"{accuracy:.1%}")
    return table


def examples(model: PMvGE, test: Digits, wrong: list[int]) -> list[Panel]:
    """Return a few test images with their best names; one is misclassified if there is any."""
    chosen = [*wrong[:1], *np.flatnonzero(~np.isin(np.arange(len(test.labels)), wrong))]
    chosen = sorted(int(row) for row in chosen[:EXAMPLES])
    pixels = np.asarray(test.graph.views["image"])[chosen]
    ids, mu = model.search("image", pixels, among="name", k=3)
    return [
        Panel(
            Text(
                _draw(image) + "\n" + "\n".join(f"{n:6}{m:5.2f}" for n, m in zip(i, w, strict=True))
            ),
            title=f"scan {test.graph.ids['image'][row]}",
            expand=False,
        )
        for row, image, i, w in zip(chosen, pixels, ids, mu, strict=True)
    ]


def _draw(image: NDArray[Any]) -> str:
    """Return an 8 x 8 image of numbers 0..16 as text, two characters per pixel."""
    shade = np.clip(np.rint(image.reshape(8, 8) / 4).astype(int), 0, len(SHADES) - 1)
    return "\n".join("".join(SHADES[s] * 2 for s in row) for row in shade)
