"""log Z of a graph whose links, and perhaps nodes, lie in several processes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pmvge.distributed import Parts
from pmvge.graph import MultiViewGraph, Pair
from pmvge.likelihoods.partition import (
    EXACT_TERMS,
    LogPartition,
    graph_log_partitions,
    log_partition,
)
from pmvge.progress import OnProgress

Vectors = Mapping[str, NDArray[np.float32]]


def sharded_log_partitions(
    parts: Parts,
    graph: MultiViewGraph,
    own: Vectors,
    every: Vectors,
    rng: np.random.Generator,
    on_progress: OnProgress | None = None,
) -> dict[Pair, LogPartition]:
    """Return log Z of every pair over the nodes of all processes.

    ``own`` are the vectors of this process's nodes, ``every`` those of all. Estimates are averaged
    over the processes, each per pair of its own nodes.
    """
    found = graph_log_partitions(graph, own, rng=rng, on_progress=on_progress)
    if not parts.sharded or parts.world.size == 1:
        return found
    return {pair: _joint(parts, graph, pair, found[pair], every) for pair in found}


def _joint(
    parts: Parts, graph: MultiViewGraph, pair: Pair, found: LogPartition, every: Vectors
) -> LogPartition:
    a, b = pair
    world = parts.world
    n, m = len(every[a]), len(every[b])
    terms = n * (n - 1) // 2 if a == b else n * m
    if terms <= EXACT_TERMS:
        if parts.divided.isdisjoint(pair):
            return found
        return LogPartition(log_partition(every[a], None if a == b else every[b]), 0.0, True)
    each = found.value - math.log(max(1, graph.links[pair].n_terms))
    middle = world.mean(each)
    mean = math.log(world.mean(math.exp(each - middle))) + middle
    apart = world.mean((each - middle) ** 2)  # exact sums over different nodes differ, too
    error = math.sqrt((world.mean(found.standard_error**2) + apart) / world.size)
    return LogPartition(mean + math.log(terms), error, exact=False)
