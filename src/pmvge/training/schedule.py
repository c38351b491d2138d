"""Schedules: the learning rate of every step, and when training ends."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

WARM_UP = 20  # steps of the linear warm-up of "auto"


class Schedule(ABC):
    """The learning rate of every step, as a factor of the highest one, and the end of training.

    ``max_steps`` is the longest training. After ``patience`` checks without a better validation
    training ends, and the weights of the best check are kept. ``patience=None`` means no limit.
    """

    keeps_best: ClassVar[bool] = True  # whether the weights of the best check are kept

    def __init__(self, max_steps: int, patience: int | None = None) -> None:
        self.end, self.patience = max_steps, patience

    @abstractmethod
    def factor(self, step: int) -> float:
        """Return the factor of the learning rate in the step that follows ``step`` steps."""

    def phase(self, step: int) -> str:
        """Return the name of the phase that step number ``step`` belongs to."""
        return ""

    @property
    def length_is_known(self) -> bool:
        """Whether training will end at ``end``, and not before."""
        return self.patience is None

    def check(self, step: int, stale: int) -> None:
        """Receive the number of checks since the best validation, after ``step`` steps."""
        if self.patience is not None and stale >= self.patience:
            self.end = min(step, self.end)

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs besides the parameters."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`; raise ValueError or KeyError if it is not valid."""
        if state:
            raise ValueError(f"expected no state of the schedule, got {state}")


class Constant(Schedule):
    """The same learning rate in all steps."""

    def factor(self, step: int) -> float:
        """Return 1."""
        return 1.0


class StepDecay(Schedule):
    """A learning rate that is multiplied by ``decay_factor`` every ``decay_every`` steps."""

    def __init__(
        self, max_steps: int, patience: int | None, *, decay_every: int, decay_factor: float
    ) -> None:
        super().__init__(max_steps, patience)
        self.decay_every, self.decay_factor = decay_every, decay_factor

    def factor(self, step: int) -> float:
        """Return a power of ``decay_factor``."""
        return float(self.decay_factor ** (step // self.decay_every))


class Cosine(Schedule):
    r"""A decay to 0 at the last step T: :math:`(1 + \cos(\pi t / T)) / 2`, after a warm-up."""

    def __init__(self, max_steps: int, patience: int | None = None, *, warm_up: int = 0) -> None:
        super().__init__(max_steps, patience)
        self.max_steps, self.warm_up = max_steps, warm_up

    def factor(self, step: int) -> float:
        """Return the cosine, times the warm-up."""
        cosine = 0.5 * (1 + math.cos(math.pi * step / self.max_steps))
        return cosine * _warm_up(step, self.warm_up)


class WarmupHoldDecay(Schedule):
    r"""Warm up, hold the rate until the validation stalls, then decay it to 0.

    After s steps, when ``patience`` checks have brought no better validation, the rate decays
    linearly to 0 over a fixed share of the steps made, :math:`c s`. Without a stall the decay
    starts at :math:`T / (1 + c)`, so that it ends at the longest training T. The weights at the end
    are kept, although an earlier check can have a higher likelihood: they rank at least as well.
    """

    keeps_best = False
    decay_share: ClassVar[float] = 0.5  # c

    def __init__(self, max_steps: int, patience: int) -> None:
        super().__init__(max_steps, patience)
        self.decay_from = math.ceil(max_steps / (1 + self.decay_share))
        self.stalled = False

    def factor(self, step: int) -> float:
        """Return the warm-up, 1, or the decay."""
        if step < self.decay_from:
            return _warm_up(step, WARM_UP)
        return max(0.0, (self.end - step) / (self.end - self.decay_from + 1))

    def phase(self, step: int) -> str:
        """Return "warm-up", "hold" or "decay"."""
        if step > self.decay_from:
            return "decay"
        return "warm-up" if step <= WARM_UP else "hold"

    @property
    def length_is_known(self) -> bool:
        """Whether the decay has a start: after a stall."""
        return self.stalled

    def check(self, step: int, stale: int) -> None:
        """Start the decay after ``patience`` checks without a better validation."""
        if step < self.decay_from and self.patience is not None and stale >= self.patience:
            self.decay_from, self.stalled = step, True
            self.end = min(self.end, step + math.ceil(self.decay_share * step))

    def state(self) -> dict[str, Any]:
        """Return where the decay starts and ends, if the validation has stalled."""
        return {"decay_from": self.decay_from, "end": self.end} if self.stalled else {}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from :meth:`state`."""
        if state:
            self.decay_from, self.end = int(state["decay_from"]), int(state["end"])
            self.stalled = True
            if not 0 <= self.decay_from <= self.end:
                raise ValueError(f"expected a decay between 0 and its end, got {state}")


class Decay(Schedule):
    """The decay of :class:`WarmupHoldDecay` alone, to train a fitted model a little further.

    The rate decays linearly to 0.
    """

    keeps_best = False

    def factor(self, step: int) -> float:
        """Return the decay."""
        return max(0.0, (self.end - step) / (self.end + 1))

    def phase(self, step: int) -> str:
        """Return "decay"."""
        return "decay"

    @property
    def length_is_known(self) -> bool:
        """Whether the end is known: always."""
        return True

    def check(self, step: int, stale: int) -> None:
        """Receive a check, which changes nothing."""


def _warm_up(step: int, length: int) -> float:
    return min(1.0, (step + 1) / (length + 1))


SCHEDULES = ("auto", "constant", "step", "cosine")


def make_schedule(
    name: str,
    max_steps: int,
    patience: int | None,
    *,
    validated: bool,
    decay_every: int,
    decay_factor: float,
) -> Schedule:
    """Return the schedule of a name in ``SCHEDULES``.

    "auto" is :class:`WarmupHoldDecay` with validation, and a cosine with warm-up without.
    """
    if name == "auto" and patience is not None and validated:
        return WarmupHoldDecay(max_steps, patience)
    if name in ("auto", "cosine"):
        return Cosine(max_steps, patience, warm_up=WARM_UP if name == "auto" else 0)
    if name == "step":
        return StepDecay(max_steps, patience, decay_every=decay_every, decay_factor=decay_factor)
    return Constant(max_steps, patience)
