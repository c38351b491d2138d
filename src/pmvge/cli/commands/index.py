"""``pmvge index``: build an approximate index, and save it beside the model."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.markup import escape

from pmvge.cli.options import AsJson, Model
from pmvge.cli.output import Console, bold, check_writable, print_json, visible


def index(
    model: Model,
    view: Annotated[str, typer.Option("--view", help="The view of the candidates.")],
    among: Annotated[
        str | None,
        typer.Option(
            "--among",
            help="The view of the entities that are searched for. Default: the same view.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[str, typer.Option(help="The kind of index.")] = "hnsw",
    as_json: AsJson = False,
) -> None:
    """Build an approximate index of a view's entities, and save it in the model folder.

    Searches with --approximate then look at few candidates. Build it again after each fit.

    Example: pmvge index model/ --view films --among users

    Then: pmvge search model/ --view users --id 42 --among films --approximate
    """
    check_writable(model, folder=True)
    from pmvge.errors import InputError, choose
    from pmvge.model import PMvGE

    choose("index", kind, ("hnsw",), "--kind: exact search needs no index", error=InputError)
    loaded = PMvGE.load(model)
    start = time.perf_counter()
    built = loaded.index(view, among=among, kind="hnsw")
    seconds = time.perf_counter() - start
    built.save(model)
    if as_json:
        facts = {"view": built.view, "among": built.among, "kind": built.kind}
        print_json({**facts, "candidates": len(built), "recall": built.recall, "seconds": seconds})
        return
    Console(highlight=False).print(
        f"{len(built):,} {escape(visible(view))} for {escape(visible(built.among))} indexed in "
        f"{seconds:.1f} s: recall@10 {built.recall:.3f} on sampled queries; saved in {bold(model)}",
        soft_wrap=True,
    )
