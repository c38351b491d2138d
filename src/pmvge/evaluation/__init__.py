"""Metrics of vectors on held-out links and labels."""

from pmvge.evaluation.held_out import Results, evaluate_held_out, overall
from pmvge.evaluation.metrics import (
    expected_over_observed,
    link_auc,
    link_average_precision,
    poisson_deviance,
)
from pmvge.evaluation.popularity import POPULARITY, evaluate_popularity
from pmvge.evaluation.ranking import evaluate_links
from pmvge.evaluation.tasks import classification_accuracy, clustering_nmi, link_prediction

__all__ = [
    "POPULARITY",
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
    "overall",
    "poisson_deviance",
]
