"""``pmvge fit``: tables to a model folder."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from pmvge import EncoderSpec, MultiViewGraph, PMvGE, storage
from pmvge.background import Background
from pmvge.cli.common import (
    AsJson,
    as_typed,
    bold,
    parse_settings,
    print_json,
    results_table,
    tell,
    writable,
)
from pmvge.cli.init import describe
from pmvge.errors import InputError, ParameterError, StorageError, choose
from pmvge.evaluation.held_out import evaluate_background
from pmvge.parameters import pick_seed
from pmvge.split import hold_out_links
from pmvge.tables import LinkTable, Project, Tables, ViewTable, read_project, read_tables
from pmvge.tables.sketch import Sketch

Views = Annotated[
    list[str] | None,
    typer.Option(
        "--view",
        metavar="NAME=FILE",
        help="A view and its table; FILE:id=COLUMN names the id. NAME alone: known by the links.",
    ),
]
LinkFlags = Annotated[
    list[str] | None,
    typer.Option(
        "--links",
        metavar="VIEW,VIEW=FILE",
        help="A link table; FILE:weight=COLUMN:aggregate=max and columns=A,B may follow.",
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Rows that cannot be used are an error, not a note.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="A parameter of PMvGE, such as n_components=32."
    ),
]


def fit(
    project: Annotated[
        Path | None, typer.Argument(help="A project file. Default: pmvge.toml.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The model's folder.")] = Path(
        "model"
    ),
    view: Views = None,
    links: LinkFlags = None,
    set_: Settings = None,
    validation: Annotated[
        float | None,
        typer.Option(help="Share of the links held out for early stopping, 0 for none. [0.1]"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where an interrupted fit stopped.")
    ] = False,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model to tables and write it to a folder.

    Example: pmvge fit pmvge.toml -o model/ --set n_components=32

    Without a project file: pmvge fit --view movies=movies.csv --view users=users.parquet
    --links users,movies=ratings.csv:weight=rating -o model/
    """
    console = Console(quiet=as_json, highlight=False)
    described = project_from(project, view, links)
    settings = parse_settings(set_ or [], described.model)
    fraction = pick_fraction(settings, validation)
    writable(output, folder=True)
    tables = read_tables(described, strict=strict)
    if view or links:
        for line in describe(Sketch(tables.project, {}, {})):
            console.print(line, soft_wrap=True, markup=False)
    tell(tables.notes())
    console.print(tables.graph, markup=False)
    started = time.perf_counter()
    model, background = train(tables, settings, fraction, output, resume)
    model.save(output, background=background)
    shutil.rmtree(output / "checkpoint", ignore_errors=True)
    seconds = time.perf_counter() - started
    results = evaluate_background(model.embeddings_, model.log_alpha_, background)
    if as_json:
        print_json({"model": str(output), "seconds": seconds, "steps": _steps(model), **results})
        return
    console.print(f"\nFitted in {seconds:.1f} s. {model.history_}", markup=False, soft_wrap=True)
    if results["pairs"]:
        console.print(results_table(results, "Held-out links (those that stopped the training)"))
    name = as_typed(output)
    console.print(
        f"Model: {bold(output)}. Next: pmvge report {name}, pmvge search {name} --help",
        soft_wrap=True,
    )


def project_from(project: Path | None, view: list[str] | None, links: list[str] | None) -> Project:
    """The project that a file or flags describe."""
    if not view and not links:
        return read_project(project or Path("pmvge.toml"))
    if project is not None:
        raise ParameterError("give a project file, or --view and --links, not both")
    if not links:
        raise ParameterError("--view needs --links: which entities go together?")
    tables = dict(map(_view_flag, view or []))
    described = dict(map(_link_flag, links))
    for pair in described:
        for name in pair:
            tables.setdefault(name, ViewTable())
    return Project(tables, described)


