"""The command line: ``pmvge COMMAND``.

The files in ``commands`` import heavy libraries (torch, numpy, DuckDB, ...) inside their functions.
So help, the version and typing errors are answered without them.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Annotated

import typer

from pmvge.cli.commands import datasets
from pmvge.cli.commands.demo import demo
from pmvge.cli.commands.embed import embed
from pmvge.cli.commands.evaluate import evaluate
from pmvge.cli.commands.examples import examples
from pmvge.cli.commands.explain import explain
from pmvge.cli.commands.explore import explore
from pmvge.cli.commands.export import export
from pmvge.cli.commands.fit import fit
from pmvge.cli.commands.index import index
from pmvge.cli.commands.init import init
from pmvge.cli.commands.inspect import inspect
from pmvge.cli.commands.methods import methods
from pmvge.cli.commands.report import report
from pmvge.cli.commands.reproduce import reproduce
from pmvge.cli.commands.search import search
from pmvge.cli.commands.serve import serve
from pmvge.cli.commands.split import split
from pmvge.cli.commands.tune import tune
from pmvge.cli.commands.update import update
from pmvge.cli.output import visible
from pmvge.errors import PmvgeError
from pmvge.version import __version__

if "TORCHELASTIC_RUN_ID" in os.environ:
    # Read when torch is loaded: without it every process prints warnings of torch.distributed.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
MEMORY_NOTE = (
    "If memory could not be allocated, reduce n_components or batch_size, or use a machine with "
    "more memory."
)
app = typer.Typer(
    name="pmvge",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",  # wraps paragraphs
)
for command in (
    init,
    split,
    fit,
    update,
    tune,
    embed,
    search,
    index,
    explain,
    explore,
    serve,
    evaluate,
    inspect,
    report,
    export,
    methods,
    reproduce,
    examples,
    demo,
):
    app.command()(command)
app.add_typer(datasets.app, name="datasets")


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Learn one vector space for entities of different kinds, and search in it.

    Example: pmvge init; pmvge fit; pmvge search model --view users --id 42 --among films
    """


def main() -> None:
    """Run the command in ``sys.argv`` and exit.

    An error that the user can fix is printed as one line on the error stream, with exit code 2.
    SIGTERM raises KeyboardInterrupt, as Ctrl-C does: batch systems leave time for a checkpoint.
    """
    debug = "--debug" in sys.argv  # accepted before and after the command
    for stream in (sys.stdout, sys.stderr):
        # Ids may contain characters that the terminal's encoding lacks. Replaced streams (pipes in
        # tests, notebooks) may not support reconfigure.
        with suppress(AttributeError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if not _launched_by_torchrun():  # torchrun terminates its processes itself, at once
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = app(args=[w for w in sys.argv[1:] if w != "--debug"], standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except typer.Abort:
        sys.exit(130)
    except Exception as error:
        # Usage errors of typer are recognised by this method; their classes differ by version.
        usage_message = getattr(error, "format_message", None)
        if debug or not (usage_message or _is_user_error(error)):
            if type(error) is RuntimeError:  # torch has no other type for a lack of memory
                error.add_note(MEMORY_NOTE)
            raise
        message = " ".join((usage_message() if usage_message else str(error)).split())
        if message or not usage_message:  # an empty usage message: the help was shown instead
            print(f"pmvge: {visible(message) or type(error).__name__}", file=sys.stderr)
        sys.exit(2)


def _launched_by_torchrun() -> bool:
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return False
    from pmvge.distributed import launched

    return launched()


def _is_user_error(error: Exception) -> bool:
    """Return whether other input, other names, more disk or more memory can fix the error."""
    torch = sys.modules.get("torch")  # only an import by a command can lead to its exceptions
    of_torch = () if torch is None else (torch.OutOfMemoryError,)
    return isinstance(error, (PmvgeError, OSError, MemoryError, UnicodeError, *of_torch))
