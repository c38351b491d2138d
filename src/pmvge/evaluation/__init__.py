"""Metrics of vectors on held-out links and labels."""

from pmvge.evaluation.comparing import Difference, paired_difference
from pmvge.evaluation.held_out import (
    HeldOutShare,
    Results,
    evaluate_held_out,
    overall,
)
from pmvge.evaluation.metrics import (
    expected_over_observed,
    link_auc,
    link_average_precision,
    poisson_deviance,
)
from pmvge.evaluation.popularity import (
    FEATURES_ONLY,
    POPULARITY,
    Popularity,
    evaluate_popularity,
)
from pmvge.evaluation.ranking import LinkMetrics, evaluate_links, ndcg_by_query
from pmvge.evaluation.reliability import MAX_PAIRS, Reliability, reliability_bins
from pmvge.evaluation.tasks import classification_accuracy, clustering_nmi, link_prediction

__all__ = [
    "FEATURES_ONLY",
    "MAX_PAIRS",
    "POPULARITY",
    "Difference",
    "HeldOutShare",
    "LinkMetrics",
    "Popularity",
    "Reliability",
    "Results",
    "classification_accuracy",
    "clustering_nmi",
    "evaluate_held_out",
    "evaluate_links",
    "evaluate_popularity",
    "expected_over_observed",
    "link_auc",
    "link_average_precision",
    "link_prediction",
    "ndcg_by_query",
    "overall",
    "paired_difference",
    "poisson_deviance",
    "reliability_bins",
]
