"""The graph neural network: states that are a fixed point."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import nn

from pmvge.baselines.graph_network import Edges, Product, Rows, WholeGraphNetwork, geometric
from pmvge.checks import real, whole
from pmvge.encoders import Dropout

MOST = 1000  # iterations; reached only where a tolerance is finer than float32
FINAL = 1e-5  # tolerance after training
Map = Callable[[torch.Tensor], torch.Tensor]


class GNN(WholeGraphNetwork):
    r"""The graph neural network model, with states that are a fixed point.

    A node's state is computed from its features and its neighbours' states, over and over until no
    state changes any more; a bounded map between states makes sure that this happens. A network
    from states to vectors is trained together with that map, without labels, so that inner products
    of the vectors tell links from noise.

    .. math:: \max_\psi \sum_{i,j} w_{ij} ( \log \sigma(\langle y_i, y_j \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle y_i, y_k \rangle) )
              \\ Y = g_\psi(H), \quad
              H = \text{tanh}(D^{-1/2} W D^{-1/2} H M + X \psi_1), \quad \| M \| < 1

    Choose it when what matters may lie many links away, as all nodes of a component act on each
    other. It is the slowest of the graph networks, and has no vectors for nodes that come later.

    Parameters
    ----------
    n_components
        Dimension K.
    state_size
        Dimension of the states H.
    contraction
        Bound mu of the spectral norm of M, below 1. The effect of a node on another falls by this
        factor or a smaller one with every link between them.
    tolerance
        States have converged when no entry, all of which lie in (-1, 1), changes by more than this.
        Likewise the gradient, relative to its largest entry.
    hidden_sizes
        Widths of the hidden layers of the output network g; without any it is linear.
    dropout
        Share of the features and of the inputs of g's layers that a step leaves out.
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
        Seed of the weights, of the drawn links and of dropout.

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
        "state_size": whole(1),
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
        return nn.Sequential(states, *layers[1:])  # states are outputs of tanh already


class States(nn.Module):
    r"""The fixed point :math:`H` of :math:`\tanh(\hat A H M + X \psi_1 + b)`.

    :math:`\hat A = D^{-1/2} W D^{-1/2}` has spectral norm 1 and tanh has slopes up to 1, so that
    the map is a contraction if :math:`M` has a norm below 1.
    """

    def __init__(
        self, n_in: int, size: int, edges: Edges, contraction: float, tolerance: float
    ) -> None:
        super().__init__()
        self.product, self.bias = Product(n_in, size), nn.Parameter(torch.zeros(size))
        self.transfer = nn.Parameter(nn.init.orthogonal_(torch.empty(size, size)))
        self.contraction, self.tolerance = contraction, tolerance
        self.spread = normalized_sum(edges)
        self.H = torch.zeros(edges.n, size)  # where to start: the last fixed point is near the next

    def forward(self, x: Rows) -> torch.Tensor:
        """States of all nodes, (n, size)."""
        norm = torch.linalg.matrix_norm(self.transfer, 2)
        M = self.transfer * (self.contraction / norm.clamp(min=self.contraction))
        tolerance = self.tolerance if self.training else min(self.tolerance, FINAL)
        B = self.product(x) + self.bias
        H: torch.Tensor = FixedPoint.apply(M, B, self.H, self.spread, tolerance)  # type: ignore[no-untyped-call]
        self.H = H.detach()
        return H


def normalized_sum(edges: Edges) -> Map:
    r"""The map :math:`H \mapsto D^{-1/2} W D^{-1/2} H`, its own adjoint."""
    normalized = geometric("nn.conv.gcn_conv").gcn_norm
    index, weights = normalized(edges.index, edges.weights, edges.n, add_self_loops=False)
    total = geometric().SimpleConv(aggr="sum")

    def spread(H: torch.Tensor) -> torch.Tensor:
        Z: torch.Tensor = total(H, index, weights)
        return Z

    return spread


class FixedPoint(torch.autograd.Function):
    r"""The :math:`H` with :math:`H = \tanh(\hat A H M + B)`, and its implicit gradient.

    By Almeida and Pineda: a gradient :math:`dH` becomes the fixed point G of the adjoint equation
    :math:`G = dH + \hat A (G \circ (1 - H^2)) M^\top`, which is a contraction as well. Nothing of
    the way to the fixed point is kept.
    """

    @staticmethod
    def forward(
        ctx: Any,
        M: torch.Tensor,
        B: torch.Tensor,
        start: torch.Tensor,
        spread: Map,
        tolerance: float,
    ) -> torch.Tensor:
        """Iterate the map from ``start``."""
        H = iterate(lambda H: torch.tanh(spread(H) @ M + B), start, tolerance)
        ctx.save_for_backward(M, H)
        ctx.spread, ctx.tolerance = spread, tolerance
        return H

    @staticmethod
    def backward(ctx: Any, dH: torch.Tensor) -> Any:
        """Iterate the adjoint equation."""
        M, H = ctx.saved_tensors
        slope = 1 - H**2
        tolerance = ctx.tolerance * float(dH.abs().max())
        G = iterate(lambda G: dH + ctx.spread((G * slope) @ M.T), dH, tolerance)
        dB = G * slope
        return ctx.spread(H).T @ dB, dB, None, None, None


def iterate(step: Map, Z: torch.Tensor, tolerance: float) -> torch.Tensor:
    """The fixed point of a contraction: the last of Z, step(Z), step(step(Z)), ..."""
    for _ in range(MOST):
        before, Z = Z, step(Z)
        if float((Z - before).abs().max()) <= tolerance:
            break
    return Z
