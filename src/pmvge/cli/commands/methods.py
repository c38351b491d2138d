"""``pmvge methods``: which methods there are, and what each can do."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from pmvge.cli.output import Console

if TYPE_CHECKING:
    from pmvge.experiments import Card

COLUMNS = {
    "Nv": "n_views",
    "MM": "many_to_many",
    "NL": "nonlinear",
    "Ind": "inductive",
    "Lik": "likelihood_based",
}
LEGEND = (
    "Nv: number of views (0: links alone; D: any), MM: many-to-many links, NL: non-linear, "
    "Ind: inductive, embeds new entities, Lik: likelihood-based. Above the line: table 1 of the "
    "PMvGE paper; below it: methods that its text names."
)


def methods(
    name: Annotated[
        str | None, typer.Argument(help="The class name of a method to describe.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the methods that share PMvGE's interface, or describe one.

    Example: pmvge methods
    """
    from pmvge.experiments import TABLE, card, cards

    shown = cards() if name is None else [card(name)]
    if as_json:
        print(json.dumps([asdict(method) for method in shown], indent=1))
    elif name is None:
        _print_table(shown, last_of_table_1=TABLE[-1])
    else:
        _print_card(shown[0])


def _print_table(shown: list[Card], last_of_table_1: str) -> None:
    table = Table()
    table.add_column("method", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="center", no_wrap=True)
    table.add_column("description")
    for method in shown:
        values = [getattr(method, field) for field in COLUMNS.values()]
        cells = [
            ("✓" if value else "") if isinstance(value, bool) else str(value) for value in values
        ]
        last = method.name == last_of_table_1
        table.add_row(method.name, *cells, Text(method.title), end_section=last)
    console = Console()
    console.print(table)
    console.print(LEGEND, highlight=False)


def _print_card(method: Card) -> None:
    console = Console()
    home = "pmvge" if method.name == "PMvGE" else "pmvge.baselines"
    console.print(Text(f"{method.name}: {method.title}", style="bold"))
    for paragraph in (method.what, method.choose, method.references):
        plain = re.sub(r":math:`\\?([^`]*)`", r"\1", paragraph).replace("``", "'")
        console.print(Text("\n" + plain))
    console.print(Text(f"\nfrom {home} import {method.name}"), soft_wrap=True)
