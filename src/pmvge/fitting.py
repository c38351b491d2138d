"""From settings and a graph to everything a fitted model knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge import storage
from pmvge.batches import BatchStream, gatherer, how_far_ahead
from pmvge.checkpoints import Checkpoints, fingerprint, saved_seed
from pmvge.distributed import World, join, own_device, restarted
from pmvge.encoded import EncodedLoss, check_precision
from pmvge.encoders import EncoderSpec, RowTable, batch_norms
from pmvge.errors import GraphError, ParameterError
from pmvge.features import Features
from pmvge.graph import MultiViewGraph
from pmvge.history import History
from pmvge.ids import Ids
from pmvge.likelihood import LogPartition, log_alpha_hat
from pmvge.links import Pair
from pmvge.network import (
    Choice,
    MultiViewEncoder,
    Tell,
    ViewSchema,
    check_outputs,
    choose_encoders,
    embed_rows,
    schemas_of,
    set_input_scale,
)
from pmvge.objectives import BlockObjective, PairObjective
from pmvge.parameters import check_parameters, pick_device, pick_seed
from pmvge.progress import Watcher, passing, watcher
from pmvge.sampling import BlockSampler, PairSampler
from pmvge.shards import WHOLE, Parts, check_parts
from pmvge.split import hold_out_links
from pmvge.training import Plan, Trainer

EPOCHS, STEPS = 30, (1000, 3000)  # the default length of training: epochs within these steps,
FEWEST = 3  # but no fewer epochs than this
CHECK = (25, 500)  # steps between checks: an epoch, within these bounds
LAZY = 20  # tables with so many times more rows than a batch needs are updated row by row
VALIDATION_BLOCK = 2048  # links, and uniform nodes a side, of the block that validation looks at


@dataclass(frozen=True)
class Alpha:
    """log alpha of one view pair, and how it was computed."""

    log_value: float
    relative_error: float  # a standard error; 0: computed exactly
    weight: float  # the total weight that it was computed from

    @property
    def value(self) -> float:
        """alpha, which is 0 or infinite where a float cannot hold it."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.log_value))


@dataclass(frozen=True, eq=False)
class Fitted:
    """What training leaves behind. No reference to the data."""

    network: MultiViewEncoder
    choices: Mapping[str, Choice]
    schemas: Mapping[str, ViewSchema]
    n_components: int
    embeddings: dict[str, NDArray[np.float32]]
    ids: dict[str, Ids]
    alpha: dict[Pair, Alpha]
    history: History
    seed: int
    tables: Mapping[str, Any] | None  # how raw tables become rows, if the graph was read from some


def fit(
    settings: dict[str, Any],
    graph: MultiViewGraph,
    validation: MultiViewGraph | None,
    *,
    resume: bool,
    sharded: bool,
) -> Fitted:
    """Validate, train, and compute embeddings and alpha of the training nodes.

    In several processes each trains on its share of the links: ``graph`` itself if it is
    ``sharded`` already, with links of its own in each of them.
    """
    check_parameters(settings)
    device = own_device(pick_device(settings["device"]))
    check_precision(settings["precision"], device)
    validation = _check_graphs(graph, validation)
    if resume and settings["checkpoint_dir"] is None:
        raise ParameterError("fit(resume=True) needs checkpoint_dir, the place of the checkpoint")
    world = join(device)
    parts = check_parts(world, graph, settings["scheme"], sharded)
    resume = resume or (restarted() and settings["checkpoint_dir"] is not None)
    seed = world.from_first(_pick_seed(settings, resume))
    schemas = schemas_of(graph)
    choices = choose_encoders(settings["encoder"], _default_spec(settings), schemas)
    K = int(settings["n_components"])
    kept, held = _validation_part(graph, validation, settings, seed)
    if world.any(held is None):  # too few links in one of the parts
        kept, held = graph, None
    with private_rng(device, seed):
        network = MultiViewEncoder(choices, schemas, K, settings["similarity"])
        set_input_scale(network, graph, choices)
        network.to(device)
        check_outputs(network, graph, K)
        with watcher(settings["progress"] and world.first) as progress:
            trainer = make_trainer(
                settings, network, kept, held, device, seed, progress, parts=parts
            )
            if resume and trainer.checkpoints and (saved := trainer.checkpoints.read()):
                trainer.resume(*saved)
            history = trainer.run()
    shown = settings["progress"] and world.first
    own = _embed_nodes(network, graph, K, parts, shown)
    ids, embeddings = parts.join_nodes(graph.ids, own)
    with passing("alpha", shown) as tell:
        rng = np.random.default_rng([seed, 4])
        log_Z = parts.log_partitions(graph, own, embeddings, rng, tell)
    return Fitted(
        network=network,
        choices=choices,
        schemas={view: replace(schema, n=len(ids[view])) for view, schema in schemas.items()},
        n_components=K,
        embeddings=embeddings,
        ids={view: known.copy() for view, known in ids.items()},
        alpha=_alphas(graph, validation, log_Z, parts),
        history=history,
        seed=seed,
        tables=graph.tables,
    )


