"""``pmvge init``: a first project file from the tables in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pmvge.cli.options import AsJson
from pmvge.cli.output import bold, check_writable, print_json, print_notes, shell_quoted
from pmvge.errors import StorageError


def init(
    folder: Annotated[Path, typer.Argument(help="The folder with the tables.")] = Path(),
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The project file to write. Default: pmvge.toml in the folder."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read the tables in a folder, guess views and links, and write pmvge.toml.

    Reads CSV and Parquet files and DuckDB or SQLite databases. Check the file that is written,
    correct wrong guesses, then run pmvge fit.

    Example: pmvge init data/
    """
    path = output or folder / "pmvge.toml"
    if path.exists() and not force:
        raise StorageError(f"{path}: the file exists; pass --force to replace it")
    from pmvge import storage
    from pmvge.cli.projects import describe_project
    from pmvge.tables import project_text, sketch_project

    sketch = sketch_project(folder)
    text = project_text(sketch.project, sketch.reasons)
    check_writable(path, folder=False)
    storage.replace_file(path, lambda partial: partial.write_bytes(text.encode()))
    if as_json:
        print_json({"project": str(path), "guessed": sketch.reasons, "skipped": sketch.skipped})
        return
    console = Console(highlight=False)
    for line in describe_project(sketch.project):
        console.print(line, soft_wrap=True, markup=False)
    print_notes(f"left out {name}: {reason}" for name, reason in sketch.skipped.items())
    console.print(
        f"\nWrote {bold(path)}. Check it, then run: pmvge fit {shell_quoted(path)}",
        soft_wrap=True,
    )
