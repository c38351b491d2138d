"""What an experiment found, as Markdown and as HTML pages that open offline."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from pmvge.experiments.base import Drawing, Experiment, Goal, Summary, Table
from pmvge.experiments.recipe import Recipe
from pmvge.experiments.runs import read_jobs
from pmvge.pages import palette_css
from pmvge.storage import replace_file

SIMULATED = "Simulated data: not comparable with the paper's numbers."


@dataclass(frozen=True)
class Finding:
    """A recipe and what it led to; ``made_with`` says by what, in one line."""

    recipe: Recipe
    summary: Summary
    done: int
    jobs: int
    made_with: str

    @property
    def state(self) -> str:
        """How far it is."""
        return "complete" if self.done == self.jobs else f"{self.done} of {self.jobs} jobs done"


def read_finding(experiment: Experiment, folder: Path) -> Finding:
    """What the results in an experiment's folder say."""
    recipe, jobs = experiment.recipe, read_jobs(experiment, folder)
    searched = any(entry.search for entry in recipe.methods) and not recipe.tuned
    command = f"pmvge reproduce {recipe.name}" + (" --tune" if searched else "")
    return Finding(
        recipe=recipe,
        summary=experiment.summarize({job: content["result"] for job, content in jobs.items()}),
        done=len(jobs),
        jobs=len(experiment.jobs()),
        made_with="; ".join([command, *sorted({_made(content) for content in jobs.values()})]),
    )


def _made(content: Mapping[str, Any]) -> str:
    by = content["made_with"]
    told = ", ".join(f"{library} {number}" for library, number in by["versions"].items())
    return f"{told}; {by['cores']} cores"


def markdown(finding: Finding, heading: str = "#", figures: Sequence[str] = ()) -> str:
    """Tables, goals and notes, and files with the figures, if there are any."""
    recipe, summary = finding.recipe, finding.summary
    parts = [f"{heading} {recipe.name}: {recipe.title}", recipe.summary]
    if recipe.simulated:
        parts.append(f"**{SIMULATED}**")
    if finding.done < finding.jobs:
        parts.append(f"*Not complete: {finding.state}.*")
    parts += [_markdown_table(table) for table in summary.tables]
    for file, drawing in zip(figures, summary.drawings, strict=False):
        parts.append(f"![{recipe.title}]({file})\n\n*{drawing.caption}*")
    if summary.goals:
        parts.append(_markdown_table(_goal_table(summary.goals)))
    remarks = [*summary.remarks, *recipe.notes]
    if remarks:
        parts.append("\n".join(f"- {remark}" for remark in remarks))
    parts.append(f"*{finding.made_with}*")
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "| --- |" + " --: |" * (len(table.columns) - 1)
    caption = table.caption.replace("*", "\\*")
    return "\n".join([f"*{caption}*", "", line(table.columns), rule, *map(line, table.rows)])


def _goal_table(goals: Sequence[Goal]) -> Table:
    rows = [[g.what, g.wanted, g.found, "yes" if g.met else "no"] for g in goals]
    return Table("Goals", ("goal", "wanted", "found", "met"), rows)


STYLE = """
main section { overflow-x: auto }
.simulated { display: inline-block; padding: .3em .7em; border-radius: .4em; font-weight: 600;
  background: var(--held-out, #b35900); color: #fff }
.plot { background: #fff; border-radius: .5em; padding: .3em; margin: .6em 0 }
figcaption, caption { text-align: left; color: var(--soft); margin: .4em 0; caption-side: top }
ul.notes { color: var(--soft) }
.scroll + .scroll { margin-top: 1.4em }
.met { color: #1a7f4b } .missed { color: #b3261e }
"""


def page(findings: Sequence[Finding], title: str) -> str:
    """One page of several experiments, everything in it."""
    style = resources.files("pmvge.pages").joinpath("style.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#{_id(f)}">{html.escape(f.recipe.name)}</a>' for f in findings)
    body = "\n".join(_section(finding) for finding in findings)
    drawn = any(finding.summary.drawings for finding in findings)
    script = f"<script>{get_plotlyjs()}</script>" if drawn else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<style>{palette_css()}
{style}
{STYLE}</style>
{script}
</head>
<body>
<header><p class="kind">Experiments</p><h1>{html.escape(title)}</h1>
<p class="summary">Our numbers beside those of Okuno, Hada and Shimodaira (ICML 2018).</p></header>
<nav aria-label="Sections"><div class="bar">{links}</div></nav>
<main>
{body}
</main>
<footer>This file is complete in itself.</footer>
</body>
</html>
"""


def _id(finding: Finding) -> str:
    return html.escape(finding.recipe.name)


def _section(finding: Finding) -> str:
    recipe, summary = finding.recipe, finding.summary
    parts = [f'<section id="{_id(finding)}">', f"<h2>{html.escape(recipe.title)}</h2>"]
    if recipe.simulated:
        parts.append(f'<p class="simulated">{SIMULATED}</p>')
    parts.append(f'<p class="lead">{html.escape(recipe.summary)}</p>')
    if finding.done < finding.jobs:
        parts.append(f"<p><b>Not complete: {html.escape(finding.state)}.</b></p>")
    parts += [_html_table(table) for table in summary.tables]
    parts += [_figure(drawing) for drawing in summary.drawings]
    if summary.goals:
        parts.append(_goals(summary.goals))
    remarks = [*summary.remarks, *recipe.notes]
    if remarks:
        items = "".join(f"<li>{html.escape(remark)}</li>" for remark in remarks)
        parts.append(f'<ul class="notes">{items}</ul>')
    parts.append(f'<p class="lead">{html.escape(finding.made_with)}</p></section>')
    return "\n".join(parts)


def _html_table(table: Table, marks: Sequence[str] = ()) -> str:
    def cells(row: Sequence[str], tag: str) -> str:
        shown = [html.escape(cell) for cell in row]
        first, *others = shown
        numbers = "".join(f'<{tag} class="n">{cell}</{tag}>' for cell in others)
        return f"<{tag}>{first}</{tag}>{numbers}"

    rows = "".join(
        f'<tr class="{mark}">{cells(row, "td")}</tr>'
        for row, mark in zip(table.rows, marks or [""] * len(table.rows), strict=True)
    )
    return (
        f'<div class="scroll"><table><caption>{html.escape(table.caption)}</caption>'
        f"<thead><tr>{cells(table.columns, 'th')}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _goals(goals: Sequence[Goal]) -> str:
    return _html_table(_goal_table(goals), ["met" if goal.met else "missed" for goal in goals])


def _figure(drawing: Drawing) -> str:
    figure = drawing.figure.update_layout(template="plotly_white", margin={"t": 40})
    plot = figure.to_html(include_plotlyjs=False, full_html=False, config={"displayModeBar": False})
    return (
        f'<figure><div class="plot">{plot}</div>'
        f"<figcaption>{html.escape(drawing.caption)}</figcaption></figure>"
    )


def write_findings(folder: Path, findings: Sequence[Finding], title: str) -> None:
    """``table.md`` and ``index.html`` in a folder."""
    text = "\n".join(markdown(finding) for finding in findings)
    whole = page(findings, title)
    replace_file(folder / "table.md", lambda path: path.write_text(text, encoding="utf-8"))
    replace_file(folder / "index.html", lambda path: path.write_text(whole, encoding="utf-8"))
