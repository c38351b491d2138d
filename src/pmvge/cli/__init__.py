"""The command line: ``pmvge COMMAND``, one file a command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pmvge import PmvgeError, __version__
from pmvge.cli.demo import demo

app = typer.Typer(
    name="pmvge",
    help="One embedding space for things of different kinds.",
    no_args_is_help=True,
    add_completion=False,
)
app.command()(demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version.")
    ] = False,
) -> None:
    """One embedding space for things of different kinds."""


def main() -> None:
    """Run a command; what a user can mend is one line on the error stream and exit code 2."""
    try:
        app()
    except PmvgeError as error:
        print(f"pmvge: {error}", file=sys.stderr)
        sys.exit(2)
