"""Reports of experiments as HTML pages and Markdown."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from plotly import graph_objects

from pmvge.experiments import SIMULATED, ExperimentReport, Recipe, to_markdown
from pmvge.experiments.base import Goal, Plot, Summary, Table
from pmvge.experiments.results_page import to_html

TABLE = Table("Caption <1>", ["method", "a|b"], [["<m>", "1.5 ± 0.1"]])


def plot(*names: str) -> Plot:
    figure = graph_objects.Figure()
    for name in names:
        figure.add_scatter(x=[1, 2], y=[3, 4], name=name)
    figure.update_layout(template="plotly_white", height=400)
    return Plot("a < b", figure)


@pytest.fixture
def report() -> ExperimentReport:
    recipe = Recipe("small", "Small & simple", "citation", "Summary.", notes=("A <note>.",))
    goals = [Goal("first", ">= 1", "2", True), Goal("second", ">= 3", "2", False)]
    summary = Summary([TABLE], [plot("one"), plot("one", "two")], goals)
    return ExperimentReport(recipe, summary, 4, 4, "pmvge reproduce small")


def test_the_page_shows_tables_goals_notes_and_versions(report: ExperimentReport) -> None:
    page = to_html([report, replace(report, recipe=replace(report.recipe, name="other"))], "Title")
    assert re.findall(r'<section id="(.*?)">', page) == ["small", "other"]
    for text in (
        "<h2>Small &amp; simple</h2>",
        "<caption>Caption &lt;1&gt;</caption>",
        '<td>&lt;m&gt;</td><td class="n">1.5 ± 0.1</td>',
        '<tr class="met"><td>first</td><td>&gt;= 1</td><td class="n">2</td><td class="n">yes</td>',
        '<tr class="missed"><td>second</td>',
        "<li>A &lt;note&gt;.</li>",
        "pmvge reproduce small",
        "<b>8 of 8</b><span>jobs done</span>",
        "<b>2 of 4</b><span>goals met</span>",
    ):
        assert text in page
    assert "Not complete" not in page
    assert SIMULATED.split(":")[0] not in page


def test_simulated_data_and_missing_jobs_are_noted(report: ExperimentReport) -> None:
    changed = replace(report, recipe=replace(report.recipe, simulated=True), done=3)
    page = to_html([changed], "Title")
    assert '<p class="notice">Simulated data' in page
    assert '<p class="notice">Not complete: 3 of 4 jobs done.</p>' in page
    text = to_markdown(changed)
    assert f"**{SIMULATED}**" in text
    assert "*Not complete: 3 of 4 jobs done.*" in text


def test_figures_take_size_and_style_from_the_page(report: ExperimentReport) -> None:
    page = to_html([report], "Title")
    scripts = re.findall(r'<script type="application/json">(.*?)</script>', page)
    figures = [json.loads(script) for script in scripts]
    assert len(figures) == 2
    for figure in figures:
        graph_objects.Figure(figure)  # raises for unknown properties
        assert not {"template", "height"} & set(figure["layout"])
    assert [figure["layout"]["showlegend"] for figure in figures] == [False, True]
    assert page.count("<figcaption>a &lt; b</figcaption>") == 2


def test_markdown_has_tables_and_links_to_figures(report: ExperimentReport) -> None:
    text = to_markdown(report, "##", ["images/one.svg", "images/two.svg"])
    assert text.startswith("## small: Small & simple\n\nSummary.\n")
    assert "| method | a\\|b |\n| --- | --: |\n| <m> | 1.5 ± 0.1 |" in text
    assert "![Small & simple](images/two.svg)\n\n*a < b*" in text
    assert "| second | >= 3 | 2 | no |" in text
    assert "- A <note>." in text
