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
from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots
from sklearn.decomposition import PCA

from pmvge.encoders import EncoderSpec
from pmvge.errors import InputError, choose
from pmvge.experiments.animals import (
    ATTRIBUTE,
    IMAGE,
    Animals,
    Array,
    Index,
    load_animals,
)
from pmvge.experiments.base import Drawing, Goal, Job, Result, Summary, Table
from pmvge.experiments.comparison import Comparison, Metric, Part, spread
from pmvge.experiments.recipe import Entry, Recipe
from pmvge.methods import METHODS

POPULARITY = "popularity"  # attributes by how many images of the fit have them
CEILING = "ceiling"  # simulated images only: the posterior of the class, from what it was drawn by
SETTINGS = ("A", "B")
AP = Metric("average_precision", "task 3, average precision")


@dataclass(frozen=True)
class Case:
    """(A) or (B), and the noise level of simulated images."""

    setting: str
    noise: float | None = None

    def __str__(self) -> str:
        return f"({self.setting})" if self.noise is None else f"({self.setting}) s = {self.noise:g}"


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
        "image_components": 0,  # principal components that stand for an image; 0: all columns
        "ours": "",  # the row that should be best
        "largest_gap": 2.0,  # percent, that (B) may be below (A)
    }
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
    ) -> dict[str, float]:
        """The mean over images of the average precision of their ranked attributes."""
        case = self.of[entry.label][1]
        animals = self.animals(case.noise)
        split = self.split(animals, case, repetition, part)
        chosen = {name: value for name, value in settings.items() if name != "case"}
        scores = self.rank(entry.method, chosen, animals, case, split, repetition)
        truth = animals.has[animals.labels[split.ask]]
        return {AP.name: float(average_precisions(truth, scores).mean())}

    def rank(
        self,
        method: str,
        settings: dict[str, Any],
        animals: Animals,
        case: Case,
        split: Split,
        repetition: int,
    ) -> Array:
        """What each attribute scores for each image that is asked for."""
        if method == POPULARITY:
            counts = animals.has[animals.labels[split.fit]].sum(axis=0)
            return np.tile(counts, (len(split.ask), 1))
        if method == CEILING:
            if animals.chances is None:
                raise InputError("ceiling: known for simulated images only")
            return np.asarray(animals.chances[split.ask] @ animals.has)
        model, X = self.fitted(method, settings, animals, case, split.fit, repetition)
        if case.setting == "A":
            Y = model.embeddings_[IMAGE][np.searchsorted(split.fit, split.ask)]
        else:
            Y = model.embed(IMAGE, X[split.ask])
        return np.asarray(unit(Y) @ unit(model.embeddings_[ATTRIBUTE]).T)

    def fitted(
        self,
        method: str,
        settings: dict[str, Any],
        animals: Animals,
        case: Case,
        rows: Index,
        repetition: int,
    ) -> tuple[Any, Array]:
        """A model of some images and all attributes, and the images as it takes them."""
        settings = dict(settings)
        k = int(settings.pop("image_components", self.settings["image_components"]))
        X = self.project(animals, case, rows, k)
        kind = METHODS[choose("method", method, (*METHODS, POPULARITY, CEILING))]
        if isinstance(encoder := settings.get("encoder"), dict):
            settings["encoder"] = {view: EncoderSpec(**spec) for view, spec in encoder.items()}
        known = kind().get_params(deep=False)
        if "random_state" in known:
            rng = np.random.default_rng([self.recipe.seed, repetition, 1])
            settings["random_state"] = int(rng.integers(2**31))
        if "progress" in known:
            settings["progress"] = False
        return kind(**settings).fit(animals.graph(rows, X[rows])), X

    # -- what comes of it -------------------------------------------------------------------

    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """A row a method, a column a case, and goals; the paper's numbers if images are real."""
        goals = self._goals(results)
        if len(self.cases) == 1:
            summary = super().summarize(results)
            tables = [
                replace(table, caption=self._marked(table.caption)) for table in summary.tables
            ]
            return replace(summary, tables=tables, goals=goals)
        rows = []
        for entry in self.entries:
            mine = [self._values(results, entry, case) for case in self.cases]
            shown = [
                spread(values) if self.label(entry, case) else "–"
                for values, case in zip(mine, self.cases, strict=True)
            ]
            rows.append([entry.label, *shown])
        done = min((len(values) for values in self._done(results)), default=0)
        caption = f"{self.recipe.title}: average precision in percent, mean ± standard "
        caption += f"deviation over {done} splits"
        table = Table(self._marked(caption), ["method", *map(str, self.cases)], rows)
        return Summary([table], self._drawings(results), goals)

    def _marked(self, caption: str) -> str:
        """A caption that says so if the images are simulated."""
        return f"{caption} (simulated images)" if self.recipe.simulated else caption

    def _values(self, results: Mapping[Job, Result], entry: Entry, case: Case) -> list[float]:
        label = self.label(entry, case)
        return [100 * r["scores"][AP.name] for job, r in results.items() if job.row == label]

    def _done(self, results: Mapping[Job, Result]) -> list[list[float]]:
        return [self._values(results, entry, case) for entry, case in self.of.values()]

    def _goals(self, results: Mapping[Job, Result]) -> list[Goal]:
        goals = []
        ours = next((entry for entry in self.entries if entry.label == self.settings["ours"]), None)
        means: dict[Case, float] = {}
        for case in self.cases if ours else []:
            scores = {
                entry.label: float(np.mean(values))
                for entry in self.entries
                if entry.method != CEILING and (values := self._values(results, entry, case))
            }
            if ours is None or ours.label not in scores or len(scores) < 2:
                continue
            means[case] = scores.pop(ours.label)
            other = max(scores, key=lambda label: scores[label])
            goals.append(
                Goal(
                    f"{ours.label} {case}",
                    f"at or above every other method: {other}, {scores[other]:.1f}",
                    f"{means[case]:.1f}",
                    means[case] >= scores[other],
                )
            )
        for case, mean in means.items():
            above = replace(case, setting="A")
            if case.setting == "B" and above in means:
                gap, most = means[above] - mean, self.settings["largest_gap"]
                goals.append(
                    Goal(
                        f"(B) of {self.settings['ours']} against its {above}",
                        f"at most {most:g} points below",
                        f"{gap:.1f} below",
                        gap <= most,
                    )
                )
        return goals

    def _drawings(self, results: Mapping[Job, Result]) -> list[Drawing]:
        """Average precision against the noise level."""
        levels = self.settings["noise"]
        if len(levels) < 2 or not results:
            return []
        chosen = self.settings["settings"]
        figure: Figure = make_subplots(
            1, len(chosen), shared_yaxes=True, subplot_titles=[f"({setting})" for setting in chosen]
        )
        for entry in self.entries:
            for column, setting in enumerate(chosen, start=1):
                values = [self._values(results, entry, Case(setting, s)) for s in levels]
                if not all(values):
                    continue
                line = Scatter(
                    x=[str(s) for s in levels],
                    y=[float(np.mean(v)) for v in values],
                    name=entry.label,
                    legendgroup=entry.label,
                    showlegend=column == 1,
                    line={"dash": "dot" if entry.method == CEILING else "solid"},
                    mode="lines+markers",
                )
                figure.add_trace(line, 1, column)
        figure.update_layout(template="plotly_white", height=420)
        figure.update_xaxes(title_text="noise s of the simulated images")
        figure.update_yaxes(title_text="average precision (%)", col=1)
        caption = "Average precision against the noise of the simulated images. Dotted: what the "
        caption += "posterior of the class would reach if what the image was drawn from were known."
        return [Drawing(caption, figure)]


def unit(Y: Array) -> Array:
    """Rows of length 1; a row of zeros stays one."""
    return np.asarray(Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-12))


def average_precisions(truth: NDArray[np.bool_], scores: Array) -> NDArray[np.float64]:
    """The average precision of each row, (n,); items with equal scores share their precision."""
    out = np.empty(len(truth))
    for start in range(0, len(truth), 256):
        right, s = truth[start : start + 256], scores[start : start + 256]
        above = s[:, None, :] >= s[:, :, None]  # (n, m, m): is the last at least as high?
        precision = (above & right[:, None, :]).sum(axis=2) / above.sum(axis=2)
        out[start : start + 256] = (precision * right).sum(axis=1) / right.sum(axis=1)
    return out
