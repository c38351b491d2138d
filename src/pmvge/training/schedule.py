"""How long and how fast to train."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train."""

    max_steps: int
    steps_per_epoch: float
    check_every: int  # steps between records, and between looks at the validation
    learning_rate: float
    schedule: str  # "constant", "step" or "cosine"
    decay_every: int  # of "step": steps between decays
    decay_factor: float
    weight_decay: float
    clip_norm: float | None
    patience: int | None  # checks without a better validation before stopping

    def learning_rate_at(self, step: int) -> float:
        """The rate of the step after ``step`` steps."""
        if self.schedule == "step":
            return self.learning_rate * self.decay_factor ** (step // self.decay_every)
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * step / self.max_steps))
        return self.learning_rate
