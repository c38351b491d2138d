"""``pmvge evaluate``: how well a model predicts held-out links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmvge.cli.options import AsJson, Model, Strict
from pmvge.cli.output import (
    Console,
    print_json,
    print_notes,
    print_results,
    uncalibrated_note,
    visible,
)
from pmvge.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pmvge.graph import Links, Pair


def evaluate(
    model: Model,
    links: Annotated[
        list[str],
        typer.Option("--links", metavar="FILE", help="A table of held-out links; can be repeated."),
    ],
    pair: Annotated[
        list[str] | None,
        typer.Option("--pair", metavar="VIEW,VIEW", help="The views of each --links, in order."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="List length for recall and nDCG.")] = 10,
    include_known: Annotated[
        bool, typer.Option("--include-known", help="Keep known links among the candidates.")
    ] = False,
    exposure: Annotated[
        float | None,
        typer.Option(
            help="Expected held-out weight per unit of training weight. Default: the ratio of the "
            "two totals. Pass 1 if the held-out table is as large a sample as the training table."
        ),
    ] = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on held-out links.

    The table needs the columns of the link table in training. For each entity of the first view
    with a held-out link, all entities of the other view are ranked, without its known links.

    Example: pmvge evaluate model/ --links held_out.csv --pair users,films --json
    """
    if pair and len(pair) > len(links):
        raise ParameterError(
            f"--pair: expected at most one for each --links, got {len(pair)} for {len(links)}"
        )
    from pmvge.cli.view_pairs import view_pair
    from pmvge.graph import merge_links
    from pmvge.model import PMvGE
    from pmvge.tables import read_links

    loaded = PMvGE.load(model)
    held: dict[Pair, Links] = {}
    for number, table in enumerate(links):
        views = view_pair(loaded, pair[number] if pair and number < len(pair) else None, table)
        found, joined = read_links(loaded.tables_, loaded.ids_, views, table)
        found = found if views == joined.pair else found.transposed()
        if joined.dropped and strict:
            raise InputError(f"{joined}; --strict allows none")
        print_notes([str(joined)] if joined.dropped else [])
        held[views] = merge_links(found, held.get(views))
    results = loaded.evaluate(held, k=k, include_known=include_known, exposure=exposure)
    if not include_known:
        print_notes(_describe_overlap(results))
    print_notes(uncalibrated_note(name, kinds) for name, kinds in results["uncalibrated"].items())
    if as_json:
        print_json(results)
        return
    console = Console(highlight=False)
    print_results(console, results, "Held-out links")
    for name, row in results["pairs"].items():
        line = f"{visible(name)}: {row['links']:,} links of {row['queries']:,} queries"
        if "sampled_queries" in row:
            line += f", a sample of {row['sampled_queries']:,} rows"
        line += f"; expected weights are multiplied by {row['exposure']:.4g} (exposure)"
        console.print(line, markup=False, soft_wrap=True)


def _describe_overlap(results: dict[str, Any]) -> Iterator[str]:
    """Yield a note for each view pair with links that were in training."""
    for name, row in results["pairs"].items():
        if both := row.get("in_training", 0):
            total = row["links"] + both
            note = f"links {name}: {both:,} of {total:,} were in training and are left out"
            yield note + (", so E/O and deviance mean little" if both > total / 2 else "")
