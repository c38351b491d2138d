"""Results that are collected from all processes: fingerprints, weights, ids and vectors."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.distributed.shards import Shards
from pmvge.graph import Ids

Vectors = dict[str, NDArray[np.float32]]


def combine_fingerprints(shards: Shards, fingerprint: str) -> str:
    """Return one fingerprint of all shards, from the fingerprint of each process's shard."""
    if not shards.sharded or shards.world.size == 1:
        return fingerprint
    return hashlib.sha256(b" ".join(shards.world.gather(fingerprint.encode()))).hexdigest()


def total_weight(shards: Shards, weight: float) -> float:
    """Return the weight of all shards together, from that of each process's shard."""
    return shards.world.total(weight) if shards.sharded else weight


def embed_in_shares(
    shards: Shards, view: str, n: int, embed: Callable[[slice], NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return the vectors of a view's n entities, as ``embed`` computes them for a range of rows.

    Processes that have the same entities compute a share each.
    """
    world = shards.world
    if world.size == 1 or view in shards.split_views:
        return embed(slice(0, n))
    edges = [n * rank // world.size for rank in range(world.size + 1)]
    own = torch.from_numpy(embed(slice(*edges[world.rank : world.rank + 2])))
    return np.concatenate([share.cpu().numpy() for share in world.gather_rows(own)])


def gather_entities(
    shards: Shards, ids: Mapping[str, Ids], Y: Vectors
) -> tuple[dict[str, Ids], Vectors]:
    """Return the ids and vectors of the entities of all processes.

    Views that are split over the processes are sorted by id; each id is kept once.
    """
    all_ids, vectors = dict(ids), dict(Y)
    for view in sorted(shards.split_views):
        gathered = np.concatenate(_gather_arrays(shards, ids[view]))
        rows = np.concatenate(_gather_arrays(shards, Y[view]))
        all_ids[view], first = np.unique(gathered, return_index=True)
        vectors[view] = rows[first]
    return all_ids, vectors


def _gather_arrays(shards: Shards, array: NDArray[np.generic]) -> list[NDArray[np.generic]]:
    """Return the arrays of all processes, by rank; their lengths and string widths may differ."""
    stream = io.BytesIO()
    np.save(stream, array)
    return [np.load(io.BytesIO(saved)) for saved in shards.world.gather(stream.getvalue())]
