"""Splits of a graph: hold out links, or hold out entities with all their links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import ParameterError, choose
from pmvge.graph.multi_view_graph import MultiViewGraph


def hold_out_links(
    graph: MultiViewGraph, fraction: float, rng: np.random.Generator
) -> tuple[MultiViewGraph, MultiViewGraph]:
    """Split the links of every view pair at random and return (kept, held out) graphs.

    Both graphs have all entities. Each view pair keeps at least one of its links. Raise
    ParameterError unless ``fraction`` is between 0 and 1.
    """
    if not 0 < fraction < 1:
        raise ParameterError(
            f"fraction of links to hold out: expected a number in (0, 1), got {fraction!r}"
        )
    kept, held = {}, {}
    for pair, links in graph.links.items():
        n_out = min(round(fraction * len(links)), max(0, len(links) - 1))
        out = _random_mask(len(links), n_out, rng)
        held[pair] = links.select(out)
        kept[pair] = links.select(np.logical_not(out, out=out))
    return graph.with_links(kept), graph.with_links(held)


def _random_mask(n: int, k: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw a mask with k of n entries set, all sets of k equally likely."""
    order = np.arange(n, dtype=np.min_scalar_type(n))  # the narrowest type saves memory
    rng.shuffle(order)
    mask = np.zeros(n, dtype=bool)
    mask[order[:k]] = True
    return mask


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """Two graphs that share no entity of the split views, and the rows of each."""

    train: MultiViewGraph
    test: MultiViewGraph
    train_rows: Mapping[str, NDArray[np.int64]]
    test_rows: Mapping[str, NDArray[np.int64]]


def hold_out_nodes(
    graph: MultiViewGraph, fractions: Mapping[str, float], rng: np.random.Generator
) -> NodeSplit:
    """Hold out a fraction of the entities of each view in ``fractions``, and return both graphs.

    The training graph has the links among training entities, the test graph those among test
    entities. Views that are not in ``fractions`` are complete in both. Raise ParameterError if a
    view is unknown, or if a fraction leaves no training or no test entity.
    """
    train, test = {}, {}
    for view in sorted(fractions):
        choose("view", view, graph.view_names)
        n = graph.sizes[view]
        n_test = round(fractions[view] * n) if 0 < fractions[view] < 1 else 0
        if not 0 < n_test < n:
            raise ParameterError(
                f"view {view!r}: holding out {fractions[view]!r} of {n} entities leaves one side "
                "empty: expected a fraction in (0, 1), of at least one entity and not of all"
            )
        order = rng.permutation(n)
        test[view], train[view] = np.sort(order[:n_test]), np.sort(order[n_test:])
    return NodeSplit(graph.subgraph(train), graph.subgraph(test), train, test)
