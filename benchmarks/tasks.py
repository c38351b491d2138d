"""The problems on which default settings are compared, each with a fit and its scores.

A task takes settings of PMvGE and the number of a split, fits a model and returns scores in [0, 1].
Splits 100 to 109 are for choosing settings, 0 to 9 for reports.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from problems import poisson_links
from sklearn.metrics import average_precision_score, roc_auc_score

from pmvge import MultiViewGraph, PMvGE
from pmvge.datasets import load_cora, load_digits, load_lastfm, load_lastfm_split, load_movielens
from pmvge.evaluation import (
    classification_accuracy,
    clustering_nmi,
    evaluate_links,
    link_auc,
    ndcg_by_query,
)
from pmvge.experiments.recommender.splits import hold_out_candidates, hold_out_warm, magnn_split
from pmvge.tables import read_tables

Scores = dict[str, float]
Settings = dict[str, Any]
Task = Callable[[Settings, int], Scores]
FOLDS = {"dpi_n": 4, "te_pirna": 4, "dpi_g": 3, "davis": 3, "lncrna_mirna": 3, "dpi_e": 2}


def fit(graph: MultiViewGraph, settings: Settings, split: int, **more: Any) -> PMvGE:
    """Return a fitted model; ``more`` are settings of the task, which candidates do not change."""
    return PMvGE(**{**settings, **more, "random_state": split, "progress": False}).fit(graph)


def score_new(model: PMvGE, a: str, X: Any, b: str, X_other: Any, W: Any) -> Scores:
    """Return AUC of links between entities that are both new."""
    query = model.vectors(a, X, among=b)
    candidate = model.vectors(b, X_other, among=a, side="candidate")
    return {"auc": link_auc(W, query.astype(np.float64) @ candidate.T)}


# -- simulated links ----------------------------------------------------------------------------


def simulated(strong: bool, nonlinear: bool) -> Task:
    """Return a task of Poisson links between entities that are both unseen in training."""

    def task(settings: Settings, split: int) -> Scores:
        data = poisson_links(strong=strong, nonlinear=nonlinear, seed=split)
        model = fit(data.train, settings, split, n_components=16)
        return score_new(model, "left", data.left, "right", data.right, data.W)

    return task


def digits(settings: Settings, split: int) -> Scores:
    """Return shares of new images, and of new profiles, that find their name."""
    train, test = load_digits(seed=split)
    model = fit(train.graph, settings, split, n_components=32)
    found = {}
    for view in ("image", "profile"):  # the second has no links to names
        ids, _ = model.search(view, test.graph.views[view], among="name", k=1, by="similarity")
        found[view] = float(np.mean(ids[:, 0] == model.ids_["name"][test.labels]))
    return found


@cache
def _films(split: int) -> tuple[MultiViewGraph, MultiViewGraph]:
    from pmvge.examples import write_films

    with tempfile.TemporaryDirectory() as folder:
        write_films(Path(folder), seed=split)
        from pmvge.tables import sketch_project

        graph = read_tables(sketch_project(Path(folder)).project).graph
    from pmvge.graph import hold_out_links

    return hold_out_links(graph, 0.1, np.random.default_rng(split))


def films(settings: Settings, split: int) -> Scores:
    """Return AUC and nDCG of a tenth of the ratings in the practice tables."""
    train, held = _films(split)
    found = fit(train, settings, split).evaluate(held)["pairs"]["users,films"]
    return {"auc": found["roc_auc"], "ndcg": found["ndcg@10"]}


# -- real data ----------------------------------------------------------------------------------


@cache
def _cora() -> Any:
    return load_cora()


def cora(setting: str) -> Task:
    """Return a task of classes of papers: in training (A), or unseen (B)."""

    def task(settings: Settings, split: int) -> Scores:
        data = _cora()
        labels, n = data.labels, len(data.labels)
        order = np.random.default_rng(split).permutation(n)
        train, test = np.sort(order[: round(0.8 * n)]), np.sort(order[round(0.8 * n) :])
        if setting == "A":
            model = fit(data.graph, settings, split)
            Y = model.embeddings_["paper"]
            known, new = Y[train], Y[test]
        else:
            model = fit(data.graph.subgraph({"paper": train}), settings, split)
            known = model.embeddings_["paper"]
            new = model.embed("paper", data.graph.views["paper"][test])
        return {
            "accuracy": classification_accuracy(known, labels[train], new, labels[test]),
            "nmi": clustering_nmi(new, labels[test]),
        }

    return task


@cache
def _movielens() -> MultiViewGraph:
    return load_movielens()


def movielens_warm(settings: Settings, split: int) -> Scores:
    """Return AUC and nDCG of a tenth of the links."""
    data = hold_out_warm(_movielens(), 0.1, np.random.default_rng([0, split]))
    model = fit(data.train, settings, split)
    a, b = data.pair
    query, candidate = model.vectors(a, among=b), model.vectors(b, among=a, side="candidate")
    found = evaluate_links(query, candidate, data.truth, log_alpha=0.0, known=data.known)
    _, ndcg = ndcg_by_query(query, candidate, data.truth, known=data.known)
    return {"auc": found["roc_auc"], "ndcg": float(ndcg.mean())}


def movielens_films(settings: Settings, split: int) -> Scores:
    """Return AUC of the links of films that are not in training."""
    data = hold_out_candidates(_movielens(), 0.15, np.random.default_rng([0, split]))
    model = fit(data.train, settings, split)
    a, b = data.pair
    query = model.vectors(a, among=b)
    candidate = model.vectors(b, data.new[b], among=a, side="candidate")
    return {"auc": link_auc(data.truth.matrix().toarray(), query.astype(np.float64) @ candidate.T)}


@cache
def _lastfm() -> tuple[MultiViewGraph, Any]:
    return load_lastfm(), load_lastfm_split()


def lastfm(settings: Settings, split: int) -> Scores:
    """Return AUC and AP of MAGNN's validation part, or of its test part for splits below 100."""
    graph, parts = _lastfm()
    data = magnn_split(
        graph, parts, "validation" if split >= 100 else "test", 0, ("user", "artist")
    )
    model = fit(data.train, settings, split)
    a, b = data.pair
    query, candidate = model.vectors(a, among=b), model.vectors(b, among=a, side="candidate")
    pairs = (data.truth.rows, data.truth.cols), data.negatives
    scores = [np.einsum("nk,nk->n", query[i], candidate[j]) for i, j in pairs]
    truth = np.repeat([1, 0], [len(part) for part in scores])
    values = np.concatenate(scores)
    return {
        "auc": float(roc_auc_score(truth, values)),
        "ap": float(average_precision_score(truth, values)),
    }


