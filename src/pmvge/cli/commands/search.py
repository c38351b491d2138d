"""``pmvge search``: the best partners of known or new entities."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from pmvge.cli.options import AsJson, FirstLinkTables, FirstPairs, Model
from pmvge.cli.output import (
    Console,
    bold,
    cell,
    check_writable,
    print_json,
    print_notes,
    uncalibrated_note,
    visible,
)
from pmvge.errors import InputError, ParameterError, choose

if TYPE_CHECKING:
    from pmvge.model import PMvGE

SHOWN = 20  # entities whose partners are printed as tables


def search(
    model: Model,
    view: Annotated[str, typer.Option("--view", help="The view to search from.")],
    among: Annotated[str, typer.Option("--among", help="The view to search in.")],
    id_: Annotated[
        list[str] | None,
        typer.Option("--id", help="The id or name of a known entity; can be repeated."),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows", metavar="FILE", help="A table of new entities; ids of the training are known."
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Search for all known entities; needs -o.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A Parquet file for the partners of known entities."),
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
    allow: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A text file with the ids of all possible partners."),
    ] = None,
    deny: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A text file with ids of partners to leave out."),
    ] = None,
    min_weight: Annotated[
        float | None, typer.Option(help="Least expected weight of a partner.", show_default=False)
    ] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Use the index that `pmvge index` has saved.")
    ] = False,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN,COLUMN",
            help="Columns of the partners' table to add: the name, labels, numbers, categories.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the best partners of entities, in another view or in the same.

    Example: pmvge search model/ --view users --id 42 --among films -k 10 --exclude-known

    New entities: pmvge search model/ --view users --rows new_users.csv --among films

    With first links: add --links first_ratings.csv

    With more columns: add --show title,year

    For all users: pmvge search model/ --view users --all --among films -o recommendations.parquet
    """
    choose("ranking", by, ("intensity", "similarity"), "--by")
    if bool(id_) + bool(rows) + all_ != 1:
        raise ParameterError("pass exactly one of --id, --rows and --all")
    if links and not rows:
        raise ParameterError("--links: expected new entities in --rows, too")
    if (all_ and output is None) or (rows and output is not None):
        raise ParameterError("expected -o with --all, or with --id")
    if min_weight is not None and by == "similarity":
        raise ParameterError("--min-weight: expected --by intensity: similarities have no unit")
    if output is not None:
        if output.suffix != ".parquet":
            raise ParameterError(f"-o: expected a name that ends in .parquet, got {str(output)!r}")
        check_writable(output, folder=False)
    from pyarrow import parquet

    from pmvge.cli.first_links import FirstLinks
    from pmvge.cli.partners import queries, read_ids
    from pmvge.model import PMvGE, best_partners
    from pmvge.tables import describe_values

    loaded = PMvGE.load(model)
    for name in (view, among):
        choose("view", name, loaded.view_names_, str(model), error=InputError)
    if by == "intensity":
        try:
            loaded.log_alpha_of(view, among)
        except InputError as error:
            raise InputError(f"{error}; --by similarity ranks any pair") from None
    shown = _columns(loaded, among, show)
    filters = {
        "exclude": "known" if exclude_known else "self",
        "allow": None if allow is None else read_ids(loaded, among, "--allow", allow),
        "deny": None if deny is None else read_ids(loaded, among, "--deny", deny),
        "min_weight": min_weight,
    }
    if approximate:
        index = loaded.load_index(model, among, view)
        print_notes([f"approximate search: recall@10 {index.recall:.3f} when it was built"])
    else:
        index = loaded.index(among, among=view)
    if output is not None:
        known = None if all_ else loaded.find(view, id_ or [])
        count = index.search_to(output, ids=known, k=k, by=by, **filters)
        if as_json:
            print_json({"output": str(output), "rows": count, "recall": index.recall})
        else:
            columns = ", ".join(parquet.read_schema(output).names)
            Console(highlight=False).print(
                f"{count:,} partners in {bold(output)}, columns {columns}", soft_wrap=True
            )
        return
    notes: Counter[tuple[str, str]] = Counter()
    results, largest = [], []
    first = FirstLinks(loaded, view, rows, links, pair or []) if links and rows else None
    for chunk in queries(loaded, view, id_ or [], rows, notes, first):
        found = best_partners(loaded, index, chunk, k=k, by=by, filters=filters, show=shown)
        results += found
        if min_weight is not None and not all(result["partners"] for result in found):
            any_weight = {**filters, "min_weight": None}
            found = best_partners(loaded, index, chunk, k=1, by=by, filters=any_weight, show=[])
        largest += found
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
    names = loaded.describe()["views"][among]["name"]
    others = [column for column in shown if column != names]  # names have a column already
    for result, best in islice(zip(results, largest, strict=True), SHOWN):
        called = f"{result['name']} ({result['id']})" if "name" in result else result["id"]
        title = f"{view} {called}: best of {among}"
        if result["partners"]:
            _print(result, title, score, others, loaded.links_ is not None)
        else:
            print(visible(f"{view} {called}: {_why_none(best, among, min_weight)}"))
    if len(results) > SHOWN:
        print_notes([f"{SHOWN} of {len(results):,} entities are shown; --json prints all"])
    if by == "similarity" and any(p[score] > 1 for r in results for p in r["partners"]):
        print(visible(loaded.similarity_.explain()))


def _columns(model: PMvGE, among: str, show: str | None) -> list[str]:
    """Return the columns of ``--show``; raise InputError for one that the model does not have."""
    from pmvge.model import check_columns

    wanted = [column.strip() for column in show.split(",")] if show else []
    check_columns(model, among, wanted, "--show")
    return wanted


def _why_none(best: dict[str, Any], among: str, min_weight: float | None) -> str:
    """Return why an entity has no partners; ``best`` has the best one of any weight."""
    if min_weight is None or not best["partners"]:
        return f"no partner in {among} is left by the filters"
    weight = best["partners"][0]["expected_weight"]
    return (
        f"no partner in {among} has an expected weight of {min_weight:.4g} or more; the largest is "
        f"{weight:.4g}"
    )


def _print(
    result: dict[str, Any], title: str, score: str, shown: list[str], links_known: bool
) -> None:
    named = any("name" in partner for partner in result["partners"])
    table = Table(title=visible(title), title_justify="left")
    if named:
        table.add_column("name", overflow="fold")
    table.add_column("id", no_wrap=True, style="dim" if named else "")
    for column in shown:
        table.add_column(cell(column), overflow="fold")
    table.add_column(score.replace("_", " "), justify="right")
    if links_known:
        table.add_column("linked already?")
    for partner in result["partners"]:
        name = [cell(partner["name"])] if named else []
        texts = [cell(partner["columns"][column]) for column in shown]
        mark = ["yes" if partner["known"] else ""] if links_known else []
        table.add_row(*name, cell(partner["id"]), *texts, f"{partner[score]:.4g}", *mark)
    Console(highlight=False, markup=False).print(table)
