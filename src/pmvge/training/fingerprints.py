"""Fingerprints of a fit's data and settings, which a checkpoint is compared with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import nn

from pmvge.graph import MultiViewGraph

HASH_ROWS = 4096  # rows hashed at once
# Settings that may change when a run is resumed.
CHANGEABLE_SETTINGS = {"max_epochs", "max_steps", "patience", "progress", "device", "random_state"}


def fingerprint(
    settings: Mapping[str, Any],
    network: nn.Module,
    graph: MultiViewGraph,
    held: MultiViewGraph | None,
    seed: int,
) -> str:
    """Return a hash of settings, seed, weight shapes, links, held-out links and features."""
    digest = hashlib.sha256()
    kept = {
        k: str(v)
        for k, v in settings.items()
        if k not in CHANGEABLE_SETTINGS and "checkpoint" not in k
    }
    kept["encoder"] = _encoder_text(settings["encoder"])
    shapes = {name: list(tensor.shape) for name, tensor in network.state_dict().items()}
    digest.update(json.dumps([kept, dict(graph.sizes), shapes, seed], sort_keys=True).encode())
    hash_graphs(digest, graph, held)
    return digest.hexdigest()


def hash_graphs(digest: Any, graph: MultiViewGraph, held: MultiViewGraph | None) -> None:
    """Add the links of both graphs, and the features and unscaled views of the first, to a hash."""

    def add(array: np.ndarray[Any, Any]) -> None:
        for start in range(0, len(array), HASH_ROWS):
            digest.update(np.ascontiguousarray(array[start : start + HASH_ROWS]).data)

    for part in (graph, held):
        for pair, links in part.links.items() if part else ():
            digest.update(repr(pair).encode())
            for array in (links.rows, links.cols, links.weights):
                add(array)
    for X in graph.views.values():
        if X is not None:
            for array in [X] if isinstance(X, np.ndarray) else [X.indptr, X.indices, X.data]:
                add(array)
    if graph.unscaled_views:
        digest.update(repr(sorted(graph.unscaled_views)).encode())


def _encoder_text(encoder: Any) -> str:
    """Return a text for the ``encoder`` setting that is the same in every process."""
    if isinstance(encoder, Mapping):
        return str({view: _encoder_text(encoder[view]) for view in sorted(encoder)})
    return type(encoder).__qualname__ if isinstance(encoder, nn.Module) else repr(encoder)
