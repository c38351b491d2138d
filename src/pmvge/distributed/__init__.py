"""Several processes that train one model: the process group and the shards of a graph."""

from pmvge.distributed.launch import (
    common_seed,
    is_first,
    join,
    launched,
    launched_as,
    own_device,
    restarted,
    run_name,
)
from pmvge.distributed.shards import WHOLE, Parts, check_parts
from pmvge.distributed.world import World

__all__ = [
    "WHOLE",
    "Parts",
    "World",
    "check_parts",
    "common_seed",
    "is_first",
    "join",
    "launched",
    "launched_as",
    "own_device",
    "restarted",
    "run_name",
]
