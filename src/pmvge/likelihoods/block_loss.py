"""The loss of a block for any family, with alpha at its maximum on the block."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph import Links, Pair
from pmvge.likelihoods.terms import PairTerms, solve
from pmvge.sampling import LinkBatch, with_measure
from pmvge.similarities import Similarity

if TYPE_CHECKING:
    from pmvge.likelihoods.base import Family

CONSTANT_LINKS = 1 << 20  # links from which the loss of a constant model is computed
BLOCK_TOLERANCE = 1e-4  # of log alpha on a block, whose sums are float32


class Block(NamedTuple):
    """A batch with the vectors of its entities."""

    batch: LinkBatch
    left: torch.Tensor  # query vectors
    right: torch.Tensor  # candidate vectors
    similarity: Similarity
    total: float  # measure of all links of the view pair, those of other processes included
    constant_loss: float  # loss of a model with g = 0

    def link_similarities(self) -> torch.Tensor:
        """Return g of the batch's links, (B,)."""
        batch = self.batch

        def ends(y: torch.Tensor, links: NDArray[np.int64]) -> torch.Tensor:
            B = batch.corner
            return y[:B] if B else y.index_select(0, torch.from_numpy(links).to(y.device))

        left, right = ends(self.left, batch.left.links), ends(self.right, batch.right.links)
        return self.similarity.outer(torch.linalg.vecdot(left, right))


def block_cells(
    left: torch.Tensor, right: torch.Tensor, batch: LinkBatch, similarity: Similarity
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the similarities of a block and their weights.

    Masked cells have g = 0 and weight 0, so that the values of a family are finite there.
    """
    rows, cols = (torch.from_numpy(index).to(left.device) for index in batch.masked)
    u = torch.from_numpy(batch.left.log_weight).to(left).exp()
    v = torch.from_numpy(batch.right.log_weight).to(left).exp()
    weight = torch.outer(batch.factor * u, v)
    weight[: batch.corner, : batch.corner] *= batch.corner_weight
    weight[rows, cols] = 0.0
    g = similarity.outer(left @ right.T)
    if len(rows):
        masked = torch.zeros_like(weight, dtype=torch.bool)
        masked[rows, cols] = True
        g = g.masked_fill(masked, 0.0)
    return g, weight


def block_loss(family: Family, block: Block) -> torch.Tensor:
    """Return minus the log-likelihood of a block per unit of measure, minus the constant loss.

    Alpha is at its maximum on the block, where the derivative in it is 0, and is detached.
    """
    batch, g = block.batch, block.link_similarities()
    cells = block_cells(block.left, block.right, batch, block.similarity)
    terms = PairTerms(
        family,
        batch.pair,
        lambda: iter([cells]),
        1 / block.total,
        g.new_tensor(batch.weights),
        g,
        g.new_tensor(batch.link_counts),
    )
    # alpha exp(g) adds up to the total measure: right for 0/1 weights that are rare
    log_alpha = solve(terms.slope, -terms.log_partition(), tolerance=BLOCK_TOLERANCE)
    return -terms.value(log_alpha) - block.constant_loss


def constant_loss(family: Family, pair: Pair, links: Links) -> float:
    """Return the loss of a model with g = 0, which has the same expected weight everywhere.

    Of more than ``CONSTANT_LINKS`` links, evenly spaced ones stand for all.
    """
    total = with_measure(links, family.measure).total
    if total <= 0:
        return 0.0
    chosen = links.weights[:: -(-len(links) // CONSTANT_LINKS)]
    weights = torch.from_numpy(np.array(chosen, np.float64))
    one = weights.new_ones(())
    terms = PairTerms(
        family,
        pair,
        lambda: iter([(torch.zeros(1, dtype=torch.float64), None)]),
        links.n_terms / total,
        weights,
        torch.zeros_like(weights),
        (one * len(links) / len(weights) / total).expand(len(weights)),
    )
    with torch.no_grad():
        return -float(terms.value(solve(terms.slope, -terms.log_partition(), tolerance=1e-9)))
