r"""Adam for tables of which a step needs few rows, at the cost of those rows.

Adam moves every row in every step, also where the gradient is 0: its momentum runs out. Here a row
is left alone until it is needed again, and then brought to where Adam would have it. Untouched
since step t, k steps later, with :math:`r = \beta_1 / \sqrt{\beta_2}` and the rate :math:`\eta`,

.. math::
    m \to \beta_1^k m, \qquad v \to \beta_2^k v, \qquad
    w \to w - \eta \frac{m}{\sqrt v + \epsilon_t} \sum_{j=1}^{k} r^j c_{t+j}, \qquad
    c_s = \frac{\sqrt{1 - \beta_2^s}}{1 - \beta_1^s}.

The sum is :math:`A_t - r^k A_{t+k}`, where :math:`A_t = \sum_{j \ge 1} r^j c_{t+j}
= r (c_{t+1} + A_{t+1})` is tabulated before training. Most of the momentum is gone after
``MEMORY`` steps. The rate in the middle of these stands for all of them, and
:math:`\epsilon_t = \epsilon \sqrt{1 - \beta_2^t}` as well; but for that, and for rounding, the
result is Adam's.
"""

from __future__ import annotations

import math

import torch

from pmvge.encoders import RowTable

BETAS = (0.9, 0.999)  # those of torch's Adam, as is what follows
EPSILON = 1e-8
RATIO = BETAS[0] / math.sqrt(BETAS[1])
MEMORY = 20  # steps, on which a gradient acts for the most part: 1 - r^20 = 0.88
CHUNK = 1 << 16  # rows brought up to date together when all of them are


class LazyAdam:
    """The optimizer of one table. Decay of weights, if any, is decoupled, as in AdamW."""

    def __init__(self, table: RowTable, max_steps: int, weight_decay: float) -> None:
        self.table, self.weight_decay = table, weight_decay
        weight = table.weight.detach()
        self.m, self.v = torch.zeros_like(weight), torch.zeros_like(weight)
        self.done = torch.zeros(len(weight), dtype=torch.int64, device=weight.device)
        self.step = 0  # steps made; ``done`` is how many of them each row has seen
        self.sums = momentum_sums(max_steps).to(weight.device)
        self.rates = torch.zeros_like(self.sums)  # of each step made
        self.log_decay = torch.zeros_like(self.sums)  # of weights, by all steps up to each
        table.begin_lazy(self.catch_up)

    def catch_up(self, rows: torch.Tensor) -> None:
        """Bring distinct rows to where they would be after all steps made."""
        rows = rows[self.done[rows] < self.step]
        if not len(rows):
            return
        since = self.done[rows]
        missed = (self.step - since).double()
        rate = self.rates[since + (missed.clamp(max=MEMORY) / 2).ceil().long()]
        weight, m, v = self.table.weight.detach(), self.m[rows], self.v[rows]

        def column(values: torch.Tensor) -> torch.Tensor:
            return values.to(m.dtype)[:, None]

        moved = rate * (self.sums[since] - RATIO**missed * self.sums[self.step])
        epsilon = EPSILON * torch.sqrt(1 - BETAS[1] ** since.double())
        direction = torch.where(v > 0, m / (torch.sqrt(v) + column(epsilon)), 0.0)
        # After the movement, which ends soon.
        kept = torch.exp(self.log_decay[self.step] - self.log_decay[since])
        weight[rows] = (weight[rows] - direction * column(moved)) * column(kept)
        self.m[rows] = m * column(BETAS[0] ** missed)
        self.v[rows] = v * column(BETAS[1] ** missed)
        self.done[rows] = self.step

    def catch_up_all(self) -> None:
        """The whole table: before all of it is looked at."""
        for rows in torch.arange(len(self.m), device=self.m.device).split(CHUNK):
            self.catch_up(rows)

    def gradient(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Rows that the last loss depends on, and its gradient in them; None if on none of them."""
        used = [(rows, copy.grad) for rows, copy in self.table.lent if copy.grad is not None]
        self.table.lent.clear()
        if not used:
            return None
        rows, place = torch.unique(torch.cat([rows for rows, _ in used]), return_inverse=True)
        total = self.m.new_zeros(len(rows), self.m.shape[1])
        return rows, total.index_add_(0, place, torch.cat([grad for _, grad in used]))

    def descend(self, rows: torch.Tensor, gradient: torch.Tensor, rate: float) -> None:
        """One step: these rows now, all others when they are needed."""
        before, self.step = self.log_decay[self.step], self.step + 1
        self.rates[self.step] = rate
        self.log_decay[self.step] = before + math.log1p(-rate * self.weight_decay)
        first, second = (1 - beta**self.step for beta in BETAS)
        weight = self.table.weight.detach()
        m = self.m[rows].lerp_(gradient, 1 - BETAS[0])
        v = self.v[rows].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        change = (m / first).div_(torch.sqrt(v / second).add_(EPSILON))
        weight[rows] = weight[rows] * (1 - rate * self.weight_decay) - rate * change
        self.m[rows], self.v[rows], self.done[rows] = m, v, self.step

    def state(self) -> dict[str, torch.Tensor]:
        """What it needs to go on; the weights are in the network."""
        names = ("m", "v", "done", "rates", "log_decay")
        return {name: getattr(self, name) for name in names} | {"step": torch.tensor(self.step)}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from there."""
        for name, tensor in self.state().items():
            if name != "step":
                tensor.copy_(state[name])
        self.step = int(state["step"])


def momentum_sums(max_steps: int) -> torch.Tensor:
    r""":math:`A_t` for t = 0 to ``max_steps``."""
    steps = torch.arange(1, max_steps + 1, dtype=torch.float64)
    c = torch.sqrt(1 - BETAS[1] ** steps) / (1 - BETAS[0] ** steps)
    sums, total = [0.0], 0.0  # no step comes after the last
    for value in reversed(c.tolist()):
        total = RATIO * (value + total)
        sums.append(total)
    return torch.tensor(sums[::-1], dtype=torch.float64)
