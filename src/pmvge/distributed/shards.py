"""Graphs that lie in parts: every process has links of its own, and perhaps nodes of its own.

A process draws from its own part, with the densities of that part, and its estimate of Z is right
for the pairs of its nodes. What the parts have in common is checked here before training, and what
they found is put together after it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.distributed.world import World
from pmvge.errors import GraphError, ParameterError
from pmvge.graph import Ids, MultiViewGraph

Vectors = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Parts:
    """How a graph lies in the processes of a world."""

    world: World
    sharded: bool  # every process has links of its own; else all have the whole graph
    divided: frozenset[str] = frozenset()  # views of which every process has nodes of its own

    def share_of(self, graph: MultiViewGraph) -> MultiViewGraph:
        """What this process draws from."""
        return graph if self.sharded else share_of(graph, self.world)

    def mark(self, fingerprint: str) -> str:
        """One fingerprint of all parts."""
        if not self.sharded or self.world.size == 1:
            return fingerprint
        return hashlib.sha256(b" ".join(self.world.gather(fingerprint.encode()))).hexdigest()

    def total(self, weight: float) -> float:
        """The weight of all parts together."""
        return self.world.total(weight) if self.sharded else weight

    def divide(
        self, view: str, n: int, embed: Callable[[slice], NDArray[np.float32]]
    ) -> NDArray[np.float32]:
        """Embeddings of a view's n nodes; processes that have the same nodes share the work."""
        world = self.world
        if world.size == 1 or view in self.divided:
            return embed(slice(0, n))
        edges = [n * rank // world.size for rank in range(world.size + 1)]
        own = torch.from_numpy(embed(slice(*edges[world.rank : world.rank + 2])))
        return np.concatenate([part.cpu().numpy() for part in world.gather_rows(own)])

    def join_nodes(self, ids: Mapping[str, Ids], Y: Vectors) -> tuple[dict[str, Ids], Vectors]:
        """Ids and embeddings of all nodes, wherever they lie, in the order of their ids."""
        joined, vectors = dict(ids), dict(Y)
        for view in sorted(self.divided):
            every = np.concatenate([_read(part) for part in self.world.gather(_text(ids[view]))])
            rows = np.concatenate([_read(part) for part in self.world.gather(_text(Y[view]))])
            joined[view], first = np.unique(every, return_index=True)
            vectors[view] = rows[first]
        return joined, vectors


WHOLE = Parts(World(), sharded=False)


def share_of(graph: MultiViewGraph, world: World) -> MultiViewGraph:
    """Return the links that this process draws from: every R-th, so that shares are alike."""
    if world.size == 1:
        return graph
    if graph.n_links < world.size:
        raise GraphError(
            f"{graph.n_links} training links cannot be shared by {world.size} processes: start "
            "fewer"
        )
    every, rest = world.size, world.rank
    shares = {}
    for pair, links in graph.links.items():
        shares[pair] = links.select(np.arange(rest, len(links), every))
        rest = (rest - len(links)) % every  # the next pair goes on where this one ended
    return graph.with_links(shares)


def check_parts(world: World, graph: MultiViewGraph, scheme: str, sharded: bool) -> Parts:
    """How the graphs of all processes fit together; an error, in all of them, if they do not."""
    if world.size == 1:
        return WHOLE
    if scheme != "block":
        raise ParameterError(f"scheme: {scheme!r} trains in one process, {world.size} were started")
    dense = {view: isinstance(X, np.ndarray) for view, X in graph.views.items()}
    shapes = repr([(view, graph.input_shape(view), dense[view]) for view in graph.view_names])
    shapes += repr(list(graph.links))
    if len(set(world.gather(shapes.encode()))) > 1:
        raise GraphError("the graphs of the processes differ in their views or observed pairs")
    same = {view: len(set(world.gather(_digest(ids)))) == 1 for view, ids in graph.ids.items()}
    if not sharded:
        links = _digest(
            *(part for table in graph.links.values() for part in (table.rows, table.cols))
        )
        links += repr([table.total for table in graph.links.values()]).encode()
        if not all(same.values()) or len(set(world.gather(links))) > 1:
            raise GraphError(
                "every process was given another graph: say fit(..., sharded=True) if each has "
                "links of its own"
            )
    divided = frozenset(view for view, whole in same.items() if not whole)
    for view in sorted(divided):
        if graph.views[view] is None:
            raise GraphError(
                f"view {view!r} is featureless: its vectors are learned by all processes together, "
                "so that all of them need the same ids of it"
            )
    return Parts(world, sharded, divided)


def _digest(*arrays: NDArray[np.generic]) -> bytes:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def _text(array: NDArray[np.generic]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _read(text: bytes) -> NDArray[np.generic]:
    array: NDArray[np.generic] = np.load(io.BytesIO(text))
    return array
