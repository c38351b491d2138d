"""Evaluation tasks on vectors with known answers."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from pmvge.evaluation import classification_accuracy, clustering_nmi, link_prediction
from pmvge.graph import parse_links


def clusters(rng, n_each: int = 20, spread: float = 0.1):
    """Return three tight clusters around the corners of a triangle, and their labels."""
    labels = np.repeat([0, 1, 2], n_each)
    corners = np.array([[4.0, 0.0], [-4.0, 4.0], [-4.0, -4.0]])
    return corners[labels] + spread * rng.normal(size=(len(labels), 2)), labels


def test_separable_classes_are_classified() -> None:
    rng = np.random.default_rng(0)
    (Y, labels), (Y_test, labels_test) = clusters(rng), clusters(rng)
    assert classification_accuracy(Y, labels, Y_test, labels_test) == 1
    wrong = labels_test.copy()
    wrong[:15] = 1
    assert classification_accuracy(Y, labels, Y_test, wrong) == 0.75
    assert classification_accuracy(Y, labels, Y_test, (labels_test + 1) % 3) == 0


@pytest.mark.parametrize("C", [1e-3, 1.0])
def test_accuracy_agrees_with_one_logistic_regression_per_class(C) -> None:
    rng = np.random.default_rng(1)
    Y, labels = clusters(rng, spread=4.0)
    Y_test, labels_test = clusters(rng, spread=4.0)
    scores = [
        LogisticRegression(solver="liblinear", C=C).fit(Y, labels == c).decision_function(Y_test)
        for c in range(3)
    ]
    expected = np.mean(np.argmax(scores, axis=0) == labels_test)
    assert 0.4 < expected < 1
    assert classification_accuracy(Y, labels, Y_test, labels_test, C=C) == expected


def test_a_fit_that_stops_early_gives_no_warning(monkeypatch) -> None:
    """Warnings are errors in tests."""
    fit = LogisticRegression.fit

    def stop_early(self, *data):
        self.set_params(max_iter=1)
        with pytest.warns(ConvergenceWarning):
            fit(self, *data)
        return fit(self, *data)

    monkeypatch.setattr(LogisticRegression, "fit", stop_early)
    Y, labels = clusters(np.random.default_rng(0), spread=4.0)
    assert 0 <= classification_accuracy(Y, labels, Y, labels) <= 1


def test_clusters_equal_to_classes_have_nmi_one() -> None:
    Y, labels = clusters(np.random.default_rng(0))
    assert clustering_nmi(Y, labels) == pytest.approx(1)
    names = np.array(["x", "y", "z"])[labels]
    assert clustering_nmi(Y, names, random_state=3) == pytest.approx(1)


def test_clusters_independent_of_classes_have_nmi_zero() -> None:
    Y = np.repeat([[0.0], [10.0]], 20, axis=0)
    labels = np.tile([0, 1], 20)
    assert clustering_nmi(Y, labels) == pytest.approx(0, abs=1e-12)


def test_link_prediction_across_views() -> None:
    links = parse_links("here", ([0, 1], [0, 2], [1.0, 3.0]), (2, 3), False, None)
    mu = np.array([[5.0, 1.0, 1.0], [2.0, 1.0, 2.0]])
    # Linked pairs score 5 and 2, the others 1, 1, 2, 1; the two that score 2 are tied.
    assert link_prediction(links, mu) == pytest.approx(
        {"roc_auc": 7.5 / 8, "average_precision": (1 + 2 / 3) / 2, "expected_over_observed": 3.0}
    )


def test_link_prediction_within_a_view_counts_each_pair_once() -> None:
    links = parse_links("here", ([0, 2], [1, 1], [2.0, 2.0]), (3, 3), True, None)
    mu = np.array([[9.0, 3.0, 4.0], [0.0, 9.0, 5.0], [0.0, 0.0, 9.0]])
    assert link_prediction(links, mu) == pytest.approx(
        {"roc_auc": 0.5, "average_precision": (1 + 2 / 3) / 2, "expected_over_observed": 3.0}
    )
