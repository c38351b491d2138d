"""Graph convolutional network."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from pmvge.baselines.graph_network import Edges, FullBatchNetwork, Product, geometric
from pmvge.encoders import Dropout
from pmvge.sampling import RowTensors


class GCN(FullBatchNetwork):
    r"""Graph convolutional network.

    Each layer computes a weighted sum over a node and its neighbours, and multiplies it by a
    learned matrix. Two layers with a ReLU between them are trained without labels, so that inner
    products of the vectors distinguish links from negative samples.

    .. math:: \max_\psi \sum_{i,j} w_{ij} ( \log \sigma(\langle y_i, y_j \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle y_i, y_k \rangle) )
              \\ Y = \hat A \text{ReLU}(\hat A X \psi_1) \psi_2, \quad
              \hat A = \hat D^{-1/2} (W + I) \hat D^{-1/2}

    Choose it for a fixed graph that fits in memory, when neighbours say more about a node than its
    own features do. It cannot embed new nodes.

    Parameters
    ----------
    n_components
        Dimension K.
    hidden_sizes
        Widths of the hidden layers; with L of them a vector depends on nodes up to L + 1 links
        away.
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
        Seed of the initial weights, of the drawn links and of dropout.

    References
    ----------
    T. N. Kipf and M. Welling, "Semi-supervised classification with graph convolutional networks",
    ICLR 2017. Trained without labels as in their "Variational graph auto-encoders", 2016.

    Examples
    --------
    >>> from pmvge import MultiViewGraph
    >>> from pmvge.baselines.gcn import GCN
    >>> rows, cols = [0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]  # two triangles
    >>> graph = MultiViewGraph({"node": 6}, {("node", "node"): (rows, cols)})
    >>> gcn = GCN(2, max_steps=50, dropout=0.0, progress=False, random_state=0).fit(graph)
    >>> y = gcn.embeddings_["node"]
    >>> bool(y[0] @ y[1] > y[0] @ y[3])
    True
    """

    n_views = 1
    many_to_many = True
    nonlinear = True
    inductive = False
    likelihood_based = True

    def __init__(
        self,
        n_components: int = 100,
        *,
        hidden_sizes: tuple[int, ...] = (256,),
        dropout: float = 0.5,
        batch_size: int = 2048,
        n_negatives: int = 1,
        max_steps: int = 200,
        learning_rate: float = 0.003,
        weight_decay: float = 0.0,
        progress: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.hidden_sizes = hidden_sizes
        self.dropout = dropout
        self.batch_size = batch_size
        self.n_negatives = n_negatives
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.progress = progress
        self.random_state = random_state

    def _network(self, n_in: int, edges: Edges) -> nn.Module:
        return Convolutions([n_in, *self.hidden_sizes, self.n_components], edges, self.dropout)


class Convolutions(nn.Module):
    r"""A network of layers :math:`\hat A H \psi + b`, with ReLU and dropout between them."""

    def __init__(self, widths: list[int], edges: Edges, dropout: float) -> None:
        super().__init__()
        normalized = geometric("nn.conv.gcn_conv").gcn_norm
        self.index, self.weights = normalized(edges.index, edges.weights, edges.n)
        GCNConv = geometric().GCNConv
        self.layers = nn.ModuleList(GCNConv(a, b, normalize=False) for a, b in pairwise(widths))
        self.product = Product(widths[0], widths[1])  # GCNConv takes dense rows only
        self.layers[0].lin = nn.Identity()
        self.dropout = Dropout(dropout)

    def forward(self, x: RowTensors) -> torch.Tensor:
        """Return the vectors of all nodes."""
        h = self.product(x)
        *hidden, last = self.layers
        for layer in hidden:
            h = self.dropout(functional.relu(layer(h, self.index, self.weights)))
        y: torch.Tensor = last(h, self.index, self.weights)
        return y
