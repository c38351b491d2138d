"""Ids, columns and labels that are scripts, from CSV files to the page in a real browser."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmvge import PMvGE
from pmvge.report import write_report
from pmvge.tables import LinkTable, Project, ViewTable, read_tables

SCRIPT = "<script>window.hacked = 1</script>"
IMAGE = "<img src=x onerror='window.hacked = 1'>"
CLICK = '"><a href="javascript:window.hacked=1">click</a>'
NAMES = [SCRIPT, IMAGE, CLICK, "x'; DROP TABLE y; --", '"quoted"', "two\nlines", "日本"]


def write(path: Path, columns: dict[str, list[Any]]) -> str:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerows([[*columns], *zip(*columns.values(), strict=True)])
    return path.name


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report of a model that was fitted to such tables, saved and loaded."""
    folder = tmp_path_factory.mktemp("attack")
    rng = np.random.default_rng(0)
    ids = [f"{NAMES[i % 7]}{i}" for i in range(42)]
    users = {SCRIPT: ids, IMAGE: [NAMES[i % 3] for i in range(42)], "x": rng.random(42).tolist()}
    pairs = [
        (i, j) for i in range(42) for j in range(7) if rng.random() < (0.2 + 0.6 * (i % 7 == j))
    ]
    seen = {"a": [ids[i] for i, _ in pairs], "b": [NAMES[j] for _, j in pairs]}
    view, other = f"view {SCRIPT}", f"other {IMAGE}"
    kinds = {IMAGE: "category", "x": "numeric"}
    tables = read_tables(
        Project(
            {
                view: ViewTable(write(folder / "users.csv", users), SCRIPT, kinds),
                other: ViewTable(),
            },
            {(view, other): LinkTable(write(folder / "seen.csv", seen), ("a", "b"))},
            {},
            folder,
        )
    )
    fitted = PMvGE(4, max_steps=40, random_state=0, progress=False)
    fitted.fit(tables.graph, hold_out=0.2).label(tables.labels).save(folder / "model")
    return write_report(folder / "report.html", PMvGE.load(folder / "model"), title=SCRIPT)


def test_ids_are_text_and_no_script_runs(browser: Any, page: Path) -> None:
    browser.open(page)
    text = browser.run("document.body.innerText")
    assert SCRIPT in text  # the title, and ids of the examples
    for name in (SCRIPT, IMAGE, CLICK[:20], "x'; DROP TABLE y; --", '"quoted"', "日本"):
        assert name in text, name
    assert browser.run("document.title") == SCRIPT
    assert browser.run("window.hacked === undefined")
    assert browser.run("document.querySelectorAll('img, main a, header a').length") == 0
    assert browser.run("[...document.scripts].filter(s => s.type === '').length") == 2
    assert browser.errors() == []
    assert browser.requests() == [page.resolve().as_uri()]


def test_no_script_runs_on_clicks_and_hovers(browser: Any, page: Path) -> None:
    """Buttons of the map have names of views and labels; points show their ids."""
    browser.open(page)
    pressed = browser.run(
        "(async () => { const buttons = [...document.querySelectorAll('button')];"
        " for (const button of buttons) { button.click();"
        "  await new Promise(done => setTimeout(done, 50)); }"
        " return buttons.map(button => button.innerText); })()"
    )
    assert any(SCRIPT in name for name in pressed)
    browser.open(page)
    shown = browser.run(  # plotly.js handles one hover per 50 ms
        "(async () => { const canvas = document.querySelector('#map .canvas'); const seen = [];"
        " for (const [curve, trace] of canvas._fullData.entries())"
        "  for (let point = 0; point < Math.min(7, trace.x.length); point++) {"
        "   Plotly.Fx.hover(canvas, [{curveNumber: curve, pointNumber: point}]);"
        "   await new Promise(done => setTimeout(done, 80));"
        "   seen.push(canvas.querySelector('.hoverlayer')?.textContent ?? ''); }"
        " return seen; })()"
    )
    assert len(set(shown)) > 3, shown
    assert any(SCRIPT in text for text in shown)
    assert browser.run("window.hacked === undefined")
    assert browser.run("document.querySelectorAll('img, main a, .hoverlayer a').length") == 0
    assert browser.errors() == []
