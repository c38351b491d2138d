"""``pmvge evaluate``: how well a model predicts held-out links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from pmvge.cli.options import AsJson, Model, Strict
from pmvge.cli.output import print_json, print_notes, results_table, visible
from pmvge.errors import InputError, ParameterError

if TYPE_CHECKING:
    from pmvge.graph import Links, Pair
    from pmvge.model import PMvGE


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
    from pmvge.cli.models import load, require_background
    from pmvge.evaluation import evaluate_held_out
    from pmvge.graph import merge_links
    from pmvge.tables import read_links

    loaded, background = load(model)
    background = require_background(model, background)
    held: dict[Pair, Links] = {}
    for number, table in enumerate(links):
        views = _view_pair(loaded, pair[number] if pair and number < len(pair) else None, table)
        found, joined = read_links(loaded.tables_, loaded.ids_, views, table)
        found = found if views == joined.pair else found.transposed()
        if joined.dropped and strict:
            raise InputError(f"{joined}; --strict allows none")
        print_notes([str(joined)] if joined.dropped else [])
        held[views] = merge_links(found, held.get(views))
    known = {}
    for a, b in held:
        trained, validation = background.of_pair(a, b)
        if trained is not None:
            known[a, b] = merge_links(trained, validation)
    if not include_known:
        _report_overlap(held, known)
    results = evaluate_held_out(
        loaded.embeddings_,
        {pair: loaded.log_alpha_of(*pair) for pair in held},
        held,
        known=None if include_known else known,
        weights={
            (a, b): loaded.alpha_weight_.get((a, b)) or loaded.alpha_weight_[b, a] for a, b in held
        },
        exposure=exposure,
        similarity=loaded.similarity_,
        k=k,
    )
    if as_json:
        print_json(results)
        return
    console = Console(highlight=False)
    console.print(results_table(results, "Held-out links"))
    for name, row in results["pairs"].items():
        line = f"{visible(name)}: {row['links']:,} links of {row['queries']:,} queries"
        if "sampled_queries" in row:
            line += f", a sample of {row['sampled_queries']:,} rows"
        line += f"; expected weights are multiplied by {row['exposure']:.4g} (exposure)"
        console.print(line, markup=False, soft_wrap=True)


def _view_pair(model: PMvGE, text: str | None, table: str) -> Pair:
    """Return the view pair of a held-out table, from ``--pair`` or from the table's columns."""
    from pmvge.tables import link_pairs, pair_of

    known = link_pairs(model.tables_)
    if text is None:
        return known[0] if len(known) == 1 else pair_of(model.tables_, table)
    a, comma, b = text.partition(",")
    if comma and ((a, b) in known or (b, a) in known):
        return a, b
    listed = " or ".join(",".join(pair) for pair in known)
    raise InputError(f"--pair: no links of {text!r} in training: expected {listed}")


def _report_overlap(held: dict[Pair, Links], known: dict[Pair, Links]) -> None:
    """Print how many links were in training; raise InputError if all were."""
    for (a, b), links in held.items():
        both = int((links.matrix() > 0).multiply(known[a, b].matrix() > 0).sum())
        both //= 1 + links.within
        if not both:
            continue
        if both == len(links):
            raise InputError(
                f"links {a},{b}: all {both:,} were in training, so none is left to evaluate; pass "
                "--include-known to evaluate them"
            )
        note = f"links {a},{b}: {both:,} of {len(links):,} were in training and are left out"
        if both > len(links) / 2:
            note += ", so E/O and deviance mean little"
        print_notes([note])
