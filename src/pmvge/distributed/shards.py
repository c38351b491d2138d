"""How a graph is distributed over the processes of a run.

Every process has links of its own, and may have entities of its own. It draws from its own shard
with the densities of that shard, and estimates Z for the pairs of its own entities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmvge.distributed.world import World
from pmvge.errors import GraphError
from pmvge.graph import MultiViewGraph


@dataclass(frozen=True)
class Shards:
    """How a graph is distributed over the processes of a world."""

    world: World
    sharded: bool  # False: every process was given the same graph
    split_views: frozenset[str] = frozenset()  # views whose entities differ between processes

    def link_share(self, graph: MultiViewGraph) -> MultiViewGraph:
        """Return the graph that this process draws training links from."""
        return graph if self.sharded else link_share(graph, self.world)


SINGLE_PROCESS = Shards(World(), sharded=False)


def link_share(graph: MultiViewGraph, world: World) -> MultiViewGraph:
    """Return a graph with every R-th link, for R processes, starting at this process's rank.

    Raise GraphError if there are fewer links than processes.
    """
    if world.size == 1:
        return graph
    if graph.n_links < world.size:
        raise GraphError(
            f"{graph.n_links} training links cannot be shared by {world.size} processes; start "
            "fewer processes"
        )
    every, first = world.size, world.rank
    shares = {}
    for pair, links in graph.links.items():
        shares[pair] = links.select(np.arange(first, len(links), every))
        first = (first - len(links)) % every  # continue counting in the next view pair
    return graph.with_links(shares)
