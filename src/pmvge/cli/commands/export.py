"""``pmvge export``: encoders, vectors and indexes for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pmvge.cli.options import AsJson, Model
from pmvge.cli.output import Console, bold, check_writable, print_json
from pmvge.errors import choose

TARGETS = ("onnx", "parquet", "faiss")


def export(
    model: Model,
    to: Annotated[str, typer.Option("--to", help=f"What to write: {', '.join(TARGETS)}.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder for the files.")
    ] = Path("export"),
    index: Annotated[
        str, typer.Option("--index", help="With --to faiss: flat (exact) or hnsw (approximate).")
    ] = "flat",
    coordinates: Annotated[
        bool, typer.Option("--map/--no-map", help="With --to parquet: add x and y of a map.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Write encoders (onnx), vectors (parquet) or indexes (faiss) that need no pmvge.

    Example: pmvge export model/ --to parquet -o vectors/
    """
    choose("target", to, TARGETS, "--to")
    check_writable(output, folder=True)
    from pmvge.export import export_faiss, export_onnx, export_parquet
    from pmvge.model import PMvGE

    loaded = PMvGE.load(model)
    if to == "onnx":
        paths = export_onnx(loaded, output)
    elif to == "parquet":
        paths = export_parquet(loaded, output, coordinates=coordinates)
    else:
        paths = export_faiss(loaded, output, index=index)
    if as_json:
        print_json({"target": to, "files": [str(path) for path in paths]})
        return
    console = Console(highlight=False)
    for path in paths:
        size = path.stat().st_size / 1e3
        console.print(f"{bold(path)} ({size:,.0f} kB)", soft_wrap=True)
