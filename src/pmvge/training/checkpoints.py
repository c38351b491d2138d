"""Checkpoints: the state of a training run on disk."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from pmvge import storage
from pmvge.distributed import run_id
from pmvge.errors import CheckpointMismatch, StorageError, one_line

T = TypeVar("T")
Tensors = dict[str, torch.Tensor]


class DamagedCheckpoint(UserWarning):
    """The latest checkpoint is damaged; the previous one is used."""


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often the state of a run is written."""

    folder: Path
    every_steps: int | None
    every_seconds: float | None
    fingerprint: str  # of data and settings: a checkpoint with another one is refused
    seed: int  # of the run: a resumed run without a fixed seed uses it

    def due_by_steps(self, step: int) -> bool:
        """Return whether a checkpoint is due after ``step`` steps."""
        return self.every_steps is not None and step % self.every_steps == 0

    def due_by_seconds(self, since: float) -> bool:
        """Return whether a checkpoint is due ``since`` seconds after the last one."""
        return self.every_seconds is not None and since >= self.every_seconds

    def write(self, content: Mapping[str, Any], tensors: Tensors) -> None:
        """Write a checkpoint atomically, and keep the previous one.

        Raise StorageError if it cannot be written.
        """
        identity = {"fingerprint": self.fingerprint, "seed": str(self.seed), "run": run_id()}
        parts = {"state.safetensors": storage.tensors_writer(tensors)}
        storage.commit(self.folder, "checkpoint", {**identity, **content}, parts, keep=True)

    def restore_previous(self) -> None:
        """Replace the latest checkpoint by the previous one if the latest is damaged.

        Otherwise the next commit would keep the damaged one as its previous checkpoint.
        """
        try:
            storage.read(self.folder, "checkpoint", _content)
        except StorageError:
            storage.restore_previous(self.folder, "checkpoint")

    def read(self, *, of_this_run: bool = False) -> tuple[dict[str, Any], Tensors] | None:
        """Return the content and tensors of the latest checkpoint; None if there is none.

        If it is damaged, warn and return those of the previous one. With ``of_this_run``, ignore
        checkpoints of other ``torchrun`` runs than this process's. Raise CheckpointMismatch if the
        checkpoint belongs to other data or settings, and StorageError if both are damaged.
        """
        if not _exists(self.folder):
            return None
        content, tensors = _read(self.folder, _content_and_tensors)
        if of_this_run and content.get("run") != run_id():
            return None
        if content.get("fingerprint") != self.fingerprint:
            raise CheckpointMismatch(
                f"{self.folder}: this checkpoint belongs to other data or other settings; "
                "use another checkpoint_dir, or resume=False to overwrite it"
            )
        return content, tensors


def saved_seed(folder: Path) -> int | None:
    """Return the seed of the run whose checkpoint is in the folder; None if there is none.

    Raise StorageError if the checkpoint is damaged.
    """
    if not _exists(folder):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedCheckpoint)  # Checkpoints.read warns
        content = _read(folder, _content)
    try:
        return int(content["seed"])
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"{folder}: damaged checkpoint: invalid seed: {one_line(error)}"
        ) from error


def _exists(folder: Path) -> bool:
    return any(storage.exists(folder, kind) for kind in ("checkpoint", "checkpoint-before"))


def _content(content: dict[str, Any], parts: storage.Parts) -> dict[str, Any]:
    storage.find_part(parts, "state.safetensors")
    return content


def _content_and_tensors(
    content: dict[str, Any], parts: storage.Parts
) -> tuple[dict[str, Any], Tensors]:
    return content, storage.read_tensors(storage.find_part(parts, "state.safetensors"))


def _read(folder: Path, load: storage.Load[T]) -> T:
    """Load the latest checkpoint that is not damaged; raise StorageError if there is none."""
    try:
        return storage.read(folder, "checkpoint", load)
    except StorageError as error:
        try:
            previous = storage.read(folder, "checkpoint-before", load)
        except StorageError:
            raise error from None
        message = f"{error}; using the previous checkpoint"
        warnings.warn(message, DamagedCheckpoint, stacklevel=4)
        return previous
