"""What graph neural networks share: a graph as tensors, and training on links without labels.

Sparse rows stay sparse: a network multiplies them by its first weights before anything spreads over
links, which is the same by linearity, and costs what the non-zeros cost.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from pmvge.baselines.base import Baseline, inputs
from pmvge.baselines.flattening import FlatGraph, flatten
from pmvge.baselines.gradient import CPU, descend, seeded
from pmvge.baselines.negatives import Contrast, Index, LinkSampler, inner_contrast_loss
from pmvge.encoders import Normalize, product
from pmvge.graph import Features, MultiViewGraph, SparseRows, take

Rows = torch.Tensor | SparseRows


def geometric(module: str = "nn") -> Any:
    """A module of torch-geometric; what importing it warns of is no concern of the user's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(f"torch_geometric.{module}")


@dataclass(frozen=True, eq=False)
class Edges:
    """The links of a plain graph, each in both directions, as torch-geometric has them."""

    index: torch.Tensor  # (2, E)
    weights: torch.Tensor  # (E,), of mean 1: a node's loop of weight 1 is like any other link
    n: int

    @classmethod
    def of(cls, flat: FlatGraph) -> Edges:
        """The edges of a graph."""
        W = flat.W.tocoo()
        index = torch.from_numpy(np.stack([W.row, W.col]).astype(np.int64))
        weights = (W.data / W.data.mean()).astype(np.float32)
        return cls(index, torch.from_numpy(weights), int(W.shape[0]))


class Product(nn.Module):
    """x W for rows that are dense or sparse; W is (n_in, n_out)."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Rows) -> torch.Tensor:
        """(n, n_in) to (n, n_out)."""
        return product(x, self.weight)


def input_layer(X: Features, dropout: float) -> Normalize:
    """Rows as a network takes them: dense columns standardised, sparse rows of mean norm 1."""
    layer = Normalize(int(X.shape[1]), dropout, sparse=not isinstance(X, np.ndarray))
    layer.adapt(X)
    return layer


def at(Y: torch.Tensor, rows: Index) -> torch.Tensor:
    """Rows of Y, by a look-up whose gradient is quick."""
    return functional.embedding(torch.from_numpy(rows), Y)


class GraphNetwork(Baseline):
    """A network that is trained so that inner products of its vectors tell links from noise."""

    libraries = ("torch_geometric",)

    dropout: float
    batch_size: int
    n_negatives: int
    max_steps: int
    learning_rate: float
    weight_decay: float
    progress: bool

    def _train(
        self,
        network: nn.Module,
        flat: FlatGraph,
        vectors: Callable[[Index], torch.Tensor],
        seed: int,
    ) -> None:
        """Train a network, given the vectors of any distinct nodes as it has them now."""
        rng = np.random.default_rng([seed, 0])

        def loss(batch: Contrast) -> torch.Tensor:
            B = len(batch.heads)
            named = np.concatenate([batch.heads, batch.tails, batch.noise.ravel()])
            nodes, place = np.unique(named, return_inverse=True)
            Y = vectors(nodes)
            noise = place[2 * B :].reshape(batch.noise.shape)
            return inner_contrast_loss(at(Y, place[:B]), at(Y, place[B : 2 * B]), at(Y, noise))

        descend(
            network,
            LinkSampler(flat, self.batch_size, self.n_negatives, rng),
            loss,
            steps=self.max_steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            progress=self.progress,
        )


class WholeGraphNetwork(GraphNetwork):
    """A network every step of which computes the vectors of all nodes."""

    @abstractmethod
    def _network(self, n_in: int, edges: Edges) -> nn.Module:
        """A network from the rows of all nodes to their vectors, (n, n_in) to (n, K)."""

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        (view,) = graph.view_names
        flat, X = flatten(graph), inputs(graph)[view]
        x = take(X, slice(None), CPU)
        with seeded(seed):
            body = self._network(int(X.shape[1]), Edges.of(flat))
            network = nn.Sequential(input_layer(X, self.dropout), body)
            self._train(network, flat, lambda nodes: at(network(x), nodes), seed)
            with torch.no_grad():
                return {view: network(x).numpy()}
