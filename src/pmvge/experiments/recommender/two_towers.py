r"""Two towers: a network per view, trained with a softmax over the links of a batch.

.. math:: L = -\frac 1 B \sum_b \log \frac{\exp(g_{bb} - \log q_b)}
          {\sum_c \exp(g_{bc} - \log q_c)}, \qquad g_{bc} = \langle y_b, y'_c \rangle,

with q the share of the weight of a right entity, by which it is drawn. Other copies of a link's own
right entity are masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn
from torch.nn import functional

from pmvge.experiments.recommender.base import Array, Recommender
from pmvge.experiments.recommender.identity_rows import to_dense
from pmvge.graph import Features, Links, MultiViewGraph, Pair


class Tower(nn.Module):
    """The vector of an entity: a network of its features plus a vector of its identity.

    Without columns there is no network, without entities there are no identities. An entity that is
    not in training has no identity.
    """

    def __init__(
        self, n_components: int, *, columns: int = 0, entities: int = 0, hidden: int = 256
    ) -> None:
        super().__init__()
        self.n_components, self.network, self.identities = n_components, None, None
        if columns:
            self.network = nn.Sequential(
                nn.Linear(columns, hidden), nn.Tanh(), nn.Linear(hidden, n_components)
            )
        if entities:
            self.identities = nn.Embedding(entities, n_components)
            nn.init.normal_(self.identities.weight, std=0.1)

    def forward(self, X: torch.Tensor | None, rows: torch.Tensor | None) -> torch.Tensor:
        """Return the vectors of entities with features X; ``rows`` are their identities."""
        parts = []
        if self.network is not None and X is not None:
            parts.append(self.network(X))
        if self.identities is not None and rows is not None:
            parts.append(self.identities(rows))
        total: torch.Tensor = sum(parts[1:], parts[0])
        return total

    def encode(self, X: NDArray[Any] | None, rows: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the vectors as an array."""
        with torch.no_grad():
            given = [None if each is None else torch.from_numpy(each) for each in (X, rows)]
            Y: NDArray[Any] = self(*given).numpy()
            return Y


def train_towers(
    towers: Sequence[Tower],
    features: Sequence[torch.Tensor | None],
    links: Links,
    *,
    rate: float,
    decay: float,
    steps: int,
    seed: int,
    batch_size: int = 512,
    identity_dropout: float = 0.0,
) -> None:
    """Train two towers on the links between their views, with a cosine schedule.

    With ``identity_dropout`` the vectors of identities are left out for this share of the batches,
    so that the networks learn to place entities that have none.
    """
    draw = LinkDraws(links, seed)
    log_q = torch.from_numpy(links.degrees()[1] / links.total).float().log()
    optimizer = CosineAdam(list(towers), rate, decay, steps)
    for _ in range(steps):
        ends = draw(batch_size)
        dropped = identity_dropout > 0 and draw.rng.random() < identity_dropout
        y, y_other = (
            tower(None if X is None else X[at], None if dropped and X is not None else at)
            for tower, X, at in zip(towers, features, ends, strict=True)
        )
        j = ends[1]
        twins = (j[:, None] == j) & ~torch.eye(len(j), dtype=torch.bool)
        logits = (y @ y_other.T - log_q[j]).masked_fill(twins, -torch.inf)
        optimizer.step(functional.cross_entropy(logits, torch.arange(len(j))))


class LinkDraws:
    """Draws of links in proportion to their weights."""

    def __init__(self, links: Links, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self._rows, self._cols = (part.astype(np.int64) for part in (links.rows, links.cols))
        self._until = np.cumsum(links.weights)

    def __call__(self, n: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rows and columns of n links, drawn with replacement."""
        at = np.searchsorted(self._until, self.rng.random(n) * self._until[-1], side="right")
        at = np.minimum(at, len(self._until) - 1)
        return torch.from_numpy(self._rows[at]), torch.from_numpy(self._cols[at])


class CosineAdam:
    """Adam with decoupled decay and a cosine schedule."""

    def __init__(self, networks: Sequence[nn.Module], rate: float, decay: float, steps: int):
        parameters = [p for network in networks for p in network.parameters()]
        self._adam = torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True)
        self._rate = torch.optim.lr_scheduler.CosineAnnealingLR(self._adam, steps)

    def step(self, loss: torch.Tensor) -> None:
        """Make one step."""
        self._adam.zero_grad()
        loss.backward()
        self._adam.step()
        self._rate.step()


class TwoTowers(Recommender):
    """Two networks with a softmax over the batch.

    Training entities have a vector of their identity, too. Columns of features are standardised.
    Scores of a query are not comparable with those of another: the softmax is over candidates.
    """

    new_queries = new_candidates = True

    def fit(self, graph: MultiViewGraph, pair: Pair, seed: int) -> None:
        """Train both networks."""
        settings = dict(self.settings)
        K = int(settings.pop("n_components"))
        self._scales = [_standardization(graph.views[view]) for view in pair]
        self._X = [self._scaled(side, graph.views[view]) for side, view in enumerate(pair)]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._towers = [
                Tower(K, columns=0 if X is None else X.shape[1], entities=graph.sizes[view])
                for X, view in zip(self._X, pair, strict=True)
            ]
        given = [None if X is None else torch.from_numpy(X) for X in self._X]
        train_towers(self._towers, given, graph.links[pair], seed=seed, **settings)
        self._sizes = [graph.sizes[view] for view in pair]

    def queries(self, X: Features | None = None, links: sparse.csr_array | None = None) -> Array:
        """Return the outputs of the first network."""
        return self._encode(0, X)

    def candidates(self, X: Features | None = None) -> Array:
        """Return the outputs of the second network."""
        return self._encode(1, X)

    def _encode(self, side: int, X: Features | None) -> Array:
        if X is None:
            return self._towers[side].encode(self._X[side], np.arange(self._sizes[side]))
        return self._towers[side].encode(self._scaled(side, X))

    def _scaled(self, side: int, X: Features | None) -> Array | None:
        if X is None:
            return None
        mean, deviation = self._scales[side]
        return ((to_dense(X) - mean) / deviation).astype(np.float32)


def _standardization(X: Features | None) -> tuple[Array, Array]:
    """Return mean and standard deviation of each column; 1 for constant columns."""
    if X is None:
        return np.zeros(0), np.ones(0)
    dense = to_dense(X)
    deviation = dense.std(axis=0)
    return dense.mean(axis=0), np.where(deviation > 0, deviation, 1)
