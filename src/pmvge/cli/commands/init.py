"""``pmvge init``: a first project file from the tables in a folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from pmvge.cli.options import AsJson
from pmvge.cli.output import (
    Console,
    bold,
    check_writable,
    print_json,
    print_notes,
    shell_quoted,
    visible,
)
from pmvge.errors import StorageError, TableError


def init(
    folder: Annotated[
        str,
        typer.Argument(help="The folder with the tables, or postgresql://HOST/NAME."),
    ] = ".",
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The project file to write. Default: pmvge.toml in the folder."
        ),
    ] = None,
    choose: Annotated[
        list[str] | None,
        typer.Option(
            "--choose",
            metavar="FILE:WHAT=ANSWER",
            help="The answer to a question, as its message shows it, such as "
            "ratings.csv:weight=stars. Can be repeated.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read the tables in a folder, guess views and links, and write pmvge.toml.

    Reads text files (CSV and others, with a header or without), JSON lines, Parquet, Arrow, Excel
    and NumPy files, and DuckDB, SQLite or PostgreSQL databases. If two readings of the tables are
    close, it asks on a terminal; elsewhere it stops with all questions, and --choose selects one.
    Check the file that is written, then run pmvge fit.

    Example: pmvge init data/
    """
    path = output or (Path() if "://" in folder else Path(folder)) / "pmvge.toml"
    if path.exists() and not force:
        raise StorageError(f"{path}: the file exists; pass --force to replace it")
    from pmvge import storage
    from pmvge.cli.asking import ask_on_terminal, parse_answers
    from pmvge.cli.projects import describe_project
    from pmvge.tables import UnsureError, project_text, sketch_project

    ask = None if as_json else ask_on_terminal()
    try:
        sketch = sketch_project(folder, parse_answers(choose or []), ask)
    except UnsureError as error:
        if len(error.questions) == 1:
            raise
        print_notes(f"question {at}: {each}" for at, each in enumerate(error.questions, 1))
        command = ["pmvge init", shlex.quote(folder)]
        command += [] if output is None else ["-o", shlex.quote(str(output))]
        command += ["--force"] * force + ["--json"] * as_json
        command += [f"--choose {shlex.quote(given)}" for given in choose or []]
        raise TableError(
            f"{len(error.questions)} open questions; to take the first reading of each: "
            f"{' '.join([*command, error.first_options])}"
        ) from error
    text = project_text(sketch.project, sketch.reasons, sketch.unused)
    check_writable(path, folder=False)
    storage.replace_file(path, lambda partial: partial.write_bytes(text.encode()))
    if as_json:
        print_json(
            {
                "project": str(path),
                "guessed": sketch.reasons,
                "matches": sketch.matches,
                "notes": sketch.notes,
                "skipped": sketch.skipped,
            }
        )
        return
    console = Console(highlight=False)
    for line in describe_project(sketch.project):
        console.print(line, soft_wrap=True, markup=False)
    for line in sketch.matches:
        console.print(visible(line), soft_wrap=True, markup=False)
    print_notes(sketch.notes)
    print_notes(f"left out {name}: {reason}" for name, reason in sketch.skipped.items())
    console.print(
        f"\nWrote {bold(path)}. Check it, then run: pmvge fit {shell_quoted(path)}",
        soft_wrap=True,
    )
