"""Run the pages of the gallery, and write their outputs and pictures.

`python docs/site/gallery.py` runs all pages, `python docs/site/gallery.py papers` one of them. The
output of each Python block replaces the text block below it; if it depends on the fit, write
`<!-- fitted: ... -->` above it, so that the tests allow small differences. The picture is
docs/images/gallery-NAME.svg or .png, drawn by kaleido, which needs Chrome or Chromium. Data are
read from $PMVGE_DATA, or downloaded before with `pmvge datasets download`.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from gallery_pictures import PICTURES

from pmvge.examples import write_example

DOCS = Path(__file__).parents[1]
MARK = r"(<!-- fitted: [^>]+ -->\n)?"
PYTHON = re.compile(
    rf"^```python\n(.*?)^```\n(?:\n{MARK}```text\n.*?^```\n)?", re.DOTALL | re.MULTILINE
)


def run(name: str) -> None:
    """Run a page in the folder of its example, and write the page and its picture again."""
    page = DOCS / "gallery" / f"{name}.md"
    names: dict[str, Any] = {"__name__": "__main__"}

    def with_output(block: re.Match[str]) -> str:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(block[1], str(page), "exec"), names)
        mark, text = block[2] or "", printed.getvalue()
        output = f"\n{mark}```text\n{text}```\n" if text else ""
        return f"```python\n{block[1]}```\n{output}"

    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        write_example(name, folder)
        os.chdir(folder)
        try:
            text = PYTHON.sub(with_output, page.read_text(encoding="utf-8"))
            draw, suffix, width, height = PICTURES[name]
            figure = draw(names)
        finally:
            os.chdir(home)
    page.write_text(text, encoding="utf-8")
    figure.write_image(DOCS / "images" / f"gallery-{name}{suffix}", width=width, height=height)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PICTURES:
        run(chosen)
