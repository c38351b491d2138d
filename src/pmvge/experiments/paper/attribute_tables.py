"""Results of task 3: a table with a column for each case, goals, and a figure over the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from plotly.colors import qualitative
from plotly.graph_objects import Figure, Scatter
from plotly.subplots import make_subplots

from pmvge.experiments.base import Goal, Plot, Table
from pmvge.experiments.comparison import spread

COLOURS = qualitative.D3 + qualitative.Set2


@dataclass(frozen=True)
class Case:
    """A setting, "A" or "B", and the noise level of simulated images."""

    setting: str
    noise: float | None = None

    def __str__(self) -> str:
        return f"({self.setting})" if self.noise is None else f"({self.setting}) s = {self.noise:g}"


@dataclass(frozen=True)
class AttributeScores:
    """Average precisions in percent by repetition, of each method in each case."""

    cases: Sequence[Case]
    labels: Sequence[str]
    values: Mapping[tuple[str, Case], Sequence[float]]  # no key: the method cannot do the case
    upper_bounds: Sequence[str]  # labels of bounds, which are not methods

    def table(self, title: str) -> Table:
        """Return a table with a row for each method and a column for each case."""
        rows = [
            [label, *(self._cell(self.values.get((label, case))) for case in self.cases)]
            for label in self.labels
        ]
        done = min((len(values) for values in self.values.values()), default=0)
        caption = f"{title}: average precision in percent, mean ± standard deviation over {done} "
        return Table(caption + "splits", ["method", *map(str, self.cases)], rows)

    def _cell(self, values: Sequence[float] | None) -> str:
        return "–" if values is None else spread(list(values))

    def mean(self, label: str, case: Case) -> float | None:
        """Return the mean over fits that did not diverge; None if there are none."""
        values = [v for v in self.values.get((label, case), ()) if not np.isnan(v)]
        return float(np.mean(values)) if values else None

    def goals(self, ours: str, largest_gap: float) -> list[Goal]:
        """Return goals: ``ours`` is at least as good as all others, and (B) is close to (A)."""
        goals, means = [], {}
        for case in self.cases:
            own = self.mean(ours, case)
            others = {
                label: mean
                for label in self.labels
                if label not in (ours, *self.upper_bounds)
                and (mean := self.mean(label, case)) is not None
            }
            if own is None or not others:
                continue
            means[case] = own
            best = max(others, key=lambda label: others[label])
            wanted = f"at least as good as the best other method: {best}, {others[best]:.1f}"
            values = self.values[ours, case]
            met = bool(np.mean(values) >= others[best])  # False if one of them diverged
            goals.append(Goal(f"{ours} {case}", wanted, spread(list(values)), met))
        for case, mean in means.items():
            case_a = replace(case, setting="A")
            if case.setting == "B" and case_a in means:
                gap = means[case_a] - mean
                wanted = f"at most {largest_gap:g} points below"
                what = f"{ours} {case} against {case_a}"
                goals.append(Goal(what, wanted, f"{gap:.1f} below", gap <= largest_gap))
        return goals

    def plots(self) -> list[Plot]:
        """Return a figure of average precision against noise, if there are several levels."""
        levels = list(dict.fromkeys(case.noise for case in self.cases))
        settings = list(dict.fromkeys(case.setting for case in self.cases))
        if len(levels) < 2 or not any(self.values.values()):
            return []
        figure: Figure = make_subplots(
            1,
            len(settings),
            shared_yaxes=True,
            subplot_titles=[f"({setting})" for setting in settings],
        )
        in_legend = set()
        for k, label in enumerate(self.labels):
            for column, setting in enumerate(settings, start=1):
                means = [self.mean(label, Case(setting, noise)) for noise in levels]
                if None in means:
                    continue
                line = Scatter(
                    x=[str(noise) for noise in levels],
                    y=means,
                    name=label,
                    legendgroup=label,
                    showlegend=label not in in_legend,
                    line={
                        "dash": "dot" if label in self.upper_bounds else "solid",
                        "color": COLOURS[k % len(COLOURS)],
                    },
                    mode="lines+markers",
                )
                in_legend.add(label)
                figure.add_trace(line, 1, column)
        figure.update_layout(template="plotly_white", height=420)
        figure.update_xaxes(title_text="noise s")
        figure.update_yaxes(title_text="average precision (%)", col=1)
        caption = "Average precision against the noise of the simulated images. Dotted: ranking by "
        caption += "the posterior of the class given the latent vector of the image."
        return [Plot(caption, figure)]
