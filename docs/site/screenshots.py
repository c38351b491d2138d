"""Take pictures of a report in Chromium: `python docs/site/screenshots.py`.

Fit the practice tables of `pmvge examples films`, write their report, and take its first screen as
docs/images/report.png. `--all FOLDER` takes long pictures at three widths in both themes instead,
to look at; `--page FILE` takes pictures of another page.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTHS, LONG = (400, 900, 1400), 7000
FIRST = (1200, 860)  # width and height of the picture for the docs
THEMES = {"": [], "-dark": ["--blink-settings=preferredColorScheme=0"]}


def make_report(folder: Path) -> Path:
    """Fit the practice tables and return the path of their report."""
    from pmvge import PMvGE
    from pmvge.examples import write_films
    from pmvge.report import write_report
    from pmvge.tables import read_tables, sketch_project

    write_films(folder)
    tables = read_tables(sketch_project(folder).project)
    model = PMvGE(32, random_state=0).fit(tables.graph)
    model.label(tables.labels, columns=tables.columns, names=tables.names)
    return write_report(folder / "report.html", model, title="Films and users")


def take(page: Path, image: Path, width: int, height: int, options: list[str]) -> None:
    """Write a picture of a page."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("screenshots: expected chromium or google-chrome on the PATH, found none")
    with tempfile.TemporaryDirectory() as profile:
        # Windows of Chromium are at least 500 pixels wide; a frame can be narrower.
        frame = Path(profile, "frame.html")
        size = f"border:0;width:{width}px;height:{height}px"
        frame.write_text(
            f'<body style="margin:0"><iframe src="{page.resolve().as_uri()}" style="{size}">'
        )
        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={profile}", f"--window-size={width},{height}", *options]
        command += ["--virtual-time-budget=20000", f"--screenshot={image}", frame.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
    print(image)  # noqa: T201


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    parser.add_argument("--page", type=Path, metavar="FILE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = given.page or make_report(Path(folder))
        if given.all is None:
            take(page, IMAGES / "report.png", *FIRST, [])
            return
        given.all.mkdir(parents=True, exist_ok=True)
        for theme, options in THEMES.items():
            for width in WIDTHS:
                take(page, given.all / f"{width}{theme}.png", width, LONG, options)


if __name__ == "__main__":
    main()
