"""log Z of a graph whose links, and possibly entities, are distributed over several processes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pmvge.distributed import Shards
from pmvge.graph import MultiViewGraph, Pair
from pmvge.likelihoods.partition import (
    EXACT_TERMS,
    LogPartition,
    graph_log_partitions,
    log_partition,
)
from pmvge.progress import OnProgress
from pmvge.similarities import INNER, Similarity

Vectors = Mapping[str, NDArray[np.float32]]


def sharded_log_partitions(
    shards: Shards,
    graph: MultiViewGraph,
    own: Vectors,
    gathered: Vectors,
    rng: np.random.Generator,
    *,
    similarity: Similarity = INNER,
    on_progress: OnProgress | None = None,
) -> dict[Pair, LogPartition]:
    """Return log Z of every view pair over the entities of all processes.

    ``own`` has the vectors of this process's entities, ``gathered`` those of all processes.
    Estimates are averaged over the processes, each divided by the number of its own pair terms.
    """
    partitions = graph_log_partitions(
        graph, own, rng=rng, similarity=similarity, on_progress=on_progress
    )
    if not shards.sharded or shards.world.size == 1:
        return partitions
    return {
        pair: _combine(shards, graph, pair, partitions[pair], gathered, similarity.for_pair(*pair))
        for pair in partitions
    }


def _combine(
    shards: Shards,
    graph: MultiViewGraph,
    pair: Pair,
    partition: LogPartition,
    gathered: Vectors,
    similarity: Similarity,
) -> LogPartition:
    a, b = pair
    world = shards.world
    n, m = len(gathered[a]), len(gathered[b])
    terms = n * (n - 1) // 2 if a == b else n * m
    if terms <= EXACT_TERMS:
        if shards.split_views.isdisjoint(pair):
            return partition
        value = log_partition(gathered[a], None if a == b else gathered[b], similarity=similarity)
        return LogPartition(value, 0.0, exact=True)
    own = partition.value - math.log(max(1, graph.links[pair].n_terms))  # log of the mean term
    shift = world.mean(own)
    mean = math.log(world.mean(math.exp(own - shift))) + shift
    between = world.mean((own - shift) ** 2)  # exact sums over different entities differ too
    error = math.sqrt((world.mean(partition.standard_error**2) + between) / world.size)
    return LogPartition(mean + math.log(terms), error, exact=False)
