"""``pmvge init``: a first project file from the tables in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from pmvge import storage
from pmvge.cli.common import AsJson, as_typed, bold, print_json, tell, visible, writable
from pmvge.errors import StorageError
from pmvge.tables import Sketch, folded, project_text, sketch_project


def init(
    folder: Annotated[Path, typer.Argument(help="Where the tables are.")] = Path(),
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Default: pmvge.toml in the folder.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look at the tables in a folder, guess views and links, and write pmvge.toml.

    CSV and Parquet files and DuckDB or SQLite databases are looked at. Read the file and mend what
    was guessed wrong; then run pmvge fit.

    Example: pmvge init data/
    """
    place = output or folder / "pmvge.toml"
    if place.exists() and not force:
        raise StorageError(f"{place}: is there already; --force replaces it")
    sketch = sketch_project(folder)
    text = project_text(sketch.project, sketch.reasons)
    storage.replace_file(
        writable(place, folder=False), lambda path: path.write_bytes(text.encode())
    )
    if as_json:
        print_json({"project": str(place), "guessed": sketch.reasons, "skipped": sketch.skipped})
        return
    console = Console(highlight=False)
    show_guesses(console, sketch)
    tell(f"left out {name}: {why}" for name, why in sketch.skipped.items())
    console.print(
        f"\nWrote {bold(place)}. Read it, mend it, then: pmvge fit {as_typed(place)}",
        soft_wrap=True,
    )


def show_guesses(console: Console, sketch: Sketch) -> None:
    """Say what was guessed, a line for each view and each link table."""
    for line in describe(sketch):
        console.print(line, soft_wrap=True, markup=False)


def describe(sketch: Sketch) -> list[str]:
    """What a project says of its views and links, in words."""
    project, lines = sketch.project, []
    for name, view in project.views.items():
        if view.source is None:
            lines.append(f"view {name}: no table, known by ids in the links")
            continue
        features = ", ".join(
            f"{column} ({feature.kind})" for column, feature in folded(view.features or {}).items()
        )
        lines.append(f"view {name}: {view.source}, id {view.id}, features {features or 'none'}")
        if view.labels:
            lines[-1] += f", labels {', '.join(view.labels)}"
    for pair, table in project.links.items():
        left, right = table.columns or ("?", "?")
        weight = f"{table.aggregate} of {table.weight}" if table.weight else "rows counted"
        lines.append(f"links {','.join(pair)}: {table.source}, {left} - {right}, {weight}")
    return [visible(line) for line in lines]
