"""The likelihood of links given vectors: families, exact sums, alpha, and losses of batches."""

from pmvge.likelihoods.alpha import LogAlpha, TrainedGraph
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.block import BlockObjective
from pmvge.likelihoods.exact import (
    expected_weight,
    intensity,
    log_likelihood,
    profile_log_likelihood,
)
from pmvge.likelihoods.levels import KINDS, KindBlock, Level, PairLevels, kind_blocks
from pmvge.likelihoods.objective import Loss, Objective
from pmvge.likelihoods.pairs import PairObjective
from pmvge.likelihoods.partition import (
    EXACT_TERMS,
    LogPartition,
    graph_log_partitions,
    log_partition,
)
from pmvge.likelihoods.poisson import POISSON, Poisson, log_alpha_hat
from pmvge.likelihoods.registry import (
    FAMILIES,
    build_family,
    check_family,
    family_name,
    register_family,
)
from pmvge.likelihoods.sharded import sharded_log_partitions

__all__ = [
    "EXACT_TERMS",
    "FAMILIES",
    "KINDS",
    "POISSON",
    "BlockObjective",
    "Family",
    "KindBlock",
    "Level",
    "LogAlpha",
    "LogPartition",
    "Loss",
    "Objective",
    "PairLevels",
    "PairObjective",
    "Poisson",
    "TrainedGraph",
    "build_family",
    "check_family",
    "expected_weight",
    "family_name",
    "graph_log_partitions",
    "intensity",
    "kind_blocks",
    "log_alpha_hat",
    "log_likelihood",
    "log_partition",
    "profile_log_likelihood",
    "register_family",
    "sharded_log_partitions",
]
