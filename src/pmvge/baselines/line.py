"""LINE."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.baselines.base import Baseline
from pmvge.baselines.flattening import FlatGraph, flatten
from pmvge.baselines.gradient import one_thread
from pmvge.baselines.negatives import Contrast, LinkSampler
from pmvge.checks import one_of
from pmvge.errors import DivergedError
from pmvge.graph import MultiViewGraph
from pmvge.training import watcher

OFTEN = 16  # a node that is in a batch more often moves as if it were in it this often


class LINE(Baseline):
    r"""Large-scale information network embedding.

    Vectors of linked nodes get large inner products, against nodes drawn as noise (first order), or
    vectors get large inner products with the context vectors of the node's neighbours (second
    order). By default half of the dimensions are of each kind, each half of length 1.

    .. math:: \max_{y, c} \sum_{i, j} w_{ij} [ \log \sigma(\langle c_j, y_i \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle c_k, y_i \rangle) ],
              \quad c = y \quad \text{at first order}

    Choose it for a large graph without features: a step costs the same whatever the number of
    nodes. It sees neighbours and shared neighbours, nothing further away.

    Parameters
    ----------
    n_components
        Dimension K.
    order
        "first" (linked nodes are close), "second" (nodes with the same neighbours are close) or
        "both" (K/2 dimensions each, concatenated).
    n_negatives
        Noise nodes Q for each link, drawn in proportion to degree to the power 3/4.
    batch_size
        Links in a step, drawn in proportion to their weights.
    max_steps
        Steps, of each order.
    learning_rate
        Of a single link, at the start; it falls in a line to 0.
    progress
        Whether to show a bar, on terminals.
    random_state
        Seed of the draws and of the start.

    References
    ----------
    J. Tang, M. Qu, M. Wang, M. Zhang, J. Yan and Q. Mei, "LINE: large-scale information network
    embedding", WWW 2015.
    """

    n_views = 0
    many_to_many = True
    nonlinear = False
    inductive = False
    likelihood_based = True

    checks: ClassVar = {"order": one_of("first", "second", "both")}

    def __init__(
        self,
        n_components: int = 100,
        *,
        order: str = "both",
        n_negatives: int = 5,
        batch_size: int = 1024,
        max_steps: int = 3000,
        learning_rate: float = 0.025,
        progress: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.order = order
        self.n_negatives = n_negatives
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.progress = progress
        self.random_state = random_state

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        flat = flatten(graph)
        K = self.n_components
        if self.order == "both":
            halves = [self._vectors(flat, K - K // 2, False, seed)]
            if K > 1:
                halves.append(self._vectors(flat, K // 2, True, seed))
            return flat.split(np.hstack([_normalised(half) for half in halves]))
        return flat.split(self._vectors(flat, K, self.order == "second", seed))

    def _vectors(self, flat: FlatGraph, K: int, second: bool, seed: int) -> NDArray[np.float32]:
        """Vectors (n, K) by gradient ascent, one link's step added to another's within a batch."""
        rng = np.random.default_rng([seed, int(second)])
        sampler = LinkSampler(flat, self.batch_size, self.n_negatives, rng)
        start = rng.uniform(-0.5, 0.5, (flat.W.shape[0], K)) / K
        Y = torch.from_numpy(start.astype(np.float32))
        C = torch.zeros_like(Y) if second else Y
        with one_thread(), watcher(self.progress) as told:
            told.start(0, self.max_steps)
            began = time.perf_counter()
            for step in range(self.max_steps):
                ascend(Y, C, sampler.draw(), self.learning_rate * (1 - step / self.max_steps))
                told.step(step + 1, time.perf_counter() - began)
        if not torch.isfinite(Y).all():
            raise DivergedError(
                f"LINE diverged with learning_rate={self.learning_rate:g}: its vectors are not "
                "finite. Try a smaller learning_rate"
            )
        return np.asarray(Y.numpy())


def ascend(Y: torch.Tensor, C: torch.Tensor, batch: Contrast, rate: float) -> None:
    """Move vectors Y and contexts C (which may be Y) up the likelihood of a batch, in place.

    The gradient is written out, so that only the rows in the batch are touched.
    """
    heads = torch.from_numpy(batch.heads)
    others = torch.from_numpy(np.column_stack([batch.tails, batch.noise]))  # (B, 1 + Q)
    y, c = Y[heads], C[others]
    slope = -torch.sigmoid(torch.einsum("bk,bqk->bq", y, c))
    slope[:, 0] += 1  # the link itself
    slope *= rate
    _add(Y, heads, torch.einsum("bq,bqk->bk", slope, c))
    _add(C, others.ravel(), torch.einsum("bq,bk->bqk", slope, y).reshape(-1, Y.shape[1]))


def _add(table: torch.Tensor, rows: torch.Tensor, moves: torch.Tensor) -> None:
    """Add moves to rows. Many moves of one row, a hub's, would overshoot: they count as a few."""
    _, place, times = torch.unique(rows, return_inverse=True, return_counts=True)
    table.index_add_(0, rows, moves * (OFTEN / times).clamp_(max=1)[place, None])


def _normalised(Y: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(Y, axis=1, keepdims=True)
    return np.asarray(np.divide(Y, length, out=np.zeros_like(Y), where=length > 0))
