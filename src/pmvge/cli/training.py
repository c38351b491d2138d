"""The parts of a fit that ``pmvge fit`` and ``pmvge tune`` share, checkpoints and interrupts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console

from pmvge import storage
from pmvge.checks import pick_seed
from pmvge.cli.output import print_notes
from pmvge.distributed import common_seed, is_first
from pmvge.encoders import EncoderSpec
from pmvge.errors import CheckpointMismatch, InputError, ParameterError, choose
from pmvge.graph import MultiViewGraph, hold_out_links
from pmvge.model import Background, PMvGE
from pmvge.tables import Project, Tables
from pmvge.training import saved_seed


def pick_fraction(settings: dict[str, Any], validation: float | None) -> float:
    """Return the share of links to hold out; remove it from the settings, and set patience."""
    saved = settings.pop("validation_fraction", 0.1)
    fraction = saved if validation is None else validation
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction < 1:
        raise ParameterError(f"--validation: expected a number in [0, 1), got {fraction!r}")
    if fraction == 0:
        settings["patience"] = None
    return 0.0 if settings.get("patience", 1) is None else float(fraction)


def split_links(
    graph: MultiViewGraph, fraction: float, seed: Any
) -> tuple[MultiViewGraph, MultiViewGraph | None]:
    """Return the links to train on and the held-out ones, None if there are too few."""
    if fraction == 0:
        return graph, None
    kept, held = hold_out_links(graph, fraction, np.random.default_rng([pick_seed(seed), 1]))
    return (kept, held) if held.n_links else (graph, None)


def encoders_for(project: Project, graph: MultiViewGraph, encoder: Any) -> Any:
    """Return the encoder setting, with specs for views that have ``standardize = false``."""
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


def train(
    tables: Tables,
    settings: Mapping[str, Any],
    fraction: float,
    resume: bool,
    *,
    sharded: bool = False,
) -> tuple[PMvGE, Background]:
    """Fit a model with held-out links and checkpoints; return it and its background."""
    settings, folder = dict(settings), checkpoint_folder(settings)
    if resume and folder and is_first() and not storage.exists(folder, "checkpoint"):
        print_notes([f"{folder}: no checkpoint to resume from; starting a new fit"])
    if settings["random_state"] is None:  # drawn once: the links held out must stay the same
        saved = saved_seed(folder) if resume and folder else None
        found = [seed for seed in (saved, common_seed()) if seed is not None]
        settings["random_state"] = found[0] if found else pick_seed(None)
    settings["encoder"] = encoders_for(tables.project, tables.graph, settings.get("encoder", "mlp"))
    kept, held = split_links(tables.graph, fraction, settings["random_state"])
    model = PMvGE(**settings)
    try:
        model.fit(kept, held, resume=resume, sharded=sharded)
    except CheckpointMismatch as error:
        raise InputError(
            f"{folder}: the interrupted fit had other data or other settings; run without "
            "--resume to start a new fit"
        ) from error
    return model, Background.of(kept, held, tables.labels)


def checkpoint_folder(settings: Mapping[str, Any]) -> Path | None:
    """Return the folder of the checkpoints; None if there are none."""
    folder = settings["checkpoint_dir"]
    return None if folder is None else Path(folder)


def read_checkpoint_manifest(folder: Path | None) -> bytes | None:
    """Return the manifest of the checkpoint in a folder; None if there is no checkpoint."""
    manifest = folder / "checkpoint.json" if folder else None
    return manifest.read_bytes() if manifest and manifest.is_file() else None


def describe_checkpoint(folder: Path | None, before: bytes | None) -> str:
    """Return how to resume an interrupted fit, given the manifest from before the fit."""
    if read_checkpoint_manifest(folder) in (None, before):
        return "No checkpoint was written."
    return f"The checkpoint is in {folder}; run the same command with --resume to continue."


@contextmanager
def exit_on_interrupt(describe: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, print what ``describe`` returns and exit with code 130."""
    try:
        yield
    except KeyboardInterrupt:
        console = Console(stderr=True, quiet=not is_first(), highlight=False)
        console.print(f"\nStopped. {describe()}", markup=False, soft_wrap=True)
        raise typer.Exit(130) from None
