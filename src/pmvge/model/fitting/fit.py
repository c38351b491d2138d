"""Fit a model: validate, train, compute vectors and alpha."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import nn

from pmvge.distributed import (
    Shards,
    World,
    check_shards,
    gather_entities,
    join_process_group,
    process_device,
    restarted,
    total_weight,
)
from pmvge.encoders import (
    Choice,
    EncoderSpec,
    MultiViewEncoder,
    check_outputs,
    choose_effects,
    choose_encoders,
    choose_priors,
    schemas_of,
    set_input_scale,
    sparse_within,
)
from pmvge.errors import ParameterError, StorageError
from pmvge.graph import MultiViewGraph, Pair
from pmvge.likelihoods import Family, TrainedGraph, build_family, check_family
from pmvge.model.fitted import Alpha, Fitted
from pmvge.model.fitting.fit_inputs import check_graphs, choose_seed, resolve_hold_out, split_links
from pmvge.model.fitting.shares import feature_shares
from pmvge.model.fitting.starting import check_settings, copy_learned, match_graph, weights_hash
from pmvge.model.fitting.trained_outputs import (
    centre_biases,
    check_finite,
    embed_entities,
    embed_without_effects,
)
from pmvge.model.fitting.trainer import make_trainer
from pmvge.model.pair_weights import choose_pair_weights
from pmvge.model.parameters import check_parameters, choose_defaults, pick_device
from pmvge.model.training_links import TrainingLinks
from pmvge.progress import progress_bar
from pmvge.sampling import with_measure
from pmvge.similarities import SIMILARITIES, check_similarity
from pmvge.training import (
    Callback,
    Checkpoints,
    Trainer,
    check_precision,
    private_rng,
    training_progress,
)


def fit(
    settings: dict[str, Any],
    graph: MultiViewGraph,
    validation: MultiViewGraph | None,
    *,
    hold_out: float | None,
    resume: bool,
    sharded: bool,
    start: Fitted | None = None,
    decay_steps: int | None = None,
    callbacks: Iterable[Callback] = (),
) -> Fitted:
    """Return a trained model, with the vectors and alpha of the training graph.

    Training starts from what ``start`` has learned. With ``decay_steps`` its length is that number
    of steps, of a decaying rate. ``hold_out`` is the share of the links to hold out; None means
    ``validation_fraction``, or no links without ``patience``. With several processes, each trains
    on its share of the links. With ``sharded``, ``graph`` holds only that share. Raise GraphError,
    ParameterError or StorageError if the graphs, settings or checkpoint are not valid, and
    DivergedError if training diverges.
    """
    settings = resolve_hold_out(settings, validation, hold_out)
    check_parameters(settings)
    device = process_device(pick_device(settings["device"]))
    check_precision(settings["precision"], device)
    if start is not None and isinstance(graph, MultiViewGraph):
        graph = match_graph(start, graph)
    validation = check_graphs(graph, validation)
    settings = choose_defaults(settings, graph)
    if resume and settings["checkpoint_dir"] is None:
        raise ParameterError("fit(resume=True) needs checkpoint_dir, the folder of the checkpoint")
    world = join_process_group(device)
    shards = check_shards(world, graph, settings["scheme"], sharded)
    restart = settings["checkpoint_dir"] is not None and world.any(restarted())
    seed = world.broadcast(choose_seed(settings, resume or restart))
    schemas = schemas_of(graph)
    choices = choose_encoders(
        settings["encoder"],
        _default_spec(settings),
        schemas,
        unscaled=graph.unscaled_views,
        dropped=sparse_within(graph),
    )
    K = int(settings["n_components"])
    kept, held = graph, validation
    if validation is None and (settings["patience"] is not None or hold_out):
        kept, held = split_links(graph, settings["validation_fraction"], seed)
    if world.any(held is None):  # a process has too few links to hold some out
        kept, held = graph, None
    with private_rng(device, seed):
        family = build_family(settings["family"], tuple(graph.links))
        check_family(family, graph, validation, scheme=settings["scheme"])
        effects = _choose_effects(settings, kept, choices, shards)
        pair_weights = choose_pair_weights(settings, *_measures(kept, family, shards))
        if start is not None:
            check_settings(start, settings, family, effects)
        network = MultiViewEncoder(
            choices,
            schemas,
            K,
            settings["similarity"],
            family,
            effects=effects,
            pairs=tuple(graph.links),
        )
        if start is None:
            set_input_scale(network, graph, choices)
        else:
            copy_learned(network, start, graph, kept)
        check_similarity(network.similarity, K)
        network.to(device)
        _hold_unlinked(network, kept, world)
        check_outputs(network, graph, K)
        early = None if settings["patience"] is None else held
        trainer = make_trainer(
            settings if start is None else {**settings, "start": weights_hash(start)},
            network,
            kept,
            early,
            device,
            seed,
            [*training_progress(settings["progress"]), *callbacks] if world.first else [],
            shards=shards,
            pair_weights=pair_weights,
            decay_steps=decay_steps,
        )
        if trainer.checkpoints and (resume or restart):
            _resume(trainer, trainer.checkpoints, world, of_this_run=not resume)
        history = trainer.run()
    shown = settings["progress"] and world.first
    own = embed_entities(network, graph, K, shards, shown)
    ids, outputs = gather_entities(shards, graph.ids, own)
    check_finite(ids, outputs)
    centre_biases(network, own, outputs)
    with progress_bar("alpha", shown) as on_progress:
        rng = np.random.default_rng(
            [seed, 4, *([world.rank] if world.size > 1 and sharded else [])]
        )
        trained = TrainedGraph(graph, validation, own, outputs, network.pair_similarity, shards)
        alphas = family.fit_alphas(trained, rng, on_progress)
    fixed = isinstance(settings["random_state"], Integral)
    return Fitted(
        settings={**settings, "random_state": settings["random_state"] if fixed else seed},
        network=network,
        choices=choices,
        schemas={view: replace(schema, n=len(ids[view])) for view, schema in schemas.items()},
        n_components=K,
        effects=effects,
        outputs=outputs,
        ids={view: names.copy() for view, names in ids.items()},
        given_ids=graph.given_ids,
        alpha={pair: Alpha(*alpha, pair_weights.get(pair, 1.0)) for pair, alpha in alphas.items()},
        history=history,
        seed=seed,
        tables=graph.tables,
        # Links of one process of several are not those of the model.
        links=None if sharded and world.size > 1 else TrainingLinks.of(kept, held),
        shares=feature_shares(network, graph, own, np.random.default_rng([seed, 7])),
        plain=embed_without_effects(network, graph, K, shards, shown),
    )


def _choose_effects(
    settings: dict[str, Any],
    graph: MultiViewGraph,
    choices: Mapping[str, Choice],
    shards: Shards,
) -> dict[str, str]:
    """Return the effects of every view; raise ParameterError if the settings do not fit."""
    linked = {view for pair in graph.links for view in pair}
    biased = SIMILARITIES[settings["similarity"]].takes_biases
    fixed = [
        view
        for view, choice in choices.items()
        if not biased
        or view in shards.split_views
        or (isinstance(choice, EncoderSpec) and choice.kind == "identity")
        or (isinstance(choice, nn.Module) and graph.views[view] is None)
    ]
    effects = choose_effects(
        settings["effects"], {view: view in linked for view in graph.view_names}, fixed
    )
    choose_priors(settings["effects_prior"], effects)
    for view, kind in effects.items():
        if kind != "none" and view in shards.split_views:
            raise ParameterError(
                f"effects: view {view!r}: expected the same entities in all processes, got others; "
                f"use effects={{{view!r}: 'none'}}"
            )
    return effects


def _measures(
    graph: MultiViewGraph, family: Family, shards: Shards
) -> tuple[dict[Pair, float], dict[Pair, float]]:
    """Return the total measure and the number of each view pair's links, over all processes."""
    measures, counts = {}, {}
    for pair, links in graph.links.items():
        measures[pair] = total_weight(
            shards, with_measure(links, family.for_pair(*pair).measure).total
        )
        counts[pair] = total_weight(shards, len(links))
    return measures, counts


