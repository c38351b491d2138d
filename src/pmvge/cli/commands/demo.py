"""``pmvge demo``: fit handwritten digits, score the model, and write a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.columns import Columns

from pmvge.cli.options import AsJson
from pmvge.cli.output import Console, bold, check_writable, print_json


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the split and of the training.")] = 0,
    report: Annotated[Path, typer.Option("--report", help="The HTML report.")] = Path(
        "pmvge-demo.html"
    ),
    as_json: AsJson = False,
) -> None:
    """Fit PMvGE to handwritten digits in four views, show scores and examples, write a report.

    Example: pmvge demo --seed 1
    """
    check_writable(report, folder=False)
    import numpy as np

    from pmvge.cli.digits import examples, links_table, names_table, score
    from pmvge.datasets import NAMES, load_digits
    from pmvge.model import PMvGE
    from pmvge.report import write_report

    train, test = load_digits(seed=seed)
    console = Console(quiet=as_json)
    console.rule("[bold]digits: four views of 1,797 handwritten scans")
    console.print(train.graph, highlight=False)
    started = time.perf_counter()
    model = PMvGE(n_components=32, random_state=seed).fit(train.graph)
    seconds = time.perf_counter() - started
    console.print(f"\nFitted in {seconds:.1f} s. {model.history_}", highlight=False)
    results = score(model, train, test)
    digits = {"digit": np.array(NAMES)[train.labels]}
    labels = dict.fromkeys(("image", "spectrum", "profile"), digits)
    labels["name"] = {"digit": np.array(NAMES)}
    write_report(report, model.label(labels), title="Handwritten digits")
    if as_json:
        print_json({"seconds": seconds, **results, "report": str(report)})
        return
    console.print(links_table(results["pairs"]))
    console.print(names_table(results["names"]))
    console.print(
        "\nImages that were not in training, and the names with the highest expected weights:"
    )
    console.print(Columns(examples(model, test, results["names"]["wrong"])))
    console.print(f"\nReport: {bold(report)}; open it in a browser", highlight=False)
