"""The likelihood of links given vectors: families, exact sums, alpha, and losses of batches."""

from pmvge.likelihoods.advice import advise_families
from pmvge.likelihoods.alpha import LogAlpha, TrainedGraph
from pmvge.likelihoods.base import Family
from pmvge.likelihoods.bernoulli import Bernoulli
from pmvge.likelihoods.beta import Beta
from pmvge.likelihoods.block import BlockObjective
from pmvge.likelihoods.by_pair import FamilyByPair
from pmvge.likelihoods.exact import (
    expected_weight,
    intensity,
    log_likelihood,
    profile_log_likelihood,
)
from pmvge.likelihoods.levels import KINDS, KindBlock, Level, PairLevels, kind_blocks, shifted
from pmvge.likelihoods.logistic import Logistic
from pmvge.likelihoods.negative_binomial import NegativeBinomial
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
    check_family_names,
    family_name,
    register_family,
)

__all__ = [
    "EXACT_TERMS",
    "FAMILIES",
    "KINDS",
    "POISSON",
    "Bernoulli",
    "Beta",
    "BlockObjective",
    "Family",
    "FamilyByPair",
    "KindBlock",
    "Level",
    "LogAlpha",
    "LogPartition",
    "Logistic",
    "Loss",
    "NegativeBinomial",
    "Objective",
    "PairLevels",
    "PairObjective",
    "Poisson",
    "TrainedGraph",
    "advise_families",
    "build_family",
    "check_family",
    "check_family_names",
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
    "shifted",
]
