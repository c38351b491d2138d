"""From the settings of an estimator to a trainer: what it draws, descends, watches and writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pmvge import storage
from pmvge.distributed import WHOLE, Parts, World
from pmvge.encoders import MLP, Identity, Lookup, MultiViewEncoder, RowTable, batch_norms
from pmvge.errors import ParameterError
from pmvge.graph import MultiViewGraph
from pmvge.likelihoods import BlockObjective, PairObjective
from pmvge.sampling import BatchStream, BlockSampler, PairSampler, gatherer, how_far_ahead
from pmvge.training import (
    Checkpoints,
    EncodedLoss,
    Plan,
    Trainer,
    Watcher,
    fingerprint,
    generator_of,
)

EPOCHS, STEPS = 30, (1000, 3000)  # the default length of training: epochs within these steps,
FEWEST = 3  # but no fewer epochs than this
CHECK = (25, 500)  # steps between checks: an epoch, within these bounds
LAZY = 20  # tables with so many times more rows than a batch needs are updated row by row,
LARGE, LAZY_LARGE = 1 << 26, 5  # or so many times, of so many numbers: no gradient of all is made
VALIDATION_BLOCK = 2048  # links, and uniform nodes a side, of the block that validation looks at


def make_trainer(
    settings: dict[str, Any],
    network: MultiViewEncoder,
    graph: MultiViewGraph,
    held: MultiViewGraph | None,
    device: torch.device,
    seed: int,
    progress: Watcher,
    *,
    parts: Parts = WHOLE,
) -> Trainer:
    """Everything that a training run needs, from the settings of an estimator."""
    world, share = parts.world, parts.share_of(graph)
    own = [world.rank] if world.size > 1 else []  # every process draws for itself
    rng = np.random.default_rng([seed, 2, *own])
    B, rate = settings["batch_size"], settings["negative_rate"]
    objective: Any
    sampler: Any
    if settings["scheme"] == "block":
        objective = BlockObjective(share)
        n_uniform = max(1, round(rate * B))
        sampler = BlockSampler(share, n_links=B, n_uniform=n_uniform, rng=rng)
        drawn, nodes = min(B, share.n_links), 2 * (B + n_uniform)
    else:
        objective = PairObjective(share)
        sampler = PairSampler(share, m=B, r=rate, tau=settings["tau"], rng=rng)
        drawn, nodes = sampler.n_links, 2 * B
    _check_batch_norm(network, graph)
    lazy = _large_tables(network, graph, nodes, world)
    trainer = Trainer(
        network,
        EncodedLoss(network, objective, device, settings["precision"]),
        BatchStream(sampler, rng, gatherer(graph, device), ahead=how_far_ahead(graph, device)),
        _plan(settings, world.total(share.n_links) / world.total(drawn)),
        watcher=progress,
        objective=objective,
        validate=None if held is None else _validator(held, network, device, [seed, 3, *own]),
        checkpoints=_checkpoints(settings, network, graph, held, seed, parts),
        lazy=lazy,
        world=world,
        partly_used=_partly_used(network, graph, lazy),
    )
    if own:  # from here on dropout differs, too
        generator_of(device).manual_seed(
            int(np.random.default_rng([seed, 5, *own]).integers(2**63))
        )
    return trainer


def _large_tables(
    network: MultiViewEncoder, graph: MultiViewGraph, nodes: int, world: World
) -> list[RowTable]:
    """Look-ups, and first layers for sparse rows, of which a batch needs a small part.

    ``nodes`` is the most that a batch has of a view.
    """
    needed: dict[RowTable, float] = {}  # rows, by batch
    for view, X in graph.views.items():
        if isinstance(X, np.ndarray):
            continue
        each = 1.0 if X is None else X.nnz / X.shape[0]
        for module in network.of(view).modules():
            if isinstance(module, RowTable) and module.by_rows:
                needed[module] = needed.get(module, 0.0) + nodes * each
    return [
        table
        for table, rows in needed.items()
        if len(table.weight) >= _factor(table) * world.mean(rows)  # the same in all processes
    ]


def _factor(table: RowTable) -> float:
    return LAZY_LARGE if table.weight.numel() >= LARGE else LAZY


def _partly_used(
    network: MultiViewEncoder, graph: MultiViewGraph, lazy: Sequence[RowTable]
) -> bool:
    """Whether a batch, which is of one pair, leaves weights out that an optimizer moves."""
    if not all(isinstance(encoder, MLP | Lookup | Identity) for encoder in network.encoders):
        return True  # a module of the user's may have weights that it does not use
    apart = {id(table.weight) for table in lazy}

    def moved(module: nn.Module) -> set[int]:
        return {id(p) for p in module.parameters() if p.requires_grad} - apart

    every = moved(network)
    used = (moved(network.of(a)) | moved(network.of(b)) for a, b in graph.links)
    return any(every - moved(network.similarity) - part for part in used)


def _plan(settings: dict[str, Any], steps_per_epoch: float) -> Plan:
    epochs, steps = settings["max_epochs"], settings["max_steps"]
    limits = [] if steps is None else [int(steps)]
    if epochs is not None:
        limits.append(max(1, math.ceil(epochs * steps_per_epoch)))
    return Plan(
        max_steps=min(limits, default=_default_steps(steps_per_epoch)),
        steps_per_epoch=steps_per_epoch,
        check_every=int(np.clip(round(steps_per_epoch), *CHECK)),
        learning_rate=float(settings["learning_rate"]),
        schedule=settings["schedule"],
        decay_every=settings["decay_every"],
        decay_factor=settings["decay_factor"],
        weight_decay=settings["weight_decay"],
        clip_norm=settings["clip_norm"],
        patience=settings["patience"],
    )


def _default_steps(steps_per_epoch: float) -> int:
    """Long enough for a small graph, and short enough that a large one has a model in minutes."""
    least, most = STEPS
    wanted = min(max(least, EPOCHS * steps_per_epoch), max(most, FEWEST * steps_per_epoch))
    return math.ceil(wanted)


def _check_batch_norm(network: MultiViewEncoder, graph: MultiViewGraph) -> None:
    for view in {view for pair in graph.links for view in pair}:
        if graph.sizes[view] == 1 and batch_norms(network.of(view)):
            raise ParameterError(
                f"view {view!r}: batch normalisation needs at least two rows in a batch, but this "
                "view has one node; give it an encoder without, such as "
                "EncoderSpec(batch_norm=False)"
            )


def _validator(
    held: MultiViewGraph, network: MultiViewEncoder, device: torch.device, seed: list[int]
) -> Callable[[], float]:
    """The gain on held-out links: the profile likelihood per unit of weight, on fixed blocks."""
    rng = np.random.default_rng(seed)
    size = VALIDATION_BLOCK
    batches = list(BlockSampler(held, n_links=size, n_uniform=size, rng=rng).each_pair())
    share = {pair: links.total / held.total_weight for pair, links in held.links.items()}
    loss = EncodedLoss(network, BlockObjective(held), device)
    gather = gatherer(held, device)

    def validate() -> float:
        return -sum(share[batch.pair] * float(loss(gather(batch)).value) for batch in batches)

    return validate


def _checkpoints(
    settings: dict[str, Any],
    network: MultiViewEncoder,
    graph: MultiViewGraph,
    held: MultiViewGraph | None,
    seed: int,
    parts: Parts,
) -> Checkpoints | None:
    if settings["checkpoint_dir"] is None:
        return None
    return Checkpoints(
        storage.make_folder(Path(settings["checkpoint_dir"]), "checkpoint"),
        settings["checkpoint_steps"],
        settings["checkpoint_seconds"],
        parts.mark(fingerprint(settings, network, graph, held, seed)),
        seed,
    )
