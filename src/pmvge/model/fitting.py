"""From settings and a graph to everything a fitted model knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.checks import pick_seed
from pmvge.distributed import Parts, check_parts, join, own_device, restarted
from pmvge.encoders import (
    Choice,
    EncoderSpec,
    MultiViewEncoder,
    ViewSchema,
    check_outputs,
    choose_encoders,
    embed_rows,
    schemas_of,
    set_input_scale,
)
from pmvge.errors import DivergedError, GraphError, ParameterError, StorageError
from pmvge.graph import CHUNK, Features, Ids, MultiViewGraph, Pair, hold_out_links
from pmvge.likelihoods import LogPartition, log_alpha_hat, sharded_log_partitions
from pmvge.model.parameters import check_parameters, pick_device
from pmvge.model.trainer import make_trainer
from pmvge.progress import OnProgress, progress_bar
from pmvge.training import History, check_precision, private_rng, saved_seed, watcher


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
    again = settings["checkpoint_dir"] is not None and world.any(restarted())
    seed = world.from_first(_pick_seed(settings, resume or again))
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
            if trainer.checkpoints and (resume or again):
                saved = trainer.checkpoints.read(of_this_run=not resume)
                if saved is not None:
                    trainer.resume(*saved)
                if world.first and saved is not None:
                    trainer.checkpoints.mend()
                if len(set(world.gather(str(trainer.step).encode()))) > 1:
                    raise StorageError(
                        f"{trainer.checkpoints.folder}: the processes found different checkpoints: "
                        "expected a folder that all of them see"
                    )
            history = trainer.run()
    shown = settings["progress"] and world.first
    own = _embed_nodes(network, graph, K, parts, shown)
    ids, embeddings = parts.join_nodes(graph.ids, own)
    _check_finite(ids, embeddings)
    with progress_bar("alpha", shown) as on_progress:
        rng = np.random.default_rng(
            [seed, 4, *([world.rank] if world.size > 1 and sharded else [])]
        )
        log_Z = sharded_log_partitions(parts, graph, own, embeddings, rng, on_progress)
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


def _embed_nodes(
    network: MultiViewEncoder, graph: MultiViewGraph, K: int, parts: Parts, shown: bool
) -> dict[str, NDArray[np.float32]]:
    """The embeddings of all nodes, or of those that this process has."""
    vectors = {}
    for view, X in graph.views.items():
        with progress_bar(f"embedding {view}", shown) as on_progress:
            embed = partial(_embed_range, network, view, X, K, on_progress)
            vectors[view] = parts.divide(view, graph.sizes[view], embed)
    return vectors


def _embed_range(
    network: MultiViewEncoder,
    view: str,
    X: Features | None,
    K: int,
    on_progress: OnProgress | None,
    rows: slice,
) -> NDArray[np.float32]:
    if X is None:
        return embed_rows(
            network, view, None, np.arange(rows.start, rows.stop), K, on_progress=on_progress
        )
    return embed_rows(network, view, X[rows], None, K, on_progress=on_progress)


def _check_finite(ids: Mapping[str, Ids], embeddings: Mapping[str, NDArray[np.float32]]) -> None:
    """No loss tells what the last step has led to, nor what nodes without links are mapped to."""
    for view, Y in embeddings.items():
        step = max(1, CHUNK // Y.shape[1])
        for start in range(0, len(Y), step):
            wrong = np.flatnonzero(~np.isfinite(Y[start : start + step]).all(axis=1))
            if len(wrong):
                name = ids[view][start + wrong[0]].item()
                raise DivergedError(
                    f"training diverged: in view {view!r}, the embedding of {name!r} is not "
                    "finite. Try a smaller learning_rate; scheme='block', similarity='cosine' and "
                    "standardize=True are the most stable settings"
                )


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
