"""Snapshots of a trainer: its complete state, as JSON content and tensors."""

from __future__ import annotations

import hashlib
import json
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from pmvge.training.checkpoints import Tensors
from pmvge.training.history import History

if TYPE_CHECKING:
    from pmvge.training.loop import Trainer

# Exceptions that restoring a corrupt snapshot can raise.
SNAPSHOT_ERRORS = (
    AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError,
)  # fmt: skip


def take_snapshot(trainer: Trainer) -> tuple[dict[str, Any], Tensors]:
    """Return the complete state of a trainer: a resumed run gives results equal to the last bit.

    It contains the state of all processes, so all of them must call this function.
    """
    tensors = {f"network.{k}": v for k, v in trainer.network.state_dict().items()}
    tensors |= {f"best.{k}": v for k, v in trainer.best_weights.items()}
    tensors |= trainer.optimizer.state()
    batch_states, dropout_states = _gather_generators(trainer)
    tensors["torch_rng"] = torch.stack(dropout_states)
    losses = trainer.world.gather(json.dumps(trainer.losses).encode())
    content = {
        "step": trainer.step,
        "stale": trainer.stale,
        "best": trainer.best,
        "schedule": trainer.schedule.state(),
        "losses": [json.loads(values) for values in losses],
        "seconds": trainer.seconds(),
        "history": trainer.history.to_records(),
        "objective": trainer.objective.state() if trainer.objective else {},
        "batches": batch_states,
    }
    return content, tensors


def restore_snapshot(trainer: Trainer, content: dict[str, Any], tensors: Tensors) -> None:
    """Set a trainer to a snapshot; raise one of ``SNAPSHOT_ERRORS`` if the snapshot is corrupt."""
    parts: dict[str, Tensors] = {
        name: {} for name in ("network", "best", "adam", "lazy", "torch_rng")
    }
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        parts[part][rest] = tensor
    trainer.network.load_state_dict(parts["network"])
    trainer.optimizer.restore(parts["adam"], parts["lazy"])
    trainer.best_weights = parts["best"]
    _restore_generators(trainer, content["batches"], parts["torch_rng"][""])
    if trainer.objective:
        trainer.objective.restore(content["objective"])
    trainer.step = operator.index(content["step"])
    trainer.stale = operator.index(content["stale"])
    if trainer.step < 0:
        raise ValueError(f"expected a number of steps >= 0, got {trainer.step}")
    trainer.best = None if content["best"] is None else float(content["best"])
    trainer.schedule.restore(content["schedule"])
    losses = content["losses"]
    own = trainer.world.rank if len(losses) == trainer.world.size else 0
    trainer.losses = [*map(float, losses[own])]
    trainer.seconds_before = float(content["seconds"])
    trainer.history = History.from_records(content["history"])


def _gather_generators(trainer: Trainer) -> tuple[list[dict[str, Any]], list[torch.Tensor]]:
    """Return the generator states of all processes: for batches, and for dropout."""
    states = trainer.world.gather(json.dumps(trainer.batches.state(), default=int).encode())
    dropout = trainer.world.gather(trainer.generator.get_state().numpy().tobytes())
    return [json.loads(state) for state in states], [
        torch.frombuffer(bytearray(state), dtype=torch.uint8) for state in dropout
    ]


def _restore_generators(
    trainer: Trainer, batch_states: list[dict[str, Any]], dropout_states: torch.Tensor
) -> None:
    """Restore the generators of this process.

    If the number of processes has changed, seed new ones from the state of the first process.
    """
    world = trainer.world
    if len(batch_states) == world.size:
        trainer.batches.restore(batch_states[world.rank])
        # set_state reads from the start of the storage, so a view of a row needs a copy.
        trainer.generator.set_state(dropout_states[world.rank].clone())
        return
    text = f"{json.dumps(batch_states[0], sort_keys=True)} {world.rank} of {world.size}"
    entropy = int.from_bytes(hashlib.sha256(text.encode()).digest())
    trainer.batches.restore(dict(np.random.default_rng(entropy).bit_generator.state))
    trainer.generator.manual_seed(entropy % 2**63)
