"""``pmvge split``: hold out a part of a link table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmvge.cli.options import AsJson
from pmvge.cli.output import Console, bold, check_writable, print_json, print_notes, shell_quoted
from pmvge.errors import StorageError


def split(
    table: Annotated[str, typer.Argument(help="A link table: a file, or file.db:table.")],
    fraction: Annotated[float, typer.Option(help="The share to hold out.")] = 0.1,
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Hold out the latest rows by this column."),
    ] = None,
    entity: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Hold out all rows of some entities in this column."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random choice.")] = 0,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder for train and held_out files.")
    ] = Path("split"),
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Hold out a part of a link table: at random, the latest rows, or some entities.

    Writes two files and leaves the table as it is. Fit a model to the first file, and evaluate it
    on the second. The table is read as pmvge.toml in this folder says, or as pmvge init would.

    Example: pmvge split ratings.csv --time timestamp --fraction 0.1
    """
    end = ".parquet" if table.lower().endswith((".parquet", ".pq")) else ".csv"
    train, held_out = output / f"train{end}", output / f"held_out{end}"
    for path in (train, held_out):
        if path.exists() and not force:
            raise StorageError(f"{path}: the file exists; pass --force to replace it")
    check_writable(output, folder=True)
    from pmvge.cli.projects import find_link_source
    from pmvge.tables import split_table, write_split

    source = find_link_source(table)
    parts = split_table(source, fraction=fraction, time=time, entity=entity, seed=seed)
    write_split(parts, train, held_out)
    rows = {"train": len(parts.train), "held_out": len(parts.held_out)}
    if as_json:
        paths = {"train": str(train), "held_out": str(held_out)}
        print_json({**paths, "rows": rows, "notes": parts.notes})
        return
    print_notes(parts.notes)
    Console(highlight=False).print(
        f"Wrote {bold(train)} ({rows['train']:,} rows) and {bold(held_out)} "
        f"({rows['held_out']:,} rows).\nNext: in the project file, set source = "
        f'"{shell_quoted(train)}" for these links; then pmvge fit, and pmvge evaluate model '
        f"--links {shell_quoted(held_out)}",
        soft_wrap=True,
    )
