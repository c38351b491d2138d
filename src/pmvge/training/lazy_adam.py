r"""Adam for tables of which a step needs few rows, at the cost of those rows.

Adam moves every row in every step, also where the gradient is 0: its momentum runs out, and its
weight decays. Here a row is left alone until it is needed again, and then brought to where Adam
would have it. Untouched since step t, at step T, with rates :math:`\eta_s`, decay
:math:`d_s = 1 - \eta_s \lambda` and :math:`r = \beta_1 / \sqrt{\beta_2}`,

.. math::
    m \to \beta_1^{T-t} m, \qquad v \to \beta_2^{T-t} v, \qquad
    w \to \Bigl(\prod_{s=t+1}^{T} d_s\Bigr) w - \frac{m}{\sqrt v + \epsilon_t} S_t, \qquad
    S_t = \sum_{s=t+1}^{T} \Bigl(\prod_{u=s+1}^{T} d_u\Bigr)\,
          \eta_s r^{s-t} \frac{\sqrt{1 - \beta_2^s}}{1 - \beta_1^s}.

Product and sum are kept for every t; a step multiplies them by :math:`d_T` and adds a term. But for
rounding, and for :math:`\epsilon_t = \epsilon \sqrt{1 - \beta_2^t}` at all s, the result is Adam's.
"""

from __future__ import annotations

import math

import torch

from pmvge.encoders import RowTable

BETAS = (0.9, 0.999)  # those of torch's Adam, as is what follows
EPSILON = 1e-8
RATIO = BETAS[0] / math.sqrt(BETAS[1])
MEMORY = 400  # steps after which momentum is nothing: r^400 < 1e-18
CHUNK = 1 << 16  # rows looked at together when all of them are
CELLS = 1 << 17  # numbers worked on together: larger arrays leave the cache, and are mapped anew


class LazyAdam:
    """The optimizer of one table. Decay of weights, if any, is decoupled, as in AdamW."""

    def __init__(self, table: RowTable, weight_decay: float) -> None:
        self.table, self.weight_decay = table, weight_decay
        weight = table.weight.detach()
        self.m, self.v = torch.zeros_like(weight), torch.zeros_like(weight)
        self.done = torch.zeros(len(weight), dtype=torch.int64, device=weight.device)
        self.step = 0  # steps made; ``done`` is how many of them each row has seen
        # For rows untouched since each step: how far they move, and what is left of them.
        self.moved = torch.zeros(MEMORY, dtype=torch.float64, device=weight.device)
        self.kept = torch.ones_like(self.moved)
        ago = torch.arange(MEMORY, 0, -1, dtype=torch.float64, device=weight.device)
        self.momentum = RATIO**ago
        self.together = max(1, CELLS // weight.shape[1])  # rows
        table.begin_lazy(self.catch_up)

    def catch_up(self, rows: torch.Tensor) -> None:
        """Bring distinct rows to where they would be after all steps made."""
        for part in rows[self.done[rows] < self.step].split(self.together):
            self._catch_up(part)

    def _catch_up(self, rows: torch.Tensor) -> None:
        since = self.done[rows]
        missed = (self.step - since).double()
        weight, m, v = self.table.weight.detach(), self.m[rows], self.v[rows]

        def column(values: torch.Tensor) -> torch.Tensor:
            return values.to(m.dtype)[:, None]

        epsilon = EPSILON * torch.sqrt(1 - BETAS[1] ** since.double())
        direction = torch.where(v > 0, m / (torch.sqrt(v) + column(epsilon)), 0.0)
        left = weight[rows] * column(self.kept[since])
        weight[rows] = left - direction * column(self.moved[since])
        self.m[rows] = m * column(BETAS[0] ** missed)
        self.v[rows] = v * column(BETAS[1] ** missed)
        self.done[rows] = self.step

    def catch_up_all(self) -> None:
        """The whole table: before all of it is looked at."""
        for first in range(0, len(self.m), CHUNK):
            done = self.done[first : first + CHUNK]
            waiting = done < self.step
            if not self.weight_decay:  # then rows that no step has used yet are where they were
                waiting &= done > 0
            self.catch_up(torch.nonzero(waiting).squeeze(1) + first)

    def gradient(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Rows that the last loss depends on, and its gradient in them; None if on none of them."""
        used = [(rows, copy.grad) for rows, copy in self.table.lent if copy.grad is not None]
        self.table.lent.clear()
        if not used:
            return None
        rows, place = torch.unique(torch.cat([rows for rows, _ in used]), return_inverse=True)
        total = self.m.new_zeros(len(rows), self.m.shape[1])
        return rows, total.index_add_(0, place, torch.cat([grad for _, grad in used]))

    def no_gradient(self) -> tuple[torch.Tensor, torch.Tensor]:
        """No rows at all, in the form of :meth:`gradient`."""
        return self.done[:0], self.m[:0]

    def descend(self, rows: torch.Tensor, gradient: torch.Tensor, rate: float) -> None:
        """One step: these rows now, all others when they are needed."""
        self.catch_up(rows)  # those that only other processes have used
        self.step += 1
        if self.step >= len(self.moved):
            self._double()
        decay, first, second = 1 - rate * self.weight_decay, *(1 - b**self.step for b in BETAS)
        earlier, recent = slice(0, self.step), slice(max(0, self.step - MEMORY), self.step)
        if decay != 1:
            self.kept[earlier] *= decay
            self.moved[earlier] *= decay
        pace = rate * math.sqrt(second) / first
        self.moved[recent] += pace * self.momentum[-self.step :]
        weight = self.table.weight.detach()
        parts = rows.split(self.together), gradient.split(self.together)
        for some, slope in zip(*parts, strict=True):
            m = self.m[some].lerp_(slope, 1 - BETAS[0])
            v = self.v[some].mul_(BETAS[1]).addcmul_(slope, slope, value=1 - BETAS[1])
            change = (m / first).div_(torch.sqrt(v / second).add_(EPSILON))
            weight[some] = weight[some] * decay - rate * change
            self.m[some], self.v[some], self.done[some] = m, v, self.step

    def _double(self) -> None:
        """Make room for as many steps again."""
        self.moved = torch.cat([self.moved, torch.zeros_like(self.moved)])
        self.kept = torch.cat([self.kept, torch.ones_like(self.kept)])

    def state(self) -> dict[str, torch.Tensor]:
        """What it needs to go on; the weights are in the network."""
        names = ("m", "v", "done", "moved", "kept")
        return {name: getattr(self, name) for name in names} | {"step": torch.tensor(self.step)}

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Go on from there."""
        self.step = int(state["step"])
        while self.step >= len(self.moved):
            self._double()
        for name in ("m", "v", "done"):
            getattr(self, name).copy_(state[name])
        for name in ("moved", "kept"):  # how much room there is, is of no importance
            n = min(len(self.moved), len(state[name]))
            getattr(self, name)[:n] = state[name][:n]