def _check_graphs(
    graph: MultiViewGraph, validation: MultiViewGraph | None
) -> MultiViewGraph | None:
    """The validation graph, with its pairs named as in the training graph."""
    if not isinstance(graph, MultiViewGraph):
        raise GraphError(f"fit: expected a MultiViewGraph, got {type(graph).__name__}")
    if graph.total_weight <= 0:
        raise GraphError("fit: the graph has no links at all: there is nothing to learn from")
    if validation is None:
        return None
    if not isinstance(validation, MultiViewGraph):
        raise GraphError(f"validation: expected a MultiViewGraph, got {type(validation).__name__}")
    same = validation.view_names == graph.view_names and all(
        np.array_equal(validation.ids[view], ids) for view, ids in graph.ids.items()
    )
    if not same:
        raise GraphError(
            "validation: expected held-out links on the same views and ids as the training graph"
        )
    if validation.total_weight <= 0:
        raise GraphError("validation: the graph has no links at all")
    links = {}
    for (a, b), held in validation.links.items():
        if (a, b) in graph.links:
            links[a, b] = held
        elif (b, a) in graph.links:
            links[b, a] = held.transposed()
        else:
            raise GraphError(f"validation: links {(a, b)!r} are not a pair of the training graph")
    return validation.with_links(links)


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


def _validation_part(
    graph: MultiViewGraph, validation: MultiViewGraph | None, settings: dict[str, Any], seed: int
) -> tuple[MultiViewGraph, MultiViewGraph | None]:
    """The links to train on, and those to watch (None if there are none)."""
    if settings["patience"] is None:
        return graph, None
    if validation is not None:
        return graph, validation
    rng = np.random.default_rng([seed, 1])
    kept, held = hold_out_links(graph, settings["validation_fraction"], rng)
    return (kept, held) if held.total_weight > 0 else (graph, None)


@contextmanager
def private_rng(device: torch.device, seed: int) -> Iterator[None]:
    """torch's generators, seeded inside and as they were outside: dropout has no other source."""
    cpu = device.type == "cpu"
    with torch.random.fork_rng([] if cpu else [device], device_type="cuda" if cpu else device.type):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would reach all devices
        if not cpu:
            torch.get_device_module(device).manual_seed(seed)
        yield


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
    lazy = _large_tables(network, graph, nodes * world.size, world)
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
        other = np.random.default_rng([seed, 5, *own])
        torch.default_generator.manual_seed(int(other.integers(2**63)))
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
        if len(table.weight) >= LAZY * world.mean(rows)  # the same answer in all processes
    ]


def _partly_used(
    network: MultiViewEncoder, graph: MultiViewGraph, lazy: Sequence[RowTable]
) -> bool:
    """Whether a batch, which is of one pair, leaves weights out that an optimizer moves."""
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


def _embed_nodes(
    network: MultiViewEncoder, graph: MultiViewGraph, K: int, parts: Parts, shown: bool
) -> dict[str, NDArray[np.float32]]:
    """The embeddings of all nodes, or of those that this process has."""
    vectors = {}
    for view, X in graph.views.items():
        with passing(f"embedding {view}", shown) as tell:
            embed = partial(_embed_range, network, view, X, K, tell)
            vectors[view] = parts.divide(view, graph.sizes[view], embed)
    return vectors


def _embed_range(
    network: MultiViewEncoder, view: str, X: Features | None, K: int, tell: Tell | None, rows: slice
) -> NDArray[np.float32]:
    if X is None:
        return embed_rows(network, view, None, np.arange(rows.start, rows.stop), K, tell=tell)
    return embed_rows(network, view, X[rows], None, K, tell=tell)


def _alphas(
    graph: MultiViewGraph,
    validation: MultiViewGraph | None,
    log_Z: Mapping[Pair, LogPartition],
    parts: Parts,
) -> dict[Pair, Alpha]:
    """alpha-hat over all links given, those held out for validation included."""
    alphas = {}
    for pair, found in log_Z.items():
        total = graph.links[pair].total
        if validation is not None and pair in validation.links:
            total += validation.links[pair].total
        total = parts.total(total)
        alphas[pair] = Alpha(log_alpha_hat(total, found.value), found.standard_error, total)
    return alphas


def _pick_seed(settings: dict[str, Any], resume: bool) -> int:
    """A seed from ``random_state``; a run that had no fixed one goes on with its own."""
    seed = pick_seed(settings["random_state"])
    if not resume or isinstance(settings["random_state"], Integral):
        return seed
    saved = saved_seed(Path(settings["checkpoint_dir"]))
    return seed if saved is None else saved


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
