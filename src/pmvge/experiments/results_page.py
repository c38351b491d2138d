"""Reports of experiments as Markdown, and as HTML pages that work offline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pmvge.experiments.base import Experiment, Goal, Plot, Summary, Table
from pmvge.experiments.recipe import Recipe
from pmvge.experiments.runs import read_jobs
from pmvge.pages import Section, document, escape_html, figure, table
from pmvge.storage import replace_file

SIMULATED = "Simulated data: not comparable with the paper's numbers."


@dataclass(frozen=True)
class ExperimentReport:
    """A recipe with the summary of its results. ``made_with`` has the command and the versions."""

    recipe: Recipe
    summary: Summary
    done: int
    jobs: int
    made_with: str

    @property
    def state(self) -> str:
        """The number of jobs done, or "complete"."""
        return "complete" if self.done == self.jobs else f"{self.done} of {self.jobs} jobs done"


def read_experiment_report(experiment: Experiment, folder: Path) -> ExperimentReport:
    """Return the report of the results in an experiment's folder; jobs may be missing."""
    recipe, jobs = experiment.recipe, read_jobs(experiment, folder)
    searched = any(entry.search for entry in recipe.methods) and not recipe.tuned
    command = f"pmvge reproduce {recipe.name}" + (" --tune" if searched else "")
    return ExperimentReport(
        recipe=recipe,
        summary=experiment.summarize({job: content["result"] for job, content in jobs.items()}),
        done=len(jobs),
        jobs=len(experiment.jobs()),
        made_with="; ".join([command, *sorted({_versions(job) for job in jobs.values()})]),
    )


def _versions(job: Mapping[str, Any]) -> str:
    made_with = job["made_with"]
    versions = ", ".join(f"{name} {version}" for name, version in made_with["versions"].items())
    return f"{versions}; {made_with['cores']} cores"


def write_experiment_reports(folder: Path, reports: Sequence[ExperimentReport], title: str) -> None:
    """Write ``table.md`` and ``index.html`` to a folder; raise StorageError if that fails."""
    text = "\n".join(map(to_markdown, reports))
    page = to_html(reports, title)
    replace_file(folder / "table.md", lambda path: path.write_text(text, encoding="utf-8"))
    replace_file(folder / "index.html", lambda path: path.write_text(page, encoding="utf-8"))


def _goal_table(goals: Sequence[Goal]) -> Table:
    rows = [[g.what, g.wanted, g.found, "yes" if g.met else "no"] for g in goals]
    return Table("Goals", ("goal", "wanted", "found", "met"), rows)


# -- Markdown -------------------------------------------------------------------------------


def to_markdown(
    report: ExperimentReport, heading: str = "#", figure_files: Sequence[str] = ()
) -> str:
    """Return tables, goals and notes as Markdown, with links to files of the figures, if given."""
    recipe, summary = report.recipe, report.summary
    parts = [f"{heading} {recipe.name}: {recipe.title}", recipe.summary]
    if recipe.simulated:
        parts.append(f"**{SIMULATED}**")
    if report.done < report.jobs:
        parts.append(f"*Not complete: {report.state}.*")
    parts += [_markdown_table(table) for table in summary.tables]
    for file, plot in zip(figure_files, summary.plots, strict=False):
        parts.append(f"![{recipe.title}]({file})\n\n*{plot.caption}*")
    if summary.goals:
        parts.append(_markdown_table(_goal_table(summary.goals)))
    if recipe.notes:
        parts.append("\n".join(f"- {note}" for note in recipe.notes))
    parts.append(f"*{report.made_with}*")
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "| --- |" + " --: |" * (len(table.columns) - 1)
    caption = table.caption.replace("*", "\\*")
    return "\n".join([f"*{caption}*", "", line(table.columns), rule, *map(line, table.rows)])


# -- HTML -----------------------------------------------------------------------------------


def to_html(reports: Sequence[ExperimentReport], title: str) -> str:
    """Return one page with a section for each experiment."""
    goals = [goal for report in reports for goal in report.summary.goals]
    tiles = [
        ("experiments", f"{len(reports)}"),
        ("jobs done", f"{sum(r.done for r in reports)} of {sum(r.jobs for r in reports)}"),
    ]
    if goals:
        tiles.append(("goals met", f"{sum(goal.met for goal in goals)} of {len(goals)}"))
    return document(
        title,
        "Our numbers beside those of Okuno, Hada and Shimodaira (ICML 2018).",
        [_section(report) for report in reports],
        kind="Experiments",
        tiles=tiles,
    )


def _section(report: ExperimentReport) -> Section:
    recipe, summary = report.recipe, report.summary
    parts = []
    if recipe.simulated:
        parts.append(f'<p class="notice">{escape_html(SIMULATED, None)}</p>')
    if report.done < report.jobs:
        parts.append(f'<p class="notice">Not complete: {escape_html(report.state)}.</p>')
    parts += [_card(_html_table(table)) for table in summary.tables]
    parts += [_figure(f"{recipe.name}-figure-{k}", plot) for k, plot in enumerate(summary.plots, 1)]
    if summary.goals:
        row_classes = ["met" if goal.met else "missed" for goal in summary.goals]
        goals = _html_table(_goal_table(summary.goals), text_columns=2, row_classes=row_classes)
        parts.append(_card(goals))
    if recipe.notes:
        notes = "".join(f"<li>{escape_html(note, None)}</li>" for note in recipe.notes)
        parts.append(f'<ul class="notes">{notes}</ul>')
    parts.append(f'<p class="note">{escape_html(report.made_with, None)}</p>')
    return Section(
        recipe.name, recipe.title, escape_html(recipe.summary, None), "\n".join(parts), recipe.name
    )


def _card(content: str, css_class: str = "card") -> str:
    return f'<div class="{css_class}">{content}</div>'


def _html_table(content: Table, *, text_columns: int = 1, row_classes: Sequence[str] = ()) -> str:
    return table(
        [escape_html(column) for column in content.columns],
        [[escape_html(cell, None) for cell in row] for row in content.rows],
        text_columns=text_columns,
        row_classes=row_classes,
        caption=escape_html(content.caption, None),
    )


def _figure(anchor: str, plot: Plot) -> str:
    """Return a plot as HTML; the page sets its size, fonts and background."""
    content = plot.figure.to_plotly_json()
    layout = {
        name: value
        for name, value in content["layout"].items()
        if name not in ("template", "height")
    }
    traces = content["data"]
    several = sum(trace.get("showlegend", True) and "name" in trace for trace in traces) > 1
    layout.setdefault("showlegend", several)
    if "annotations" in layout:  # titles of subplots need space
        layout["margin"] = {"l": 8, "r": 14, "t": 36, "b": 8}
    return _card(
        figure(anchor, {"data": traces, "layout": layout}, plot.caption, caption=plot.caption),
        "card tall",
    )
