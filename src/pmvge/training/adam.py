"""Adam with decoupled weight decay, by the function that torch's own AdamW calls.

The class ``torch.optim.AdamW`` imports torch's compiler, which takes a second at the start of every
fit, and adds checks to every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.optim.adamw import adamw

from pmvge.training.checkpoints import Tensors

BETAS = (0.9, 0.999)  # the defaults of torch's Adam
EPSILON = 1e-8  # likewise


@dataclass(frozen=True, eq=False)
class Group:
    """Weights with one decay, and one multiplier of the learning rate."""

    parameters: Sequence[torch.nn.Parameter]
    weight_decay: float
    multiplier: float = 1.0


class Adam:
    """The optimizer of some groups of weights; a weight without a gradient is skipped."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = [group for group in groups if group.parameters]
        self.parameters = [p for group in self.groups for p in group.parameters]
        self.index = {id(p): number for number, p in enumerate(self.parameters)}
        self.moments: dict[int, Tensors] = {}  # by the number of the weight, from its first step
        self.fused = all(
            p.device.type in ("cpu", "cuda") and p.is_floating_point() for p in self.parameters
        )

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for p in self.parameters:
            p.grad = None

    def step(self, rate: float) -> None:
        """Change all weights that have a gradient."""
        for group in self.groups:
            used = [p for p in group.parameters if p.grad is not None]
            if not used:
                continue
            moments = [self._moments_of(p) for p in used]
            with torch.no_grad():
                adamw(
                    list(used),
                    [p.grad for p in used if p.grad is not None],
                    [m["exp_avg"] for m in moments],
                    [m["exp_avg_sq"] for m in moments],
                    [],
                    [m["step"] for m in moments],
                    fused=self.fused,
                    amsgrad=False,
                    beta1=BETAS[0],
                    beta2=BETAS[1],
                    lr=rate * group.multiplier,
                    weight_decay=group.weight_decay,
                    eps=EPSILON,
                    maximize=False,
                )

    def _moments_of(self, p: torch.nn.Parameter) -> Tensors:
        number = self.index[id(p)]
        if number not in self.moments:
            device = p.device if self.fused else torch.device("cpu")
            self.moments[number] = {
                "step": torch.zeros((), dtype=torch.float32, device=device),
                "exp_avg": torch.zeros_like(p),
                "exp_avg_sq": torch.zeros_like(p),
            }
        return self.moments[number]

    def state(self) -> Tensors:
        """Return the number of steps and the moments of each weight that had a gradient."""
        return {f"{n}.{key}": t for n, own in self.moments.items() for key, t in own.items()}

    def restore(self, state: Tensors) -> None:
        """Restore a state; raise ValueError if its shapes are not those of the weights."""
        moments: dict[int, Tensors] = {}
        for name, tensor in state.items():
            number, key = name.split(".")
            p = self.parameters[int(number)]
            if key != "step" and tensor.shape != p.shape:
                raise ValueError(
                    f"moments of weight {number}: expected shape {tuple(p.shape)}, got "
                    f"{tuple(tensor.shape)}"
                )
            at = p.device if key != "step" or self.fused else torch.device("cpu")
            moments.setdefault(int(number), {})[key] = tensor.to(at, copy=True)
        self.moments = moments
