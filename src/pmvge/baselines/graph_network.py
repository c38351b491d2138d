"""Base classes of graph neural networks: the graph as tensors, and training on links.

Sparse rows stay sparse: a network multiplies them by its first weights before it aggregates over
neighbours. By linearity the result is the same, and the cost grows with the number of non-zeros.
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

from pmvge.baselines.base import Baseline, input_rows
from pmvge.baselines.flattening import FlatGraph, flatten
from pmvge.baselines.gradient import CPU, seeded, train
from pmvge.baselines.negatives import Index, LinkSampler, NegativeSamples, inner_product_loss
from pmvge.encoders import Normalize, product
from pmvge.graph import Features, MultiViewGraph, take
from pmvge.sampling import RowTensors


def geometric(module: str = "nn") -> Any:
    """Import a module of torch-geometric, without the warnings of its import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return import_module(f"torch_geometric.{module}")


@dataclass(frozen=True, eq=False)
class Edges:
    """The links of a plain graph in torch-geometric's format: each link in both directions."""

    index: torch.Tensor  # (2, E)
    weights: torch.Tensor  # (E,), scaled to mean 1, as GCN adds self-loops of weight 1
    n: int

    @classmethod
    def of(cls, flat: FlatGraph) -> Edges:
        """Return the edges of a graph."""
        W = flat.W.tocoo()
        index = torch.from_numpy(np.stack([W.row, W.col]).astype(np.int64))
        weights = (W.data / W.data.mean()).astype(np.float32)
        return cls(index, torch.from_numpy(weights), int(W.shape[0]))


class Product(nn.Module):
    """The layer x W, with W of shape (n_in, n_out), for dense or sparse rows x."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: RowTensors) -> torch.Tensor:
        """Return x W, (n, n_out)."""
        return product(x, self.weight)


def input_layer(X: Features, dropout: float) -> Normalize:
    """Return a layer that standardises dense columns or scales sparse rows to norm 1 on average."""
    layer = Normalize(int(X.shape[1]), dropout, sparse=not isinstance(X, np.ndarray))
    layer.adapt(X)
    return layer


def take_rows(Y: torch.Tensor, rows: Index) -> torch.Tensor:
    """Return rows of Y; ``functional.embedding`` has a faster gradient than indexing."""
    return functional.embedding(torch.from_numpy(rows), Y)


class GraphNetwork(Baseline):
    """Base class of networks that are trained by negative sampling on inner products of vectors."""

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
        """Train a network; ``vectors`` computes the current vectors of some distinct nodes."""
        rng = np.random.default_rng([seed, 0])

        def loss(batch: NegativeSamples) -> torch.Tensor:
            B = len(batch.heads)
            drawn = np.concatenate([batch.heads, batch.tails, batch.noise.ravel()])
            nodes, position = np.unique(drawn, return_inverse=True)
            Y = vectors(nodes)
            return inner_product_loss(
                take_rows(Y, position[:B]),
                take_rows(Y, position[B : 2 * B]),
                take_rows(Y, position[2 * B :].reshape(batch.noise.shape)),
            )

        train(
            network,
            LinkSampler(flat, self.batch_size, self.n_negatives, rng),
            loss,
            steps=self.max_steps,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            progress=self.progress,
        )


class FullBatchNetwork(GraphNetwork):
    """Base class of networks that compute the vectors of all nodes in every step."""

    @abstractmethod
    def _network(self, n_in: int, edges: Edges) -> nn.Module:
        """Return a network that maps the rows of all nodes, (n, n_in), to vectors (n, K)."""

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        (view,) = graph.view_names
        flat, X = flatten(graph), input_rows(graph)[view]
        x = take(X, slice(None), CPU)
        with seeded(seed):
            body = self._network(int(X.shape[1]), Edges.of(flat))
            network = nn.Sequential(input_layer(X, self.dropout), body)
            self._train(network, flat, lambda nodes: take_rows(network(x), nodes), seed)
            with torch.no_grad():
                return {view: network(x).numpy()}
