"""Several processes that train one model: the process group and the shards of a graph."""

from pmvge.distributed.agreement import check_shards
from pmvge.distributed.environment import (
    is_first,
    launched,
    rank_and_size,
    restarted,
    run_id,
)
from pmvge.distributed.gathering import (
    combine_fingerprints,
    embed_in_shares,
    gather_entities,
    total_weight,
)
from pmvge.distributed.process_group import join_process_group, process_device
from pmvge.distributed.shards import SINGLE_PROCESS, Shards
from pmvge.distributed.world import World

__all__ = [
    "SINGLE_PROCESS",
    "Shards",
    "World",
    "check_shards",
    "combine_fingerprints",
    "embed_in_shares",
    "gather_entities",
    "is_first",
    "join_process_group",
    "launched",
    "process_device",
    "rank_and_size",
    "restarted",
    "run_id",
    "total_weight",
]
