"""``pmvge datasets``: list, download and describe data sets."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from pmvge.cli.downloading import install, print_plain
from pmvge.cli.output import Console
from pmvge.errors import choose

if TYPE_CHECKING:
    from pmvge.datasets import Dataset
    from pmvge.graph import MultiViewGraph

app = typer.Typer(
    help="List, download and describe data sets.\n\nExample: pmvge datasets list",
    no_args_is_help=True,
    add_completion=False,
)
Name = Annotated[str, typer.Argument(help="The name of a data set, from 'pmvge datasets list'.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        "--data",
        metavar="DATA",
        help="The data folder, with a subfolder for each data set. Default: $PMVGE_DATA, or a "
        "folder in your home directory.",
    ),
]


@app.command("list")
def list_(folder: Folder = None, as_json: AsJson = False) -> None:
    """List the data sets and show which are downloaded.

    Example: pmvge datasets list
    """
    from pmvge.datasets import DATASETS

    rows = [_facts(dataset, folder) for dataset in DATASETS.values()]
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    table = Table()
    for column in ("name", "description", "available?"):
        table.add_column(column, no_wrap=column != "description")
    for row in rows:
        table.add_row(row["name"], Text(row["summary"]), "yes" if row["present"] else "no")
    Console().print(table)


@app.command()
def download(
    name: Name,
    folder: Folder = None,
    force: Annotated[
        bool, typer.Option("--force", help="Download it even if you have it.")
    ] = False,
) -> None:
    """Download a data set from its publisher, verify it, and unpack it if needed.

    An archive that is there already and passes verification is not downloaded again without
    --force.

    Example: pmvge datasets download cora
    """
    dataset = _choose(name)
    if not dataset.archives:
        print_plain(f"{name} comes with {dataset.source}: there is nothing to download")
        return
    if not force and (found := dataset.installed_path(folder)) is not None:
        print_plain(f"{name} is already there: {found} (--force downloads it again)")
        return
    install(dataset, folder, force=force)


@app.command()
def describe(name: Name, folder: Folder = None, as_json: AsJson = False) -> None:
    """Show what a data set is, where it is stored, and its graph if it is downloaded.

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
    labels = {"summary": "description", "source": "source", "licence": "licence", "note": "to cite"}
    for key, label in labels.items():
        table.add_row(label, Text(facts[key], overflow="fold"))
    Console().print(table)
    if not dataset.archives:
        print_plain(f"comes with {dataset.source}: there is nothing to download")
    elif graph is None:
        option = "" if folder is None else f" --folder {shlex.quote(str(folder))}"
        print_plain(
            f"not in {facts['folder']}; get it with: pmvge datasets download {name}{option}"
        )
    else:
        print_plain(f"found: {facts['found']}")
    if graph is not None:
        print_plain(f"\n{graph!r}")


def _choose(name: str) -> Dataset:
    from pmvge.datasets import DATASETS

    return DATASETS[choose("data set", name, DATASETS)]


def _facts(dataset: Dataset, data: Path | None) -> dict[str, Any]:
    """Return the facts of a set; one that comes with a library is present and has no folder."""
    folder = dataset.folder(data) if dataset.archives else None
    found = dataset.installed_path(data) if dataset.archives else None
    return {
        "name": dataset.name,
        "summary": dataset.summary,
        "source": dataset.source,
        "licence": dataset.licence,
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
