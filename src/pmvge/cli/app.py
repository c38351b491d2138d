"""The command line: ``pmvge COMMAND``, one file a command."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated

import typer

from pmvge.cli import datasets
from pmvge.cli.common import visible
from pmvge.cli.demo import demo
from pmvge.cli.embed import embed
from pmvge.cli.evaluate import evaluate
from pmvge.cli.fit import fit
from pmvge.cli.init import init
from pmvge.cli.inspect import inspect
from pmvge.cli.methods import methods
from pmvge.cli.report import report
from pmvge.cli.reproduce import reproduce
from pmvge.cli.search import search
from pmvge.cli.tune import tune
from pmvge.distributed import launched
from pmvge.errors import PmvgeError
from pmvge.training import terminate_as_interrupted
from pmvge.version import __version__

# Threads that wait for each other should soon sleep, not spin: on a machine that does other work,
# too, spinning makes training many times slower. To be said before torch is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")
if "TORCHELASTIC_RUN_ID" in os.environ:  # else every process warns of what is meant to be so
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
app = typer.Typer(
    name="pmvge",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",  # paragraphs flow
)
for command in (
    init,
    fit,
    tune,
    embed,
    search,
    evaluate,
    inspect,
    report,
    methods,
    reproduce,
    demo,
):
    app.command()(command)
app.add_typer(datasets.app, name="datasets")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """One embedding space for things of different kinds.

    Example: pmvge init; pmvge fit; pmvge search model --view users --id 42 --among films
    """


def main() -> None:
    """Run a command; what a user can mend is one line on the error stream and exit code 2.

    To be terminated is to be interrupted: batch systems give time for a checkpoint.
    """
    debug = "--debug" in sys.argv  # wherever it stands
    for stream in (sys.stdout, sys.stderr):
        # Ids may have letters that a terminal has not. Some streams cannot be asked where they are.
        with suppress(AttributeError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if not launched():  # torchrun's own way to end its processes must stay quick
        terminate_as_interrupted()
    try:
        code = app(args=[w for w in sys.argv[1:] if w != "--debug"], standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        # Of typer's own complaints only this method tells whether they are such, in any version.
        complaint = getattr(error, "format_message", None)
        if debug or not (complaint or _can_be_mended(error)):
            raise
        told = " ".join((complaint() if complaint else str(error)).split())
        if told or not complaint:  # a complaint without words has shown the help instead
            print(f"pmvge: {visible(told) or type(error).__name__}", file=sys.stderr)
        sys.exit(2)


def _can_be_mended(error: Exception) -> bool:
    """By the user: other input, names that can be written, more disk or memory."""
    if isinstance(error, PmvgeError | OSError | MemoryError | UnicodeError):
        return True
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)  # torch's own
