"""``pmvge search``: the best partners of known or new entities."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pmvge.cli.options import AsJson, FirstLinkTables, FirstPairs, Model
from pmvge.cli.output import cell, print_json, print_notes, uncalibrated_note, visible
from pmvge.errors import InputError, ParameterError, choose


def search(
    model: Model,
    view: Annotated[str, typer.Option("--view", help="The view to search from.")],
    among: Annotated[str, typer.Option("--among", help="The view to search in.")],
    id_: Annotated[
        list[str] | None, typer.Option("--id", help="The id of a known entity; can be repeated.")
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows", metavar="FILE", help="A table of new entities; ids of the training are known."
        ),
    ] = None,
    links: FirstLinkTables = None,
    pair: FirstPairs = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of partners to return.")] = 10,
    by: Annotated[
        str,
        typer.Option(
            help="Rank by 'intensity' (expected weights) or 'similarity' (works for any two views)."
        ),
    ] = "intensity",
    exclude_known: Annotated[
        bool, typer.Option("--exclude-known", help="Leave out partners that are linked already.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the best partners of entities, in another view or in the same.

    Example: pmvge search model/ --view users --id 42 --among films -k 10 --exclude-known

    New entities: pmvge search model/ --view users --rows new_users.csv --among films

    With first links: add --links first_ratings.csv
    """
    choose("ranking", by, ("intensity", "similarity"), "--by")
    if bool(id_) == bool(rows):
        raise ParameterError("pass exactly one of --id and --rows")
    if links and not rows:
        raise ParameterError("--links: expected new entities in --rows, too")
    from pmvge.cli.first_links import FirstLinks
    from pmvge.cli.new_rows import describe_values
    from pmvge.cli.partners import best_partners, queries
    from pmvge.model import PMvGE

    loaded = PMvGE.load(model)
    for name in (view, among):
        choose("view", name, loaded.view_names_, str(model), error=InputError)
    if by == "intensity":
        loaded.log_alpha_of(view, among)
    notes: Counter[tuple[str, str]] = Counter()
    results = []
    first = FirstLinks(loaded, view, rows, links, pair or []) if links and rows else None
    for chunk in queries(loaded, view, id_ or [], rows, notes, first):
        results += best_partners(
            loaded,
            chunk,
            view=view,
            among=among,
            k=k,
            by=by,
            exclude_known=exclude_known,
        )
    print_notes([*(first.notes if first else []), *describe_values(view, notes)])
    missing = []
    if by == "intensity" and notes["rows", "new"]:
        missing = [kind for kind in loaded.uncalibrated(view, among) if kind == "new-known"]
    print_notes([uncalibrated_note(f"{view},{among}", missing)] if missing else [])
    if as_json:
        print_json(
            {"view": view, "among": among, "by": by, "uncalibrated": missing, "results": results}
        )
        return
    score = "similarity" if by == "similarity" else "expected_weight"
    for result in results:
        _print(result, f"{view} {result['id']}: best of {among}", score, loaded.links_ is not None)


def _print(result: dict[str, Any], title: str, score: str, links_known: bool) -> None:
    table = Table(title=visible(title), title_justify="left")
    table.add_column("id", no_wrap=True)
    table.add_column(score.replace("_", " "), justify="right")
    if links_known:
        table.add_column("linked already?")
    for partner in result["partners"]:
        mark = ["yes" if partner["known"] else ""] if links_known else []
        table.add_row(cell(partner["id"]), f"{partner[score]:.4g}", *mark)
    Console(highlight=False, markup=False).print(table)
