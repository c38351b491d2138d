"""Methods trained by gradients: the package's one loop, its encoders, and a generator of their own.

Methods here run on the CPU: they are for comparison, on graphs that fit one machine.
"""

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
)
from pmvge.graph import MultiViewGraph, take
from pmvge.likelihoods import Loss
from pmvge.sampling import BatchStream
from pmvge.training import History, Plan, Trainer, private_rng, watcher

CPU = torch.device("cpu")


def descend(
    network: nn.Module,
    batches: Iterable[Any],
    loss: Callable[[Any], torch.Tensor],
    *,
    steps: int,
    learning_rate: float,
    weight_decay: float = 0.0,
    progress: bool = False,
) -> History:
    """Train a network for a number of steps, by the one gradient loop of the package."""
    plan = Plan(
        max_steps=steps,
        steps_per_epoch=float(steps),
        check_every=max(1, steps // 20),
        learning_rate=learning_rate,
        schedule="constant",
        decay_every=1,
        decay_factor=1.0,
        weight_decay=weight_decay,
        clip_norm=10.0,
        patience=None,
    )
    with watcher(progress) as told:
        return Trainer(
            network,
            lambda batch: Loss(loss(batch), {}),
            BatchStream(batches, np.random.default_rng(0)),  # a generator that nothing draws from
            plan,
            watcher=told,
        ).run()


def seeded(seed: int) -> AbstractContextManager[None]:
    """A context with torch's generator seeded inside, and as it was outside."""
    return private_rng(CPU, seed)


@contextmanager
def one_thread() -> Iterator[None]:
    """For many small operations: threads would wait for each other most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def embed_nodes(network: MultiViewEncoder, graph: MultiViewGraph) -> dict[str, NDArray[np.float32]]:
    """The vectors of all nodes."""
    return {
        view: embed_rows(network, view, X, np.arange(graph.sizes[view]) if X is None else None, 0)
        for view, X in graph.views.items()
    }


def build_encoders(
    graph: MultiViewGraph, n_out: int, *, kind: str, hidden_sizes: tuple[int, ...], dropout: float
) -> MultiViewEncoder:
    """The encoders that PMvGE would have ("mlp" or "linear"; look-ups for featureless views)."""
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
    choices = choose_encoders(kind, defaults, schemas)
    network = MultiViewEncoder(choices, schemas, n_out, "inner")
    set_input_scale(network, graph, choices)
    return network


def encode(
    network: MultiViewEncoder, graph: MultiViewGraph, view: str, nodes: NDArray[np.int64]
) -> torch.Tensor:
    """Vectors of some nodes of a view, differentiable."""
    X = graph.views[view]
    x = torch.from_numpy(nodes) if X is None else take(X, nodes, CPU)
    y: torch.Tensor = network(view, x)
    return y
