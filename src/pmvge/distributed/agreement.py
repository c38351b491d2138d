"""Checks that the graphs of all processes are equal, or fit together as shards."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from pmvge.distributed.shards import SINGLE_PROCESS, Shards
from pmvge.distributed.world import World
from pmvge.errors import GraphError, ParameterError
from pmvge.graph import MultiViewGraph


def check_shards(world: World, graph: MultiViewGraph, scheme: str, sharded: bool) -> Shards:
    """Return how the graphs of all processes fit together.

    Raise GraphError in every process if they do not, and ParameterError if ``scheme`` cannot train
    in several processes.
    """
    if world.size == 1:
        return SINGLE_PROCESS
    if scheme != "block":
        raise ParameterError(
            f"scheme: {scheme!r} trains in one process, but {world.size} were started; use "
            "scheme='block'"
        )
    if not _equal(world, _layout(graph)):
        raise GraphError(
            "fit: the graphs of the processes differ in their views or observed pairs; pass the "
            "same views, with rows of the same shape and ids for the same ones, and the same pairs "
            "in all processes"
        )
    same_ids = {view: _equal(world, _digest(ids)) for view, ids in graph.ids.items()}
    if not sharded:
        same_links = _equal(world, _links_digest(graph))
        if not all(same_ids.values()) or not same_links:
            raise GraphError(
                "fit: the graphs of the processes differ in their ids or links; pass "
                "fit(..., sharded=True) if each process has links of its own"
            )
    split_views = frozenset(view for view, same in same_ids.items() if not same)
    for view in sorted(split_views):
        if graph.views[view] is None:
            raise GraphError(
                f"view {view!r} is featureless and its ids differ between processes; all "
                "processes learn its vectors together, so give all of them the same ids"
            )
    return Shards(world, sharded, split_views)


def _equal(world: World, value: bytes) -> bool:
    """Return whether ``value`` is the same in all processes."""
    return len(set(world.gather(value))) == 1


def _layout(graph: MultiViewGraph) -> bytes:
    """Return the names, row shapes and sparsity of the views, which have ids, and the pairs."""
    dense = {view: isinstance(X, np.ndarray) for view, X in graph.views.items()}
    shapes = repr([(view, graph.input_shape(view), dense[view]) for view in graph.view_names])
    return (shapes + repr(sorted(graph.given_ids)) + repr(list(graph.links))).encode()


def _links_digest(graph: MultiViewGraph) -> bytes:
    """Return a hash of the links' ends, and the total weight of each pair."""
    ends = (array for links in graph.links.values() for array in (links.rows, links.cols))
    return _digest(*ends) + repr([links.total for links in graph.links.values()]).encode()


def _digest(*arrays: NDArray[np.generic]) -> bytes:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
