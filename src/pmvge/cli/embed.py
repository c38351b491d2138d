"""``pmvge embed``: vectors of new entities, from a raw table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pyarrow
import typer
from pyarrow import parquet
from rich.console import Console

from pmvge.cli.common import AsJson, Model, bold, print_json, tell, writable
from pmvge.errors import ParameterError
from pmvge.model import PMvGE
from pmvge.progress import ProgressBar
from pmvge.search import Embeddings, save_whole
from pmvge.tables import Notes, read_rows

View = Annotated[str, typer.Option("--view", help="The view that the rows belong to.")]


def embed(
    model: Model,
    table: Annotated[str, typer.Argument(help="A table like that of the view in training.")],
    view: View,
    output: Annotated[Path, typer.Option("-o", "--output", help="A Parquet file.")],
    as_json: AsJson = False,
) -> None:
    """Embed the rows of a table and write ids and vectors to a Parquet file.

    The table has the columns of the training table; it is read, embedded and written in chunks.

    Example: pmvge embed model/ --view movies new.csv -o vectors.parquet
    """
    if output.suffix != ".parquet":
        raise ParameterError(f"-o: expected a name that ends in .parquet, got {str(output)!r}")
    writable(output, folder=False)
    loaded = PMvGE.load(model)
    notes: Notes = Counter()
    loaded.progress = False  # one bar for all rows
    with ProgressBar(f"embedding {view}") as bar:
        parts = _watched(embedded(loaded, view, table, notes), bar, _count(table))
        rows = save_whole(output, parts)
    tell(strange_values(view, notes))
    if as_json:
        facts = {"output": str(output), "rows": rows, "n_components": loaded.n_components}
        print_json({**facts, "notes": strange_values(view, notes)})
        return
    Console(highlight=False).print(
        f"{rows:,} rows of {view}: vectors of {loaded.n_components} numbers in "
        f"{bold(output)}, columns id and vector",
        soft_wrap=True,
    )


def embedded(model: PMvGE, view: str, table: str, notes: Notes) -> Iterator[Embeddings]:
    """Ids and vectors of a raw table, some thousands of rows at a time."""
    for ids, X in read_rows(model.tables_, view, table, notes=notes):
        yield Embeddings(ids, model.embed(view, ids if X is None else X))


def _watched(
    parts: Iterator[Embeddings], bar: ProgressBar, total: int | None
) -> Iterator[Embeddings]:
    done = 0
    for part in parts:
        yield part
        done += len(part)
        bar(done, total)


def _count(table: str) -> int | None:
    """The number of rows, if that can be known without reading them: of a Parquet file."""
    try:
        with Path(table).open("rb") as stream:  # a name that is an address would be fetched
            return int(parquet.read_metadata(stream).num_rows)
    except (OSError, ValueError, pyarrow.ArrowException):
        return None


def strange_values(view: str, notes: Notes) -> list[str]:
    """What was missing, or was not seen in training, said once for each column."""
    said = []
    for (column, what), count in notes.items():
        if count and what == "missing":
            said.append(f"view {view}: {count:,} values of {column!r} are missing: filled in")
        elif count and what == "numbered":
            said.append(f"view {view}: no column {column!r}: rows are numbered, from 0")
        elif count:
            said.append(
                f"view {view}: {count:,} values of {column!r} were not seen in training: taken for "
                "none of the known ones"
            )
    return said
