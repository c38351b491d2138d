"""GraphSAGE with the mean as aggregator."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn
from torch.nn import functional

from pmvge.baselines.base import input_rows
from pmvge.baselines.flattening import flatten
from pmvge.baselines.gradient import CPU, seeded
from pmvge.baselines.graph_network import (
    GraphNetwork,
    Product,
    geometric,
    input_layer,
    take_rows,
)
from pmvge.baselines.negatives import Index
from pmvge.checks import flag, integer, real
from pmvge.encoders import CHUNK_ROWS, Dropout
from pmvge.graph import Features, MultiViewGraph, draw_between, take, transition_probabilities
from pmvge.sampling import RowTensors

Mask = NDArray[np.bool_]


class GraphSAGE(GraphNetwork):
    r"""Sample and aggregate, with the mean as aggregator.

    Each layer computes a node's vector from the node's own vector and the mean of its neighbours'.
    Every step draws a few neighbours at random, so its cost does not depend on the size of the
    graph. The network is trained without labels, so that inner products of the vectors distinguish
    links from negative samples.

    .. math:: \max_\psi \sum_{i,j} w_{ij} ( \log \sigma(\langle y_i, y_j \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle y_i, y_k \rangle) )
              \\ h_i = \text{ReLU}(\psi_1^\top x_i
              + \psi_2^\top \sum_j \frac{w_{ij}}{d_i} x_j), \quad
              y_i = \psi_3^\top h_i + \psi_4^\top \sum_j \frac{w_{ij}}{d_i} h_j

    Choose it for a graph that is large or that grows, as it can embed new nodes from their
    features. New nodes are embedded without neighbours, so their vectors are only as good as those
    of an encoder that ignores the graph.

    Parameters
    ----------
    n_components
        Dimension K.
    hidden_sizes
        Widths of the hidden layers; with L of them a vector depends on nodes up to L + 1 links
        away.
    fanout
        Neighbours drawn per node and layer, by weight and with replacement; a node with no more
        neighbours than this uses all of them. After training, the vectors of the training nodes are
        computed with all neighbours.
    isolation
        Share of a step's nodes that are treated as if they had no links. A node without links is
        its own only neighbour, and ``embed`` treats new rows in the same way, so this trains the
        network for new rows. Choose a smaller value if features are weak.
    normalize
        Whether to scale the outputs of every layer to norm 1, as the authors do. Scores then lie in
        [-1, 1], a range too narrow to separate links from negative samples clearly.
    dropout
        Dropout rate of the features and of the hidden units.
    batch_size
        Links drawn per step.
    n_negatives
        Negative samples Q per link. The more there are, the further below 0 the scores of unlinked
        nodes should lie, which inner products model poorly.
    max_steps
        Number of gradient steps.
    learning_rate, weight_decay
        Learning rate and weight decay of Adam.
    progress
        Whether to show a progress bar.
    random_state
        Seed of the initial weights, of the drawn links and neighbours, and of dropout.

    References
    ----------
    W. L. Hamilton, R. Ying and J. Leskovec, "Inductive representation learning on large graphs",
    NIPS 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from pmvge import MultiViewGraph
    >>> from pmvge.baselines.graphsage import GraphSAGE
    >>> rows, cols = [0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]  # two triangles
    >>> X = np.eye(2)[[0, 0, 0, 1, 1, 1]]
    >>> graph = MultiViewGraph({"node": X}, {("node", "node"): (rows, cols)})
    >>> sage = GraphSAGE(2, max_steps=50, dropout=0.0, progress=False, random_state=0).fit(graph)
    >>> new = sage.embed("node", [[1.0, 0.0]])[0]
    >>> y = sage.embeddings_["node"]
    >>> bool(new @ y[0] > new @ y[3])
    True
    """

    n_views = 1
    many_to_many = True
    nonlinear = True
    inductive = True
    likelihood_based = True

    checks: ClassVar = {"fanout": integer(1), "isolation": real(0, 1), "normalize": flag}

    def __init__(
        self,
        n_components: int = 100,
        *,
        hidden_sizes: tuple[int, ...] = (128,),
        fanout: int = 10,
        isolation: float = 0.2,
        normalize: bool = False,
        dropout: float = 0.5,
        batch_size: int = 512,
        n_negatives: int = 1,
        max_steps: int = 500,
        learning_rate: float = 0.001,
        weight_decay: float = 0.0,
        progress: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.hidden_sizes = hidden_sizes
        self.fanout = fanout
        self.isolation = isolation
        self.normalize = normalize
        self.dropout = dropout
        self.batch_size = batch_size
        self.n_negatives = n_negatives
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.progress = progress
        self.random_state = random_state

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        (view,) = graph.view_names
        flat, X = flatten(graph), input_rows(graph)[view]
        rng = np.random.default_rng([seed, 1])
        sampler = NeighbourSampler(flat.W, rng)
        with seeded(seed):
            network = Sage(
                X, [*self.hidden_sizes, self.n_components], self.dropout, bool(self.normalize)
            )
            depth = len(network.layers)

            def vectors(nodes: Index) -> torch.Tensor:
                isolated = rng.random(len(nodes)) < self.isolation
                inputs, flows = sampler.message_flows(nodes, isolated, depth, self.fanout)
                Y: torch.Tensor = network(take(X, inputs, CPU), flows)
                return Y

            self._train(network, flat, vectors, seed)
        self._trained = network
        nodes = np.arange(int(X.shape[0]))
        inputs, flows = sampler.message_flows(nodes, np.zeros(len(nodes), bool), depth, None)
        with torch.no_grad():
            return {view: network(take(X, inputs, CPU), flows).numpy()}

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        n, depth, parts = int(X.shape[0]), len(self._trained.layers), []
        for start in range(0, n, CHUNK_ROWS):
            own = np.arange(min(CHUNK_ROWS, n - start))
            isolated = MessageFlow(
                own, torch.from_numpy(np.stack([own, own])), torch.ones(len(own))
            )
            with torch.no_grad():
                rows = take(X, slice(start, start + CHUNK_ROWS), CPU)
                parts.append(self._trained(rows, [isolated] * depth).numpy())
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class MessageFlow:
    """The edges of one layer, from its m input nodes to its n output nodes."""

    own: Index  # (n,), the position of each output node among the input nodes
    index: torch.Tensor  # (2, E), from a neighbour in 0..m-1 to an output node in 0..n-1
    weights: torch.Tensor  # (E,), of sum 1 for each output node


class NeighbourSampler:
    """A sampler of neighbours. A draw takes time logarithmic in the number of links."""

    def __init__(self, W: sparse.csr_array, rng: np.random.Generator) -> None:
        self._starts = W.indptr.astype(np.int64)
        self._neighbours, self._weights = W.indices.astype(np.int64), W.data
        self._cumulative = np.concatenate([[0.0], np.cumsum(transition_probabilities(W))])
        self._rng = rng

    def draw(
        self, nodes: Index, isolated: Mask, fanout: int | None
    ) -> tuple[Index, Index, NDArray[np.float64]]:
        """Draw neighbours, and return (position in ``nodes``, neighbour, weight in the mean).

        ``fanout=None`` returns all neighbours. Isolated nodes, and those without links, are their
        own only neighbour.
        """
        start, stop = self._starts[nodes], self._starts[nodes + 1]
        isolated = isolated | (start == stop)
        most = np.iinfo(np.int64).max if fanout is None else fanout
        counts = np.where(isolated, 1, np.minimum(stop - start, most))
        target = np.repeat(np.arange(len(nodes)), counts)
        link = np.arange(len(target)) + np.repeat(start - np.cumsum(counts) + counts, counts)
        is_drawn = (~isolated & (stop - start > most))[target]
        t = target[is_drawn]
        link[is_drawn] = draw_between(self._cumulative, start[t], stop[t], self._rng)
        is_linked = ~isolated[target]
        neighbour, weights = nodes[target], np.ones(len(target))
        neighbour[is_linked] = self._neighbours[link[is_linked]]
        is_complete = is_linked & ~is_drawn
        weights[is_complete] = self._weights[link[is_complete]]
        return target, neighbour, weights / np.bincount(target, weights)[target]

    def message_flows(
        self, nodes: Index, isolated: Mask, depth: int, fanout: int | None
    ) -> tuple[Index, list[MessageFlow]]:
        """Return the input nodes of the first layer, and the layers' edges up to ``nodes``."""
        flows: list[MessageFlow] = []
        for _ in range(depth):
            target, neighbour, weights = self.draw(nodes, isolated, fanout)
            inputs, position = np.unique(np.concatenate([nodes, neighbour]), return_inverse=True)
            own, source = position[: len(nodes)], position[len(nodes) :]
            index = torch.from_numpy(np.stack([source, target]))
            flows.append(MessageFlow(own, index, torch.from_numpy(weights.astype(np.float32))))
            isolated_inputs = np.zeros(len(inputs), bool)
            isolated_inputs[own] = isolated
            nodes, isolated = inputs, isolated_inputs
        return nodes, flows[::-1]


