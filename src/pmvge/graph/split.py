"""Hold out links, or hold out nodes with all their links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import ParameterError
from pmvge.graph.multi_view_graph import MultiViewGraph


def hold_out_links(
    graph: MultiViewGraph, fraction: float, rng: np.random.Generator
) -> tuple[MultiViewGraph, MultiViewGraph]:
    """Split the links of every pair at random: (kept, held out), on the same nodes.

    A pair keeps at least one of its links.
    """
    if not 0 < fraction < 1:
        raise ParameterError(f"the fraction of links held out must lie in (0, 1), got {fraction!r}")
    kept, held = {}, {}
    for pair, links in graph.links.items():
        n_out = min(round(fraction * len(links)), max(0, len(links) - 1))
        out = _chosen(len(links), n_out, rng)
        held[pair] = links.select(out)
        kept[pair] = links.select(np.logical_not(out, out=out))
    return graph.with_links(kept), graph.with_links(held)


def _chosen(n: int, k: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A mask of k places out of n, all sets of k being equally likely."""
    order = np.arange(n, dtype=np.min_scalar_type(n))  # no wider than it must be
    rng.shuffle(order)
    mask = np.zeros(n, dtype=bool)
    mask[order[:k]] = True
    return mask


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """Two graphs without a node of the split views in common, and which rows each has."""

    train: MultiViewGraph
    test: MultiViewGraph
    train_rows: Mapping[str, NDArray[np.int64]]
    test_rows: Mapping[str, NDArray[np.int64]]


def hold_out_nodes(
    graph: MultiViewGraph, fractions: Mapping[str, float], rng: np.random.Generator
) -> NodeSplit:
    """Hold out a fraction of the nodes of each named view; other views are whole on both sides.

    The training graph has the links among training nodes, the test graph those among test nodes.
    """
    train, test = {}, {}
    for view in sorted(fractions):
        if view not in graph.sizes:
            raise ParameterError(f"unknown view {view!r}; the views are {graph.view_names}")
        n = graph.sizes[view]
        n_test = round(fractions[view] * n) if 0 < fractions[view] < 1 else 0
        if not 0 < n_test < n:
            raise ParameterError(
                f"view {view!r}: holding out {fractions[view]!r} of {n} nodes leaves one side empty"
            )
        order = rng.permutation(n)
        test[view], train[view] = np.sort(order[:n_test]), np.sort(order[n_test:])
    return NodeSplit(graph.subgraph(train), graph.subgraph(test), train, test)
