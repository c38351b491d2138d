"""The one gradient loop: schedules, early stopping, checkpoints, history."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from torch import nn

from pmvge.distributed import World
from pmvge.encoders import RowTable
from pmvge.errors import DivergedError, StorageError, one_line
from pmvge.likelihoods import Loss, Objective
from pmvge.sampling import BatchStream
from pmvge.training.checkpoints import Checkpoints, Tensors
from pmvge.training.generators import generator_of
from pmvge.training.history import History, Record
from pmvge.training.interrupts import deferred_interrupt
from pmvge.training.optimizer import Descent
from pmvge.training.progress import Watcher
from pmvge.training.schedule import Plan

# What a snapshot that is none may lead to.
DAMAGED = (
    AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError, ValueError,
)  # fmt: skip
VOTE = 10  # steps between questions to all processes: is a checkpoint due, was one interrupted


class Trainer:
    """Trains a network on a stream of batches; everything it needs to go on is its state."""

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[[Any], Loss],
        batches: BatchStream,
        plan: Plan,
        *,
        watcher: Watcher,
        objective: Objective[Any] | None = None,
        validate: Callable[[], float] | None = None,
        checkpoints: Checkpoints | None = None,
        lazy: Sequence[RowTable] = (),
        world: World | None = None,
        partly_used: bool = True,
    ) -> None:
        """``loss`` is that of a batch of the stream.

        ``objective`` is what in it keeps numbers from step to step, ``lazy`` are tables of the
        network of which a step updates only what it needs, ``partly_used`` says whether a batch
        may leave other parameters out.
        """
        self.network, self.objective, self.batches, self.plan = network, objective, batches, plan
        self.validate, self.checkpoints, self.watcher = validate, checkpoints, watcher
        self.world = world or World()
        self.descent = Descent(
            network,
            self.world.shared(loss, partly_used=partly_used),
            self.world,
            lazy=lazy,
            weight_decay=plan.weight_decay,
            clip_norm=plan.clip_norm,
        )
        devices = (p.device for p in network.parameters())
        self.generator = generator_of(next(devices, torch.device("cpu")))
        self.step = 0
        self.stale = 0  # checks since the best validation
        self.best: float | None = None
        self.best_weights: Tensors = {}
        self.losses: list[float] = []  # since the last record
        self.history = History()
        self.finished = self.descent.idle
        self.earlier = 0.0  # seconds before a resume

    def run(self) -> History:
        """Train to the end and leave the network with its best weights.

        Interrupted (Ctrl-C), a run with checkpoints writes one first.
        """
        self._start = self._last_write = time.perf_counter()
        self.watcher.start(self.step, self.plan.max_steps)
        self.network.train()
        keeps = self.checkpoints is not None
        with closing(iter(self.batches)) as batches, deferred_interrupt(keeps) as interrupted:
            while not self.finished:
                self.descend(next(batches))
                if self.step % self.plan.check_every == 0 or self.step == self.plan.max_steps:
                    self._check()
                stopped = self._write_if_due(interrupted())
                self.watcher.step(self.step, self._seconds() - self.earlier)
                if stopped:
                    raise KeyboardInterrupt
            if self.world.any(interrupted()):  # amid the last step
                raise KeyboardInterrupt
        self.descent.end()
        self.world.same_buffers(self.network)
        if self.best_weights:
            self.network.load_state_dict(self.best_weights)
        self.network.eval()
        return self.history

    def _seconds(self) -> float:
        return self.earlier + time.perf_counter() - self._start

    def descend(self, batch: Any) -> None:
        """Make one gradient step."""
        self.losses.append(
            self.descent.step(batch, self.plan.learning_rate_at(self.step), self.step + 1)
        )
        self.step += 1

    def _check(self) -> None:
        """Make a record, and see whether to stop."""
        validation = None
        if self.validate is not None:
            self.world.same_buffers(self.network)
            self.network.eval()
            with torch.no_grad():
                validation = self.world.mean(self.validate())
            self.network.train()
            if not math.isfinite(validation):
                raise DivergedError(
                    f"training diverged by step {self.step}: the held-out links' profile "
                    f"likelihood is {validation}; an encoder puts out NaN or infinity"
                )
            if self.best is None or validation > self.best:
                self.best, self.stale = validation, 0
                self.descent.catch_up()
                self.best_weights = {k: v.clone() for k, v in self.network.state_dict().items()}
            else:
                self.stale += 1
        record = Record(
            step=self.step,
            epoch=self.step / self.plan.steps_per_epoch,
            loss=self.world.mean(math.fsum(self.losses) / len(self.losses)),
            validation=validation,
            learning_rate=self.plan.learning_rate_at(self.step - 1),
            seconds=self._seconds(),
        )
        self.history.append(record)
        self.losses = []
        self.watcher.check(record, self.best)
        self.finished = self._is_over()

    def _is_over(self) -> bool:
        out_of_patience = self.plan.patience is not None and self.stale >= self.plan.patience
        return self.step >= self.plan.max_steps or out_of_patience

    # -- checkpoints ------------------------------------------------------------------------

    def _write_if_due(self, interrupted: bool) -> bool:
        """Write a checkpoint if it is time, or the last moment; say whether it is the last."""
        if self.checkpoints is None:
            return interrupted
        due = self.finished or self.checkpoints.due_by_steps(self.step)
        asks = self.world.size == 1 or self.step % VOTE == 0 or self.finished
        interrupted = asks and self.world.any(interrupted)  # the same answer in all processes
        if asks:
            since = time.perf_counter() - self._last_write
            due |= self.world.any(interrupted or self.checkpoints.due_by_seconds(since))
        if due:
            snapshot = self.snapshot()
            if self.world.first:
                self.checkpoints.write(*snapshot)
            self._last_write = time.perf_counter()
        return interrupted

    def snapshot(self) -> tuple[dict[str, Any], Tensors]:
        """All that a later process needs to go on as if nothing had happened."""
        tensors = {f"network.{k}": v for k, v in self.network.state_dict().items()}
        tensors |= {f"best.{k}": v for k, v in self.best_weights.items()}
        tensors |= self.descent.state()
        drawn, dropped = self._generators()
        tensors["torch_rng"] = torch.stack(dropped)
        content = {
            "step": self.step,
            "stale": self.stale,
            "best": self.best,
            "losses": [json.loads(t) for t in self.world.gather(json.dumps(self.losses).encode())],
            "seconds": self._seconds(),
            "history": self.history.to_records(),
            "objective": self.objective.state() if self.objective else {},
            "batches": drawn,
        }
        return content, tensors

    def _generators(self) -> tuple[list[dict[str, Any]], list[torch.Tensor]]:
        """The generators of all processes: of batches, and of dropout."""
        states = self.world.gather(json.dumps(self.batches.state(), default=int).encode())
        bits = self.world.gather(self.generator.get_state().numpy().tobytes())
        return [json.loads(state) for state in states], [
            torch.frombuffer(bytearray(state), dtype=torch.uint8) for state in bits
        ]

    def _restore_generators(self, drawn: list[dict[str, Any]], dropped: torch.Tensor) -> None:
        """As they were; in another number of processes, new ones that follow from the first."""
        world = self.world
        if len(drawn) == world.size:
            self.batches.restore(drawn[world.rank])
            self.generator.set_state(dropped[world.rank].clone())  # wants the start of a tensor
            return
        text = f"{json.dumps(drawn[0], sort_keys=True)} {world.rank} of {world.size}"
        entropy = int.from_bytes(hashlib.sha256(text.encode()).digest())
        self.batches.restore(dict(np.random.default_rng(entropy).bit_generator.state))
        self.generator.manual_seed(entropy % 2**63)

    def resume(self, content: dict[str, Any], tensors: Tensors) -> None:
        """Go back to a snapshot, which comes from a file."""
        try:
            self._go_back(content, tensors)
        except DAMAGED as error:
            where = self.checkpoints.folder if self.checkpoints else "resume"
            raise StorageError(f"{where}: damaged checkpoint: {one_line(error)}") from error

    def _go_back(self, content: dict[str, Any], tensors: Tensors) -> None:
        parts: dict[str, Tensors] = {
            name: {} for name in ("network", "best", "adam", "lazy", "torch_rng")
        }
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = tensor
        self.network.load_state_dict(parts["network"])
        self.descent.restore(parts["adam"], parts["lazy"])
        self.best_weights = parts["best"]
        self._restore_generators(content["batches"], parts["torch_rng"][""])
        if self.objective:
            self.objective.restore(content["objective"])
        self.step, self.stale = operator.index(content["step"]), operator.index(content["stale"])
        if self.step < 0:
            raise ValueError(f"expected a number of steps, got {self.step}")
        self.best = None if content["best"] is None else float(content["best"])
        losses = content["losses"]
        own = self.world.rank if len(losses) == self.world.size else 0
        self.losses, self.earlier = [*map(float, losses[own])], float(content["seconds"])
        self.history = History.from_records(content["history"])
        self.finished = self._is_over()
