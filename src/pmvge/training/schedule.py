"""The length and the learning rates of a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """The length, learning rates and stopping rule of a training run."""

    max_steps: int
    steps_per_epoch: float
    check_every: int  # steps between records, and between validations
    learning_rate: float
    schedule: str  # "constant", "step" or "cosine"
    decay_every: int  # steps between decays, for "step"
    decay_factor: float
    weight_decay: float
    clip_norm: float | None
    patience: int | None  # checks without a better validation before stopping; None: no limit

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of the step that follows ``step`` steps."""
        if self.schedule == "step":
            return self.learning_rate * self.decay_factor ** (step // self.decay_every)
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * step / self.max_steps))
        return self.learning_rate
