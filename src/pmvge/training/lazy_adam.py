r"""Lazy Adam for a weight with many rows, of which a step uses few.

Adam changes every row in every step, also where the gradient is 0: the momentum decays, and so does
the weight. Lazy Adam changes a row only when a step uses it, and then applies all missed updates in
one. For a row last updated at step t, at step T, with rates :math:`\eta_s`,
decay :math:`d_s = 1 - \eta_s \lambda` and :math:`r = \beta_1 / \sqrt{\beta_2}`,

.. math::
    m \to \beta_1^{T-t} m, \qquad v \to \beta_2^{T-t} v, \qquad
    w \to \Bigl(\prod_{s=t+1}^{T} d_s\Bigr) w - \frac{m}{\sqrt v + \epsilon_t} S_t, \qquad
    S_t = \sum_{s=t+1}^{T} \Bigl(\prod_{u=s+1}^{T} d_u\Bigr)\,
          \eta_s r^{s-t} \frac{\sqrt{1 - \beta_2^s}}{1 - \beta_1^s}.

The product and the sum are stored for every t; a step multiplies them by :math:`d_T` and adds a
term. The result equals Adam's, except for rounding and for using
:math:`\epsilon_t = \epsilon \sqrt{1 - \beta_2^t}` at all s.
"""

from __future__ import annotations

import math

import torch

from pmvge.encoders import LazyRows
from pmvge.training.adam import BETAS, EPSILON

RATIO = BETAS[0] / math.sqrt(BETAS[1])
MOMENTUM_STEPS = 400  # steps after which momentum is negligible: r^400 < 1e-18
SCAN_ROWS = 1 << 16  # rows checked at once when all rows are brought up to date
UPDATE_NUMBERS = 1 << 17  # numbers updated at once: larger arrays do not fit into the cache


class LazyAdam:
    """The optimizer of one weight. Weight decay is decoupled, as in AdamW."""

    def __init__(self, module: LazyRows, weight_decay: float) -> None:
        self.module, self.weight_decay = module, weight_decay
        weight = module.weight.detach()
        self.m, self.v = torch.zeros_like(weight), torch.zeros_like(weight)
        self.n_steps = 0
        # For each row, the last step whose update it has.
        self.last_step = torch.zeros(len(weight), dtype=torch.int64, device=weight.device)
        # For rows last updated at step t: S_t, and the product of the decays since then.
        self.shift = torch.zeros(MOMENTUM_STEPS, dtype=torch.float64, device=weight.device)
        self.decay = torch.ones_like(self.shift)
        ago = torch.arange(MOMENTUM_STEPS, 0, -1, dtype=torch.float64, device=weight.device)
        self.momentum = RATIO**ago
        self.rows_at_once = max(1, UPDATE_NUMBERS // weight.shape[1])
        module.start_lazy_updates(self.catch_up)

    def catch_up(self, rows: torch.Tensor) -> None:
        """Bring distinct rows up to date with all steps made."""
        for part in rows[self.last_step[rows] < self.n_steps].split(self.rows_at_once):
            self._catch_up(part)

    def _catch_up(self, rows: torch.Tensor) -> None:
        since = self.last_step[rows]
        missed = (self.n_steps - since).double()
        weight, m, v = self.module.weight.detach(), self.m[rows], self.v[rows]

        def column(values: torch.Tensor) -> torch.Tensor:
            return values.to(m.dtype)[:, None]

        epsilon = EPSILON * torch.sqrt(1 - BETAS[1] ** since.double())
        direction = torch.where(v > 0, m / (torch.sqrt(v) + column(epsilon)), 0.0)
        decayed = weight[rows] * column(self.decay[since])
        weight[rows] = decayed - direction * column(self.shift[since])
        self.m[rows] = m * column(BETAS[0] ** missed)
        self.v[rows] = v * column(BETAS[1] ** missed)
        self.last_step[rows] = self.n_steps

    def catch_up_all(self) -> None:
        """Bring all rows up to date, before the complete weight is read."""
        for first in range(0, len(self.m), SCAN_ROWS):
            last_step = self.last_step[first : first + SCAN_ROWS]
            outdated = last_step < self.n_steps
            if not self.weight_decay:  # rows that no step has used have not moved
                outdated &= last_step > 0
            self.catch_up(torch.nonzero(outdated).squeeze(1) + first)

    def gradient(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return the rows that the last loss depends on, and its gradient in them.

        None if the loss depends on no row.
        """
        used = [(rows, copy.grad) for rows, copy in self.module.row_copies if copy.grad is not None]
        self.module.row_copies.clear()
        if not used:
            return None
        rows, index = torch.unique(torch.cat([rows for rows, _ in used]), return_inverse=True)
        total = self.m.new_zeros(len(rows), self.m.shape[1])
        return rows, total.index_add_(0, index, torch.cat([grad for _, grad in used]))

    def empty_gradient(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a gradient of no rows, in the form of :meth:`gradient`."""
        return self.last_step[:0], self.m[:0]

    def step(self, rows: torch.Tensor, gradient: torch.Tensor, rate: float) -> None:
        """Make one step: update these rows now, and all others when they are needed."""
        self.catch_up(rows)  # other processes may have used rows that this one has not
        self.n_steps += 1
        if self.n_steps >= len(self.shift):
            self._double_capacity()
        decay, first, second = 1 - rate * self.weight_decay, *(1 - b**self.n_steps for b in BETAS)
        earlier = slice(0, self.n_steps)
        recent = slice(max(0, self.n_steps - MOMENTUM_STEPS), self.n_steps)
        if decay != 1:
            self.decay[earlier] *= decay
            self.shift[earlier] *= decay
        corrected_rate = rate * math.sqrt(second) / first
        self.shift[recent] += corrected_rate * self.momentum[-self.n_steps :]
        weight = self.module.weight.detach()
        parts = rows.split(self.rows_at_once), gradient.split(self.rows_at_once)
        for part, slope in zip(*parts, strict=True):
            m = self.m[part].lerp_(slope, 1 - BETAS[0])
            v = self.v[part].mul_(BETAS[1]).addcmul_(slope, slope, value=1 - BETAS[1])
            change = (m / first).div_(torch.sqrt(v / second).add_(EPSILON))
            weight[part] = weight[part] * decay - rate * change
            self.m[part], self.v[part], self.last_step[part] = m, v, self.n_steps

    def _double_capacity(self) -> None:
        """Make room in ``shift`` and ``decay`` for twice as many steps."""
        self.shift = torch.cat([self.shift, torch.zeros_like(self.shift)])
        self.decay = torch.cat([self.decay, torch.ones_like(self.decay)])

    def state(self) -> dict[str, torch.Tensor]:
        """Return the tensors that a checkpoint needs; the weight itself is in the network."""
        return {
            "m": self.m,
            "v": self.v,
            "done": self.last_step,
            "moved": self.shift,
            "kept": self.decay,
            "step": torch.tensor(self.n_steps),
        }

    def restore(self, state: dict[str, torch.Tensor]) -> None:
        """Restore the tensors that :meth:`state` returned."""
        self.n_steps = int(state["step"])
        while self.n_steps >= len(self.shift):
            self._double_capacity()
        self.m.copy_(state["m"])
        self.v.copy_(state["v"])
        self.last_step.copy_(state["done"])
        n = min(len(self.shift), len(state["moved"]))  # the capacities may differ
        self.shift[:n] = state["moved"][:n]
        n = min(len(self.decay), len(state["kept"]))
        self.decay[:n] = state["kept"][:n]
