"""``pmvge explain``: what makes up the expected weight of two entities."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from pmvge.cli.options import AsJson, FirstLinkTables, FirstPairs, Model
from pmvge.cli.output import Console, cell, print_json, print_notes, visible
from pmvge.errors import ParameterError

if TYPE_CHECKING:
    from pmvge.model import Explanation

BAR = 12  # characters of the longest bar


def explain(
    model: Model,
    view: Annotated[str, typer.Argument(help="The view of the entity.", show_default=False)],
    entity: Annotated[str, typer.Argument(help="Its id or name.", show_default=False)],
    other: Annotated[str, typer.Argument(help="The view of the partner.", show_default=False)],
    partner: Annotated[str, typer.Argument(help="Its id or name.", show_default=False)],
    rows: Annotated[
        str | None,
        typer.Option("--rows", metavar="FILE", help="A table that has the entity, new or known."),
    ] = None,
    other_rows: Annotated[
        str | None,
        typer.Option("--other-rows", metavar="FILE", help="A table that has the partner."),
    ] = None,
    links: FirstLinkTables = None,
    pair: FirstPairs = None,
    parts: Annotated[
        int, typer.Option("--parts", min=1, help="Number of features of each entity to list.")
    ] = 10,
    k: Annotated[int, typer.Option("-k", min=0, help="Number of known partners to list.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show what makes up the expected weight of a link, and known partners like this one.

    Example: pmvge explain model/ users u7 films f3

    New entities: pmvge explain model/ users u900 films f3 --rows new_users.csv

    With first links: add --links first_ratings.csv
    """
    if links and not rows:
        raise ParameterError("--links: expected the new entity in --rows, too")
    from pmvge.cli.first_links import FirstLinks
    from pmvge.cli.new_rows import find_entity
    from pmvge.model import PMvGE
    from pmvge.tables import describe_values

    loaded = PMvGE.load(model)
    loaded.log_alpha_of(view, other)
    notes: Counter[tuple[str, str]] = Counter()
    tables = FirstLinks(loaded, view, rows, links, pair or []) if links and rows else None
    left, X, first = find_entity(loaded, view, entity, rows, notes, tables)
    print_notes([*describe_values(view, notes), *(tables.notes if tables else [])])
    notes = Counter()
    right, X_other, _ = find_entity(loaded, other, partner, other_rows, notes)
    print_notes(describe_values(other, notes))
    found = loaded.explain(
        view, left, other, right, X=X, X_other=X_other, links=first, max_parts=parts, k=k
    )
    if as_json:
        print_json(found.to_dict())
        return
    print_notes(found.notes)
    called = [
        f"{name or ids}" + (f" ({ids})" if name else "")
        for name, ids in (
            (found.name, found.id or entity),
            (found.partner_name, found.partner or partner),
        )
    ]
    _print(found, f"{view} {called[0]} - {other} {called[1]}")


def _print(found: Explanation, title: str) -> None:
    console = Console(highlight=False, markup=False)
    linked = f"; linked in training, weight {found.linked:.4g}" if found.linked else ""
    line = f"{title}: expected weight {found.expected_weight:.4g}{linked}"
    console.print(visible(line), soft_wrap=True)
    table = Table()
    table.add_column("part", overflow="fold")
    table.add_column("of")
    table.add_column("log", justify="right")
    table.add_column("")
    largest = max(abs(part.value) for part in found.parts) or 1.0
    for part in found.parts:
        bar = ("+" if part.value > 0 else "-") * round(BAR * abs(part.value) / largest)
        table.add_row(cell(part.name), cell(part.view or ""), f"{part.value:+.3f}", bar)
    table.add_section()
    total = "sum: log expected weight" if found.sums_to_log else "sum: eta of the family"
    table.add_row(total, "", f"{found.log_expected_weight:+.3f}", "")
    console.print(table)
    if found.evidence:
        _print_evidence(console, found)


def _print_evidence(console: Console, found: Explanation) -> None:
    named = any(entry.name for entry in found.evidence or ())
    table = Table(title=visible(f"known partners in {found.other} nearest to it"))
    if named:
        table.add_column("name", overflow="fold")
    table.add_column("id", no_wrap=True, style="dim" if named else "")
    table.add_column("weight", justify="right")
    table.add_column("similarity", justify="right")
    for entry in found.evidence or ():
        name = [cell(entry.name or "")] if named else []
        table.add_row(*name, cell(entry.id), f"{entry.weight:.4g}", f"{entry.similarity:.3f}")
    console.print(table)
