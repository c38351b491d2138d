"""Checkpoints: the state of a training run on disk, and which run it belongs to."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pmvge import storage
from pmvge.distributed import run_name
from pmvge.errors import StorageError, one_line
from pmvge.graph import MultiViewGraph

Tensors = dict[str, torch.Tensor]
ROWS = 4096  # hashed at once
# What may change between a run and its continuation.
_FREE = {"max_epochs", "max_steps", "patience", "progress", "device", "random_state"}


class DamagedCheckpoint(UserWarning):
    """The last checkpoint cannot be used, but the one before it."""


@dataclass(frozen=True)
class Checkpoints:
    """Where and how often the state of a run is written."""

    folder: Path
    every_steps: int | None
    every_seconds: float | None
    fingerprint: str  # of the problem: another one's checkpoint is refused
    seed: int  # of the run: what goes on without a fixed seed takes it from here

    def due_by_steps(self, step: int) -> bool:
        """Whether so many steps ask for one."""
        return self.every_steps is not None and step % self.every_steps == 0

    def due_by_seconds(self, since: float) -> bool:
        """Whether so many seconds since the last one do."""
        return self.every_seconds is not None and since >= self.every_seconds

    def write(self, content: Mapping[str, Any], tensors: Tensors) -> None:
        """Replace the checkpoint, atomically."""
        mark = {"fingerprint": self.fingerprint, "seed": str(self.seed), "run": run_name()}
        parts = {"state.safetensors": storage.tensors_writer(tensors)}
        storage.commit(self.folder, "checkpoint", {**mark, **content}, parts, keep=True)

    def mend(self) -> None:
        """Put the checkpoint before the last in its place, if the last is damaged.

        Else the next one written would have the damaged one beside it.
        """
        try:
            storage.read(self.folder, "checkpoint")
        except StorageError:
            storage.put_back(self.folder, "checkpoint")

    def read(self, *, of_this_run: bool = False) -> tuple[dict[str, Any], Tensors] | None:
        """The content and tensors that were written last; None if there is no checkpoint.

        If they are damaged, those written before them, with a warning. ``of_this_run`` leaves out
        what another run has written than that of ``torchrun`` which this process belongs to.
        """
        if not _exists(self.folder):
            return None
        content, parts = _read(self.folder)
        if of_this_run and content.get("run") != run_name():
            return None
        if content.get("fingerprint") != self.fingerprint:
            raise StorageError(
                f"{self.folder}: this checkpoint belongs to other data or other settings; "
                "use another checkpoint_dir, or resume=False to overwrite it"
            )
        if "state.safetensors" not in parts:
            raise StorageError(f"{self.folder}: damaged checkpoint: it names no state")
        return content, storage.read_tensors(parts["state.safetensors"])


def saved_seed(folder: Path) -> int | None:
    """The seed of the run whose checkpoint is in the folder, if there is one."""
    if not _exists(folder):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedCheckpoint)  # told when all of it is read
        content, _ = _read(folder)
    try:
        return int(content["seed"])
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{folder}: damaged checkpoint: its seed: {one_line(error)}") from error


def _exists(folder: Path) -> bool:
    return any(storage.exists(folder, kind) for kind in ("checkpoint", "checkpoint-before"))


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Path]]:
    """The last checkpoint that is whole."""
    try:
        return storage.read(folder, "checkpoint")
    except StorageError as error:
        try:
            found = storage.read(folder, "checkpoint-before")
        except StorageError:
            raise error from None
        told = f"{error}; the checkpoint before it is whole: training goes on from there"
        warnings.warn(told, DamagedCheckpoint, stacklevel=4)
        return found


def fingerprint(
    settings: Mapping[str, Any],
    network: nn.Module,
    graph: MultiViewGraph,
    held: MultiViewGraph | None,
    seed: int,
) -> str:
    """A hash of the problem: settings, seed, weight shapes, links, held-out links, features."""
    digest = hashlib.sha256()
    kept = {k: str(v) for k, v in settings.items() if k not in _FREE and "checkpoint" not in k}
    kept["encoder"] = _encoder_text(settings["encoder"])
    shapes = {name: list(tensor.shape) for name, tensor in network.state_dict().items()}
    digest.update(json.dumps([kept, dict(graph.sizes), shapes, seed], sort_keys=True).encode())
    add_graphs(digest, graph, held)
    return digest.hexdigest()


def add_graphs(digest: Any, graph: MultiViewGraph, held: MultiViewGraph | None) -> None:
    """Add the links of both graphs, and the features of the first, to a hash."""

    def add(array: np.ndarray[Any, Any]) -> None:
        for start in range(0, len(array), ROWS):
            digest.update(np.ascontiguousarray(array[start : start + ROWS]).data)

    for part in (graph, held):
        for pair, links in part.links.items() if part else ():
            digest.update(repr(pair).encode())
            for array in (links.rows, links.cols, links.weights):
                add(array)
    for X in graph.views.values():
        if X is not None:
            for array in [X] if isinstance(X, np.ndarray) else [X.indptr, X.indices, X.data]:
                add(array)


def _encoder_text(encoder: Any) -> str:
    """The ``encoder`` setting in words that are the same in every process."""
    if isinstance(encoder, Mapping):
        return str({view: _encoder_text(encoder[view]) for view in sorted(encoder)})
    return type(encoder).__qualname__ if isinstance(encoder, nn.Module) else repr(encoder)
