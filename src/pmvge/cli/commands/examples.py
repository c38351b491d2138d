"""``pmvge examples``: list examples, and write one with its data into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pmvge.cli.options import AsJson
from pmvge.cli.output import Console, bold, cell, print_json, shell_quoted


def examples(
    name: Annotated[
        str | None, typer.Argument(help="The example to write. Without it, list all of them.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A new or empty folder. Default: the example's name."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(min=1, help="The number of ratings of the simulated example 'films'."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the examples, or write one with its data, a script and a README.txt into a folder.

    Data that are not in the data folder ($PMVGE_DATA) are downloaded from their publisher.

    Example: pmvge examples recommender -o films/
    """
    from pmvge.datasets import DATASETS
    from pmvge.errors import InputError, choose
    from pmvge.examples import EXAMPLES, check_empty, write_example

    if name is None:
        if output is not None or size is not None:
            raise InputError("-o and --size: expected the name of an example before them, got none")
        rows: list[dict[str, object]] = [
            {
                "name": example.name,
                "summary": example.summary,
                "data": example.dataset,
                "present": example.dataset is None or _present(example.dataset),
            }
            for example in EXAMPLES.values()
        ]
        print_json(rows) if as_json else _print_table(rows)
        return
    example = EXAMPLES[choose("example", name, EXAMPLES, error=InputError)]
    folder = output or Path(name)
    check_empty(folder)
    if example.dataset is not None and not _present(example.dataset):
        from pmvge.cli.downloading import install

        dataset = DATASETS[example.dataset]
        try:
            install(dataset, quiet=True)
        except InputError as error:
            raise InputError(
                f"{error}; or set PMVGE_DATA to a folder that contains {dataset.name!r}"
            ) from error
    files = write_example(name, folder, size=size)
    if as_json:
        print_json({"folder": str(folder), "files": [str(path) for path in files]})
        return
    console = Console(highlight=False)
    for path in files:
        console.print(f"  {path.relative_to(folder)}", markup=False, soft_wrap=True)
    run = "pmvge init && pmvge fit" + ("" if example.script is None else ", or: python example.py")
    console.print(
        f"\nWrote {bold(folder)}. Next: cd {shell_quoted(folder)}, then: {run}", soft_wrap=True
    )


def _present(name: str) -> bool:
    from pmvge.datasets import DATASETS

    dataset = DATASETS[name]
    return not dataset.archives or dataset.installed_path() is not None


def _print_table(rows: list[dict[str, object]]) -> None:
    table = Table()
    for column in ("name", "description", "data", "available?"):
        table.add_column(column, no_wrap=column != "description")
    for row in rows:
        data = row["data"] or "simulated"
        here = "yes" if row["present"] else "no"
        table.add_row(*map(cell, (row["name"], row["summary"], data, here)))
    console = Console()
    console.print(table)
    console.print("Write one: pmvge examples NAME", highlight=False)
