"""Metrics of a fitted recommender on a split."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.evaluation import evaluate_links, link_auc, link_average_precision, ndcg_by_query
from pmvge.experiments.recommender.base import Recommender
from pmvge.experiments.recommender.splits import Split
from pmvge.graph import Links

Array = NDArray[Any]
REFIT = "ndcg_refit"  # with all first links in training; on reported splits only


def evaluate(
    method: Recommender, split: Split, wanted: set[str]
) -> tuple[dict[str, float], dict[str, list[Any]]]:
    """Return the wanted metrics of a fitted method, and nDCG of each query by metric."""
    X, X_other = (split.new.get(view) for view in split.pair)
    Y_other = method.candidates(X_other)
    if split.negatives is not None:
        return _evaluate_pairs(method.queries(), Y_other, split), {}
    metrics: dict[str, float] = {}
    by_query: dict[str, list[Any]] = {}
    ids = np.asarray(split.queries)

    def add_ndcg(name: str, Y: Array, truth: Links) -> None:
        at, values = ndcg_by_query(Y, Y_other, truth, known=split.known)
        metrics[name] = float(values.mean())
        by_query[name] = [ids[at].tolist(), [round(float(value), 6) for value in values]]

    if "auc" in wanted:
        Y = method.queries(X)
        # An unseen entity has no known links: its first links are evaluated, too.
        known = None if split.later is not None else split.known
        found = evaluate_links(Y, Y_other, split.truth, log_alpha=0.0, known=known)
        metrics["auc"] = found["roc_auc"]
        if "ndcg" in wanted:
            add_ndcg("ndcg", Y, split.truth)
        if "ndcg_0" in wanted and split.later is not None:
            add_ndcg("ndcg_0", Y, split.later)
    for count, links in split.first.items():
        if f"ndcg_{count}" in wanted and split.later is not None:
            add_ndcg(f"ndcg_{count}", method.queries(X, links), split.later)
    return metrics, by_query


def evaluate_refit(method: Recommender, split: Split, seed: int) -> float:
    """Return nDCG of unseen entities whose first links are added to the training."""
    assert split.extended is not None
    assert split.later is not None
    method.fit(split.extended, split.pair, seed)
    Y, Y_other = method.queries()[split.rows], method.candidates()
    return float(ndcg_by_query(Y, Y_other, split.later, known=split.known)[1].mean())


def _evaluate_pairs(Y: Array, Y_other: Array, split: Split) -> dict[str, float]:
    """Return AUC and average precision of links against as many pairs without a link."""
    assert split.negatives is not None
    rows, cols = split.negatives
    i, j = np.append(split.truth.rows, rows), np.append(split.truth.cols, cols)
    linked = np.arange(len(i)) < len(split.truth)
    scores = np.einsum("nk,nk->n", Y[i].astype(np.float64), Y_other[j].astype(np.float64))
    return {"auc": link_auc(linked, scores), "ap": link_average_precision(linked, scores)}
