"""``pmvge evaluate``: how well held-out links are foretold."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from pmvge.cli.common import (
    AsJson,
    Model,
    background_of,
    load,
    print_json,
    results_table,
    tell,
    visible,
)
from pmvge.errors import InputError, ParameterError
from pmvge.evaluation import evaluate_held_out
from pmvge.graph import Links, Pair, merged
from pmvge.model import PMvGE
from pmvge.tables import link_pairs, pair_of, read_links


def evaluate(
    model: Model,
    links: Annotated[
        list[str],
        typer.Option("--links", metavar="FILE", help="Held-out links, as in training; may repeat."),
    ],
    pair: Annotated[
        list[str] | None,
        typer.Option("--pair", metavar="VIEW,VIEW", help="Of which views; once for each --links."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Length of the lists for recall, nDCG.")] = 10,
    include_known: Annotated[
        bool, typer.Option("--include-known", help="Rank the links of the training, too.")
    ] = False,
    exposure: Annotated[
        float | None,
        typer.Option(
            help="Held-out weight to expect per unit of training weight. Default: the ratio of "
            "the two totals; 1 if the table is as large a sample as the training was."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Rows that cannot be used are an error, not a note.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Judge a model by links that it has not seen.

    The table has the columns of the training's link table. Each entity of the first view that has
    a held-out link ranks all entities of the other; links of the training are left out.

    Example: pmvge evaluate model/ --links held_out.csv --pair users,movies --json
    """
    if pair and len(pair) > len(links):
        raise ParameterError(f"--pair: {len(pair)} of them, but {len(links)} --links; one for each")
    loaded, kept = load(model)
    background = background_of(model, kept)
    held: dict[Pair, Links] = {}
    for number, table in enumerate(links):
        wanted = _pair(loaded, pair[number] if pair and number < len(pair) else None, table)
        found, joined = read_links(loaded.tables_, loaded.ids_, wanted, table)
        found = found if wanted == joined.pair else found.transposed()
        if joined.dropped and strict:
            raise InputError(f"{joined}; --strict allows none")
        tell([str(joined)] if joined.dropped else [])
        held[wanted] = merged(found, held.get(wanted))
    known = {}
    for a, b in held:
        trained, watched = background.of_pair(a, b)
        if trained is not None:
            known[a, b] = merged(trained, watched)
    _note_overlap(held, known, include_known)
    results = evaluate_held_out(
        loaded.embeddings_,
        {pair: loaded.log_alpha_of(*pair) for pair in held},
        held,
        known=None if include_known else known,
        weights={
            (a, b): loaded.alpha_weight_.get((a, b)) or loaded.alpha_weight_[b, a] for a, b in held
        },
        exposure=exposure,
        k=k,
    )
    if as_json:
        print_json(results)
        return
    console = Console(highlight=False)
    console.print(results_table(results, "Held-out links"))
    for name, row in results["pairs"].items():
        said = f"{visible(name)}: {row['links']:,} links of {row['queries']:,} queries"
        if "sampled_queries" in row:
            said += f", a sample of {row['sampled_queries']:,} rows"
        console.print(f"{said}; expected weights times {row['exposure']:.4g}", markup=False)


def _pair(model: PMvGE, text: str | None, table: str) -> Pair:
    """The view pair of a held-out table, as named, or told by its columns."""
    known = link_pairs(model.tables_)
    if text is None:
        return known[0] if len(known) == 1 else pair_of(model.tables_, table)
    a, comma, b = text.partition(",")
    for one in known:
        if comma and one in ((a, b), (b, a)):
            return a, b
    listed = " or ".join(",".join(one) for one in known)
    raise InputError(f"--pair: no links of {text!r} in training: expected {listed}")


def _note_overlap(held: dict[Pair, Links], known: dict[Pair, Links], include: bool) -> None:
    for (a, b), links in held.items():
        both = int((links.matrix() > 0).multiply(known[a, b].matrix() > 0).sum())
        both //= 1 + links.within
        if include or not both:
            continue
        if both == len(links):
            raise InputError(
                f"links {a},{b}: all {both:,} were in training, so nothing is left to judge; "
                "--include-known judges them all the same"
            )
        most = ", so E/O and deviance mean little" if both > len(links) / 2 else ""
        tell([f"links {a},{b}: {both:,} of {len(links):,} were in training and are left out{most}"])
