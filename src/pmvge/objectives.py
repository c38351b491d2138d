r"""Batch and embeddings to loss: what one gradient step descends.

``BlockObjective``: minus the profile likelihood per unit of weight, with alpha in closed form.
``PairObjective``: the paper's minibatch objective with alternating alpha.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph import MultiViewGraph
from pmvge.links import Pair
from pmvge.sampling import LinkBatch, PairBatch

Embedded = Sequence[torch.Tensor]  # the embeddings of a batch's ``inputs``, in their order
Batch_contra = TypeVar("Batch_contra", contravariant=True)

SMALLEST = -80.0  # exp of less than this is lifted to it: subnormal floats are slow


class Loss(NamedTuple):
    """A differentiable loss, and what an error message needs if it is not finite."""

    value: torch.Tensor
    similarities: dict[Pair, Callable[[], torch.Tensor]]  # g, computed only when asked for

    def largest_similarity(self) -> tuple[Pair, float]:
        """The largest |g| and the pair it is of; NaN counts as the largest."""
        largest = {pair: float(g().abs().max()) for pair, g in self.similarities.items()}
        pair = max(
            largest, key=lambda pair: math.inf if math.isnan(largest[pair]) else largest[pair]
        )
        return pair, largest[pair]


class Objective(Protocol, Generic[Batch_contra]):
    """A loss of batches of some kind, which may keep numbers from step to step."""

    def __call__(self, batch: Batch_contra, y: Embedded) -> Loss: ...

    def state(self) -> dict[str, float]:
        """Numbers that a checkpoint must keep."""
        ...

    def restore(self, state: dict[str, float]) -> None:
        """Take back what ``state`` returned."""
        ...


class BlockObjective:
    r"""Minus the profile likelihood of a view pair per unit of weight, up to a constant.

    .. math:: L = \log \frac{\hat Z}{|I_{de}|} - \sum_{\text{links}} \frac{w_{ij}}{W} g_{ij}

    The constant makes L = 0 for a model that knows nothing (g = 0), so that -L is what the model
    gains over a constant intensity, in nats per unit of weight.
    """

    def __init__(self, graph: MultiViewGraph) -> None:
        self._log_terms = {
            pair: math.log(max(1, links.n_terms)) for pair, links in graph.links.items()
        }

    def __call__(self, batch: LinkBatch, y: Embedded) -> Loss:
        """The loss of a batch."""
        left, right = _sides(batch, y)
        value = log_block_partition(left, right, batch) - self._log_terms[batch.pair]
        value = value - link_mean(left, right, batch)
        left, right = left.detach(), right.detach()
        return Loss(value, {batch.pair: lambda: left @ right.T})

    def state(self) -> dict[str, float]:
        """Nothing to keep."""
        return {}

    def restore(self, state: dict[str, float]) -> None:
        """Nothing to take back."""


def _sides(batch: LinkBatch, y: Embedded) -> tuple[torch.Tensor, torch.Tensor]:
    """The embeddings of both sides of a block."""
    if batch.shared:
        return y[0], y[0]
    if len(y) == 1:
        n = len(batch.left.nodes)
        return y[0][:n], y[0][n:]
    return y[0], y[1]


def link_mean(left: torch.Tensor, right: torch.Tensor, batch: LinkBatch) -> torch.Tensor:
    r""":math:`\sum_{\text{links}} (w_{ij} / W) g_{ij}` over the batch's links."""

    def ends(y: torch.Tensor, links: NDArray[np.int64]) -> torch.Tensor:
        B = batch.corner
        return y[:B] if B else y.index_select(0, torch.from_numpy(links).to(y.device))

    g: torch.Tensor = torch.linalg.vecdot(
        ends(left, batch.left.links), ends(right, batch.right.links)
    )
    if batch.link_weights is None:
        return g.mean()
    return g @ torch.from_numpy(batch.link_weights).to(g)


def log_block_partition(left: torch.Tensor, right: torch.Tensor, batch: LinkBatch) -> torch.Tensor:
    r""":math:`\log\hat Z` of a :class:`LinkBatch`, differentiable in both sides."""
    value: torch.Tensor = _LogBlockPartition.apply(left, right, batch)  # type: ignore[no-untyped-call]
    return value


