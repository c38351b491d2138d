"""Factorization machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import nn

from pmvge.baselines.base import Baseline, flat, input_rows
from pmvge.baselines.flattening import FlatGraph, flatten
from pmvge.baselines.gradient import CPU, seeded, train
from pmvge.baselines.negatives import LinkSampler, NegativeSamples, negative_sampling_loss
from pmvge.encoders import CHUNK_ROWS, Normalize, product
from pmvge.graph import Features, MultiViewGraph, SparseRows, check_rows, known_positions, take

INITIAL_STD = 0.1  # standard deviation of the initial vectors' entries


class FactorizationMachine(Baseline):
    r"""Factorization machine.

    A logistic regression on the features of two entities, and on products of two of these features,
    predicts whether the entities are linked. The coefficient of a product is the inner product of
    the two features' vectors. The products of one entity's features with the other's add up to the
    inner product of the entities' vectors.

    .. math:: \max_{w, V} \sum_{i, j} w_{ij}
              [ \log \sigma(s_{ij}) + \sum_{k=1}^Q \log \sigma(-s_{ik}) ],
              \\
              s_{ij} = w_0 + h(x_i) + h(x_j) + \langle V^\top x_i, V^\top x_j \rangle,
              \\
              h(x) = \langle w, x \rangle + \sum_{a < b} \langle v_a, v_b \rangle x_a x_b

    Choose it for sparse or categorical features in any number of views, when a link depends on
    combinations of values. Vectors are linear in the features. The full score, see ``scores``, has
    terms beyond their inner product.

    Parameters
    ----------
    n_components
        Dimension K of the features' vectors :math:`v_a` and the entities' vectors :math:`V^\top x`.
    n_negatives
        Negative samples Q per link, from the view of the link's second entity.
    batch_size
        Links per step.
    max_steps
        Number of gradient steps.
    learning_rate, weight_decay
        Learning rate and weight decay of Adam.
    progress
        Whether to show a progress bar.
    random_state
        Seed of the draws and of the initial weights.

    Attributes
    ----------
    intercept_
        :math:`w_0`.
    weights_
        ``{view: (p,)}``, the w of each view, for dense columns that are standardised and sparse
        rows that are scaled to a mean square norm of 1.
    factors_
        ``{view: (p, K)}``, the V of each view.

    References
    ----------
    S. Rendle, "Factorization machines", ICDM 2010.
    """

    n_views = "D"
    many_to_many = True
    nonlinear = False
    inductive = True
    likelihood_based = True

    intercept_: float
    weights_: dict[str, NDArray[np.float32]]
    factors_: dict[str, NDArray[np.float32]]

    def __init__(
        self,
        n_components: int = 100,
        *,
        n_negatives: int = 5,
        batch_size: int = 512,
        max_steps: int = 500,
        learning_rate: float = 5e-3,
        weight_decay: float = 1.0,
        progress: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_negatives = n_negatives
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.progress = progress
        self.random_state = random_state

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        X, nodes = input_rows(graph), flatten(graph)
        with seeded(seed):
            machine = Machine(X, self.n_components)
            for view, features in graph.views.items():
                if features is None:  # entities without links are never drawn: set them to 0
                    unlinked = nodes.degrees[nodes.parts[view]] == 0
                    machine.view_columns(view).V.data[torch.from_numpy(unlinked)] = 0
            train(
                machine,
                LinkSampler(
                    nodes, self.batch_size, self.n_negatives, np.random.default_rng([seed, 0])
                ),
                lambda batch: negative_sampling_loss(*machine.scores(X, nodes, batch)),
                steps=self.max_steps,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                progress=self.progress,
            )
        self._machine = machine
        self.intercept_ = float(machine.w0.detach())
        self.weights_ = {view: machine.view_columns(view).w.detach().numpy()[:, 0] for view in X}
        self.factors_ = {view: machine.view_columns(view).V.detach().numpy() for view in X}
        return {view: self._embed(view, rows) for view, rows in X.items()}

    def _embed(self, view: str, X: Features) -> NDArray[np.float32]:
        return self._terms(view, X)[0]

    def scores(self, view: str, X: Any, other: str, X_other: Any) -> NDArray[np.float32]:
        """Return the scores s of all pairs of rows, (n, m): log-odds of a link, against noise.

        Rows are features as in :meth:`embed`, or ids for a view without features. Raise InputError
        if they do not match those in training.
        """
        y, h = self._terms(view, self._rows(view, X))
        y_other, h_other = self._terms(other, self._rows(other, X_other))
        return np.asarray(self.intercept_ + h[:, None] + h_other + y @ y_other.T, np.float32)

    def _rows(self, view: str, X: Any) -> Features:
        self.embed(view, X)  # validates the rows
        shape = self._row_shapes[view]
        if shape is not None:
            return flat(check_rows(view, X, shape))
        one_hot = sparse.eye_array(len(self.ids_[view]), format="csr", dtype=np.float32)
        return one_hot[known_positions(view, self.ids_[view], X)]

    def _terms(self, view: str, X: Features) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return V^T x (n, K) and h(x) (n,), computed in chunks of ``CHUNK_ROWS`` rows."""
        n, K = int(X.shape[0]), self.n_components
        y, h = np.empty((n, K), np.float32), np.empty(n, np.float32)
        with torch.no_grad():
            for start in range(0, n, CHUNK_ROWS):
                part = slice(start, min(start + CHUNK_ROWS, n))
                y[part], h[part] = map(
                    torch.Tensor.numpy, self._machine.view_columns(view)(take(X, part, CPU))
                )
        return y, h


