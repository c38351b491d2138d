"""Check what a fit is given, and choose its held-out links and its seed."""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from pmvge.checks import pick_seed, real
from pmvge.errors import GraphError, ParameterError
from pmvge.graph import MultiViewGraph, hold_out_links
from pmvge.training import saved_seed


def resolve_hold_out(
    settings: dict[str, Any], validation: MultiViewGraph | None, hold_out: float | None
) -> dict[str, Any]:
    """Return the settings with the share of held-out links that is used.

    Without held-out links there is no early stopping. Raise ParameterError if ``hold_out`` is not
    valid, or if there is a validation graph, too.
    """
    if hold_out is None:
        return settings
    if validation is not None:
        raise ParameterError("fit: expected validation or hold_out, got both")
    real(0, 1)("hold_out", hold_out)
    if hold_out == 0:
        return {**settings, "patience": None}
    return {**settings, "validation_fraction": float(hold_out)}


def check_graphs(graph: MultiViewGraph, validation: MultiViewGraph | None) -> MultiViewGraph | None:
    """Return the validation graph with view pairs ordered as in ``graph``.

    Raise GraphError if one of them is not valid, or if they have other entities.
    """
    if not isinstance(graph, MultiViewGraph):
        raise GraphError(f"fit: expected a MultiViewGraph, got {type(graph).__name__}")
    if graph.total_weight <= 0:
        raise GraphError("fit: the graph has no links at all: expected at least one")
    if validation is None:
        return None
    if not isinstance(validation, MultiViewGraph):
        raise GraphError(f"validation: expected a MultiViewGraph, got {type(validation).__name__}")
    same = validation.view_names == graph.view_names and all(
        np.array_equal(validation.ids[view], ids) for view, ids in graph.ids.items()
    )
    if not same:
        raise GraphError(
            "validation: expected held-out links on the same views and ids as the training graph, "
            "got other views or ids; hold_out_links returns both graphs"
        )
    if validation.total_weight <= 0:
        raise GraphError("validation: the graph has no links at all: expected at least one")
    links = {}
    for (a, b), held in validation.links.items():
        if (a, b) in graph.links:
            links[a, b] = held
        elif (b, a) in graph.links:
            links[b, a] = held.transposed()
        else:
            raise GraphError(
                f"validation: links {(a, b)!r} are not a pair of the training graph: expected one "
                f"of {', '.join(map(repr, graph.links))}"
            )
    return validation.with_links(links)


def split_links(
    graph: MultiViewGraph, fraction: float, seed: int
) -> tuple[MultiViewGraph, MultiViewGraph | None]:
    """Return training links and held-out links, None if there are too few to hold some out."""
    kept, held = hold_out_links(graph, fraction, np.random.default_rng([seed, 1]))
    return (kept, held) if held.total_weight > 0 else (graph, None)


def choose_seed(settings: dict[str, Any], resume: bool) -> int:
    """Return the seed of ``random_state``, or of the checkpoint that is resumed.

    An integer ``random_state`` takes precedence over the checkpoint.
    """
    seed = pick_seed(settings["random_state"])
    if not resume or isinstance(settings["random_state"], Integral):
        return seed
    saved = saved_seed(Path(settings["checkpoint_dir"]))
    return seed if saved is None else saved
