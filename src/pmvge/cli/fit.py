"""``pmvge fit``: tables to a model folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from pmvge import storage
from pmvge.checks import pick_seed
from pmvge.cli.common import (
    AsJson,
    as_typed,
    bold,
    parse_settings,
    print_json,
    results_table,
    tell,
    visible_lines,
    writable,
)
from pmvge.cli.flags import LinkFlags, Settings, Spill, Strict, Views, project_from
from pmvge.cli.init import describe
from pmvge.distributed import common_seed, is_first, launched_as
from pmvge.encoders import EncoderSpec
from pmvge.errors import InputError, ParameterError, StorageError, choose
from pmvge.graph import MultiViewGraph, hold_out_links
from pmvge.model import Background, PMvGE, evaluate_background
from pmvge.tables import Project, Sketch, Tables, read_tables, share_links
from pmvge.training import saved_seed


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
    spill: Spill = None,
    sharded: Annotated[
        bool,
        typer.Option(
            "--sharded", help="Started by torchrun: each process reads its share of the link files."
        ),
    ] = False,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model to tables and write it to a folder.

    Example: pmvge fit pmvge.toml -o model/ --set n_components=32

    Without a project file: pmvge fit --view movies=movies.csv --view users=users.parquet
    --links users,movies=ratings.csv:weight=rating -o model/
    """
    first = is_first()  # of several processes, one speaks and writes
    console = Console(quiet=as_json or not first, highlight=False)
    described = project_from(project, view, links)
    settings = parse_settings(set_ or [], described.model)
    fraction = pick_fraction(settings, validation)
    if sharded:
        described = share_links(described, *launched_as())
    writable(output, folder=True)
    with Console(stderr=True).status("Reading the tables") if spill and first else nullcontext():
        tables = read_tables(described, strict=strict, spill=spill)
    if view or links:
        for line in describe(Sketch(tables.project, {}, {})):
            console.print(line, soft_wrap=True, markup=False)
    tell(tables.notes() if first else [])
    console.print(visible_lines(tables.graph), markup=False)
    started = time.perf_counter()
    settings = {"random_state": 0, "checkpoint_dir": output / "checkpoint", **settings}
    place = _place(settings)
    before = None if resume else _written(place)  # of another fit, and no use to this one
    with stopping_with(lambda: _how_to_go_on(place, before)):
        model, background = train(tables, settings, fraction, resume, sharded=sharded)
        if not first:
            return
        model.save(output, background=background)
    seconds = time.perf_counter() - started
    with stopping_with(lambda: f"The model is complete, in {output}."):
        if place == output / "checkpoint":  # one that was asked for elsewhere stays
            storage.remove(place, "checkpoint")
        results = evaluate_background(
            model.embeddings_, model.log_alpha_, background, weights=model.alpha_weight_
        )
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
    tables: Tables,
    settings: Mapping[str, Any],
    fraction: float,
    resume: bool,
    *,
    sharded: bool = False,
) -> tuple[PMvGE, Background]:
    """Fit a model with held-out links and checkpoints."""
    settings, place = dict(settings), _place(settings)
    if resume and place and is_first() and not storage.exists(place, "checkpoint"):
        tell([f"{place}: no fit was interrupted here: a new one begins"])
    if settings["random_state"] is None:  # drawn once: the links held out must stay the same
        saved = saved_seed(place) if resume and place else None
        found = [seed for seed in (saved, common_seed()) if seed is not None]
        settings["random_state"] = found[0] if found else pick_seed(None)
    settings["encoder"] = encoders_for(tables.project, tables.graph, settings.get("encoder", "mlp"))
    kept, held = split_links(tables.graph, fraction, settings["random_state"])
    model = PMvGE(**settings)
    try:
        model.fit(kept, held, resume=resume, sharded=sharded)
    except StorageError as error:
        if resume and "belongs to other data" in str(error):
            raise InputError(
                f"{place}: the fit that was interrupted had other data or "
                "other settings; without --resume a new one begins"
            ) from error
        raise
    return model, Background.of(kept, held, tables.labels)


@contextmanager
def stopping_with(word: Callable[[], str]) -> Iterator[None]:
    """An interruption inside ends the command, with a word on what there is now."""
    try:
        yield
    except KeyboardInterrupt:
        console = Console(stderr=True, quiet=not is_first(), highlight=False)
        console.print(f"\nStopped. {word()}", markup=False, soft_wrap=True)
        raise typer.Exit(130) from None


def _how_to_go_on(place: Path | None, before: bytes | None) -> str:
    if _written(place) in (None, before):
        return "Nothing of it was kept."
    return (
        f"What was learned so far is in {place}; the same command with --resume goes on from there."
    )


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


def _place(settings: Mapping[str, Any]) -> Path | None:
    """The folder of checkpoints; None if they are not wanted."""
    folder = settings["checkpoint_dir"]
    return None if folder is None else Path(folder)


def _written(place: Path | None) -> bytes | None:
    """The manifest of the checkpoint there; None if there is none."""
    manifest = place / "checkpoint.json" if place else None
    return manifest.read_bytes() if manifest and manifest.is_file() else None


def _steps(model: PMvGE) -> int:
    return model.history_[-1].step if len(model.history_) else 0