class Columns(nn.Module):
    """The scaling, w and V of one view's columns."""

    def __init__(self, X: Features, K: int) -> None:
        super().__init__()
        p, dense = int(X.shape[1]), isinstance(X, np.ndarray)
        self.input = Normalize(p, dropout=0.0, sparse=not dense)
        self.input.adapt(X)
        square_norm = max(1.0, float((self.input.scale > 0).sum()))  # mean over scaled rows
        self.w = nn.Parameter(torch.zeros(p, 1))
        self.V = nn.Parameter(torch.randn(p, K) * INITIAL_STD / square_norm**0.5)

    def forward(self, x: torch.Tensor | SparseRows) -> tuple[torch.Tensor, torch.Tensor]:
        """Return V^T x (B, K) and h(x) (B,)."""
        x = self.input(x)
        y = product(x, self.V)
        # The sum over pairs a < b is half of the squared sum minus the sum of squares.
        squares = product(squared(x), self.V.square().sum(1, keepdim=True))[:, 0]
        return y, product(x, self.w)[:, 0] + (y.square().sum(1) - squares) / 2


class Machine(nn.Module):
    """The parameters of all views."""

    def __init__(self, X: dict[str, Features], K: int) -> None:
        super().__init__()
        self.w0 = nn.Parameter(torch.zeros(()))
        self.columns = nn.ModuleList(Columns(rows, K) for rows in X.values())
        self._index = {view: k for k, view in enumerate(X)}  # names of modules cannot contain dots

    def view_columns(self, view: str) -> Columns:
        """Return the columns of a view."""
        columns = self.columns[self._index[view]]
        assert isinstance(columns, Columns)
        return columns

    def scores(
        self, X: dict[str, Features], nodes: FlatGraph, batch: NegativeSamples
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the scores of a batch's links (B,) and of its negative samples (B, Q)."""
        drawn = np.concatenate([batch.heads, batch.tails, batch.noise.ravel()])
        unique, position = np.unique(drawn, return_inverse=True)
        terms = []
        for view, part in nodes.parts.items():  # in the order of nodes
            rows = unique[(unique >= part.start) & (unique < part.stop)] - part.start
            if len(rows):
                terms.append(self.view_columns(view)(take(X[view], rows, CPU)))
        y, h = (torch.cat(by_view)[position] for by_view in zip(*terms, strict=True))
        B = len(batch.heads)
        shape = batch.noise.shape
        link = self.w0 + h[:B] + h[B : 2 * B] + torch.linalg.vecdot(y[:B], y[B : 2 * B])
        cross = torch.einsum("bk,bqk->bq", y[:B], y[2 * B :].reshape(*shape, -1))
        return link, self.w0 + h[:B, None] + h[2 * B :].reshape(shape) + cross


def squared(x: torch.Tensor | SparseRows) -> torch.Tensor | SparseRows:
    """Return the squares of all entries."""
    return x.square() if isinstance(x, torch.Tensor) else x._replace(values=x.values.square())
