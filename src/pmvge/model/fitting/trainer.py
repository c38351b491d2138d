"""Build the trainer of a fit: sampler, loss, schedule, validation and checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge import storage
from pmvge.distributed import SINGLE_PROCESS, Shards, World, combine_fingerprints
from pmvge.encoders import (
    MLP,
    Identity,
    LazyRows,
    Lookup,
    MultiViewEncoder,
    Zero,
    batch_norms,
    choose_priors,
)
from pmvge.errors import ParameterError
from pmvge.graph import MultiViewGraph, Pair
from pmvge.likelihoods import POISSON, BlockObjective, Family, PairObjective
from pmvge.model.fitting.priors import PriorUpdate, learned_priors
from pmvge.sampling import BatchStream, BlockSampler, PairSampler, prefetch_depth, row_gatherer
from pmvge.training import (
    Callback,
    Checkpoints,
    Decay,
    EncodedLoss,
    Plan,
    Schedule,
    Trainer,
    dropout_generator,
    fingerprint,
    make_schedule,
)

# Default length of training: DEFAULT_EPOCHS, clipped to DEFAULT_STEPS, but at least MIN_EPOCHS.
DEFAULT_EPOCHS, DEFAULT_STEPS, MIN_EPOCHS = 30, (1000, 3000), 3
# Bounds of the number of steps between checks, which is one epoch, or the longest training divided
# by AUTO_CHECKS where the schedule looks for a stall.
CHECK_STEPS, AUTO_CHECKS = (25, 500), 100
# Lazy Adam is used for weight matrices with at least LAZY_RATIO times as many rows as a batch
# needs. The ratio is smaller above LARGE_SIZE numbers, where dense gradients cost memory.
LAZY_RATIO, LARGE_LAZY_RATIO, LARGE_SIZE = 20, 5, 1 << 26
# Links, and uniform entities per side, of the validation block; with a schedule that validates
# often at most VALIDATION_BATCHES times those of a batch.
VALIDATION_BLOCK, VALIDATION_BATCHES = 2048, 4


def make_trainer(
    settings: dict[str, Any],
    network: MultiViewEncoder,
    graph: MultiViewGraph,
    held: MultiViewGraph | None,
    device: torch.device,
    seed: int,
    callbacks: Iterable[Callback] = (),
    *,
    shards: Shards = SINGLE_PROCESS,
    pair_weights: Mapping[Pair, float] | None = None,
    decay_steps: int | None = None,
) -> Trainer:
    """Return a trainer with the estimator's ``settings``.

    ``graph`` holds the training links, ``held`` the held-out links or None, ``shards`` how the
    graph is divided among processes, ``pair_weights`` the factors of view pairs. With
    ``decay_steps`` that many steps of a decaying rate take the place of the schedule. Raise
    ParameterError if the settings do not fit the graph.
    """
    world, share = shards.world, shards.link_share(graph)
    own = [world.rank] if world.size > 1 else []  # separate random numbers per process
    rng = np.random.default_rng([seed, 2, *own])
    B, rate = settings["batch_size"], settings["negative_rate"]
    objective: Any
    sampler: Any
    pair_weights = pair_weights or {}
    if settings["scheme"] == "block":
        family = _family(network)
        objective = BlockObjective(graph, network.pair_similarity, family)
        n_uniform = max(1, round(rate * B))
        sampler = BlockSampler(
            share,
            n_links=B,
            n_uniform=n_uniform,
            rng=rng,
            measure=family.measures(share.links),
            pair_weights=pair_weights,
        )
        drawn, n_entities = min(B, share.n_links), 2 * (B + n_uniform)
    else:
        objective = PairObjective(share, network.pair_similarity)
        sampler = PairSampler(share, m=B, r=rate, tau=settings["tau"], rng=rng)
        drawn, n_entities = sampler.n_links, 2 * B
    _check_batch_norm(network, graph)
    epoch = world.total(share.n_links) / world.total(drawn)
    plan = _plan(settings, epoch, validated=held is not None, decay_steps=decay_steps)
    lazy = _lazy_modules(network, graph, n_entities, world)
    trainer = Trainer(
        network,
        EncodedLoss(
            network,
            objective,
            device,
            settings["precision"],
            _prior_weights(network, sampler, world),
        ),
        BatchStream(
            sampler, rng, row_gatherer(graph, device), prefetch=prefetch_depth(graph, device)
        ),
        plan,
        callbacks=callbacks,
        objective=objective,
        validate=None
        if held is None
        else _validator(
            held, network, device, _validation_size(plan, B), [seed, 3, *own], pair_weights
        ),
        checkpoints=_checkpoints(settings, network, graph, held, seed, shards),
        lazy=lazy,
        world=world,
        find_unused_parameters=_has_unused_parameters(network, graph, lazy),
        after_step=_prior_update(
            settings,
            network,
            graph,
            seed,
            device,
            shards,
            n_entities // 2 * world.size,
            pair_weights,
        ),
    )
    if own:  # weights are initialised alike; from here on, dropout differs between processes
        dropout_generator(device).manual_seed(
            int(np.random.default_rng([seed, 5, *own]).integers(2**63))
        )
    return trainer


def _prior_weights(
    network: MultiViewEncoder, sampler: BlockSampler | PairSampler, world: World
) -> dict[str, NDArray[np.float64]]:
    """Return the weights of the priors of effects, for the views that have effects."""
    if not network.bias_pairs:
        return {}
    weights = sampler.prior_weights(world.total(sampler.total))
    return {view: part for view, part in weights.items() if network.effects_of(view) is not None}


def _prior_update(
    settings: dict[str, Any],
    network: MultiViewEncoder,
    graph: MultiViewGraph,
    seed: int,
    device: torch.device,
    shards: Shards,
    drawn: int,
    pair_weights: Mapping[Pair, float],
) -> PriorUpdate | None:
    """Return the update of learned priors; None if there are none."""
    kinds = {v: "vector" if v in network.bias_pairs else "none" for v in network.views}
    learned = learned_priors(network, choose_priors(settings["effects_prior"], kinds))
    if not learned:
        return None
    rng, measures = np.random.default_rng([seed, 6]), _family(network).measures(graph.links)
    return PriorUpdate(network, graph, learned, rng, device, shards, measures, drawn, pair_weights)


def _family(network: MultiViewEncoder) -> Family:
    """Return the likelihood family of a network; Poisson if it has none."""
    return network.family if isinstance(network.family, Family) else POISSON


def _lazy_modules(
    network: MultiViewEncoder, graph: MultiViewGraph, n_entities: int, world: World
) -> list[LazyRows]:
    """Return lookup encoders, and first layers for sparse rows, of which a batch uses few rows.

    ``n_entities`` is the maximum number of entities of a view in a batch.
    """
    needed: dict[LazyRows, float] = {}  # rows per batch
    for view, X in graph.views.items():
        if (effects := network.effects_of(view)) is not None:
            needed[effects] = n_entities
        if isinstance(X, np.ndarray):
            continue
        each = 1.0 if X is None else X.nnz / X.shape[0]
        for module in network.encoder_of(view).modules():
            if isinstance(module, LazyRows) and module.accessed_by_row:
                needed[module] = needed.get(module, 0.0) + n_entities * each
    return [
        module
        for module, rows in needed.items()
        if len(module.weight) >= _lazy_ratio(module) * world.mean(rows)  # equal in all processes
    ]


def _lazy_ratio(module: LazyRows) -> float:
    return LARGE_LAZY_RATIO if module.weight.numel() >= LARGE_SIZE else LAZY_RATIO


def _has_unused_parameters(
    network: MultiViewEncoder, graph: MultiViewGraph, lazy: Sequence[LazyRows]
) -> bool:
    """Return whether a batch, which has one view pair, can leave optimized weights unused."""
    built_in = (MLP, Lookup, Identity, Zero)
    if not all(isinstance(encoder, built_in) for encoder in network.encoders):
        return True  # a user-defined module may have weights that it does not use
    lazy_weights = {id(module.weight) for module in lazy}

    def optimized(module: nn.Module) -> set[int]:
        return {id(p) for p in module.parameters() if p.requires_grad} - lazy_weights

    weights = optimized(network) - optimized(network.similarity)
    used = (
        {p for view in pair for module in network.modules_of(view) for p in optimized(module)}
        | optimized(_family(network).for_pair(*pair))
        for pair in graph.links
    )
    return any(weights - part for part in used)


def _plan(
    settings: dict[str, Any], steps_per_epoch: float, *, validated: bool, decay_steps: int | None
) -> Plan:
    epochs, steps = settings["max_epochs"], settings["max_steps"]
    limits = [] if steps is None else [int(steps)]
    if epochs is not None:
        limits.append(max(1, math.ceil(epochs * steps_per_epoch)))
    max_steps = min(limits, default=_default_steps(steps_per_epoch))
    schedule: Schedule
    if decay_steps is not None:
        max_steps = decay_steps
        schedule = Decay(decay_steps)
    else:
        schedule = make_schedule(
            settings["schedule"],
            max_steps,
            settings["patience"],
            validated=validated,
            decay_every=settings["decay_every"],
            decay_factor=settings["decay_factor"],
        )
    between = steps_per_epoch if schedule.keeps_best else max_steps / AUTO_CHECKS
    return Plan(
        schedule,
        steps_per_epoch=steps_per_epoch,
        check_every=int(np.clip(round(between), *CHECK_STEPS)),
        learning_rate=float(settings["learning_rate"]),
        weight_decay=settings["weight_decay"],
        clip_norm=settings["clip_norm"],
    )


def _validation_size(plan: Plan, batch_size: int) -> int:
    limit = VALIDATION_BLOCK if plan.schedule.keeps_best else VALIDATION_BATCHES * batch_size
    return min(VALIDATION_BLOCK, limit)


def _default_steps(steps_per_epoch: float) -> int:
    """Return the number of steps if neither max_epochs nor max_steps is given."""
    least, most = DEFAULT_STEPS
    steps = max(least, DEFAULT_EPOCHS * steps_per_epoch)
    return math.ceil(min(steps, max(most, MIN_EPOCHS * steps_per_epoch)))


def _check_batch_norm(network: MultiViewEncoder, graph: MultiViewGraph) -> None:
    for view in {view for pair in graph.links for view in pair}:
        if graph.sizes[view] == 1 and batch_norms(network.encoder_of(view)):
            raise ParameterError(
                f"view {view!r}: batch normalisation needs at least two rows in a batch, but this "
                "view has one entity; give it an encoder without batch normalisation, such as "
                "EncoderSpec(batch_norm=False)"
            )


def _validator(
    held: MultiViewGraph,
    network: MultiViewEncoder,
    device: torch.device,
    size: int,
    seed: list[int],
    pair_weights: Mapping[Pair, float],
) -> Callable[[], float]:
    """Return a function that computes the gain on held-out links.

    The gain is the log-likelihood per unit of measure over that of a constant model, each with its
    best alpha, on blocks of ``size`` links that are drawn once. View pairs count as in training.
    """
    rng, family = np.random.default_rng(seed), _family(network)
    sampler = BlockSampler(
        held,
        n_links=size,
        n_uniform=size,
        rng=rng,
        measure=family.measures(held.links),
        pair_weights=pair_weights,
    )
    batches = list(sampler.each_pair())
    total = sum(batch.total for batch in batches)
    loss = EncodedLoss(network, BlockObjective(held, network.pair_similarity, family), device)
    gather = row_gatherer(held, device)

    def validate() -> float:
        return -sum(batch.total / total * float(loss(gather(batch)).value) for batch in batches)

    return validate


def _checkpoints(
    settings: dict[str, Any],
    network: MultiViewEncoder,
    graph: MultiViewGraph,
    held: MultiViewGraph | None,
    seed: int,
    shards: Shards,
) -> Checkpoints | None:
    if settings["checkpoint_dir"] is None:
        return None
    return Checkpoints(
        storage.make_folder(Path(settings["checkpoint_dir"]), "checkpoint"),
        settings["checkpoint_steps"],
        settings["checkpoint_seconds"],
        combine_fingerprints(shards, fingerprint(settings, network, graph, held, seed)),
        seed,
    )
