"""Animals with Attributes (section 6.2): rank the attributes of an image by cosine.

There are two views: images, and attributes with word vectors; w = 1 for an image and the attributes
of its class. In (A) models are fitted to training and test images with all their links; settings
are chosen on the training images of the same fit, as in the paper. In (B) models are fitted to
training images only, 300 of which are held out while settings are chosen; other images are embedded
from their features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from pmvge.encoders import EncoderSpec
from pmvge.errors import InputError, choose
from pmvge.experiments.base import Job, Result, Summary
from pmvge.experiments.comparison import Comparison, Metric, Part, Score, percent, unit
from pmvge.experiments.methods import METHODS
from pmvge.experiments.paper.animals import ATTRIBUTE, IMAGE, Animals, Array, Index, load_animals
from pmvge.experiments.paper.attribute_tables import AttributeScores, Case
from pmvge.experiments.paper_model import make_method
from pmvge.experiments.recipe import Entry, Recipe
from pmvge.experiments.result_cache import Arrays, digest

POPULARITY = "popularity"  # rank attributes by the number of fitted images that have them
CEILING = "ceiling"  # simulated images only: posterior of the class given the latent vector z
SETTINGS = ("A", "B")
AP = Metric("average_precision", "task 3, average precision")


@dataclass(frozen=True)
class Split:
    """The images that a model is fitted to, and the images whose attributes are ranked."""

    fit: Index
    query: Index


class AttributeRanking(Comparison):
    """Task 3, with one row for each method and case: (A) or (B), and the noise level."""

    options: ClassVar[Mapping[str, Any]] = {
        "settings": ["A"],
        "noise": [],  # levels of simulated images; empty: real images
        "images": "awa1",
        "vectors": "glove",
        "per_class": 50,
        "train": 1500,
        "test": 1000,
        "validation": 300,  # of the training images, in (B)
        "fits": 2,  # in (A), with different seeds; the splits share them
        "image_components": 0,  # principal components of the images; 0: all columns
        "ours": "",  # the method with the goal of being best
        "largest_gap": 2.0,  # percentage points that (B) may be below (A)
    }
    summary_options = ("ours", "largest_gap")
    metrics: ClassVar[tuple[Metric, ...]] = (AP,)

    def __init__(
        self, recipe: Recipe, data: Path | None = None, workspace: Path | None = None
    ) -> None:
        super().__init__(recipe, data, workspace)
        for setting in self.settings["settings"]:
            choose("setting", setting, SETTINGS, f"recipe {recipe.name!r}")
        if self.settings["noise"] and not recipe.simulated:
            raise InputError(
                f"recipe {recipe.name!r}: expected simulated = true with noise levels, got false"
            )
        self.cases = [
            Case(setting, noise)
            for noise in self.settings["noise"] or [None]
            for setting in self.settings["settings"]
        ]
        self.entries = recipe.methods  # of the recipe, before they are multiplied by cases
        self.rows: dict[str, tuple[Entry, Case]] = {}
        rows = []
        for entry in self.entries:
            for case in self.cases:
                if (label := self.label(entry, case)) and label not in self.rows:
                    self.rows[label] = (entry, case)
                    settings = {"case": str(case), **entry.settings}
                    rows.append(replace(entry, label=label, settings=settings))
        self.recipe = replace(recipe, methods=tuple(rows))
        self._projected: dict[Any, Array] = {}

    def label(self, entry: Entry, case: Case) -> str:
        """Return the label of a method's row in a case; "" if the method cannot do the case.

        Methods that do not use features have the same row for all noise levels.
        """
        kind = METHODS.get(entry.method)
        if case.setting == "B" and kind is not None and not kind.inductive:
            return ""
        if len(self.cases) == 1:
            return entry.label
        no_features = entry.method == POPULARITY or (kind is not None and kind.n_views == 0)
        return f"{entry.label} {Case(case.setting) if no_features else case}"

    # -- data -------------------------------------------------------------------------------

    def animals(self, noise: float | None) -> Animals:
        """Return the data of a noise level."""
        names = ("images", "vectors", "per_class")
        chosen = {name: self.settings[name] for name in names}
        return load_animals(self.data, noise=noise, seed=self.recipe.seed, **chosen)

    def data_digest(self) -> str:
        """Return a hash of images, vectors and classes at the first noise level."""
        animals = self.animals(self.cases[0].noise)
        return digest(animals.images, animals.vectors, animals.labels, animals.has)

    def check(self) -> None:
        """Raise InputError if data are missing or there are too few images."""
        self.split(self.animals(self.cases[0].noise), self.cases[0], 0, "test")

    def split(self, animals: Animals, case: Case, repetition: int, part: Part) -> Split:
        """Return a uniform split; the classes are not balanced in the parts."""
        n, (train, test, held) = (
            len(animals.labels),
            (int(self.settings[name]) for name in ("train", "test", "validation")),
        )
        if train + test > n or not 0 < held < train:
            raise InputError(
                f"recipe {self.recipe.name!r}: expected at most {n} images and a validation part "
                f"smaller than the training part, got {train} for training, {test} for testing "
                f"and {held} for validation"
            )
        order = np.random.default_rng([self.recipe.seed, repetition]).permutation(n)
        train_rows, test_rows = order[:train], order[train : train + test]
        if case.setting == "A":
            query = test_rows if part == "test" else train_rows
            split = Split(order[: train + test], query)
        elif part == "test":
            split = Split(train_rows, test_rows)
        else:
            split = Split(train_rows[held:], train_rows[:held])
        return Split(np.sort(split.fit), np.sort(split.query))

    def project(self, animals: Animals, case: Case, rows: Index, k: int) -> Array:
        """Return principal components of all images, computed from the fitted ``rows``."""
        if not k:
            return animals.images
        key = (case.noise, k, rows.tobytes())
        if key not in self._projected:
            k = min(k, len(rows) - 1, animals.images.shape[1])
            pca = PCA(k, svd_solver="randomized", random_state=0).fit(animals.images[rows])
            if len(self._projected) >= 4:
                self._projected.pop(next(iter(self._projected)))
            self._projected[key] = np.asarray(pca.transform(animals.images), np.float32)
        return self._projected[key]

    # -- one fit ----------------------------------------------------------------------------

    def score(
        self, entry: Entry, settings: Mapping[str, Any], repetition: int, part: Part
    ) -> Score:
        """Return the mean average precision of the ranked attributes over the query images."""
        case, animals, split, chosen, seed = self.fit_inputs(entry, settings, repetition, part)
        ranked, seconds = self.rank(entry.method, chosen, animals, case, split, seed)
        truth = animals.has[animals.labels[split.query]]
        return Score({AP.name: float(average_precisions(truth, ranked).mean())}, seconds)

    def fit_inputs(
        self, entry: Entry, settings: Mapping[str, Any], repetition: int, part: Part
    ) -> tuple[Case, Animals, Split, dict[str, Any], int]:
        """Return the case, data, split, settings and seed of one fit."""
        case = self.rows[entry.label][1]
        animals = self.animals(case.noise)
        split = self.split(animals, case, repetition, part)
        chosen = {name: value for name, value in settings.items() if name != "case"}
        return case, animals, split, chosen, self.fit_seed(case.setting, repetition, part)

    def rank(
        self,
        method: str,
        settings: dict[str, Any],
        animals: Animals,
        case: Case,
        split: Split,
        seed: int,
    ) -> tuple[Array, float]:
        """Return scores of all attributes for each query image, and the seconds of the fit."""
        if method == POPULARITY:
            counts = animals.has[animals.labels[split.fit]].sum(axis=0)
            return np.tile(counts, (len(split.query), 1)), 0.0
        if method == CEILING:
            if animals.chances is None:
                raise InputError("ceiling: expected simulated images, got real ones")
            return np.asarray(animals.chances[split.query] @ animals.has), 0.0

        def fit() -> Arrays:
            model, X = self.fitted(method, settings, animals, case, split.fit, seed)
            Y = model.embeddings_[IMAGE] if case.setting == "A" else model.embed(IMAGE, X[new])
            return {"scores": unit(Y) @ unit(model.embeddings_[ATTRIBUTE]).T}

        new = split.query[:0] if case.setting == "A" else split.query
        kind = METHODS[method]
        noise = None if kind.n_views == 0 else case.noise  # it does not use features
        key = [method, settings, noise, seed, digest(split.fit, new)]
        arrays, seconds = self.cached_fit(key, fit)
        scores = arrays["scores"]
        if case.setting == "A":
            scores = scores[np.searchsorted(split.fit, split.query)]
        return scores, seconds

    def fitted(
        self,
        method: str,
        settings: dict[str, Any],
        animals: Animals,
        case: Case,
        rows: Index,
        seed: int,
    ) -> tuple[Any, Array]:
        """Return a model fitted to some images and all attributes, and all images' features."""
        settings = dict(settings)
        k = int(settings.pop("image_components", self.settings["image_components"]))
        X = self.project(animals, case, rows, k)
        kind = METHODS[choose("method", method, (*METHODS, POPULARITY, CEILING))]
        if isinstance(encoder := settings.get("encoder"), dict):
            settings["encoder"] = {view: EncoderSpec(**spec) for view, spec in encoder.items()}
        given = {"random_state": seed, "progress": False}
        known = kind().get_params(deep=False)
        settings |= {name: value for name, value in given.items() if name in known}
        return make_method(method, settings).fit(animals.graph(rows, X[rows])), X

    # -- summary ----------------------------------------------------------------------------

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return a table of methods and cases, and goals; for real images, the paper's numbers."""
        scores = AttributeScores(
            cases=self.cases,
            labels=[entry.label for entry in self.entries],
            values={
                (entry.label, case): [
                    percent(result, AP) for job, result in results.items() if job.row == row
                ]
                for entry in self.entries
                for case in self.cases
                if (row := self.label(entry, case))
            },
            upper_bounds=[entry.label for entry in self.entries if entry.method == CEILING],
        )
        goals = scores.goals(self.settings["ours"], self.settings["largest_gap"])
        if len(self.cases) == 1:
            summary = super().summarize(results)
            tables = [
                replace(table, caption=self._caption(table.caption)) for table in summary.tables
            ]
            return replace(summary, tables=tables, goals=goals)
        return Summary([scores.table(self._caption(self.recipe.title))], scores.plots(), goals)

    def _caption(self, caption: str) -> str:
        """Return a caption, with "(simulated images)" added if the images are simulated."""
        if not self.recipe.simulated or "simulated" in caption:
            return caption
        return f"{caption} (simulated images)"


def average_precisions(truth: NDArray[np.bool_], scores: Array) -> NDArray[np.float64]:
    """Return the average precision of each row, (n,); items with equal scores share a rank."""
    out = np.empty(len(truth))
    for start in range(0, len(truth), 256):
        relevant, s = truth[start : start + 256], scores[start : start + 256]
        above = s[:, None, :] >= s[:, :, None]  # (n, m, m): item k scores at least as high as j
        precision = (above & relevant[:, None, :]).sum(axis=2) / above.sum(axis=2)
        out[start : start + 256] = (precision * relevant).sum(axis=1) / relevant.sum(axis=1)
    return out
