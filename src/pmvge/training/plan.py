"""The numbers of a training run that are fixed before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from pmvge.training.schedule import Schedule


@dataclass(frozen=True)
class Plan:
    """The schedule of a training run, and its other numbers."""

    schedule: Schedule
    steps_per_epoch: float
    check_every: int  # steps between records, and between validations
    learning_rate: float  # the highest one
    weight_decay: float
    clip_norm: float | None
