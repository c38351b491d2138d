"""``pmvge embed``: vectors of the rows of a table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from pmvge.cli.options import AsJson, FirstLinkTables, FirstPairs, Model
from pmvge.cli.output import Console, bold, check_writable, print_json, print_notes
from pmvge.errors import ParameterError


def embed(
    model: Model,
    view: Annotated[str, typer.Option("--view", help="The view that the rows belong to.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The Parquet file to write.")],
    table: Annotated[
        str | None, typer.Argument(help="A table with the columns that the view had in training.")
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="FILE", help="The table, as in search.")
    ] = None,
    links: FirstLinkTables = None,
    pair: FirstPairs = None,
    as_json: AsJson = False,
) -> None:
    """Embed the rows of a table and write ids and vectors to a Parquet file.

    The table needs the columns that the view had in training. It is read and embedded in chunks.
    Rows with ids of the training are known entities. New ones can have first links.

    Example: pmvge embed model/ --view films new_films.csv -o vectors.parquet
    """
    source = table or rows
    if source is None or (table and rows):
        given = "none" if source is None else "both"
        raise ParameterError(f"expected one table, as TABLE or as --rows FILE, got {given}")
    if output.suffix != ".parquet":
        raise ParameterError(f"-o: expected a name that ends in .parquet, got {str(output)!r}")
    check_writable(output, folder=False)
    from pmvge.cli.first_links import FirstLinks
    from pmvge.cli.new_rows import count_rows, embed_table, with_progress
    from pmvge.model import PMvGE
    from pmvge.progress import ProgressBar
    from pmvge.search import save_atomically
    from pmvge.tables import describe_values

    loaded = PMvGE.load(model)
    loaded.progress = False  # one bar for all rows
    counts: Counter[tuple[str, str]] = Counter()
    first = FirstLinks(loaded, view, source, links, pair or []) if links else None
    with ProgressBar(f"embedding {view}") as bar:
        chunks = embed_table(loaded, view, source, counts, first)
        n = save_atomically(output, with_progress(chunks, bar, count_rows(source)))
    notes = [*(first.notes if first else []), *describe_values(view, counts)]
    print_notes(notes)
    if as_json:
        facts = {"output": str(output), "rows": n, "n_components": loaded.n_components}
        print_json({**facts, "notes": notes})
        return
    Console(highlight=False).print(
        f"{n:,} rows of {view}: vectors of {loaded.n_components} numbers in "
        f"{bold(output)}, columns id and vector",
        soft_wrap=True,
    )