class _LogBlockPartition(torch.autograd.Function):
    r"""log-sum-exp over a block with one exp, reused in the backward pass.

    With :math:`E = \exp(g - \max g)` the sum is :math:`u^\top E v`, :math:`u = e^a, v = e^b`: the
    weights touch the thin factors only, never the block.
    """

    @staticmethod
    def forward(
        ctx: Any, left: torch.Tensor, right: torch.Tensor, batch: LinkBatch
    ) -> torch.Tensor:
        u = torch.from_numpy(batch.left.log_weight).to(left).exp()
        v = torch.from_numpy(batch.right.log_weight).to(right).exp()
        E = left @ right.T
        rows, cols = (torch.from_numpy(index).to(left.device) for index in batch.masked)
        E[rows, cols] = -math.inf
        largest = E.max()
        E.sub_(largest).clamp_(min=SMALLEST).exp_()
        if batch.corner:
            E[: batch.corner, : batch.corner] *= batch.corner_weight
        total = torch.dot(u, torch.mv(E, v))
        ctx.save_for_backward(left, right, E, u / total, v)
        return total.log() + largest + math.log(batch.factor)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        left, right, E, u, v = ctx.saved_tensors
        u, v = (grad * u).unsqueeze(1), v.unsqueeze(1)
        return u * (E @ (v * right)), v * (E.T @ (u * left)), None


class PairObjective:
    r"""The paper's sections 4.1 and 4.2, per drawn link.

    .. math:: -\sum_{W'} w_{ij} \log\mu_{ij} + \tau \sum_{I'} \mu_{ij}

    After each step :math:`\alpha^{(d,e)}` is solved for on I'. The numerator
    :math:`\sum_{I'} w_{ij}` is zero in most steps on a sparse graph, so its expectation
    :math:`|I'_{de}| W_{de} / |I_{de}|` stands in its place.
    """

    def __init__(self, graph: MultiViewGraph) -> None:
        self._log_density = {
            pair: math.log(links.total / links.n_terms) if links.total > 0 else -math.inf
            for pair, links in graph.links.items()
        }
        self.log_alpha: dict[Pair, float] = {}

    def _solve(self, pair: Pair, g: torch.Tensor) -> float:
        """log alpha-hat on uniform pairs with similarities g; that of g = 0 if there are none."""
        if not len(g):
            return self._log_density[pair]
        log_mean = float(torch.logsumexp(g.double(), 0)) - math.log(len(g))
        return self._log_density[pair] - log_mean

    def __call__(self, batch: PairBatch, y: Embedded) -> Loss:
        """The loss of a batch at the current alpha; then alpha moves."""
        n_links = sum(len(w) for _, _, w in batch.links.values())
        terms = []
        similarities: dict[Pair, Callable[[], torch.Tensor]] = {}
        for pair, sides in batch.ends.items():
            left, right = (y[k][torch.from_numpy(place).to(y[k].device)] for k, place in sides)
            g = torch.linalg.vecdot(left, right)
            similarities[pair] = g.detach
            split = len(batch.links[pair][0]) if pair in batch.links else 0
            solved = self._solve(pair, g[split:].detach())
            log_alpha = self.log_alpha.get(pair, solved)  # the first time, that of this batch
            if split:
                w = torch.from_numpy(batch.links[pair][2]).to(g)
                terms.append(-(w @ (g[:split] + log_alpha)))
            if pair in batch.uniform and log_alpha > -math.inf:
                terms.append(batch.tau * torch.exp(g[split:] + log_alpha).sum())
                self.log_alpha[pair] = solved
        return Loss(torch.stack(terms).sum() / n_links, similarities)

    def state(self) -> dict[str, float]:
        """The current log alpha."""
        return {json.dumps(pair): value for pair, value in self.log_alpha.items()}

    def restore(self, state: dict[str, float]) -> None:
        """Take back log alpha."""
        self.log_alpha = {
            pair: state[json.dumps(pair)] for pair in self._log_density if json.dumps(pair) in state
        }
