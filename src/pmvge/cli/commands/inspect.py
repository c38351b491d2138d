"""``pmvge inspect``: what is in a model folder."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from pmvge.cli.options import AsJson, Model
from pmvge.cli.output import Console, bold, cell, print_json


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show a model's views, links, alpha, settings and training.

    Example: pmvge inspect model/
    """
    from pmvge.model import PMvGE, setting_text

    facts = PMvGE.load(model).describe()
    if as_json:
        print_json(facts)
        return
    console = Console(highlight=False)
    console.print(f"{bold(model)}: pmvge model, K = {facts['n_components']}", soft_wrap=True)
    console.print(_views_table(facts))
    console.print(_links_table(facts))
    training = facts["training"]
    console.print(f"training: {training['summary']}", markup=False, soft_wrap=True)
    changed = ", ".join(
        f"{key} = {setting_text(key, value)}" for key, value in facts["changed_settings"].items()
    )
    console.print(
        f"settings that differ from the defaults or were chosen for the data: {changed or 'none'}",
        markup=False,
        soft_wrap=True,
    )


def _views_table(facts: dict[str, Any]) -> Table:
    table = Table("view", "entities", "features", "encoder", title="Views", title_justify="left")
    table.add_column("effects")
    for name, view in facts["views"].items():
        row: list[Any] = [
            cell(name),
            f"{view['n']:,}",
            cell(view["features"]),
            cell(view["encoder"]),
        ]
        table.add_row(*row, _effects(view["effects"]))
    return table


def _effects(effects: dict[str, Any]) -> str:
    """Return the kind of effects, and how much of the similarities features explain."""
    shares = effects.get("feature_shares", {})
    if not shares:
        return str(effects["kind"])
    mean = sum(shares.values()) / len(shares)
    return f"{effects['kind']} (features explain {mean:.0%})"


def _links_table(facts: dict[str, Any]) -> Table:
    table = Table("view pair", "alpha", "rel. error", "links", "held out", title="Links")
    table.title_justify = "left"
    for pair, entry in facts["alpha"].items():
        links = facts["links"].get(pair)
        error = f"{entry['relative_error']:.1%}" if entry["relative_error"] else "exact"
        counts = [f"{links['links']:,}", f"{links['held_out']:,}"] if links else ["-", "-"]
        table.add_row(cell(pair.replace(",", " - ")), f"{entry['alpha']:.4g}", error, *counts)
    return table
