"""GraphSAGE."""

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

from pmvge.baselines.base import inputs
from pmvge.baselines.flattening import flatten
from pmvge.baselines.gradient import CPU, seeded
from pmvge.baselines.graph_network import GraphNetwork, Product, Rows, at, geometric, input_layer
from pmvge.baselines.negatives import Index
from pmvge.checks import flag, real, whole
from pmvge.encoders import ROWS, Dropout
from pmvge.graph import Features, MultiViewGraph, draw_between, row_shares, take

Mask = NDArray[np.bool_]


class GraphSAGE(GraphNetwork):
    r"""Sample and aggregate, with the mean as aggregator.

    Each layer computes a node's vector from the node's own vector and the mean of its neighbours',
    of whom a few are drawn at random at every step, so that a step costs the same in a graph of any
    size. It is trained without labels, so that inner products of the vectors that come out tell
    links from noise.

    .. math:: \max_\psi \sum_{i,j} w_{ij} ( \log \sigma(\langle y_i, y_j \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle y_i, y_k \rangle) )
              \\ h_i = \text{ReLU}(\psi_1^\top x_i
              + \psi_2^\top \sum_j \frac{w_{ij}}{d_i} x_j), \quad
              y_i = \psi_3^\top h_i + \psi_4^\top \sum_j \frac{w_{ij}}{d_i} h_j

    Choose it for a graph that is large or that grows: it also embeds nodes that were not there in
    training. It is best where neighbours are known; from features alone it can do no more than an
    encoder without a graph.

    Parameters
    ----------
    n_components
        Dimension K.
    hidden_sizes
        Widths of the hidden layers; with L of them a node sees L + 1 steps far.
    fanout
        Neighbours that are drawn for a node in each layer, by weight and with replacement; nodes
        that have no more than that keep all of theirs. In the end vectors of the training nodes are
        computed with all neighbours.
    isolation
        Share of a step's nodes that are treated as if they had no links. A node without links is
        its own only neighbour, and so is every row that ``embed`` is given, as it comes with
        features alone; this prepares for it. Where features say little, less is better.
    normalize
        Whether to scale the outputs of every layer to norm 1, as the authors do. Scores then lie in
        [-1, 1], too narrow for a likelihood to tell links from noise with certainty.
    dropout
        Share of the features and of the hidden units that a step leaves out.
    batch_size
        Links per step.
    n_negatives
        Noise nodes Q per link. The more, the further below 0 the scores of unrelated nodes should
        lie, which inner products are poor at.
    max_steps
        Number of gradient steps.
    learning_rate, weight_decay
        Of Adam.
    progress
        Whether to show a progress bar.
    random_state
        Seed of the weights, of the drawn links and neighbours and of dropout.

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

    checks: ClassVar = {"fanout": whole(1), "isolation": real(0, 1), "normalize": flag}

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
        flat, X = flatten(graph), inputs(graph)[view]
        rng = np.random.default_rng([seed, 1])
        hoods = Neighbourhoods(flat.W, rng)
        with seeded(seed):
            network = Sage(
                X, [*self.hidden_sizes, self.n_components], self.dropout, bool(self.normalize)
            )
            depth = len(network.layers)

            def vectors(nodes: Index) -> torch.Tensor:
                alone = rng.random(len(nodes)) < self.isolation
                below, blocks = hoods.blocks(nodes, alone, depth, self.fanout)
                Y: torch.Tensor = network(take(X, below, CPU), blocks)
                return Y

            self._train(network, flat, vectors, seed)
        self._trained = network
        everyone = np.arange(int(X.shape[0]))
        below, blocks = hoods.blocks(everyone, np.zeros(len(everyone), bool), depth, None)
        with torch.no_grad():
            return {view: network(take(X, below, CPU), blocks).numpy()}

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        n, depth, parts = int(X.shape[0]), len(self._trained.layers), []
        for start in range(0, n, ROWS):
            own = np.arange(min(ROWS, n - start))
            alone = Block(own, torch.from_numpy(np.stack([own, own])), torch.ones(len(own)))
            with torch.no_grad():
                rows = take(X, slice(start, start + ROWS), CPU)
                parts.append(self._trained(rows, [alone] * depth).numpy())
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Block:
    """Where the n nodes of a layer, and their neighbours, stand among the nodes below it."""

    own: Index  # (n,)
    index: torch.Tensor  # (2, E), from a neighbour, as it stands below, to a node, in 0..n-1
    weights: torch.Tensor  # (E,), of sum 1 for each node: those of a mean


class Neighbourhoods:
    """Draws neighbours, in a time that does not depend on how many there are but for a log."""

    def __init__(self, W: sparse.csr_array, rng: np.random.Generator) -> None:
        self._starts = W.indptr.astype(np.int64)
        self._neighbours, self._weights = W.indices.astype(np.int64), W.data
        self._cumulative = np.concatenate([[0.0], np.cumsum(row_shares(W))])
        self._rng = rng

    def draw(
        self, nodes: Index, alone: Mask, fanout: int | None
    ) -> tuple[Index, Index, NDArray[np.float64]]:
        """Neighbours as (position in ``nodes``, neighbour, weight of the mean); None draws all.

        Nodes that are alone, or have no links, are their own only neighbour.
        """
        start, stop = self._starts[nodes], self._starts[nodes + 1]
        alone = alone | (start == stop)
        most = np.iinfo(np.int64).max if fanout is None else fanout
        counts = np.where(alone, 1, np.minimum(stop - start, most))
        target = np.repeat(np.arange(len(nodes)), counts)
        link = np.arange(len(target)) + np.repeat(start - np.cumsum(counts) + counts, counts)
        is_drawn = (~alone & (stop - start > most))[target]
        t = target[is_drawn]
        link[is_drawn] = draw_between(self._cumulative, start[t], stop[t], self._rng)
        is_linked = ~alone[target]
        neighbour, weights = nodes[target], np.ones(len(target))
        neighbour[is_linked] = self._neighbours[link[is_linked]]
        taken_whole = is_linked & ~is_drawn
        weights[taken_whole] = self._weights[link[taken_whole]]
        return target, neighbour, weights / np.bincount(target, weights)[target]

    def blocks(
        self, nodes: Index, alone: Mask, depth: int, fanout: int | None
    ) -> tuple[Index, list[Block]]:
        """The nodes whose rows are needed, and how layers lead from them to ``nodes``."""
        blocks: list[Block] = []
        for _ in range(depth):
            target, neighbour, weights = self.draw(nodes, alone, fanout)
            below, place = np.unique(np.concatenate([nodes, neighbour]), return_inverse=True)
            own, source = place[: len(nodes)], place[len(nodes) :]
            index = torch.from_numpy(np.stack([source, target]))
            blocks.append(Block(own, index, torch.from_numpy(weights.astype(np.float32))))
            still_alone = np.zeros(len(below), bool)
            still_alone[own] = alone
            nodes, alone = below, still_alone
        return nodes, blocks[::-1]


class Sage(nn.Module):
    """Layers with ReLU and dropout between them."""

    def __init__(self, X: Features, widths: list[int], dropout: float, normalize: bool) -> None:
        super().__init__()
        self.input = input_layer(X, dropout)
        self.layers = nn.ModuleList(SageLayer(a, b) for a, b in pairwise([X.shape[1], *widths]))
        self.dropout, self.normalize = Dropout(dropout), normalize

    def forward(self, x: Rows, blocks: list[Block]) -> torch.Tensor:
        """Vectors of the last block's nodes, from rows of the nodes below the first."""
        h: Any = self.input(x)
        for depth, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(h if depth == 0 else self.dropout(functional.relu(h)), block)
            if self.normalize:
                h = functional.normalize(h)
        y: torch.Tensor = h
        return y


class SageLayer(nn.Module):
    r""":math:`\psi_1^\top x_i + \psi_2^\top \sum_j \frac{w_{ij}}{d_i} x_j + b`.

    As torch-geometric's ``SAGEConv``, which takes neither weights nor sparse rows.
    """

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.own, self.around = Product(n_in, n_out), Product(n_in, n_out)
        self.bias = nn.Parameter(torch.zeros(n_out))
        self.mean = geometric().SimpleConv(aggr="sum")  # of weights that sum to 1

    def forward(self, x: Rows, block: Block) -> torch.Tensor:
        """From the rows below a block to those of its nodes."""
        own, around = at(self.own(x), block.own), self.around(x)
        size = (len(around), len(own))
        mean: torch.Tensor = self.mean((around, None), block.index, block.weights, size=size)
        return own + mean + self.bias
