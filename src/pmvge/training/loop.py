"""The training loop: gradient steps, validation, early stopping, checkpoints, history."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any

import torch
from torch import nn

from pmvge.distributed import World
from pmvge.encoders import LazyRows
from pmvge.errors import DivergedError, StorageError, one_line
from pmvge.likelihoods import Loss, Objective
from pmvge.sampling import BatchStream
from pmvge.training.callbacks import Callback, Callbacks
from pmvge.training.checkpoints import Checkpoints, Tensors
from pmvge.training.contention import SpinThrottle
from pmvge.training.generators import dropout_generator
from pmvge.training.history import History, Record
from pmvge.training.interrupts import deferred_interrupt
from pmvge.training.optimizer import NetworkOptimizer
from pmvge.training.plan import Plan
from pmvge.training.snapshots import SNAPSHOT_ERRORS, restore_snapshot, take_snapshot

# Steps after which processes agree on whether a checkpoint is due, or one of them was interrupted.
SYNC_EVERY = 10


class Trainer:
    """Train a network on a stream of batches.

    Parameters
    ----------
    loss
        The loss of a batch of the stream.
    plan
        The schedule, which a run changes, and the other numbers of the optimization.
    callbacks
        Are called at the start, after every step, after every record and at the end, after the
        history.
    objective
        The part of the loss that keeps numbers between steps, if there is one.
    validate
        Return the validation score of the current weights; higher is better.
    checkpoints
        Where and how often to write checkpoints; None writes none.
    lazy
        Modules of the network of which a step updates only the rows that it needs.
    find_unused_parameters
        Whether a batch may leave some of the other parameters without a gradient.
    after_step
        Is called after every step with the number of steps made; may change buffers of the network.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Callable[[Any], Loss],
        batches: BatchStream,
        plan: Plan,
        *,
        callbacks: Iterable[Callback] = (),
        objective: Objective[Any] | None = None,
        validate: Callable[[], float] | None = None,
        checkpoints: Checkpoints | None = None,
        lazy: Sequence[LazyRows] = (),
        world: World | None = None,
        find_unused_parameters: bool = True,
        after_step: Callable[[int], None] | None = None,
    ) -> None:
        self.after_step = after_step
        self.network, self.objective, self.batches, self.plan = network, objective, batches, plan
        self.schedule = plan.schedule
        self.validate, self.checkpoints, self.callbacks = validate, checkpoints, tuple(callbacks)
        self.world = world or World()
        self.optimizer = NetworkOptimizer(
            network,
            self.world.data_parallel(loss, find_unused_parameters=find_unused_parameters),
            self.world,
            lazy=lazy,
            weight_decay=plan.weight_decay,
            clip_norm=plan.clip_norm,
        )
        devices = (p.device for p in network.parameters())
        self.generator = dropout_generator(next(devices, torch.device("cpu")))
        self.step = 0
        self.stale = 0  # checks since the best validation
        self.best: float | None = None
        self.best_weights: Tensors = {}
        self.losses: list[float] = []  # since the last record
        self.history = History()
        self.finished = self.optimizer.is_empty
        self.seconds_before = 0.0  # training time before a resume

    def run(self) -> History:
        """Train to the end, set the network to the weights to keep, and return the history.

        On Ctrl-C, a run with checkpoints finishes the step, writes a checkpoint and then raises
        KeyboardInterrupt. Raise DivergedError if a loss, gradient or validation is not finite.
        """
        self._start = self._last_write = time.perf_counter()
        self.network.train()
        defer = self.checkpoints is not None
        with (
            Callbacks((self.history, *self.callbacks)) as callbacks,
            closing(iter(self.batches)) as batches,
            deferred_interrupt(defer) as interrupted,
            SpinThrottle() as throttle,
        ):
            callbacks.start(self.step, self.schedule)
            while not self.finished:
                self.train_step(next(batches))
                throttle.check()
                if self.step % self.plan.check_every == 0 or self.step >= self.schedule.end:
                    self._check(callbacks)
                stop = self._write_if_due(interrupted())
                callbacks.step(self.step, self.seconds() - self.seconds_before)
                if stop:
                    raise KeyboardInterrupt
            if self.world.any(interrupted()):  # while the last checkpoint was written
                raise KeyboardInterrupt
        self.optimizer.finish()
        self.world.broadcast_buffers(self.network)
        if self.best_weights:
            self.network.load_state_dict(self.best_weights)
        self.network.eval()
        return self.history

    def train_step(self, batch: Any) -> None:
        """Make one gradient step."""
        rate = self.plan.learning_rate * self.schedule.factor(self.step)
        self.losses.append(self.optimizer.step(batch, rate, self.step + 1))
        self.step += 1
        if self.after_step is not None:
            self.after_step(self.step)

    def seconds(self) -> float:
        """Return the training time, including that before a resume."""
        return self.seconds_before + time.perf_counter() - self._start

    def _check(self, callbacks: Callback) -> None:
        """Validate, pass a record to the callbacks, and decide whether to stop."""
        validation = None if self.validate is None else self._validate(self.validate)
        record = Record(
            step=self.step,
            epoch=self.step / self.plan.steps_per_epoch,
            loss=self.world.mean(math.fsum(self.losses) / len(self.losses)),
            validation=validation,
            learning_rate=self.plan.learning_rate * self.schedule.factor(self.step - 1),
            seconds=self.seconds(),
            phase=self.schedule.phase(self.step),
        )
        self.losses = []
        callbacks.check(record, self.best)
        self.schedule.check(self.step, self.stale)
        self.finished = self.step >= self.schedule.end

    def _validate(self, validate: Callable[[], float]) -> float:
        """Return the validation score; if it is the best so far, store weights to keep."""
        self.world.broadcast_buffers(self.network)
        self.network.eval()
        with torch.no_grad():
            validation = self.world.mean(validate())
        self.network.train()
        if not math.isfinite(validation):
            raise DivergedError(
                f"training diverged by step {self.step}: the held-out links' profile "
                f"likelihood is {validation}; an encoder returns NaN or infinity. Try a smaller "
                "learning_rate"
            )
        if self.best is None or validation > self.best:
            self.best, self.stale = validation, 0
            if self.schedule.keeps_best:
                self.optimizer.catch_up()
                self.best_weights = {k: v.clone() for k, v in self.network.state_dict().items()}
        else:
            self.stale += 1
        return validation

    # -- checkpoints ------------------------------------------------------------------------

    def _write_if_due(self, interrupted: bool) -> bool:
        """Write a checkpoint if one is due, and return whether the run must stop.

        The decision is the same in all processes.
        """
        if self.checkpoints is None:
            return interrupted
        due = self.finished or self.checkpoints.due_by_steps(self.step)
        sync = self.world.size == 1 or self.step % SYNC_EVERY == 0 or self.finished
        interrupted = sync and self.world.any(interrupted)
        if sync:
            since = time.perf_counter() - self._last_write
            due |= self.world.any(interrupted or self.checkpoints.due_by_seconds(since))
        if due:
            snapshot = take_snapshot(self)
            if self.world.first:
                self.checkpoints.write(*snapshot)
            self._last_write = time.perf_counter()
        return interrupted

    def resume(self, content: dict[str, Any], tensors: Tensors) -> None:
        """Continue from a checkpoint; raise StorageError if it is damaged."""
        try:
            restore_snapshot(self, content, tensors)
        except SNAPSHOT_ERRORS as error:
            where = self.checkpoints.folder if self.checkpoints else "resume"
            raise StorageError(f"{where}: damaged checkpoint: {one_line(error)}") from error
        self.schedule.check(self.step, self.stale)
        self.finished = self.step >= self.schedule.end
