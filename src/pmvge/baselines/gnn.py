"""The graph neural network model, whose states are a fixed point."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import nn

from pmvge.baselines.graph_network import Edges, FullBatchNetwork, Product, geometric
from pmvge.checks import integer, real
from pmvge.encoders import Dropout
from pmvge.sampling import RowTensors

MAX_ITERATIONS = 1000  # reached only if the tolerance is below float32's precision
FINAL_TOLERANCE = 1e-5  # after training
Map = Callable[[torch.Tensor], torch.Tensor]


class GNN(FullBatchNetwork):
    r"""Graph neural network model, with states that are a fixed point.

    A node's state is computed from its features and its neighbours' states, repeatedly until no
    state changes. The map between states is a contraction, so that the iteration converges. A
    network from states to vectors is trained together with this map, without labels, so that inner
    products of the vectors distinguish links from negative samples.

    .. math:: \max_\psi \sum_{i,j} w_{ij} ( \log \sigma(\langle y_i, y_j \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle y_i, y_k \rangle) )
              \\ Y = g_\psi(H), \quad
              H = \text{tanh}(D^{-1/2} W D^{-1/2} H M + X \psi_1), \quad \| M \| < 1

    Choose it when a vector should depend on nodes many links away, as every state depends on all
    nodes of its component. It is the slowest of the graph networks and cannot embed new nodes.

    Parameters
    ----------
    n_components
        Dimension K.
    state_size
        Dimension of the states H.
    contraction
        Upper bound of the spectral norm of M, below 1. The effect of one node on another decreases
        by at least this factor with every link between them.
    tolerance
        The iteration stops when no entry of the states, which lie in (-1, 1), changes by more than
        this. For the gradient it is relative to the largest entry.
    hidden_sizes
        Widths of the hidden layers of the output network g; an empty tuple makes g linear.
    dropout
        Dropout rate of the features and of the inputs of g's layers.
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
    F. Scarselli, M. Gori, A. C. Tsoi, M. Hagenbuchner and G. Monfardini, "The graph neural network
    model", IEEE Transactions on Neural Networks 2009.

    Examples
    --------
    >>> from pmvge import MultiViewGraph
    >>> from pmvge.baselines.gnn import GNN
    >>> rows, cols = [0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]  # two triangles
    >>> graph = MultiViewGraph({"node": 6}, {("node", "node"): (rows, cols)})
    >>> gnn = GNN(2, state_size=4, max_steps=50, dropout=0.0, progress=False, random_state=0)
    >>> y = gnn.fit(graph).embeddings_["node"]
    >>> bool(y[0] @ y[1] > y[0] @ y[3])
    True
    """

    n_views = 1
    many_to_many = True
    nonlinear = True
    inductive = False
    likelihood_based = True

    checks: ClassVar = {
        "state_size": integer(1),
        "contraction": real(0, 1, open_low=True),
        "tolerance": real(0, 1, open_low=True),
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        state_size: int = 100,
        contraction: float = 0.9,
        tolerance: float = 1e-3,
        hidden_sizes: tuple[int, ...] = (),
        dropout: float = 0.5,
        batch_size: int = 2048,
        n_negatives: int = 1,
        max_steps: int = 200,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        progress: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.state_size = state_size
        self.contraction = contraction
        self.tolerance = tolerance
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
        layers: list[nn.Module] = []
        for a, b in pairwise([self.state_size, *self.hidden_sizes, self.n_components]):
            layers += [nn.Tanh(), Dropout(self.dropout), nn.Linear(a, b)]
        states = States(n_in, self.state_size, edges, self.contraction, self.tolerance)
        return nn.Sequential(states, *layers[1:])  # no tanh first: states are outputs of tanh


class States(nn.Module):
    r"""A layer that computes the fixed point :math:`H` of :math:`\tanh(\hat A H M + X \psi_1 + b)`.

    :math:`\hat A = D^{-1/2} W D^{-1/2}` has spectral norm 1 and tanh has slopes of at most 1, so
    the map is a contraction if the norm of :math:`M` is below 1.
    """

    def __init__(
        self, n_in: int, size: int, edges: Edges, contraction: float, tolerance: float
    ) -> None:
        super().__init__()
        self.product, self.bias = Product(n_in, size), nn.Parameter(torch.zeros(size))
        self.transfer = nn.Parameter(nn.init.orthogonal_(torch.empty(size, size)))
        self.contraction, self.tolerance = contraction, tolerance
        self.propagate = normalized_sum(edges)
        self.H = torch.zeros(edges.n, size)  # the last fixed point: the next start

    def forward(self, x: RowTensors) -> torch.Tensor:
        """Return the states of all nodes, (n, size)."""
        norm = torch.linalg.matrix_norm(self.transfer, 2)
        M = self.transfer * (self.contraction / norm.clamp(min=self.contraction))
        tolerance = self.tolerance if self.training else min(self.tolerance, FINAL_TOLERANCE)
        B = self.product(x) + self.bias
        H: torch.Tensor = FixedPoint.apply(M, B, self.H, self.propagate, tolerance)  # type: ignore[no-untyped-call]
        self.H = H.detach()
        return H


def normalized_sum(edges: Edges) -> Map:
    r"""Return the map :math:`H \mapsto D^{-1/2} W D^{-1/2} H`, which is self-adjoint."""
    normalized = geometric("nn.conv.gcn_conv").gcn_norm
    index, weights = normalized(edges.index, edges.weights, edges.n, add_self_loops=False)
    total = geometric().SimpleConv(aggr="sum")

    def propagate(H: torch.Tensor) -> torch.Tensor:
        Z: torch.Tensor = total(H, index, weights)
        return Z

    return propagate


class FixedPoint(torch.autograd.Function):
    r"""The solution of :math:`H = \tanh(\hat A H M + B)`, with its implicit gradient.

    The gradient is that of Almeida and Pineda: :math:`dH` becomes the fixed point G of the adjoint
    equation :math:`G = dH + \hat A (G \circ (1 - H^2)) M^\top`, which is a contraction as well. The
    iterates are not stored.
    """

    @staticmethod
    def forward(
        ctx: Any,
        M: torch.Tensor,
        B: torch.Tensor,
        start: torch.Tensor,
        propagate: Map,
        tolerance: float,
    ) -> torch.Tensor:
        """Return the fixed point H, by iteration from ``start``."""
        H = iterate(lambda H: torch.tanh(propagate(H) @ M + B), start, tolerance)
        ctx.save_for_backward(M, H)
        ctx.propagate, ctx.tolerance = propagate, tolerance
        return H

    @staticmethod
    def backward(ctx: Any, dH: torch.Tensor) -> Any:
        """Return the gradients in M and B, from the fixed point of the adjoint equation."""
        M, H = ctx.saved_tensors
        slope = 1 - H**2
        tolerance = ctx.tolerance * float(dH.abs().max())
        G = iterate(lambda G: dH + ctx.propagate((G * slope) @ M.T), dH, tolerance)
        dB = G * slope
        return ctx.propagate(H).T @ dB, dB, None, None, None


def iterate(step: Map, Z: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Return the fixed point of a contraction, the limit of Z, step(Z), step(step(Z)), ..."""
    for _ in range(MAX_ITERATIONS):
        before, Z = Z, step(Z)
        if float((Z - before).abs().max()) <= tolerance:
            break
    return Z