def _options(flag: str, text: str, known: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """A file and its options from ``FILE:key=value:key=value``."""
    match = re.fullmatch(r"(.*?)((?::\w+=[^:]*)*)", text)
    file, tail = match.groups() if match else (text, "")
    options = dict(part.split("=", 1) for part in tail.split(":")[1:])
    for key in options:
        if key not in known:
            raise ParameterError(
                f"{flag} {text}: unknown option {key!r}: expected {' or '.join(known)}"
            )
    return file, options


def _view_flag(text: str) -> tuple[str, ViewTable]:
    name, _, place = text.partition("=")
    if not place:
        return name, ViewTable()
    file, options = _options("--view", place, ("id",))
    return name, ViewTable(file, options.get("id"))


def _link_flag(text: str) -> tuple[tuple[str, str], LinkTable]:
    names, _, place = text.partition("=")
    pair = names.split(",")
    if len(pair) != 2 or not all(pair) or not place:
        raise ParameterError(f"--links: expected VIEW,VIEW=FILE, got {text!r}")
    keys = ("columns", "weight", "aggregate", "symmetrize")
    file, options = _options("--links", place, keys)
    if options.get("aggregate", "sum") not in ("sum", "count", "max"):
        raise ParameterError(f"--links {text}: aggregate: expected sum, count or max")
    columns = tuple(options["columns"].split(",")) if "columns" in options else None
    if columns is not None and len(columns) != 2:
        raise ParameterError(f"--links {text}: columns: expected two names, COLUMN,COLUMN")
    table = LinkTable(
        file,
        columns,
        options.get("weight"),
        options.get("aggregate", "sum"),
        options.get("symmetrize"),
    )
    return (pair[0], pair[1]), table


def pick_fraction(settings: dict[str, Any], validation: float | None) -> float:
    """The share of links to hold out; the settings are left to agree with it."""
    saved = settings.pop("validation_fraction", 0.1)
    fraction = saved if validation is None else validation
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction < 1:
        raise ParameterError(f"--validation: expected a number in [0, 1), got {fraction!r}")
    if fraction == 0:
        settings["patience"] = None
    return 0.0 if settings.get("patience", 1) is None else float(fraction)


def train(
    tables: Tables, settings: Mapping[str, Any], fraction: float, output: Path, resume: bool
) -> tuple[PMvGE, Background]:
    """Fit a model with held-out links and checkpoints; say how to go on after an interruption."""
    settings = {"random_state": 0, "checkpoint_dir": output / "checkpoint", **settings}
    settings["encoder"] = encoders_for(tables.project, tables.graph, settings.get("encoder", "mlp"))
    kept, held = split_links(tables.graph, fraction, settings["random_state"])
    model = PMvGE(**settings)
    try:
        model.fit(kept, held, resume=resume)
    except KeyboardInterrupt:
        place = settings["checkpoint_dir"]
        learned = (
            f"What was learned so far is in {place}; the same command with --resume goes on from "
            "there."
            if storage.exists(Path(place), "checkpoint")
            else "Nothing was learned yet."
        )
        Console(stderr=True).print(
            f"\nStopped. {learned}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        raise typer.Exit(130) from None
    except StorageError as error:
        if resume and "belongs to other data" in str(error):
            raise InputError(
                f"{settings['checkpoint_dir']}: the fit that was interrupted had other data or "
                "other settings; without --resume a new one begins"
            ) from error
        raise
    return model, Background.of(kept, held, tables.labels)


def split_links(
    graph: MultiViewGraph, fraction: float, seed: Any
) -> tuple[MultiViewGraph, MultiViewGraph | None]:
    """The links to train on and, unless there are too few, those held out."""
    if fraction == 0:
        return graph, None
    kept, held = hold_out_links(graph, fraction, np.random.default_rng([pick_seed(seed), 1]))
    return (kept, held) if held.n_links else (graph, None)


def encoders_for(project: Project, graph: MultiViewGraph, encoder: Any) -> Any:
    """Views whose numbers are to be taken as they are get an encoder that does so."""
    plain = [
        name
        for name, view in project.views.items()
        if not view.standardize and isinstance(graph.views[name], np.ndarray)
    ]
    if not plain:
        return encoder
    chosen = encoder if isinstance(encoder, Mapping) else dict.fromkeys(graph.view_names, encoder)
    for name in chosen:
        choose("view", name, graph.view_names, "encoder")
    named = {n: c for n, c in chosen.items() if graph.views[n] is not None or c != encoder}
    return {
        n: EncoderSpec(kind=c, standardize=False) if n in plain and isinstance(c, str) else c
        for n, c in {**named, **{n: named.get(n, "mlp") for n in plain}}.items()
    }


def _steps(model: PMvGE) -> int:
    return model.history_[-1].step if len(model.history_) else 0
