"""Train baselines on the CPU, with the encoders and the training loop of PMvGE."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge.encoders import (
    EncoderSpec,
    MultiViewEncoder,
    choose_encoders,
    embed_rows,
    schemas_of,
    set_input_scale,
    sparse_within,
)
from pmvge.graph import MultiViewGraph, take
from pmvge.likelihoods import Loss
from pmvge.sampling import BatchStream
from pmvge.training import Constant, History, Plan, Trainer, private_rng, training_progress

CPU = torch.device("cpu")


def train(
    network: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[Any], torch.Tensor],
    *,
    steps: int,
    learning_rate: float,
    weight_decay: float = 0.0,
    progress: bool = False,
) -> History:
    """Train a network for a number of steps with :class:`~pmvge.training.Trainer`.

    ``loss`` maps a batch to a scalar; ``progress`` shows a bar. Return the training history. Raise
    DivergedError if the loss or a gradient is not finite.
    """
    plan = Plan(
        Constant(steps),
        steps_per_epoch=float(steps),
        check_every=max(1, steps // 20),
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        clip_norm=10.0,
    )
    return Trainer(
        network,
        lambda batch: Loss(loss(batch), {}),
        BatchStream(batches, np.random.default_rng(0)),  # a generator that is not used
        plan,
        callbacks=training_progress(progress),
    ).run()


def seeded(seed: int) -> AbstractContextManager[None]:
    """Return a context in which torch's generator is seeded; its state is restored at the end."""
    return private_rng(CPU, seed)


@contextmanager
def single_thread() -> Iterator[None]:
    """Use one torch thread in the context: several threads slow small operations down."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def embed_nodes(network: MultiViewEncoder, graph: MultiViewGraph) -> dict[str, NDArray[np.float32]]:
    """Return the vectors of all entities, by view."""
    return {
        view: embed_rows(network, view, X, np.arange(graph.sizes[view]) if X is None else None, 0)
        for view, X in graph.views.items()
    }


def build_encoders(
    graph: MultiViewGraph, n_out: int, *, kind: str, hidden_sizes: tuple[int, ...], dropout: float
) -> MultiViewEncoder:
    """Return the encoders that PMvGE uses for ``kind`` "mlp" or "linear".

    A view without features gets one free vector per entity.
    """
    defaults = EncoderSpec(
        kind=kind,
        hidden_sizes=tuple(hidden_sizes),
        activation="relu",
        output_activation="identity",
        batch_norm=False,
        dropout=dropout,
        standardize=True,
    )
    schemas = schemas_of(graph)
    choices = choose_encoders(kind, defaults, schemas, dropped=sparse_within(graph))
    network = MultiViewEncoder(choices, schemas, n_out, "inner")
    set_input_scale(network, graph, choices)
    return network


def encode(
    network: MultiViewEncoder, graph: MultiViewGraph, view: str, nodes: NDArray[np.int64]
) -> torch.Tensor:
    """Return the vectors of some entities of a view, with gradients."""
    X = graph.views[view]
    x = torch.from_numpy(nodes) if X is None else take(X, nodes, CPU)
    y: torch.Tensor = network(view, x)
    return y
