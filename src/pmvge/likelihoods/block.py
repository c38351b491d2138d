"""The objective of ``scheme=\"block\"``: the likelihood of a block, with alpha at its maximum."""

from __future__ import annotations

import torch

from pmvge.graph import MultiViewGraph
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.block_loss import Block
from pmvge.likelihoods.objective import Embedded, Loss
from pmvge.likelihoods.poisson import POISSON
from pmvge.sampling import LinkBatch, with_measure
from pmvge.similarities import INNER, Similarity


class BlockObjective:
    r"""Minus the log-likelihood of a view pair per unit of the draw measure, up to a constant.

    .. math:: L = -\max_\alpha \ell_{de}(\alpha) / c_{de} + \text{const}

    The constant makes L = 0 at g = 0: -L is the gain over a constant expected weight, in nats per
    unit of measure. ``graph`` has the links of all processes.
    """

    def __init__(
        self,
        graph: MultiViewGraph,
        similarity: Similarity = INNER,
        family: Family = POISSON,
    ) -> None:
        self._similarity = similarity
        self._families = {pair: family.for_pair(*pair) for pair in graph.links}
        self._constants = {
            pair: (with_measure(links, own.measure).total, own.constant_loss(pair, links))
            for (pair, links), own in zip(graph.links.items(), self._families.values(), strict=True)
        }

    def __call__(self, batch: LinkBatch, y: Embedded) -> Loss:
        """Return the loss of a batch from the vectors of its inputs."""
        similarity = self._similarity.for_pair(*batch.pair)
        left, right = _sides(batch, y)
        left, right = similarity.query(left), similarity.candidate(right)
        block = Block(batch, left, right, similarity, *self._constants[batch.pair])
        value = self._families[batch.pair].block_loss(block)
        left, right = left.detach(), right.detach()
        return Loss(value, {batch.pair: lambda: similarity.outer(left @ right.T)})

    def state(self) -> dict[str, float]:
        """Return no numbers: the objective keeps none between steps."""
        return {}

    def restore(self, state: dict[str, float]) -> None:
        """Do nothing: the objective keeps no numbers between steps."""


def _sides(batch: LinkBatch, y: Embedded) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the vectors of both sides of a block."""
    if batch.shared:
        return y[0], y[0]
    if len(y) == 1:
        n = len(batch.left.entities)
        return y[0][:n], y[0][n:]
    return y[0], y[1]
