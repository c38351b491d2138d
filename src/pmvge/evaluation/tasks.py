"""Evaluation tasks: classification and clustering (the paper's section 6), link prediction."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import normalized_mutual_info_score
from sklearn.multiclass import OneVsRestClassifier

from pmvge.evaluation.metrics import expected_over_observed, link_auc, link_average_precision
from pmvge.graph import Links


def classification_accuracy(
    Y_train: NDArray[Any],
    labels_train: NDArray[Any],
    Y_test: NDArray[Any],
    labels_test: NDArray[Any],
    *,
    C: float = 1.0,
) -> float:
    """Return the accuracy of LIBLINEAR's one-vs-rest logistic regression on vectors (task 1)."""
    classifier = OneVsRestClassifier(LogisticRegression(solver="liblinear", C=C, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(Y_train, labels_train)
    return float(classifier.score(Y_test, labels_test))


def clustering_nmi(Y: NDArray[Any], labels: NDArray[Any], *, random_state: int = 0) -> float:
    """Return the normalised mutual information of k-means clusters and labels (task 2)."""
    k_means = KMeans(n_clusters=len(np.unique(labels)), n_init=10, random_state=random_state)
    return float(normalized_mutual_info_score(labels, k_means.fit_predict(Y)))


def link_prediction(links: Links, mu: NDArray[Any]) -> dict[str, float]:
    """Return ROC AUC, average precision and calibration of expected weights mu (n, m)."""
    W = links.matrix().toarray()
    if links.within:
        upper = np.triu_indices(len(W), k=1)
        W, mu = W[upper], mu[upper]
    return {
        "roc_auc": link_auc(W, mu),
        "average_precision": link_average_precision(W, mu),
        "expected_over_observed": expected_over_observed(W, mu),
    }
