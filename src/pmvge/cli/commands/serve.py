"""``pmvge serve``: answer requests over HTTP with a fitted model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlunsplit

import typer

from pmvge.cli.options import Model
from pmvge.cli.output import print_notes
from pmvge.errors import InputError


def serve(
    model: Model,
    host: Annotated[
        str, typer.Option(help="The address to listen on; others need --token-file.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0: any that is free.")
    ] = 8000,
    workers: Annotated[
        int, typer.Option(min=1, max=256, help="Number of processes; they share the vectors.")
    ] = 1,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="A file with a token; requests need the header Authorization: Bearer TOKEN.",
            show_default=False,
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines connect without a token.")
    ] = False,
    no_reload: Annotated[
        bool, typer.Option("--no-reload", help="Keep the model when another one is saved.")
    ] = False,
    max_body: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Largest request.")] = 4
    << 20,
    max_batch: Annotated[int, typer.Option(min=1, help="Most entities in a request.")] = 256,
    max_k: Annotated[
        int, typer.Option("--max-k", min=1, help="Most partners of an entity.")
    ] = 1000,
    max_results: Annotated[
        int, typer.Option(min=1, help="Most partners, or pairs of entities, in an answer.")
    ] = 100_000,
    max_running: Annotated[
        int, typer.Option(min=1, max=256, help="Most requests that a worker computes at once.")
    ] = 2,
    max_waiting: Annotated[
        int, typer.Option(min=0, help="Most requests that wait in a worker.")
    ] = 64,
) -> None:
    """Answer requests over HTTP: search, vectors, expected weights, explanations.

    A model that is saved into the folder is served a few seconds later, without a break. Stop the
    server with Ctrl-C or SIGTERM. It describes itself under /docs; the page under / shows the model
    (see pmvge explore).

    Example: pmvge serve model/

    For other machines: pmvge serve model/ --host 0.0.0.0 --token-file token.txt
    """
    try:
        from pmvge.serving import Limits, Settings, check_access, is_loopback, listen, read_token
        from pmvge.serving import serve as run
    except ModuleNotFoundError as error:
        raise InputError(
            f"pmvge serve needs {error.name}, which is not installed: pip install 'pmvge[serve]'"
        ) from error
    token = None if token_file is None else read_token(token_file)
    check_access(host, token, insecure)
    if insecure and token is None:
        print_notes(["--insecure: everybody who can connect may use the model"])
    limits = Limits(
        body=max_body,
        batch=max_batch,
        k=max_k,
        results=max_results,
        running=max_running,
        waiting=max_waiting,
    )
    local = token is None and is_loopback(host)
    with listen(host, port) as listener:
        address, number = listener.getsockname()[:2]
        name = f"[{address}]:{number}" if ":" in address else f"{address}:{number}"
        link = urlunsplit(("http", name, "/docs", "", ""))
        run(
            model,
            listener,
            partial(Settings, limits=limits, token=token, loopback_only=local),
            workers=workers,
            reload=not no_reload,
            ready=lambda: print(f"Serving {model} on {link}", flush=True),
        )