class Sage(nn.Module):
    """A network of :class:`SageLayer`, with ReLU and dropout between them."""

    def __init__(self, X: Features, widths: list[int], dropout: float, normalize: bool) -> None:
        super().__init__()
        self.input = input_layer(X, dropout)
        self.layers = nn.ModuleList(SageLayer(a, b) for a, b in pairwise([X.shape[1], *widths]))
        self.dropout, self.normalize = Dropout(dropout), normalize

    def forward(self, x: RowTensors, flows: list[MessageFlow]) -> torch.Tensor:
        """Return the vectors of the last layer's output nodes, from rows of the input nodes."""
        h: Any = self.input(x)
        for depth, (layer, flow) in enumerate(zip(self.layers, flows, strict=True)):
            h = layer(h if depth == 0 else self.dropout(functional.relu(h)), flow)
            if self.normalize:
                h = functional.normalize(h)
        y: torch.Tensor = h
        return y


class SageLayer(nn.Module):
    r"""The layer :math:`\psi_1^\top x_i + \psi_2^\top \sum_j \frac{w_{ij}}{d_i} x_j + b`.

    It is torch-geometric's ``SAGEConv`` with weights and sparse rows, which that does not support.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.own, self.around = Product(n_in, n_out), Product(n_in, n_out)
        self.bias = nn.Parameter(torch.zeros(n_out))
        self.mean = geometric().SimpleConv(aggr="sum")  # a mean, as the weights sum to 1

    def forward(self, x: RowTensors, flow: MessageFlow) -> torch.Tensor:
        """Return the rows of the output nodes, from those of the input nodes."""
        own, around = take_rows(self.own(x), flow.own), self.around(x)
        size = (len(around), len(own))
        mean: torch.Tensor = self.mean((around, None), flow.index, flow.weights, size=size)
        return own + mean + self.bias
