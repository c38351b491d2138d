"""Inductive DeepWalk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge.baselines.base import Baseline
from pmvge.baselines.flattening import FlatGraph, flatten
from pmvge.baselines.gradient import build_encoders, embed_nodes, encode, seeded, train
from pmvge.baselines.negatives import NegativeSamples, inner_product_loss, weighted_draws
from pmvge.checks import integer
from pmvge.encoders import MultiViewEncoder, embed_rows
from pmvge.graph import Features, MultiViewGraph, WalkSampler, cooccurrences

WALKS = 1000  # walks drawn at once
PAIRS = 20_000  # pairs kept of them, at random: few pairs of a batch are from the same walk


class IDW(Baseline):
    r"""Inductive DeepWalk.

    DeepWalk with vectors that a network computes from the nodes' features. A node's vector gets
    large inner products with the context vectors of the nodes near it in random walks; context
    vectors are free parameters.

    .. math:: \max_{f, c} \sum_{(i, j) \in \text{walks}} [ \log \sigma(\langle c_j, f(x_i) \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle c_k, f(x_i) \rangle) ]

    Choose it for one view with features, when new nodes have no links. The context vectors need
    memory for every node.

    Parameters
    ----------
    n_components
        Dimension K.
    hidden_sizes
        Widths of the network's hidden layers.
    dropout
        Dropout rate after hidden layers.
    walk_length
        Nodes in a walk.
    window
        Largest distance of two nodes in a walk that count as a pair.
    n_negatives
        Negative samples Q per pair, drawn in proportion to degree to the power 3/4.
    batch_size
        Pairs per step.
    max_steps
        Number of gradient steps.
    learning_rate, weight_decay
        Learning rate and weight decay of Adam.
    progress
        Whether to show a progress bar.
    random_state
        Seed of the walks and of the network.

    References
    ----------
    Q. Dai, Q. Li, J. Tang and D. Wang, "Adversarial network embedding", AAAI 2018.
    """

    n_views = 1
    many_to_many = True
    nonlinear = True
    inductive = True
    likelihood_based = True

    checks: ClassVar = {"walk_length": integer(2), "window": integer(1)}

    def __init__(
        self,
        n_components: int = 100,
        *,
        hidden_sizes: tuple[int, ...] = (512,),
        dropout: float = 0.0,
        walk_length: int = 40,
        window: int = 10,
        n_negatives: int = 5,
        batch_size: int = 512,
        max_steps: int = 1000,
        learning_rate: float = 2e-3,
        weight_decay: float = 0.0,
        progress: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.hidden_sizes = hidden_sizes
        self.dropout = dropout
        self.walk_length = walk_length
        self.window = window
        self.n_negatives = n_negatives
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.progress = progress
        self.random_state = random_state

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        (view,) = graph.view_names
        flat = flatten(graph)
        with seeded(seed):
            network = build_encoders(
                graph,
                self.n_components,
                kind="mlp",
                hidden_sizes=self.hidden_sizes,
                dropout=self.dropout,
            )
            contexts = nn.Embedding(graph.n_nodes, self.n_components)
            nn.init.zeros_(contexts.weight)

            def loss(batch: NegativeSamples) -> torch.Tensor:
                heads, position = np.unique(batch.heads, return_inverse=True)  # encode each once
                y = encode(network, graph, view, heads)[torch.from_numpy(position)]
                tails, noise = map(torch.from_numpy, (batch.tails, batch.noise))
                return inner_product_loss(y, contexts(tails), contexts(noise))

            train(
                nn.ModuleList([network, contexts]),
                self._batches(flat, np.random.default_rng([seed, 0])),
                loss,
                steps=self.max_steps,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                progress=self.progress,
            )
        self._network: MultiViewEncoder = network
        return embed_nodes(network, graph)

    def _embed(self, view: str, X: Features) -> NDArray[np.float32]:
        return embed_rows(self._network, view, X, None, self.n_components)

    def _batches(self, flat: FlatGraph, rng: np.random.Generator) -> Iterator[NegativeSamples]:
        """Yield batches of pairs from random walks, with negative samples, without end."""
        sampler = WalkSampler(flat.W)
        frequency = np.cumsum(flat.degrees**0.75)
        starts = np.flatnonzero(flat.degrees)
        B = self.batch_size
        heads, tails = np.empty(0, np.int64), np.empty(0, np.int64)
        while True:
            while len(heads) < B:
                walks = sampler.walk(rng.choice(starts, WALKS), self.walk_length, rng)
                pairs = np.stack(cooccurrences(walks, self.window))
                kept = pairs[:, rng.permutation(pairs.shape[1])[:PAIRS]]
                heads, tails = np.hstack([[heads, tails], kept])
            noise = weighted_draws(frequency, B * self.n_negatives, rng).reshape(
                B, self.n_negatives
            )
            yield NegativeSamples(heads[:B], tails[:B], noise)
            heads, tails = heads[B:], tails[B:]
