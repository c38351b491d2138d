r"""Negative sampling: the likelihood that distinguishes links from random pairs, as in skip-gram.

A drawn link :math:`(i, j)` is compared with Q pairs :math:`(i, k)` whose second node is drawn at
random, in proportion to its degree to the power 3/4:

.. math:: \log \sigma(s_{ij}) + \sum_{k=1}^Q \log \sigma(-s_{ik}), \qquad k \sim \deg_k^{3/4}.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pmvge.baselines.flattening import FlatGraph

Index = NDArray[np.int64]


@dataclass(frozen=True)
class NegativeSamples:
    """A batch of drawn links, each with Q negative samples: random nodes in place of its tail."""

    heads: Index  # (B,)
    tails: Index  # (B,)
    noise: Index  # (B, Q), of the same view as the tail


class LinkSampler:
    """An endless stream of :class:`NegativeSamples`.

    Links are drawn in proportion to their weights, and each is given a random direction.
    """

    def __init__(
        self,
        graph: FlatGraph,
        batch_size: int,
        n_negatives: int,
        rng: np.random.Generator,
    ) -> None:
        self._rows, self._cols, weights = graph.links()
        self._cumulative = np.cumsum(weights)
        self._size, self._n_negatives, self._rng = batch_size, n_negatives, rng
        self._view = graph.view_of
        frequency = graph.degrees**0.75
        self._noise = [(part.start, np.cumsum(frequency[part])) for part in graph.parts.values()]

    def __iter__(self) -> Iterator[NegativeSamples]:
        while True:
            yield self.draw()

    def draw(self) -> NegativeSamples:
        """Draw a batch."""
        link = weighted_draws(self._cumulative, self._size, self._rng)
        swapped = self._rng.random(self._size) < 0.5
        i, j = self._rows[link], self._cols[link]
        heads, tails = np.where(swapped, j, i), np.where(swapped, i, j)
        noise = np.empty((self._size, self._n_negatives), np.int64)
        for view, (start, cumulative) in enumerate(self._noise):
            of_view = self._view[tails] == view
            count = int(of_view.sum()) * self._n_negatives
            if count:
                drawn = start + weighted_draws(cumulative, count, self._rng)
                noise[of_view] = drawn.reshape(-1, self._n_negatives)
        return NegativeSamples(heads, tails, noise)


def weighted_draws(cumulative: NDArray[np.float64], size: int, rng: np.random.Generator) -> Index:
    """Draw positions in proportion to weights, given their cumulative sums."""
    points = rng.random(size) * cumulative[-1]
    positions = np.searchsorted(cumulative, points, side="right")
    return np.asarray(np.minimum(positions, len(cumulative) - 1), dtype=np.int64)


def negative_sampling_loss(link: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Return minus the mean log-likelihood, from scores of links (B,) and of negatives (B, Q)."""
    against = functional.logsigmoid(-noise).sum(1)
    return -(functional.logsigmoid(link) + against).mean()


def inner_product_loss(
    heads: torch.Tensor, tails: torch.Tensor, noise: torch.Tensor
) -> torch.Tensor:
    """Return the loss of the scores <head, tail>, from vectors (B, K), (B, K) and (B, Q, K)."""
    return negative_sampling_loss(
        torch.linalg.vecdot(heads, tails), torch.einsum("bk,bqk->bq", heads, noise)
    )
