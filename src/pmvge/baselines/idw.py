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
from pmvge.baselines.gradient import build_encoders, descend, embed_nodes, encode, seeded
from pmvge.baselines.negatives import Contrast, inner_contrast_loss, weighted_draws
from pmvge.checks import whole
from pmvge.encoders import MultiViewEncoder, embed_rows
from pmvge.graph import Features, MultiViewGraph, WalkSampler, cooccurrences

WALKS, PAIRS = 1000, 20_000  # pairs drawn from walks made together: not many from one walk


class IDW(Baseline):
    r"""Inductive DeepWalk.

    It is DeepWalk with the vector of a node computed from its features by a network. Nodes that
    often meet in random walks get large inner products of one's vector with the other's context
    vector, which stays a free parameter.

    .. math:: \max_{f, c} \sum_{(i, j) \in \text{walks}} [ \log \sigma(\langle c_j, f(x_i) \rangle)
              + \sum_{k=1}^Q \log \sigma(-\langle c_k, f(x_i) \rangle) ]

    Choose it for one view with features when new nodes come without links. The context vectors
    cost memory for every node, and it takes no second view.

    Parameters
    ----------
    n_components
        Dimension K.
    hidden_sizes
        Widths of the network's hidden layers.
    dropout
        Rate of dropout after hidden layers.
    walk_length
        Nodes in a walk.
    window
        How far apart in a walk two nodes may be to count as a pair.
    n_negatives
        Noise nodes Q for each pair, drawn in proportion to degree to the power 3/4.
    batch_size
        Pairs in a step.
    max_steps
        Steps.
    learning_rate, weight_decay
        Of Adam.
    progress
        Whether to show a bar, on terminals.
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

    checks: ClassVar = {"walk_length": whole(2), "window": whole(1)}

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

            def loss(batch: Contrast) -> torch.Tensor:
                heads, place = np.unique(batch.heads, return_inverse=True)  # each encoded once
                y = encode(network, graph, view, heads)[torch.from_numpy(place)]
                tails, noise = map(torch.from_numpy, (batch.tails, batch.noise))
                return inner_contrast_loss(y, contexts(tails), contexts(noise))

            descend(
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

    def _batches(self, flat: FlatGraph, rng: np.random.Generator) -> Iterator[Contrast]:
        """Pairs from walks from every linked node, over and over, with noise."""
        sampler = WalkSampler(flat.W)
        frequency = np.cumsum(flat.degrees**0.75)
        starts = np.flatnonzero(flat.degrees)
        B = self.batch_size
        heads, tails = np.empty(0, np.int64), np.empty(0, np.int64)
        while True:
            while len(heads) < B:
                walks = sampler.walk(rng.choice(starts, WALKS), self.walk_length, rng)
                more = np.stack(cooccurrences(walks, self.window))
                kept = more[:, rng.permutation(more.shape[1])[:PAIRS]]
                heads, tails = np.hstack([[heads, tails], kept])
            noise = weighted_draws(frequency, B * self.n_negatives, rng).reshape(
                B, self.n_negatives
            )
            yield Contrast(heads[:B], tails[:B], noise)
            heads, tails = heads[B:], tails[B:]
