r"""Section 3.7: a softmax network classifier is PMvGE with the classes as a second view.

D = 2, view 2 the fixed one-hot class vectors :math:`e_1, \dots, e_C` under the identity, w = 1
between :math:`x_i` and its own class; the predicted class has the largest
:math:`\exp\langle f(x), e_j\rangle`. The plain classifier has the same network, initial weights,
optimiser, batch size and number of steps, and minimises the cross-entropy.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from plotly.graph_objects import Figure
from sklearn.datasets import load_digits
from torch import nn

from pmvge.experiments.base import Experiment, Goal, Job, Plot, Result, Summary, Table
from pmvge.experiments.paper_model import paper_model
from pmvge.graph import MultiViewGraph
from pmvge.pages import HUES

METHODS = {"pmvge": "PMvGE", "softmax": "softmax classifier"}
Labels = NDArray[np.int64]


class Classifier(Experiment):
    """One job for each split of scikit-learn's digits; a job fits both classifiers."""

    options: ClassVar[Mapping[str, Any]] = {
        "test_fraction": 0.25,
        "hidden": 64,
        "batch_size": 256,
        "max_steps": 600,
        "learning_rate": 3e-3,
    }

    def jobs(self) -> list[Job]:
        """Return one job for each split."""
        return [Job("digits", str(split)) for split in range(self.recipe.repetitions)]

    def run(self, job: Job) -> Result:
        """Return the accuracies on the test part, and the share of equal predictions."""
        started = time.perf_counter()
        pixels, labels = load_digits(return_X_y=True)
        rng = np.random.default_rng([self.recipe.seed, int(job.column)])
        order = rng.permutation(len(labels))
        n_test = round(self.settings["test_fraction"] * len(labels))
        test, train = order[:n_test], order[n_test:]
        mean, scale = pixels[train].mean(axis=0), pixels[train].std(axis=0) + 1
        X = ((pixels - mean) / scale).astype(np.float32)
        seed = int(rng.integers(2**31))
        network = self.network(X.shape[1], int(labels.max()) + 1, seed)
        predicted = {
            "pmvge": self.by_pmvge(network, X[train], labels[train], X[test], seed),
            "softmax": self.by_softmax(network, X[train], labels[train], X[test], seed),
        }
        return {
            **{name: float(np.mean(y == labels[test])) for name, y in predicted.items()},
            "agreement": float(np.mean(predicted["pmvge"] == predicted["softmax"])),
            "seconds": time.perf_counter() - started,
        }

    def network(self, p: int, C: int, seed: int) -> nn.Module:
        """Return a network of one tanh hidden layer and C linear outputs, to start both from."""
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            hidden = self.settings["hidden"]
            return nn.Sequential(nn.Linear(p, hidden), nn.Tanh(), nn.Linear(hidden, C))

    def by_pmvge(self, network: nn.Module, X: Any, y: Labels, X_test: Any, seed: int) -> Labels:
        """Return the classes with the largest expected weight."""
        classes = np.eye(int(y.max()) + 1)
        graph = MultiViewGraph({"x": X, "class": classes}, {("x", "class"): (np.arange(len(y)), y)})
        model = paper_model(
            len(classes),
            encoder={"x": network, "class": "identity"},
            similarity="inner",
            batch_size=self.settings["batch_size"],
            max_steps=self.settings["max_steps"],
            learning_rate=self.settings["learning_rate"],
            patience=None,
            random_state=seed,
            progress=False,
        ).fit(graph)
        ids, _ = model.search("x", X_test, among="class", k=1)
        return np.asarray(ids[:, 0], dtype=np.int64)

    def by_softmax(self, network: nn.Module, X: Any, y: Labels, X_test: Any, seed: int) -> Labels:
        """Return the classes that the plain classifier predicts."""
        network = copy.deepcopy(network)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.settings["learning_rate"])
        rows, targets = torch.from_numpy(X), torch.from_numpy(y.astype(np.int64))
        rng = np.random.default_rng(seed)
        for _ in range(self.settings["max_steps"]):
            batch = torch.from_numpy(rng.integers(len(y), size=self.settings["batch_size"]))
            loss = nn.functional.cross_entropy(network(rows[batch]), targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            return np.asarray(network(torch.from_numpy(X_test)).argmax(dim=1).numpy())

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return both accuracies for each split, and their means."""
        done = [(job, results[job]) for job in self.jobs() if job in results]
        if not done:
            return Summary()
        figure = Figure()
        splits = [f"split {job.column}" for job, _ in done]
        accuracy = {name: [100 * r[name] for _, r in done] for name in METHODS}
        for k, split in enumerate(splits):
            figure.add_scatter(
                x=[values[k] for values in accuracy.values()],
                y=[split, split],
                mode="lines",
                line={"color": "lightgrey"},
                showlegend=False,
                hoverinfo="skip",
            )
        marks = (("circle-open", 15), ("diamond", 9))  # both are visible where they coincide
        for (name, label), color, (symbol, size) in zip(METHODS.items(), HUES, marks, strict=False):
            figure.add_scatter(
                x=accuracy[name],
                y=splits,
                mode="markers",
                name=label,
                marker={"color": color, "symbol": symbol, "size": size, "line": {"width": 2}},
            )
        figure.update_layout(
            template="plotly_white",
            xaxis={"title": "test accuracy (%)"},
            yaxis={"title": "", "autorange": "reversed"},
        )
        rows = [
            [label, f"{np.mean(accuracy[name]):.2f} ± {np.std(accuracy[name], ddof=1):.2f}"]
            for name, label in METHODS.items()
        ]
        rows.append(
            ["equal predictions", f"{100 * np.mean([r['agreement'] for _, r in done]):.2f}"]
        )
        gap = float(np.mean(np.subtract(accuracy["pmvge"], accuracy["softmax"])))
        goal = Goal(
            "PMvGE against the plain classifier, mean accuracy",
            "at most 1 point below",
            f"{gap:+.2f} points",
            gap > -1.0,
        )
        caption = f"Handwritten digits, test accuracy in percent, {len(done)} splits"
        plot = Plot("Test accuracy of both classifiers on each split, joined by lines.", figure)
        return Summary([Table(caption, ["", "mean ± s.d. (%)"], rows)], [plot], [goal])
