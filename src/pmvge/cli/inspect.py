"""``pmvge inspect``: what is in a model folder."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from pmvge.cli.common import AsJson, Model, bold, cell, load, print_json
from pmvge.model import Background, PMvGE


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show a model's views, alpha, settings and training.

    Example: pmvge inspect model/
    """
    loaded, background = load(model)
    facts = loaded.describe()
    kept = background or Background({})
    facts["links"] = {
        f"{a},{b}": {
            "links": len(links),
            "weight": links.total,
            "held_out": len(kept.held_out.get((a, b), ())),
        }
        for (a, b), links in kept.links.items()
    }
    facts["tables"] = _columns(loaded)
    if as_json:
        print_json(facts)
        return
    console = Console(highlight=False)
    console.print(f"{bold(model)}: pmvge model, K = {facts['n_components']}", soft_wrap=True)
    console.print(_views(facts))
    console.print(_alpha(facts))
    training = facts["training"]
    console.print(f"training: {training['summary']}", markup=False, soft_wrap=True)
    changed = ", ".join(f"{key} = {value}" for key, value in facts["changed_settings"].items())
    console.print(
        f"settings that are not the defaults: {changed or 'none'}", markup=False, soft_wrap=True
    )


def _columns(model: PMvGE) -> dict[str, dict[str, str]]:
    """What each view's columns are read as."""
    found = {}
    for view, entry in (model.tables_ or {"views": {}})["views"].items():
        blocks = entry["recipe"]["blocks"] if entry["recipe"] else []
        found[view] = {column: block["block"] for block in blocks for column in block["columns"]}
    return found


def _views(facts: dict[str, Any]) -> Table:
    table = Table("view", "entities", "features", "encoder", title="Views", title_justify="left")
    for name, view in facts["views"].items():
        table.add_row(cell(name), f"{view['n']:,}", cell(view["features"]), cell(view["encoder"]))
    return table


def _alpha(facts: dict[str, Any]) -> Table:
    table = Table("view pair", "alpha", "rel. error", "links", "held out", title="Links")
    table.title_justify = "left"
    for pair, entry in facts["alpha"].items():
        links = facts["links"].get(pair)
        error = f"{entry['relative_error']:.1%}" if entry["relative_error"] else "exact"
        counts = [f"{links['links']:,}", f"{links['held_out']:,}"] if links else ["-", "-"]
        table.add_row(cell(pair.replace(",", " - ")), f"{entry['alpha']:.4g}", error, *counts)
    return table
