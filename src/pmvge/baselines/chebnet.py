"""ChebNet: graph convolutions with Chebyshev filters."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn import functional

from pmvge.baselines.graph_network import Edges, FullBatchNetwork, Product, geometric
from pmvge.checks import integer
from pmvge.encoders import Dropout
from pmvge.sampling import RowTensors


class ChebNet(FullBatchNetwork):
    r"""Graph convolutional network with Chebyshev filters.

    Each layer applies a polynomial of the graph's Laplacian to the nodes' vectors. The polynomial
    is a sum of Chebyshev polynomials with learned matrices as coefficients. Two layers with a ReLU
    between them are trained without labels, so that inner products of the vectors distinguish links
    from negative samples.

    .. math:: \max_\psi \sum_{i,j} w_{ij} ( \log \sigma(\langle y_i, y_j \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle y_i, y_k \rangle) )
              \\ H = \text{ReLU}(\sum_{r=0}^R T_r(\hat L) X \psi_{1r}), \quad
              Y = \sum_{r=0}^R T_r(\hat L) H \psi_{2r}, \quad \hat L = -D^{-1/2} W D^{-1/2}

    Choose it over GCN when a node's own features, its neighbours and their neighbours should have
    separate weights. It has R + 1 times as many weights as GCN and so needs more data. It cannot
    embed new nodes.

    Parameters
    ----------
    n_components
        Dimension K.
    order
        Degree R of the polynomials: one layer aggregates nodes up to R links away.
    hidden_sizes
        Widths of the hidden layers.
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
    M. Defferrard, X. Bresson and P. Vandergheynst, "Convolutional neural networks on graphs with
    fast localized spectral filtering", NIPS 2016.

    Examples
    --------
    >>> from pmvge import MultiViewGraph
    >>> from pmvge.baselines.chebnet import ChebNet
    >>> rows, cols = [0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]  # two triangles
    >>> graph = MultiViewGraph({"node": 6}, {("node", "node"): (rows, cols)})
    >>> net = ChebNet(2, max_steps=50, dropout=0.0, progress=False, random_state=0).fit(graph)
    >>> y = net.embeddings_["node"]
    >>> bool(y[0] @ y[1] > y[0] @ y[3])
    True
    """

    n_views = 1
    many_to_many = True
    nonlinear = True
    inductive = False
    likelihood_based = True

    checks: ClassVar = {"order": integer(1)}

    def __init__(
        self,
        n_components: int = 100,
        *,
        order: int = 2,
        hidden_sizes: tuple[int, ...] = (128,),
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
        self.order = order
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
        widths = [n_in, *self.hidden_sizes, self.n_components]
        return Filters(widths, edges, self.order, self.dropout)


class Filters(nn.Module):
    r"""Layers :math:`\sum_r T_r(\hat L) H \psi_r + b`, with ReLU and dropout between them."""

    def __init__(self, widths: list[int], edges: Edges, order: int, dropout: float) -> None:
        super().__init__()
        ChebConv = geometric().ChebConv
        self.layers = nn.ModuleList(ChebConv(a, b, order + 1) for a, b in pairwise(widths))
        self.layers[0].lins = nn.ModuleList(Product(widths[0], widths[1]) for _ in range(order + 1))
        normalized = geometric("nn.conv.gcn_conv").gcn_norm
        # The normalised Laplacian has eigenvalues in [0, 2]; minus the identity, in [-1, 1].
        self.index, weights = normalized(edges.index, edges.weights, edges.n, add_self_loops=False)
        self.weights = -weights
        self.dropout = Dropout(dropout)

    def forward(self, x: RowTensors) -> torch.Tensor:
        """Return the vectors of all nodes."""
        *hidden, last = self.layers
        h: RowTensors = x
        for layer in hidden:
            h = self.dropout(functional.relu(filtered(layer, h, self.index, self.weights)))
        return filtered(last, h, self.index, self.weights)


def filtered(layer: Any, x: RowTensors, index: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    r"""Return the output of a ``ChebConv`` of order 1 or more, by Clenshaw's recursion.

    With :math:`A_r = X \psi_r` the recursion is :math:`B_r = A_r + 2 \hat L B_{r+1} - B_{r+2}`, and
    the output is :math:`A_0 + \hat L B_1 - B_2`. Rows are multiplied by the weights first, so that
    sparse rows stay sparse and sums over neighbours have the width of the output. ``ChebConv``
    itself sums the rows over neighbours first.
    """

    def propagate(H: torch.Tensor) -> torch.Tensor:
        Z: torch.Tensor = layer.propagate(index, x=H, norm=weights)
        return Z

    A = [psi(x) for psi in layer.lins]
    B, after = A.pop(), torch.zeros(())
    while len(A) > 1:
        B, after = A.pop() + 2 * propagate(B) - after, B
    y: torch.Tensor = A[0] + propagate(B) - after + layer.bias
    return y
