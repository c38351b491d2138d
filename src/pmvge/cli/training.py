"""The parts of a fit that ``pmvge fit`` and ``pmvge tune`` share, checkpoints and interrupts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from pmvge import storage
from pmvge.checks import real
from pmvge.cli.output import Console, print_notes
from pmvge.distributed import is_first
from pmvge.errors import CheckpointMismatch, InputError
from pmvge.model import PMvGE
from pmvge.tables import Tables
from pmvge.training import Callback


def check_fraction(validation: float | None) -> None:
    """Raise ParameterError if ``--validation`` is not a share of the links."""
    if validation is not None:
        real(0, 1)("--validation", validation)


def train(
    tables: Tables,
    settings: Mapping[str, Any],
    *,
    hold_out: float | None,
    resume: bool,
    sharded: bool,
    calibrate: float | None = None,
    callbacks: Sequence[Callback] = (),
) -> PMvGE:
    """Return a model that is fitted to tables, with the texts of the tables."""
    folder = checkpoint_folder(settings)
    if resume and folder and is_first() and not storage.exists(folder, "checkpoint"):
        print_notes([f"{folder}: no checkpoint to resume from; starting a new fit"])
    model = PMvGE(**settings)
    try:
        model.fit(
            tables.graph,
            hold_out=hold_out,
            calibrate=calibrate,
            resume=resume,
            sharded=sharded,
            callbacks=callbacks,
        )
    except CheckpointMismatch as error:
        raise InputError(
            f"{folder}: the interrupted fit had other data or other settings; run without "
            "--resume to start a new fit"
        ) from error
    return model.label(tables.labels, columns=tables.columns, names=tables.names)


def checkpoint_folder(settings: Mapping[str, Any]) -> Path | None:
    """Return the folder of the checkpoints; None if there are none."""
    folder = settings["checkpoint_dir"]
    return None if folder is None else Path(folder)


def read_checkpoint_manifest(folder: Path | None) -> bytes | None:
    """Return the manifest of the checkpoint in a folder; None if there is no checkpoint."""
    manifest = folder / "checkpoint.json" if folder else None
    return manifest.read_bytes() if manifest and manifest.is_file() else None


def describe_checkpoint(folder: Path | None, before: bytes | None, output: Path) -> str:
    """Return how to resume an interrupted fit, or to make a model of its checkpoint.

    ``before`` is the manifest from before the fit, ``output`` the model folder.
    """
    earlier = f" {output} has the model of an earlier fit." if _has_model(output) else ""
    manifest = read_checkpoint_manifest(folder)
    if manifest is None or manifest == before:
        return f"No checkpoint was written. There is no model of this fit.{earlier}"
    step = json.loads(manifest)["step"] + 1  # a last step, which is validated
    return (
        f"There is no model of this fit yet.{earlier} The checkpoint is in {folder}; run the same "
        f"command with --resume to continue, or with --resume --set max_steps={step} to make a "
        "model of what was learned so far."
    )


def _has_model(output: Path) -> bool:
    return storage.exists(output, "model")


@contextmanager
def exit_on_interrupt(describe: Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C, print what ``describe`` returns and exit with code 130."""
    try:
        yield
    except KeyboardInterrupt:
        console = Console(stderr=True, quiet=not is_first(), highlight=False)
        console.print(f"\nStopped. {describe()}", markup=False, soft_wrap=True)
        raise typer.Exit(130) from None
