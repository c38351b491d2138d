"""The likelihood of links given vectors: exact sums, log Z, alpha, and losses of batches."""

from pmvge.likelihoods.block import BlockObjective
from pmvge.likelihoods.objective import Loss, Objective
from pmvge.likelihoods.pairs import PairObjective
from pmvge.likelihoods.partition import (
    EXACT_TERMS,
    LogPartition,
    graph_log_partitions,
    log_partition,
)
from pmvge.likelihoods.poisson import (
    expected_weight,
    intensity,
    log_alpha_hat,
    log_likelihood,
    profile_log_likelihood,
)
from pmvge.likelihoods.sharded import sharded_log_partitions

__all__ = [
    "EXACT_TERMS",
    "BlockObjective",
    "LogPartition",
    "Loss",
    "Objective",
    "PairObjective",
    "expected_weight",
    "graph_log_partitions",
    "intensity",
    "log_alpha_hat",
    "log_likelihood",
    "log_partition",
    "profile_log_likelihood",
    "sharded_log_partitions",
]
