"""Quality of the default settings: recovery, calibration, digits, Cora."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from pmvge import MultiViewGraph, PMvGE
from pmvge.datasets import load_cora, load_digits
from pmvge.evaluation import (
    classification_accuracy,
    clustering_nmi,
    expected_over_observed,
    link_auc,
)
from pmvge.graph import hold_out_nodes
from pmvge.simulation import simulate

pytestmark = pytest.mark.slow  # long fits

DATA = Path(os.environ.get("PMVGE_DATA", Path(__file__).parents[3] / "shared" / "data"))


def linear_world(signal: float, seed: int) -> tuple[MultiViewGraph, dict]:
    """Draw a graph from linear encoders, which PMvGE can represent."""
    rng = np.random.default_rng(seed)
    views = {"left": rng.normal(size=(1500, 20)), "right": rng.normal(size=(1000, 10))}
    maps = {
        view: torch.from_numpy(
            signal * rng.normal(size=(X.shape[1], 6)) / X.shape[1] ** 0.5
        ).float()
        for view, X in views.items()
    }
    encoders = {view: (lambda x, A=A: x @ A) for view, A in maps.items()}
    return simulate(views, encoders, {("left", "right"): 0.02}, rng), maps


@pytest.mark.parametrize("signal", [0.5, 0.65])
def test_expected_weights_of_new_entities_are_calibrated(signal):
    graph, maps = linear_world(signal, seed=0)
    split = hold_out_nodes(graph, {"left": 0.2, "right": 0.25}, np.random.default_rng(0))
    model = PMvGE(16, random_state=0).fit(split.train)
    left, right = split.test.views["left"], split.test.views["right"]
    mu = model.intensity("left", left, "right", right)
    W = split.test.links["left", "right"].matrix().toarray()
    assert 0.9 <= expected_over_observed(W, mu) <= 1.1
    truth = (left @ maps["left"].numpy()) @ (right @ maps["right"].numpy()).T
    assert link_auc(W, mu) > link_auc(W, truth) - 0.03


@pytest.mark.parametrize("similarity", ["inner", "cosine"])
def test_block_training_is_as_good_as_all_pairs(similarity):
    graph, maps = linear_world(0.8, seed=1)
    split = hold_out_nodes(graph, {"left": 0.2, "right": 0.25}, np.random.default_rng(0))
    left, right = split.test.views["left"], split.test.views["right"]
    W = split.test.links["left", "right"].matrix().toarray()
    auc = {"truth": link_auc(W, (left @ maps["left"].numpy()) @ (right @ maps["right"].numpy()).T)}
    for name, batch_size in (("block", 256), ("all pairs", split.train.n_links)):
        settings = {"similarity": similarity, "dropout": 0.0, "batch_size": batch_size}
        model = PMvGE(16, random_state=0, **settings).fit(split.train)
        auc[name] = link_auc(W, model.intensity("left", left, "right", right))
    assert auc["block"] > auc["all pairs"] - 0.01
    assert auc["block"] > auc["truth"] - 0.04


def test_the_papers_scheme_learns():
    graph, maps = linear_world(0.65, seed=0)
    split = hold_out_nodes(graph, {"left": 0.2, "right": 0.25}, np.random.default_rng(0))
    settings = {"similarity": "inner", "batch_size": 2048, "learning_rate": 1e-3}
    model = PMvGE(16, scheme="paper", random_state=0, **settings).fit(split.train)
    left, right = split.test.views["left"], split.test.views["right"]
    W = split.test.links["left", "right"].matrix().toarray()
    truth = (left @ maps["left"].numpy()) @ (right @ maps["right"].numpy()).T
    found = link_auc(W, model.intensity("left", left, "right", right))
    assert found > 0.5 + 0.7 * (link_auc(W, truth) - 0.5)


def test_digits_find_their_names_across_views_without_links():
    train, test = load_digits()
    model = PMvGE(32, random_state=0).fit(train.graph)
    Y = model.embed_graph(test.graph)
    right = {
        view: np.mean((Y[view] @ Y["name"].T).argmax(1) == test.labels)
        for view in ("image", "spectrum", "profile")
    }
    assert right["image"] > 0.93
    assert min(right.values()) > 0.6  # chance is 0.1


@pytest.fixture(scope="module")
def cora():
    return load_cora(DATA / "cora")


@pytest.mark.skipif(
    not (DATA / "cora").is_dir(), reason="needs Cora: set PMVGE_DATA to a folder with 'cora'"
)
class TestCora:
    """Bounds on means over splits, with K = 100 and unweighted links."""

    @staticmethod
    def splits(n: int):
        for seed in range(2):
            order = np.random.default_rng(seed).permutation(n)
            yield seed, np.sort(order[: round(0.8 * n)]), np.sort(order[round(0.8 * n) :])

    def test_setting_a_all_papers_in_training(self, cora):
        scores = []
        for seed, train, test in self.splits(len(cora.labels)):
            Y = PMvGE(100, random_state=seed).fit(cora.graph).embeddings_["paper"]
            scores.append(
                (
                    classification_accuracy(
                        Y[train], cora.labels[train], Y[test], cora.labels[test]
                    ),
                    clustering_nmi(Y[test], cora.labels[test]),
                )
            )
        accuracy, nmi = np.mean(scores, axis=0)
        assert accuracy >= 0.79
        assert nmi >= 0.45

    def test_setting_b_test_papers_from_their_words(self, cora):
        scores = []
        for seed, train, test in self.splits(len(cora.labels)):
            model = PMvGE(100, random_state=seed).fit(cora.graph.subgraph({"paper": train}))
            Y = model.embeddings_["paper"]
            Y_test = model.embed("paper", cora.graph.views["paper"][test])
            scores.append(
                (
                    classification_accuracy(Y, cora.labels[train], Y_test, cora.labels[test]),
                    clustering_nmi(Y_test, cora.labels[test]),
                )
            )
        accuracy, nmi = np.mean(scores, axis=0)
        assert accuracy >= 0.72
        assert nmi >= 0.35
