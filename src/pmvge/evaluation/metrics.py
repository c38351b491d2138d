"""Metrics of observed weights against scores or expected weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score


def link_auc(W: NDArray[Any], scores: NDArray[Any]) -> float:
    """Return the probability that a linked pair (W > 0) scores above an unlinked one."""
    return float(roc_auc_score(np.ravel(W) > 0, np.ravel(scores)))


def link_average_precision(W: NDArray[Any], scores: NDArray[Any]) -> float:
    """Return the average precision of linked pairs (W > 0) among all pairs, ranked by score."""
    return float(average_precision_score(np.ravel(W) > 0, np.ravel(scores)))


def expected_over_observed(W: NDArray[Any], mu: NDArray[Any]) -> float:
    """Return total expected weight over total observed weight; 1 for a calibrated model."""
    return float(np.sum(mu, dtype=np.float64) / np.sum(W, dtype=np.float64))


def poisson_deviance(W: NDArray[Any], mu: NDArray[Any]) -> float:
    r"""Return the mean of :math:`2 [w \log(w / \mu) - w + \mu]`, with 0 log 0 = 0."""
    w, m = np.ravel(W).astype(np.float64), np.ravel(mu).astype(np.float64)
    log_ratio = np.zeros_like(w)
    linked = w > 0
    log_ratio[linked] = np.log(w[linked] / m[linked])
    return float(np.mean(2 * (w * log_ratio - w + m)))
