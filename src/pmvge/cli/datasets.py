"""``pmvge datasets``: which data sets there are, and how to get them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from pmvge.datasets import DATASETS, Archive, Dataset
from pmvge.datasets import download as fetch
from pmvge.errors import InputError, choose
from pmvge.graph import MultiViewGraph

app = typer.Typer(
    help="Data sets: list them, download them, describe them.\n\nExample: pmvge datasets list",
    no_args_is_help=True,
    add_completion=False,
)
Name = Annotated[str, typer.Argument(help="One that 'list' shows.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        "--data",
        metavar="DATA",
        help="Data folder, in which each set has its own. Default: $PMVGE_DATA, or else a folder "
        "of yours.",
    ),
]


@app.command("list")
def list_(folder: Folder = None, as_json: AsJson = False) -> None:
    """List the data sets and say which are here.

    Example: pmvge datasets list
    """
    rows = [_facts(dataset, folder) for dataset in DATASETS.values()]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table()
    for column in ("name", "what it is", "here?"):
        table.add_column(column, no_wrap=column != "what it is")
    for row in rows:
        table.add_row(row["name"], Text(row["summary"]), "yes" if row["present"] else "no")
    Console().print(table)


@app.command()
def download(
    name: Name,
    folder: Folder = None,
    force: Annotated[bool, typer.Option("--force", help="Fetch it even if it is here.")] = False,
) -> None:
    """Download a data set from its publisher, verify it, and put it in its place.

    An archive that is there already, and is the right one, is not fetched again without --force.

    Example: pmvge datasets download cora
    """
    dataset = _choose(name)
    if not dataset.archives:
        _say(f"{name} comes with {dataset.source}: there is nothing to download")
        return
    if not force and (found := dataset.found(folder)) is not None:
        _say(f"{name} is already there: {found} (--force fetches it again)")
        return
    places = dataset.places(folder)
    for place, archive in places.items():
        if force or not _there(archive, place):
            _fetch(archive, place)
        _say(f"{name}: {place} ({place.stat().st_size:,} bytes, verified)")
    result = next(iter(places))
    if dataset.unpack is not None:
        result = dataset.unpack(list(places), dataset.folder(folder))
        _say(f"{name}: unpacked in {result}; what it was unpacked from may be removed")
    if (found := dataset.found(folder)) != result:
        _say(f"but what is read first is {found}: remove that to use the new one")


@app.command()
def describe(name: Name, folder: Folder = None, as_json: AsJson = False) -> None:
    """Say what a data set is, where it is looked for, and what is in it if it is here.

    Example: pmvge datasets describe digits
    """
    dataset = _choose(name)
    facts = _facts(dataset, folder)
    graph = dataset.load(dataset.folder(folder)) if facts["present"] else None
    if as_json:
        content = None if graph is None else _content(graph)
        print(json.dumps({**facts, "graph": content}, indent=1))
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    labels = {"summary": "what it is", "source": "source", "note": "to cite"}
    for key, label in labels.items():
        table.add_row(label, Text(facts[key], overflow="fold"))
    Console().print(table)
    if not dataset.archives:
        _say(f"comes with {dataset.source}: there is nothing to download")
    elif graph is None:
        where = "" if folder is None else f" --folder {shlex.quote(str(folder))}"
        _say(f"not in {facts['folder']}; get it with: pmvge datasets download {name}{where}")
    else:
        _say(f"found: {facts['found']}")
    if graph is not None:
        _say(f"\n{graph!r}")


def _choose(name: str) -> Dataset:
    return DATASETS[choose("data set", name, DATASETS)]


def _there(archive: Archive, place: Path) -> bool:
    """Whether the archive is there, left by an earlier download or put there by hand."""
    if not place.is_file():
        return False
    try:
        archive.verify(place)
    except InputError as error:
        _say(f"{place} is not the file that was expected: {error}; fetching it anew")
        return False
    return True


def _fetch(archive: Archive, place: Path) -> None:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(archive.name, total=None)
        fetch(
            archive.url,
            place,
            archive.verify,
            lambda done, total: bar.update(task, completed=done, total=total),
            max_bytes=archive.max_bytes,
        )


def _facts(dataset: Dataset, data: Path | None) -> dict[str, Any]:
    """A set and whether it is here; one that comes with a library always is, and has no folder."""
    folder = dataset.folder(data) if dataset.archives else None
    found = dataset.found(data) if dataset.archives else None
    return {
        "name": dataset.name,
        "summary": dataset.summary,
        "source": dataset.source,
        "note": dataset.note,
        "folder": folder and str(folder),
        "found": found and str(found),
        "present": found is not None or not dataset.archives,
    }


def _content(graph: MultiViewGraph) -> dict[str, Any]:
    return {
        "views": {
            view: {"nodes": n, "features": graph.input_shape(view)}
            for view, n in graph.sizes.items()
        },
        "links": [
            {"views": pair, "links": len(links), "weight": links.total}
            for pair, links in graph.links.items()
        ],
    }


def _say(text: str) -> None:
    """Paths stay in one piece, and brackets in them are no markup."""
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
