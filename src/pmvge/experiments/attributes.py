"""Animals with Attributes (section 6.2): rank the attributes of an image, by cosine.

Two views: images, and attributes with word vectors; w = 1 for an image and the attributes of its
class. (A): fitted to training and test images and all their links; settings are chosen by the
training images of the same fit, as in the paper. (B): fitted to training images alone, 300 of which
are left out while settings are chosen; other images are embedded from their features.
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
from pmvge.experiments.animals import ATTRIBUTE, IMAGE, Animals, Array, Index, load_animals
from pmvge.experiments.attribute_tables import Case, Found
from pmvge.experiments.base import Job, Result, Summary
from pmvge.experiments.comparison import Comparison, Metric, Part, Score, percent, unit
from pmvge.experiments.kept import Arrays, digest
from pmvge.experiments.methods import METHODS
from pmvge.experiments.recipe import Entry, Recipe

POPULARITY = "popularity"  # attributes by how many images of the fit have them
CEILING = "ceiling"  # simulated images only: the posterior of the class, from what it was drawn by
SETTINGS = ("A", "B")
AP = Metric("average_precision", "task 3, average precision")


@dataclass(frozen=True)
class Split:
    """The images that a model is fitted to, and those whose attributes are asked for."""

    fit: Index
    ask: Index


class AttributeRanking(Comparison):
    """Task 3. Each method has a row for every case: (A), (B), and noise levels."""

    options: ClassVar[Mapping[str, Any]] = {
        "settings": ["A"],
        "noise": [],  # levels of simulated images; none: real ones
        "images": "awa1",
        "vectors": "glove",
        "per_class": 50,
        "train": 1500,
        "test": 1000,
        "validation": 300,  # of the training images, in (B)
        "fits": 2,  # in (A), with different seeds: the images of a fit are the same for every split
        "image_components": 0,  # principal components that stand for an image; 0: all columns
        "ours": "",  # the row that should be best
        "largest_gap": 2.0,  # percent, that (B) may be below (A)
    }
    judging = ("ours", "largest_gap")
    metrics: ClassVar[tuple[Metric, ...]] = (AP,)

    def __init__(
        self, recipe: Recipe, data: Path | None = None, workspace: Path | None = None
    ) -> None:
        super().__init__(recipe, data, workspace)
        for setting in self.settings["settings"]:
            choose("setting", setting, SETTINGS, f"recipe {recipe.name!r}")
        if self.settings["noise"] and not recipe.simulated:
            raise InputError(f"recipe {recipe.name!r}: has noise levels but is not simulated")
        self.cases = [
            Case(setting, noise)
            for noise in self.settings["noise"] or [None]
            for setting in self.settings["settings"]
        ]
        self.entries = recipe.methods  # as the recipe has them
        self.of: dict[str, tuple[Entry, Case]] = {}
        rows = []
        for entry in self.entries:
            for case in self.cases:
                if (label := self.label(entry, case)) and label not in self.of:
                    self.of[label] = (entry, case)
                    mine = {"case": str(case), **entry.settings}
                    rows.append(replace(entry, label=label, settings=mine))
        self.recipe = replace(recipe, methods=tuple(rows))
        self._projected: dict[Any, Array] = {}

    def label(self, entry: Entry, case: Case) -> str:
        """The row of a method in a case; "" if it has none, the same if it has the same numbers."""
        kind = METHODS.get(entry.method)
        if case.setting == "B" and kind is not None and not kind.inductive:
            return ""
        if len(self.cases) == 1:
            return entry.label
        blind = entry.method == POPULARITY or (kind is not None and kind.n_views == 0)
        return f"{entry.label} {Case(case.setting) if blind else case}"

    # -- data -------------------------------------------------------------------------------

    def animals(self, noise: float | None) -> Animals:
        """The data of a noise level."""
        names = ("images", "vectors", "per_class")
        chosen = {name: self.settings[name] for name in names}
        return load_animals(self.data, noise=noise, seed=self.recipe.seed, **chosen)

    def data_digest(self) -> str:
        """Of images, vectors and classes, at the first noise level."""
        animals = self.animals(self.cases[0].noise)
        return digest(animals.images, animals.vectors, animals.labels, animals.has)

    def check(self) -> None:
        """The data must be there, and enough of them."""
        self.split(self.animals(self.cases[0].noise), self.cases[0], 0, "test")

    def split(self, animals: Animals, case: Case, repetition: int, part: Part) -> Split:
        """Uniform; the classes are not balanced in the parts."""
        n, (train, test, held) = (
            len(animals.labels),
            (int(self.settings[name]) for name in ("train", "test", "validation")),
        )
        if train + test > n or not 0 < held < train:
            raise InputError(
                f"recipe {self.recipe.name!r}: expected at most {n} images, the validation part "
                f"less than the training part; got {train} + {test}, {held} for validation"
            )
        order = np.random.default_rng([self.recipe.seed, repetition]).permutation(n)
        learn, judge = order[:train], order[train : train + test]
        if case.setting == "A":
            split = Split(order[: train + test], judge if part == "test" else learn)
        elif part == "test":
            split = Split(learn, judge)
        else:
            split = Split(learn[held:], learn[:held])
        return Split(np.sort(split.fit), np.sort(split.ask))

    def project(self, animals: Animals, case: Case, rows: Index, k: int) -> Array:
        """All images by the principal components of those that a model may see."""
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
        """The mean over images of the average precision of their ranked attributes."""
        case = self.of[entry.label][1]
        animals = self.animals(case.noise)
        split = self.split(animals, case, repetition, part)
        chosen = {name: value for name, value in settings.items() if name != "case"}
        seed = self.fit_seed(case.setting, repetition, part)
        ranked, seconds = self.rank(entry.method, chosen, animals, case, split, seed)
        truth = animals.has[animals.labels[split.ask]]
        return Score({AP.name: float(average_precisions(truth, ranked).mean())}, seconds)

    def rank(
        self,
        method: str,
        settings: dict[str, Any],
        animals: Animals,
        case: Case,
        split: Split,
        seed: int,
    ) -> tuple[Array, float]:
        """What each attribute scores for each image that is asked for; the seconds of the fit."""
        if method == POPULARITY:
            counts = animals.has[animals.labels[split.fit]].sum(axis=0)
            return np.tile(counts, (len(split.ask), 1)), 0.0
        if method == CEILING:
            if animals.chances is None:
                raise InputError("ceiling: known for simulated images only")
            return np.asarray(animals.chances[split.ask] @ animals.has), 0.0

        def fit() -> Arrays:
            model, X = self.fitted(method, settings, animals, case, split.fit, seed)
            Y = model.embeddings_[IMAGE] if case.setting == "A" else model.embed(IMAGE, X[new])
            return {"scores": unit(Y) @ unit(model.embeddings_[ATTRIBUTE]).T}

        new = split.ask[:0] if case.setting == "A" else split.ask
        kind = METHODS[method]
        noise = None if kind.n_views == 0 else case.noise  # it does not look at features
        of = [method, settings, noise, seed, digest(split.fit, new)]
        made, seconds = self.kept(of, fit)
        scores = made["scores"]
        if case.setting == "A":
            scores = scores[np.searchsorted(split.fit, split.ask)]
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
        """A model of some images and all attributes, and the images as it takes them."""
        settings = dict(settings)
        k = int(settings.pop("image_components", self.settings["image_components"]))
        X = self.project(animals, case, rows, k)
        kind = METHODS[choose("method", method, (*METHODS, POPULARITY, CEILING))]
        if isinstance(encoder := settings.get("encoder"), dict):
            settings["encoder"] = {view: EncoderSpec(**spec) for view, spec in encoder.items()}
        given = {"random_state": seed, "progress": False}
        known = kind().get_params(deep=False)
        settings |= {name: value for name, value in given.items() if name in known}
        return kind(**settings).fit(animals.graph(rows, X[rows])), X

    # -- what comes of it -------------------------------------------------------------------

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """A row a method, a column a case, and goals; the paper's numbers if images are real."""
        found = Found(
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
            bound=[entry.label for entry in self.entries if entry.method == CEILING],
        )
        goals = found.goals(self.settings["ours"], self.settings["largest_gap"])
        if len(self.cases) == 1:
            summary = super().summarize(results)
            tables = [
                replace(table, caption=self._marked(table.caption)) for table in summary.tables
            ]
            return replace(summary, tables=tables, goals=goals)
        return Summary([found.table(self._marked(self.recipe.title))], found.drawings(), goals)

    def _marked(self, caption: str) -> str:
        """A caption that says so if the images are simulated."""
        said = not self.recipe.simulated or "simulated" in caption
        return caption if said else f"{caption} (simulated images)"


def average_precisions(truth: NDArray[np.bool_], scores: Array) -> NDArray[np.float64]:
    """The average precision of each row, (n,); items with equal scores share their precision."""
    out = np.empty(len(truth))
    for start in range(0, len(truth), 256):
        right, s = truth[start : start + 256], scores[start : start + 256]
        above = s[:, None, :] >= s[:, :, None]  # (n, m, m): is the last at least as high?
        precision = (above & right[:, None, :]).sum(axis=2) / above.sum(axis=2)
        out[start : start + 256] = (precision * right).sum(axis=1) / right.sum(axis=1)
    return out
