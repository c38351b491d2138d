"""``pmvge demo``: PMvGE on handwritten digits, start to end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pmvge.cli.common import AsJson, print_json, writable
from pmvge.datasets import NAMES, Digits, load_digits
from pmvge.evaluation import link_prediction
from pmvge.graph import hold_out_links
from pmvge.model import Background, PMvGE
from pmvge.report import write_report

SHADES = " ░▒▓█"
EXAMPLES = 5


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the split and of the training.")] = 0,
    report: Annotated[Path, typer.Option("--report", help="Where the HTML report goes.")] = Path(
        "pmvge-demo.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Fit PMvGE to handwritten digits in four views and show what it learned.

    Example: pmvge demo --seed 1
    """
    writable(report, folder=False)
    train, test = load_digits(seed=seed)
    console = Console(quiet=as_json)
    console.rule("[bold]digits: four views of 1,797 handwritten scans")
    console.print(train.graph, highlight=False)
    started = time.perf_counter()
    kept, held = hold_out_links(train.graph, 0.1, np.random.default_rng(seed))
    model = PMvGE(n_components=32, random_state=seed).fit(kept, held)
    seconds = time.perf_counter() - started
    console.print(f"\nFitted in {seconds:.1f} s. {model.history_}", highlight=False)
    results = _judge(model, train, test)
    digits = {"digit": np.array(NAMES)[train.labels]}
    labels = dict.fromkeys(("image", "spectrum", "profile"), digits)
    labels["name"] = {"digit": np.array(NAMES)}
    write_report(report, model, Background.of(kept, held, labels), title="Handwritten digits")
    if as_json:
        print_json({"seconds": seconds, **results, "report": str(report)})
        return
    console.print(_links_table(results["pairs"]))
    console.print(_names_table(results["names"]))
    console.print("\nUnseen images and their most expected names:")
    console.print(Columns(_examples(model, test, results["names"]["wrong"])))
    console.print(f"\nReport: [bold]{report}[/], open it in a browser", highlight=False)


def _judge(model: PMvGE, train: Digits, test: Digits) -> dict[str, Any]:
    """What the model says of scans it has never seen."""
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


def _links_table(pairs: dict[str, dict[str, float]]) -> Table:
    table = Table(
        title="Links between scans never seen in training",
        caption="log-lik.: log-likelihood per pair, and that of a constant intensity; AP: average "
        "precision; E/O: expected over observed total weight",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("view pair", no_wrap=True)
    for column in ("log-lik.", "constant", "ROC AUC", "AP", "E/O"):
        table.add_column(column, justify="right")
    for pair, row in pairs.items():
        table.add_row(pair, *(f"{value:.3f}" for value in row.values()))
    return table


def _names_table(names: dict[str, Any]) -> Table:
    observed = {"image": "yes", "spectrum": "no", "profile": "no"}
    table = Table(title="The best name of an unseen scan, by search", title_justify="left")
    table.add_column("searched from")
    table.add_column("pair with 'name' observed?")
    table.add_column("right", justify="right")
    for view, accuracy in names["accuracy"].items():
        table.add_row(view, observed[view], f"{accuracy:.1%}")
    return table


def _examples(model: PMvGE, test: Digits, wrong: list[int]) -> list[Panel]:
    """A few test images, one that the model gets wrong among them, with their best names."""
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
    """An 8 x 8 image of 0..16 in text, two characters a pixel."""
    shade = np.clip(np.rint(image.reshape(8, 8) / 4).astype(int), 0, len(SHADES) - 1)
    return "\n".join("".join(SHADES[s] * 2 for s in row) for row in shade)
