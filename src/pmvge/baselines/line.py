"""LINE: large-scale information network embedding."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.baselines.base import Baseline
from pmvge.baselines.flattening import FlatGraph, flatten
from pmvge.baselines.gradient import single_thread
from pmvge.baselines.negatives import LinkSampler, NegativeSamples
from pmvge.checks import one_of
from pmvge.errors import DivergedError
from pmvge.graph import MultiViewGraph
from pmvge.training import Callbacks, Constant, training_progress

MAX_REPEATS = 16  # steps of one row that are added in a batch: those of a hub would overshoot


class LINE(Baseline):
    r"""Large-scale information network embedding.

    First order: linked nodes get large inner products of their vectors, compared with negative
    samples. Second order: a node's vector gets large inner products with the context vectors of its
    neighbours. By default half of the dimensions are of each order, and each half has length 1.

    .. math:: \max_{y, c} \sum_{i, j} w_{ij} [ \log \sigma(\langle c_j, y_i \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle c_k, y_i \rangle) ],
              \quad c = y \quad \text{at first order}

    Choose it for a large graph without features, as the cost of a step does not depend on the
    number of nodes. It uses direct and shared neighbours only.

    Parameters
    ----------
    n_components
        Dimension K.
    order
        "first" (linked nodes are close), "second" (nodes with the same neighbours are close) or
        "both" (K/2 dimensions each, concatenated).
    n_negatives
        Negative samples Q per link, drawn in proportion to degree to the power 3/4.
    batch_size
        Links per step, drawn in proportion to their weights.
    max_steps
        Number of gradient steps, for each order.
    learning_rate
        Initial learning rate of a single link; it decreases linearly to 0.
    progress
        Whether to show a progress bar.
    random_state
        Seed of the draws and of the initial vectors.

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
        """Return vectors (n, K), by gradient ascent on batches of links."""
        rng = np.random.default_rng([seed, int(second)])
        sampler = LinkSampler(flat, self.batch_size, self.n_negatives, rng)
        start = rng.uniform(-0.5, 0.5, (flat.W.shape[0], K)) / K
        Y = torch.from_numpy(start.astype(np.float32))
        C = torch.zeros_like(Y) if second else Y
        with single_thread(), Callbacks(training_progress(self.progress)) as bar:
            bar.start(0, Constant(self.max_steps))
            started = time.perf_counter()
            for step in range(self.max_steps):
                rate = self.learning_rate * (1 - step / self.max_steps)
                gradient_step(Y, C, sampler.draw(), rate)
                bar.step(step + 1, time.perf_counter() - started)
        if not torch.isfinite(Y).all():
            raise DivergedError(
                f"LINE diverged with learning_rate={self.learning_rate:g}: the vectors are not "
                "finite; choose a smaller learning_rate"
            )
        return np.asarray(Y.numpy())


def gradient_step(Y: torch.Tensor, C: torch.Tensor, batch: NegativeSamples, rate: float) -> None:
    """Update vectors Y and contexts C (which may be Y) by a step of gradient ascent, in place.

    The gradient is computed without autograd, so that only the rows in the batch are updated.
    """
    heads = torch.from_numpy(batch.heads)
    others = torch.from_numpy(np.column_stack([batch.tails, batch.noise]))  # (B, 1 + Q)
    y, c = Y[heads], C[others]
    slope = -torch.sigmoid(torch.einsum("bk,bqk->bq", y, c))
    slope[:, 0] += 1  # the first column holds the link
    slope *= rate
    _add(Y, heads, torch.einsum("bq,bqk->bk", slope, c))
    _add(C, others.ravel(), torch.einsum("bq,bk->bqk", slope, y).reshape(-1, Y.shape[1]))


def _add(vectors: torch.Tensor, rows: torch.Tensor, steps: torch.Tensor) -> None:
    """Add steps to rows; a row with more than MAX_REPEATS steps gets MAX_REPEATS mean steps."""
    _, position, counts = torch.unique(rows, return_inverse=True, return_counts=True)
    vectors.index_add_(0, rows, steps * (MAX_REPEATS / counts).clamp_(max=1)[position, None])


def _normalised(Y: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(Y, axis=1, keepdims=True)
    return np.asarray(np.divide(Y, length, out=np.zeros_like(Y), where=length > 0))
