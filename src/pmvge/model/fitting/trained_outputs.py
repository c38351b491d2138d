"""Compute the outputs of all training entities, when a network is trained."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.distributed import Shards, embed_in_shares
from pmvge.encoders import MultiViewEncoder, embed_rows
from pmvge.errors import DivergedError
from pmvge.graph import CHUNK, Features, Ids, MultiViewGraph
from pmvge.progress import OnProgress, progress_bar
from pmvge.training import STABLE_SETTINGS


def embed_entities(
    network: MultiViewEncoder, graph: MultiViewGraph, K: int, shards: Shards, shown: bool
) -> dict[str, NDArray[np.float32]]:
    """Return the vectors of all entities that this process has."""
    vectors = {}
    for view, X in graph.views.items():
        with progress_bar(f"embedding {view}", shown) as on_progress:
            embed = partial(_embed_range, network, view, X, K, on_progress)
            vectors[view] = embed_in_shares(shards, view, graph.sizes[view], embed)
    return vectors


def embed_without_effects(
    network: MultiViewEncoder, graph: MultiViewGraph, K: int, shards: Shards, shown: bool
) -> dict[str, NDArray[np.float32]]:
    """Return the outputs of entities as if they were new, for views with features and effects.

    All processes have all entities of these views.
    """
    outputs = {}
    for view, X in graph.views.items():
        if X is None or network.effects_of(view) is None:
            continue
        with progress_bar(f"embedding {view} without effects", shown) as on_progress:
            embed = partial(_embed_range, network, view, X, K, on_progress, known=False)
            outputs[view] = embed_in_shares(shards, view, graph.sizes[view], embed)
    return outputs


def _embed_range(
    network: MultiViewEncoder,
    view: str,
    X: Features | None,
    K: int,
    on_progress: OnProgress | None,
    rows: slice,
    *,
    known: bool = True,
) -> NDArray[np.float32]:
    if X is None:
        return embed_rows(
            network, view, None, np.arange(rows.start, rows.stop), K, on_progress=on_progress
        )
    index = None
    if known and network.effects_of(view) is not None:
        index = np.arange(rows.start, rows.stop)
    return embed_rows(network, view, X[rows], None, K, index=index, on_progress=on_progress)


def check_finite(ids: Mapping[str, Ids], embeddings: Mapping[str, NDArray[np.float32]]) -> None:
    """Raise DivergedError if any vector is not finite.

    The loss does not show it: it is computed before the last step, and only for linked and drawn
    entities.
    """
    for view, Y in embeddings.items():
        step = max(1, CHUNK // Y.shape[1])
        for start in range(0, len(Y), step):
            bad = np.flatnonzero(~np.isfinite(Y[start : start + step]).all(axis=1))
            if len(bad):
                name = ids[view][start + bad[0]].item()
                raise DivergedError(
                    f"training diverged: in view {view!r}, the vector of {name!r} is not finite. "
                    f"Try a smaller learning_rate; {STABLE_SETTINGS}"
                )


def centre_biases(
    network: MultiViewEncoder,
    own: Mapping[str, NDArray[np.float32]],
    outputs: Mapping[str, NDArray[np.float32]],
) -> None:
    """Subtract the mean of each bias over the training entities: log alpha gets the constant."""
    K = network.n_components
    for view in network.bias_pairs:
        mean = outputs[view][:, K:].mean(0, dtype=np.float64)
        network.centre(view, torch.from_numpy(mean))
        for part in {id(Y): Y for Y in (own[view], outputs[view])}.values():
            part[:, K:] -= mean.astype(np.float32)
