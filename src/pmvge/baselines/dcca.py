"""Deep canonical correlation analysis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.baselines.gradient import build_encoders, embed_nodes, encode, seeded, train
from pmvge.baselines.linear import MappedCCA
from pmvge.baselines.negatives import weighted_draws
from pmvge.checks import real
from pmvge.encoders import embed_rows
from pmvge.graph import Features, Links, MultiViewGraph
from pmvge.training import History


class DCCA(MappedCCA):
    r"""Deep canonical correlation analysis.

    One network per view, trained to maximise the canonical correlations of their outputs over
    aligned rows. Many-to-many links become aligned rows, one per link, drawn in proportion to w.

    .. math:: \max_{f^{(1)}, f^{(2)}} \mathrm{tr} \bigl( \Sigma_{11}^{-1} \Sigma_{12}
              \Sigma_{22}^{-1} \Sigma_{21} \bigr), \quad
              \Sigma_{de} = \text{covariance of } f^{(d)}(x), f^{(e)}(x') \text{ over links}

    Choose it for two views with one-to-one links and a non-linear relation. Covariances are
    estimated from minibatches, so ``batch_size`` must be much larger than K.

    Parameters
    ----------
    n_components
        Dimension K of the vectors and of the networks' outputs.
    hidden_sizes, dropout
        Widths of the networks' hidden layers, and dropout rate after them.
    shrinkage
        Shrinkage of the covariances in the final linear CCA of the networks' outputs, from 0 to 1.
    ridge
        Added to the variances in a batch, as a share of their mean.
    batch_size, max_steps, learning_rate, weight_decay
        Links per step, number of steps, and learning rate and weight decay of Adam.
    random_state, progress
        Seed of the initial weights, draws and dropout; whether to show a progress bar.

    Attributes
    ----------
    eigenvalues_
        (k,), largest first, k at most K: the correlation along each axis if shrinkage is 0.
    history_
        The training history.

    References
    ----------
    G. Andrew, R. Arora, J. Bilmes and K. Livescu, "Deep canonical correlation analysis", ICML 2013.
    """

    many_to_many = False
    checks: ClassVar = {"ridge": real(0, open_low=True)}

    history_: History

    def __init__(
        self,
        n_components: int = 100,
        *,
        hidden_sizes: tuple[int, ...] = (256,),
        dropout: float = 0.3,
        shrinkage: float = 0.1,
        ridge: float = 0.01,
        batch_size: int = 1024,
        max_steps: int = 500,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        random_state: Any = None,
        progress: bool = True,
    ) -> None:
        self.n_components = n_components
        self.hidden_sizes = hidden_sizes
        self.dropout = dropout
        self.shrinkage = shrinkage
        self.ridge = ridge
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.progress = progress

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        ((pair, links),) = graph.links.items()
        rows = draw_rows(links, self.batch_size, np.random.default_rng(seed))
        with seeded(seed):
            network = build_encoders(
                graph,
                self.n_components,
                kind="mlp",
                hidden_sizes=self.hidden_sizes,
                dropout=self.dropout,
            )

            def loss(batch: NDArray[np.int64]) -> torch.Tensor:
                ends = (links.rows[batch], links.cols[batch])
                z = [
                    encode(network, graph, view, side.astype(np.int64))
                    for view, side in zip(pair, ends, strict=True)
                ]
                return -total_correlation(*z, ridge=self.ridge)

            self.history_ = train(
                network,
                rows,
                loss,
                steps=self.max_steps,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                progress=self.progress,
            )
        self._network = network
        return self._correlate(graph, embed_nodes(network, graph))

    def _embed(self, view: str, X: Features) -> NDArray[Any]:
        return self._project(view, embed_rows(self._network, view, X, None, self.n_components))


def draw_rows(links: Links, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield batches of links, drawn in proportion to their weights, without end."""
    cumulative = np.cumsum(links.weights)
    while True:
        yield weighted_draws(cumulative, size, rng)


def total_correlation(z: torch.Tensor, other: torch.Tensor, *, ridge: float) -> torch.Tensor:
    r"""Return the sum of the squared canonical correlations of aligned rows.

    .. math:: \mathrm{tr}(\Sigma_{11}^{-1} \Sigma_{12} \Sigma_{22}^{-1} \Sigma_{21})

    It is computed by two linear solves, which have a gradient also where eigenvalues of the
    covariances coincide; eigenvectors have none there.
    """
    n = len(z)
    z, other = z - z.mean(0), other - other.mean(0)
    cross = z.T @ other / (n - 1)
    left = torch.linalg.solve(_ridged(z.T @ z / (n - 1), ridge), cross)
    right = torch.linalg.solve(_ridged(other.T @ other / (n - 1), ridge), cross.T)
    total: torch.Tensor = (left * right.T).sum()
    return total


def _ridged(covariance: torch.Tensor, ridge: float) -> torch.Tensor:
    mean = covariance.diagonal().mean().detach().clamp(min=1e-12)
    return covariance + ridge * mean * torch.eye(len(covariance))