def _hold_unlinked(network: MultiViewEncoder, graph: MultiViewGraph, world: World) -> None:
    """Hold the effects of entities without training links, in any process, at 0."""
    for view in network.bias_pairs:
        effects = network.effects_of(view)
        if effects is None:
            continue
        linked = np.zeros(graph.sizes[view], bool)
        for pair, links in graph.links.items():
            for side, ends in zip(pair, (links.rows, links.cols), strict=True):
                if side == view:
                    linked[ends] = True
        parts = [np.frombuffer(part, bool) for part in world.gather(linked.tobytes())]
        effects.hold_unlinked(torch.from_numpy(np.logical_or.reduce(parts)))


def _default_spec(settings: dict[str, Any]) -> EncoderSpec:
    return EncoderSpec(
        kind="mlp",
        hidden_sizes=tuple(map(int, settings["hidden_sizes"])),
        activation=settings["activation"],
        output_activation=settings["output_activation"],
        batch_norm=settings["batch_norm"],
        dropout=settings["dropout"],
        input_dropout=settings["input_dropout"],
        standardize=settings["standardize"],
    )


def _resume(trainer: Trainer, checkpoints: Checkpoints, world: World, *, of_this_run: bool) -> None:
    """Set the trainer to the state of the checkpoint, if there is one."""
    saved = checkpoints.read(of_this_run=of_this_run)
    if saved is not None:
        trainer.resume(*saved)
        if world.first:
            checkpoints.restore_previous()
    if len(set(world.gather(str(trainer.step).encode()))) > 1:
        raise StorageError(
            f"{checkpoints.folder}: expected a folder that all processes share, but they read "
            "different checkpoints"
        )
