"""Robustness: how much gross outliers among the weights cost on clean held-out links, by family.

Two views have vectors z ~ N(0, I) and linear features of them with noise; weights are Poisson with
mean proportional to exp(c <z, z'>). A fifth of the links is held out. Then outliers are added to
the training links: random pairs with a large weight, a given share of the number of links. The loss
of a family is its AUC on the held-out links without outliers minus that with outliers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pmvge.experiments.base import Experiment, Goal, Job, Result, Summary, Table
from pmvge.experiments.paper_model import paper_model
from pmvge.graph import Links, MultiViewGraph, hold_out_links

PAIR = ("left", "right")


class Outliers(Experiment):
    """One job for each family and repetition."""

    options: ClassVar[Mapping[str, Any]] = {
        "families": ["poisson", "negative_binomial", "beta"],
        "sizes": [600, 400],
        "latent": 4,
        "features": [40, 30],
        "strength": 0.8,  # c
        "degree": 20.0,  # expected weight of an entity on the left
        "share": 0.05,  # outliers per link
        "weight": 50.0,  # of an outlier
        "n_components": 16,
        "learning_rate": 0.005,
        "max_steps": 300,
    }

    def jobs(self) -> list[Job]:
        """Return the jobs by repetition."""
        return [
            Job(family, str(repetition))
            for repetition in range(self.recipe.repetitions)
            for family in self.settings["families"]
        ]

    def run(self, job: Job) -> Result:
        """Return the AUC on clean held-out links, without and with outliers in training."""
        started = time.perf_counter()
        rng = np.random.default_rng([self.recipe.seed, int(job.column)])  # alike for all families
        kept, held = hold_out_links(self.draw(rng), 0.2, rng)
        contaminated = self.contaminate(kept, rng)
        aucs = {
            name: self.auc(job.row, graph, kept.links[PAIR], held.links[PAIR], int(job.column))
            for name, graph in (("clean", kept), ("contaminated", contaminated))
        }
        return {**aucs, "seconds": time.perf_counter() - started}

    def draw(self, rng: np.random.Generator) -> MultiViewGraph:
        """Draw features and clean links."""
        options = self.settings
        n, m = options["sizes"]
        K = options["latent"]
        z, t = rng.normal(size=(n, K)), rng.normal(size=(m, K))
        views = {}
        for view, latent, p in zip(PAIR, (z, t), options["features"], strict=True):
            X = latent @ rng.normal(size=(K, p)) / np.sqrt(K) + 0.3 * rng.normal(
                size=(len(latent), p)
            )
            views[view] = (X - X.mean(0)) / X.std(0)
        mu = np.exp(options["strength"] * z @ t.T)
        mu *= options["degree"] * n / mu.sum()
        return MultiViewGraph(views, {PAIR: rng.poisson(mu)})

    def contaminate(self, graph: MultiViewGraph, rng: np.random.Generator) -> MultiViewGraph:
        """Return the graph with outliers added to its links."""
        links = graph.links[PAIR]
        count = round(self.settings["share"] * len(links))
        cells = rng.integers(links.shape[0] * links.shape[1], size=count)
        W = links.matrix().toarray()
        np.add.at(W, np.unravel_index(cells, W.shape), self.settings["weight"])
        return MultiViewGraph(dict(graph.views), {PAIR: W})

    def auc(
        self, family: str, graph: MultiViewGraph, known: Links, held: Links, seed: int
    ) -> float:
        """Return the AUC of held-out links against pairs without any clean link."""
        model = paper_model(
            self.settings["n_components"],
            hidden_sizes=(64,),
            activation="relu",
            dropout=0.0,
            similarity="inner",
            family=family,
            max_steps=self.settings["max_steps"],
            learning_rate=self.settings["learning_rate"],
            schedule="cosine",
            patience=None,
            random_state=seed,
            progress=False,
        ).fit(graph)
        g = model.embeddings_["left"] @ model.embeddings_["right"].T
        linked, out = known.matrix().toarray() > 0, held.matrix().toarray() > 0
        up, down = np.sort(g[out]), g[~linked & ~out]
        below = np.searchsorted(up, down, side="left") + np.searchsorted(up, down, side="right")
        return float(1 - below.mean() / (2 * len(up)))

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return the loss of every family."""
        rows, losses = [], {}
        for family in self.settings["families"]:
            fits = [result for job, result in results.items() if job.row == family]
            if not fits:
                continue
            loss = [fit["clean"] - fit["contaminated"] for fit in fits]
            losses[family] = float(np.median(loss))
            clean, contaminated = (
                float(np.median([fit[name] for fit in fits])) for name in ("clean", "contaminated")
            )
            spread = f"{min(loss):.4f} to {max(loss):.4f}"
            rows.append(
                [family, f"{clean:.4f}", f"{contaminated:.4f}", f"{losses[family]:.4f}", spread]
            )
        columns = ["family", "AUC, clean", "AUC, with outliers", "loss", "range of losses"]
        caption = (
            f"AUC on clean held-out links; outliers of weight {self.settings['weight']:g} are "
            f"added, {100 * self.settings['share']:.0f} % of the number of links: medians of "
            f"{self.recipe.repetitions} seeds"
        )
        goals = []
        if {"poisson", "beta"} <= losses.keys():
            goals.append(
                Goal(
                    "loss of beta against that of poisson",
                    "at most a third",
                    f"{losses['beta']:.4f} against {losses['poisson']:.4f}",
                    losses["beta"] <= losses["poisson"] / 3,
                )
            )
        return Summary([Table(caption, columns, rows)], [], goals)
