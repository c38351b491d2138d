"""From settings and a graph to everything a fitted model knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge import storage
from pmvge.checkpoints import Checkpoints, fingerprint, saved_seed
from pmvge.encoders import EncoderSpec, RowTable, batch_norms
from pmvge.errors import GraphError, ParameterError
from pmvge.features import take
from pmvge.graph import MultiViewGraph
from pmvge.history import History
from pmvge.ids import Ids
from pmvge.likelihood import graph_log_partitions, log_alpha_hat
from pmvge.links import Pair
from pmvge.network import (
    Choice,
    MultiViewEncoder,
    ViewSchema,
    check_outputs,
    choose_encoders,
    embed_rows,
    schemas_of,
    set_input_scale,
)
from pmvge.objectives import BlockObjective, Encode, PairObjective
from pmvge.parameters import check_parameters, pick_device, pick_seed
from pmvge.progress import Watcher, watcher
from pmvge.sampling import BlockSampler, PairSampler
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
) -> Fitted:
    """Validate, train, and compute embeddings and alpha of the training nodes."""
    check_parameters(settings)
    device = pick_device(settings["device"])
    validation = _check_graphs(graph, validation)
    if resume and settings["checkpoint_dir"] is None:
        raise ParameterError("fit(resume=True) needs checkpoint_dir, the place of the checkpoint")
    seed = _pick_seed(settings, resume)
    schemas = schemas_of(graph)
    choices = choose_encoders(settings["encoder"], _default_spec(settings), schemas)
    K = int(settings["n_components"])
    kept, held = _validation_part(graph, validation, settings, seed)
    with private_rng(device, seed):
        network = MultiViewEncoder(choices, schemas, K, settings["similarity"])
        set_input_scale(network, graph, choices)
        network.to(device)
        check_outputs(network, graph, K)
        with watcher(settings["progress"]) as progress:
            trainer = make_trainer(settings, network, kept, held, device, seed, progress)
            if resume and trainer.checkpoints and (saved := trainer.checkpoints.read()):
                trainer.resume(*saved)
            history = trainer.run()
    embeddings = {
        view: embed_rows(network, view, X, np.arange(n) if X is None else None, K)
        for (view, X), n in zip(graph.views.items(), graph.sizes.values(), strict=True)
    }
    return Fitted(
        network=network,
        choices=choices,
        schemas=schemas,
        n_components=K,
        embeddings=embeddings,
        ids={view: ids.copy() for view, ids in graph.ids.items()},
        alpha=_alphas(graph, validation, embeddings, seed),
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
) -> Trainer:
    """Everything that a training run needs, from the settings of an estimator."""
    rng = np.random.default_rng([seed, 2])
    B, rate = settings["batch_size"], settings["negative_rate"]
    objective: Any
    sampler: Any
    if settings["scheme"] == "block":
        objective = BlockObjective(graph)
        n_uniform = max(1, round(rate * B))
        sampler = BlockSampler(graph, n_links=B, n_uniform=n_uniform, rng=rng)
        drawn, nodes = min(B, graph.n_links), 2 * (B + n_uniform)
    else:
        objective = PairObjective(graph)
        sampler = PairSampler(graph, m=B, r=rate, tau=settings["tau"], rng=rng)
        drawn, nodes = sampler.n_links, 2 * B
    _check_batch_norm(network, graph)
    encode = _encoder_of(network, graph, device)
    return Trainer(
        network,
        objective,
        sampler,
        rng,
        encode,
        _plan(settings, graph.n_links / drawn),
        validate=None if held is None else _validator(held, encode, seed),
        checkpoints=_checkpoints(settings, network, graph, held, seed),
        watcher=progress,
        lazy=_large_tables(network, graph, nodes),
    )


def _large_tables(network: MultiViewEncoder, graph: MultiViewGraph, nodes: int) -> list[RowTable]:
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
    return [table for table, rows in needed.items() if len(table.weight) >= LAZY * rows]


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


def _encoder_of(network: MultiViewEncoder, graph: MultiViewGraph, device: torch.device) -> Encode:
    """What objectives call: nodes of a view to embeddings."""
    norms = {view: batch_norms(network.of(view)) for view in graph.view_names}

    def encode(view: str, nodes: NDArray[np.int64]) -> torch.Tensor:
        X = graph.views[view]
        x = torch.from_numpy(nodes).to(device) if X is None else take(X, nodes, device)
        if len(nodes) > 1 or not network.training or not norms[view]:
            y: torch.Tensor = network(view, x)
            return y
        # One row has no batch statistics: use the running ones.
        for norm in norms[view]:
            norm.eval()
        y = network(view, x)
        for norm in norms[view]:
            norm.train()
        return y

    return encode


def _validator(held: MultiViewGraph, encode: Encode, seed: int) -> Callable[[], float]:
    """The gain on held-out links: the profile likelihood per unit of weight, on fixed blocks."""
    rng = np.random.default_rng([seed, 3])
    size = VALIDATION_BLOCK
    batches = list(BlockSampler(held, n_links=size, n_uniform=size, rng=rng).each_pair())
    share = {pair: links.total / held.total_weight for pair, links in held.links.items()}
    objective = BlockObjective(held)

    def validate() -> float:
        return -sum(share[batch.pair] * float(objective(batch, encode).value) for batch in batches)

    return validate


def _alphas(
    graph: MultiViewGraph,
    validation: MultiViewGraph | None,
    Y: Mapping[str, NDArray[np.float32]],
    seed: int,
) -> dict[Pair, Alpha]:
    """alpha-hat over all links given, those held out for validation included."""
    rng = np.random.default_rng([seed, 4])
    alphas = {}
    for pair, log_Z in graph_log_partitions(graph, Y, rng=rng).items():
        total = graph.links[pair].total
        if validation is not None and pair in validation.links:
            total += validation.links[pair].total
        alphas[pair] = Alpha(log_alpha_hat(total, log_Z.value), log_Z.standard_error, total)
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
) -> Checkpoints | None:
    if settings["checkpoint_dir"] is None:
        return None
    return Checkpoints(
        storage.make_folder(Path(settings["checkpoint_dir"]), "checkpoint"),
        settings["checkpoint_steps"],
        settings["checkpoint_seconds"],
        fingerprint(settings, network, graph, held, seed),
        seed,
    )
