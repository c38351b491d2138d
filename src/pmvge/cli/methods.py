"""``pmvge methods``: which methods there are, and what each can do."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pmvge.experiments import TABLE, Card, card, cards

COLUMNS = {
    "Nv": "n_views",
    "MM": "many_to_many",
    "NL": "nonlinear",
    "Ind": "inductive",
    "Lik": "likelihood_based",
}
LEGEND = (
    "Nv: number of views (0: links alone; D: any), MM: many-to-many links, NL: non-linear, "
    "Ind: inductive, embeds new nodes, Lik: likelihood-based. Above the line: table 1 of the "
    "PMvGE paper; below it: methods that its text names."
)


def methods(
    name: Annotated[str | None, typer.Argument(help="Show what is known of this one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the methods that share PMvGE's contract, or describe one.

    Example: pmvge methods
    """
    shown = cards() if name is None else [card(name)]
    if as_json:
        print(json.dumps([asdict(one) for one in shown], indent=1))
    elif name is None:
        _print_table(shown)
    else:
        _print_card(shown[0])


def _print_table(shown: list[Card]) -> None:
    table = Table()
    table.add_column("method", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="center", no_wrap=True)
    table.add_column("what it is")
    for one in shown:
        values = [getattr(one, field) for field in COLUMNS.values()]
        cells = [
            ("✓" if value else "") if isinstance(value, bool) else str(value) for value in values
        ]
        table.add_row(one.name, *cells, Text(one.title), end_section=one.name == TABLE[-1])
    console = Console()
    console.print(table)
    console.print(LEGEND, highlight=False)


def _print_card(one: Card) -> None:
    console = Console()
    home = "pmvge" if one.name == "PMvGE" else "pmvge.baselines"
    console.print(Text(f"{one.name}: {one.title}", style="bold"))
    for paragraph in (one.what, one.choose, one.references):
        console.print(Text("\n" + re.sub(r":math:`([^`]*)`", r"\1", paragraph)))
    console.print(Text(f"\nfrom {home} import {one.name}"), soft_wrap=True)
