"""The page in a real browser: figures are drawn without errors or requests, on all screens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plotly.subplots import make_subplots

from pmvge.experiments import ExperimentReport, Recipe, write_experiment_reports
from pmvge.experiments.base import Plot, Summary
from pmvge.report import write_report

pytestmark = pytest.mark.slow  # starts a browser

FIGURES = 8


@pytest.fixture(scope="module")
def path(case: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return write_report(folder / "report.html", case.model)


def colors(browser: Any) -> list[list[str]]:
    """Return the colours of the points on the map, by trace."""
    return browser.run(
        "[...document.querySelectorAll('#map .scatterlayer .trace')].map(trace =>"
        " [...new Set([...trace.querySelectorAll('.points path')].map("
        "point => getComputedStyle(point).fill))])"
    )


def click(browser: Any, button: str) -> None:
    """Press a button of the map and wait until plotly.js has drawn."""
    browser.run(
        f"document.querySelector('#map button[{button}]').click();"
        "new Promise(done => setTimeout(done, 200))"
    )


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_every_figure_is_drawn_without_requests(
    browser: Any, path: Path, width: int, dark: bool
) -> None:
    browser.open(path, width=width, dark=dark)
    assert browser.errors() == []
    assert browser.requests() == [path.resolve().as_uri()]
    drawn = browser.run(
        "[...document.querySelectorAll('.figure')].map(figure => ["
        " figure.querySelectorAll('.main-svg').length > 0,"
        " figure.querySelectorAll('.scatterlayer path, .barlayer path').length > 0,"
        " figure.querySelector('.main-svg').getBoundingClientRect().width,"
        " figure.getBoundingClientRect().width])"
    )
    assert len(drawn) == FIGURES
    for svg, paths, svg_width, figure_width in drawn:
        assert svg
        assert paths
        assert 200 < svg_width <= figure_width + 1
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_long_names_do_not_widen_a_phone(browser: Any, hostile: Any, tmp_path: Path) -> None:
    title = "a_title_without_a_space_" * 6
    page = write_report(tmp_path / "r.html", hostile.model, title=title)
    browser.open(page, width=390)
    assert browser.run("document.documentElement.scrollWidth") <= 390


def test_scripts_in_names_do_not_run(browser: Any, hostile: Any, tmp_path: Path) -> None:
    page = write_report(tmp_path / "r.html", hostile.model, title="<script>window.hacked=1")
    browser.open(page)
    click(browser, 'data-coloring="0"')
    # Hover over every point, so that its text is shown.
    shown = browser.run(
        "(() => { const canvas = document.querySelector('#map .canvas'); const seen = [];"
        " canvas._fullData.forEach((trace, curve) => trace.x.forEach((x, point) => {"
        "  Plotly.Fx.hover(canvas, [{curveNumber: curve, pointNumber: point}]);"
        "  seen.push(canvas.querySelector('.hoverlayer')?.textContent ?? ''); }));"
        " return seen; })()"
    )
    assert any("window.hacked" in text for text in shown)  # as text
    assert browser.errors() == []
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.run("window.hacked === undefined")
    assert browser.run("document.querySelectorAll('img, .hoverlayer a, main a').length") == 0


def test_an_injected_script_does_not_run(browser: Any, path: Path, tmp_path: Path) -> None:
    page = tmp_path / "injected.html"
    source = path.read_text(encoding="utf-8")
    page.write_text(
        source.replace("</footer>", "</footer><script>window.hacked = 1</script>", 1), "utf-8"
    )
    browser.open(page)
    assert browser.run("window.hacked === undefined")
    assert any("Content Security Policy" in text for text in browser.errors())


def test_points_are_coloured_by_view_or_by_label(browser: Any, path: Path) -> None:
    browser.open(path)
    item, user = colors(browser)  # by the label first
    assert (len(item), len(user)) == (1, 3)  # no label, and three colours
    assert not set(item) & set(user)
    legend = (
        "[...document.querySelectorAll('.label-legend:not([hidden]) button')].map(b => b.innerText)"
    )
    assert browser.run(legend) == ["blue 20", "green 20", "red 20", "no label 24"]
    pressed = "document.querySelector('[data-coloring][aria-pressed=true]').innerText"
    assert browser.run(pressed) == "colour"
    click(browser, 'data-coloring="-1"')
    item, user = colors(browser)
    assert (len(item), len(user)) == (1, 1)
    assert item != user
    assert browser.run(legend) == []


def test_a_view_can_be_hidden_and_a_label_highlighted(browser: Any, path: Path) -> None:
    browser.open(path)
    click(browser, 'data-view="0"')
    assert len(colors(browser)) == 1
    click(browser, 'data-view="0"')
    assert len(colors(browser)) == 2
    click(browser, 'data-coloring="0"')
    click(browser, 'data-category="1"')
    bright = (
        "[...document.querySelectorAll('#map .scatterlayer .points path')]"
        ".filter(point => Number(point.style.opacity) > 0.5).length"
    )
    assert browser.run(bright) == 20
    click(browser, 'data-category="1"')
    assert browser.run(bright) == 84


def test_figures_follow_the_window_and_the_theme(browser: Any, path: Path) -> None:
    browser.open(path, width=1280)
    width = "document.querySelector('#curves .main-svg').getBoundingClientRect().width"
    ink = "getComputedStyle(document.querySelector('#curves .xtick text')).fill"
    wide, light = browser.run(width), browser.run(ink)
    browser.send(
        "Emulation.setDeviceMetricsOverride",
        width=700,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    scheme = {"name": "prefers-color-scheme", "value": "dark"}
    browser.send("Emulation.setEmulatedMedia", features=[scheme])
    browser.run("new Promise(done => setTimeout(done, 1500))")
    assert browser.run(width) < 700 < wide
    assert browser.run(ink) != light
    assert browser.errors() == []


@pytest.mark.parametrize("width", [1280, 390])
def test_figures_of_experiments_are_drawn(browser: Any, tmp_path: Path, width: int) -> None:
    """Subplots, heat maps and legends use the same page as the report."""
    figure = make_subplots(1, 2, subplot_titles=["left", "right"])
    figure.add_heatmap(z=[[1, 2], [3, 4]], row=1, col=1)
    for name in ("first", "second"):
        figure.add_scatter(x=[1, 2], y=[3, 4], name=name, row=1, col=2)
    figure.update_layout(template="plotly_white", height=400)
    recipe = Recipe("small", "Small", "citation", "Summary.")
    report = ExperimentReport(recipe, Summary(plots=[Plot("caption", figure)]), 1, 1, "by hand")
    write_experiment_reports(tmp_path, [report], "Experiments")
    browser.open(tmp_path / "index.html", width=width)
    assert browser.errors() == []
    assert all(address.startswith(("file:", "data:")) for address in browser.requests())
    assert browser.run("document.documentElement.scrollWidth") <= width
    for part in (".heatmaplayer image", ".scatterlayer path", ".legendtext", ".annotation-text"):
        assert browser.run(f"document.querySelectorAll('#small-figure-1 {part}').length") > 0, part
    text = "[...document.querySelectorAll('#small-figure-1 .legendtext')].map(t => t.textContent)"
    assert browser.run(text) == ["first", "second"]