def bipartite_split(
    name: str, split: int
) -> tuple[MultiViewGraph, NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return a training graph, features of the unseen entities of both sides, and their links.

    Features of an entity are its similarities to the training entities.
    """
    folder = Path(os.environ["PMVGE_DATA"]) / "bipartite" / name
    X, X_other, y = (np.load(folder / f"{part}.npy") for part in ("X1", "X2", "y"))
    rng = np.random.default_rng([0, split])
    kept, out = _fold(len(X), FOLDS[name], rng)
    kept_other, out_other = _fold(len(X_other), FOLDS[name], rng)
    graph = MultiViewGraph(
        {
            "row": X[np.ix_(kept, kept)].astype(np.float32),
            "column": X_other[np.ix_(kept_other, kept_other)].astype(np.float32),
        },
        {("row", "column"): y[np.ix_(kept, kept_other)].astype(np.float64)},
    )
    new = X[np.ix_(out, kept)].astype(np.float32)
    new_other = X_other[np.ix_(out_other, kept_other)].astype(np.float32)
    return graph, new, new_other, y[np.ix_(out, out_other)]


def _fold(n: int, k: int, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    order = rng.permutation(n)
    return np.sort(order[n // k :]), np.sort(order[: n // k])


def bipartite(name: str) -> Task:
    """Return a task of 0/1 links between entities that are both unseen in training."""

    def task(settings: Settings, split: int) -> Scores:
        graph, X, X_other, y = bipartite_split(name, split)
        model = fit(graph, settings, split)
        query = model.vectors("row", X, among="column").astype(np.float64)
        g = query @ model.vectors("column", X_other, among="row", side="candidate").T
        return {
            "ap": float(average_precision_score(y.ravel(), g.ravel())),
            "auc": float(roc_auc_score(y.ravel(), g.ravel())),
        }

    return task


TASKS: dict[str, Task] = {
    "weak linear": simulated(strong=False, nonlinear=False),
    "weak non-linear": simulated(strong=False, nonlinear=True),
    "strong linear": simulated(strong=True, nonlinear=False),
    "strong non-linear": simulated(strong=True, nonlinear=True),
    "digits": digits,
    "films": films,
    "Cora (A)": cora("A"),
    "Cora (B)": cora("B"),
    "MovieLens": movielens_warm,
    "MovieLens, new films": movielens_films,
    "LastFM": lastfm,
    **{name: bipartite(name) for name in FOLDS},
}
