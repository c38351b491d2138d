"""``pmvge explore``: look at a fitted model in a browser."""

from __future__ import annotations

import warnings
import webbrowser
from functools import partial
from typing import Annotated
from urllib.parse import urlunsplit

import typer

from pmvge.cli.options import Model
from pmvge.cli.output import print_notes
from pmvge.errors import InputError

PORT = 8000  # if it is free


def explore(
    model: Model,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help=f"The port to listen on. Default: {PORT}, or any that is free."
        ),
    ] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address, and open no browser.")
    ] = False,
) -> None:
    """Look at a model in a browser: a map of all views, search, partners, new entities.

    The map is computed once and saved beside the model. The page is for this machine only, and
    loads nothing from others. A model that is saved into the folder replaces the old one in the
    page. Stop with Ctrl-C.

    Example: pmvge explore model/
    """
    try:
        from pmvge.serving import Settings, listen
        from pmvge.serving import serve as run
    except ModuleNotFoundError as error:
        raise InputError(
            f"pmvge explore needs {error.name}, which is not installed: pip install 'pmvge[serve]'"
        ) from error
    from pmvge.model import PMvGE, saved_map

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        saved_map(PMvGE.load(model), model)
    print_notes([f"the page has no map: {one.message}" for one in caught])
    try:
        listener = listen("127.0.0.1", PORT if port is None else port)
    except InputError:
        if port is not None:
            raise
        listener = listen("127.0.0.1", 0)
    with listener:
        name = f"127.0.0.1:{listener.getsockname()[1]}"
        address = urlunsplit(("http", name, "/", "", ""))

        def ready() -> None:
            print(f"Exploring {model} on {address}", flush=True)
            if not no_browser:
                webbrowser.open(address)

        run(model, listener, partial(Settings, loopback_only=True), maps=True, ready=ready)
