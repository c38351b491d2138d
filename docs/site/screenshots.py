"""Take pictures of a report and of the explorer in Chromium: `python docs/site/screenshots.py`.

Fit the practice tables of `pmvge examples films`, write their report, serve the model, and take the
pictures of the docs: `report.png`, `explorer.png`, and one for each function of the explorer.
`--all FOLDER` takes pictures at three widths in both themes instead, to look at; `--page FILE`
takes those of another page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTHS = (390, 900, 1400)
FIRST = {"width": 1200, "height": 860}  # of the pictures for the docs
PHONE = {"width": 390, "height": 844}
LASSO = [[-0.1, -0.9], [0.5, -0.8], [0.6, -0.2], [0.2, 0.1], [-0.2, -0.3]]
NEW = {"age": "33", "country": "jp", "likes": "robot planet spaceship alien"}
# The states of the explorer that the guide shows, and what to click then.
STATES: dict[str, tuple[dict[str, Any], str]] = {
    "explorer": ({"color": "view", "view": "films", "id": "f00006"}, ""),
    "explorer-why": ({"color": "view", "view": "users", "id": "u00003"}, ".near .why"),
    "explorer-colours": ({"color": ["films", "year"], "lasso": LASSO}, ""),
    "explorer-new": ({"color": "view", "form": "users", "row": NEW}, ""),
    "explorer-compare": (
        {
            "color": "view",
            "view": "films",
            "id": "f00006",
            "with_view": "films",
            "with_id": "f00060",
        },
        "",
    ),
}


def fit(folder: Path) -> Any:
    """Fit the practice tables and save the model; return it."""
    from pmvge import PMvGE
    from pmvge.examples import write_films
    from pmvge.tables import read_tables, sketch_project

    write_films(folder)
    tables = read_tables(sketch_project(folder).project)
    model = PMvGE(32, random_state=0).fit(tables.graph)
    model.label(tables.labels, columns=tables.columns, names=tables.names)
    model.save(folder / "model")
    return model


@contextmanager
def exploring(model: Path) -> Iterator[str]:
    """Run `pmvge explore` and yield its address."""
    command = [sys.executable, "-m", "pmvge", "explore", str(model), "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait()


@contextmanager
def browsing() -> Iterator[Any]:
    """Start a browser and yield it."""
    sys.path.insert(0, str(ROOT / "tools"))
    from chromium import Chromium, find_chromium

    program = find_chromium()
    if program is None:
        raise SystemExit("screenshots: expected chromium or google-chrome on the PATH, found none")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Chromium(program, Path(profile))
        try:
            yield browser
        finally:
            browser.close()


def take_page(browser: Any, page: Path, image: Path, *, full: bool, **screen: Any) -> None:
    """Write a picture of a file."""
    browser.open(page, **screen)
    browser.screenshot(image, full=full)
    print(image)  # noqa: T201


def take_state(browser: Any, url: str, name: str, image: Path, **screen: Any) -> None:
    """Write a picture of a state of the explorer."""
    state, click = STATES[name]
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in state.items()}
    browser.open(f"{url}#{urlencode(texts)}", **screen)
    browser.wait("!document.querySelector('[aria-busy]') && document.querySelector('.near')")
    if click:
        browser.click(click)
        browser.wait("document.querySelector('.factors')")
    browser.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 300)))")
    browser.run("document.activeElement.blur()")
    browser.screenshot(image, full=screen["width"] < 820)
    print(image)  # noqa: T201


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    parser.add_argument("--page", type=Path, metavar="FILE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, browsing() as browser:
        folder = given.all or IMAGES
        folder.mkdir(parents=True, exist_ok=True)
        if given.page:
            take_all(browser, given.page, None, folder)
            return
        from pmvge.report import write_report

        model = fit(Path(made))
        page = write_report(Path(made) / "report.html", model, title="Films and users")
        with exploring(Path(made) / "model") as url:
            if given.all:
                take_all(browser, page, url, folder)
                return
            take_page(browser, page, folder / "report.png", full=False, **FIRST)
            for name in STATES:
                take_state(browser, url, name, folder / f"{name}.png", **FIRST)


def take_all(browser: Any, page: Path, url: str | None, folder: Path) -> None:
    """Take pictures at three widths in both themes."""
    for dark in (False, True):
        for width in WIDTHS:
            end = f"{width}{'-dark' * dark}.png"
            screen = {"width": width, "height": 900, "dark": dark}
            take_page(browser, page, folder / f"report-{end}", full=True, **screen)
            for name in STATES if url else ():
                take_state(browser, str(url), name, folder / f"{name}-{end}", **screen)


if __name__ == "__main__":
    main()
