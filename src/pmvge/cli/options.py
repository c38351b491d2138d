"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FirstLinkTables = Annotated[
    list[str] | None,
    typer.Option(
        "--links",
        metavar="FILE",
        help="A table of first links of new entities, with the columns of the link table in "
        "training; can be repeated.",
    ),
]
FirstPairs = Annotated[
    list[str] | None,
    typer.Option("--pair", metavar="VIEW,VIEW", help="The views of each --links, in order."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON, nothing else.")]
Model = Annotated[Path, typer.Argument(help="The folder of a fitted model.", show_default=False)]
ProjectFile = Annotated[
    Path | None, typer.Argument(help="A project file. Default: pmvge.toml.", show_default=False)
]
Views = Annotated[
    list[str] | None,
    typer.Option(
        "--view",
        metavar="NAME=FILE",
        help="A view and its table; FILE:id=COLUMN names the id column. NAME alone is a view "
        "without features, whose ids are those in the link tables. Can be repeated.",
    ),
]
LinkTables = Annotated[
    list[str] | None,
    typer.Option(
        "--links",
        metavar="VIEW,VIEW=FILE",
        help="A link table. Options follow the file, such as FILE:columns=A,B:weight=COLUMN:"
        "aggregate=max. Can be repeated.",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Raise an error for rows that cannot be used, instead of a note."
    ),
]
Spill = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="A folder for dense features that do not fit into memory; later fits reuse its files.",
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting of the model, such as n_components=32. Can be repeated.",
    ),
]
