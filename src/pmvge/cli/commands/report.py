"""``pmvge report``: a model as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmvge.cli.options import AsJson, Model
from pmvge.cli.output import Console, bold, check_writable, print_json, print_notes
from pmvge.errors import ParameterError


def report(
    model: Model,
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file.")] = Path(
        "report.html"
    ),
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="VIEW=FILE:COLUMN",
            help="Colour the map by a column of a table that has the view's ids; can be repeated.",
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="The title of the page. Default: the name of the folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a report: one HTML file that opens offline in any browser.

    Example: pmvge report model/ -o report.html --label films=films.csv:year
    """
    check_writable(output, folder=False)
    from pmvge.model import PMvGE
    from pmvge.report import check_folder, write_report
    from pmvge.tables import read_labels

    check_folder(output)
    loaded = PMvGE.load(model)
    if loaded.links_ is None:
        print_notes([f"{model} was saved without its links: the report will show less"])
    for flag in label or []:
        view, equals, rest = flag.partition("=")
        file, colon, column = rest.rpartition(":")
        if not (equals and colon):
            raise ParameterError(f"--label: expected VIEW=FILE:COLUMN, got {flag!r}")
        values = read_labels(loaded.tables_, loaded.ids_, view, file, column)
        loaded.label({view: {column: values}})
    write_report(output, loaded, title=title or model.resolve().name)
    if as_json:
        print_json({"report": str(output), "bytes": output.stat().st_size})
        return
    size = output.stat().st_size / 1e6
    Console(highlight=False).print(f"Report: {bold(output)} ({size:.1f} MB)", soft_wrap=True)
