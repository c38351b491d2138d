"""Self-contained HTML pages: text, style, figures, and the scripts that draw them in one file.

The content security policy forbids all requests, and all scripts except the page's own, which are
listed by their hashes. A script in an id would not run even if it were not escaped.

plotly.js is 4.8 MB of text. The page has it compressed, and ``page.js`` decompresses it. Its hash
is that of the text, so that the browser runs nothing else.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from pmvge.pages.palette import COLORS, css_variable, palette_css
from pmvge.pages.text import escape_html, script_json, user_text
from pmvge.version import __version__

MAX_COLUMNS = 5  # of a table that fits on a phone


@dataclass(frozen=True)
class Section:
    """A section of a page. ``lead`` and ``body`` are HTML; the other fields are plain text."""

    anchor: str
    title: str
    lead: str  # how to read the section
    body: str
    short_title: str = ""  # for the navigation; empty: the title


def skipped_section(anchor: str, title: str, reason: str) -> Section:
    """Return a section without data that gives the reason."""
    return Section(
        anchor, title, "", f'<p class="skipped">Not shown: {escape_html(reason, 300)}.</p>'
    )


def document(
    title: str,
    summary: str,
    sections: Sequence[Section],
    *,
    kind: str,
    tiles: Sequence[tuple[str, str]] = (),
    opening: str = "",
) -> str:
    """Return a complete HTML page.

    ``kind`` names the type of page above the title, ``summary`` and ``opening`` are HTML, and
    ``tiles`` are (name, value) pairs. All of them are shown before the sections. Plain text is
    escaped here.
    """
    body = "\n".join(map(_section, sections))
    script = _resource("page.js")
    allowed, library = [_hash(script)], ""
    if '<figure class="figure' in body:
        packed, digest = _plotly()
        allowed.append(digest)
        library = f'<script type="application/gzip" id="plotly">{packed}</script>'
    policy = (
        f"default-src 'none'; script-src {' '.join(allowed)}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    links = "".join(
        f'<a href="#{escape_html(section.anchor)}">'
        f"{escape_html(section.short_title or section.title)}</a>"
        for section in sections
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape_html(title, 200)}</title>
<link rel="icon" href="data:,">
<style>{shared_css()}
{_resource("style.css")}</style>
</head>
<body>
<header>
<p class="kind">{escape_html(kind)}</p>
<h1>{user_text(title, 200)}</h1>
<p class="summary">{summary}</p>
{opening}
{_tiles(tiles)}
</header>
<nav aria-label="Sections"><div class="bar">{links}</div></nav>
<main>
<noscript><p class="skipped">The figures need JavaScript. The tables do not.</p></noscript>
{body}
</main>
<footer>Written by pmvge {escape_html(__version__)}. This file works offline.</footer>
<script type="application/json" id="palette">{script_json(COLORS)}</script>
{library}
<script>{script}</script>
</body>
</html>
"""


def shared_css() -> str:
    """Return the type, colours and components of all pages as CSS."""
    return f"{palette_css()}\n{_resource('base.css')}"


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@cache
def _plotly() -> tuple[str, str]:
    """Return plotly.js as base64 of gzip, and the hash of its text."""
    from plotly.offline import get_plotlyjs  # here, because it takes long to import

    script = get_plotlyjs()
    packed = gzip.compress(script.encode(), mtime=0)
    return base64.b64encode(packed).decode(), _hash(script)


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _tiles(tiles: Sequence[tuple[str, str]]) -> str:
    boxes = "".join(
        f'<div class="tile"><b>{escape_html(value)}</b><span>{escape_html(name)}</span></div>'
        for name, value in tiles
    )
    return f'<div class="tiles">{boxes}</div>' if tiles else ""


def _section(section: Section) -> str:
    lead = f'<p class="lead">{section.lead}</p>\n' if section.lead else ""
    return (
        f'<section id="{escape_html(section.anchor)}">\n<h2>{escape_html(section.title, 200)}</h2>'
        f"\n{lead}{section.body}\n</section>"
    )


def figure(
    anchor: str, content: Mapping[str, Any], label: str, *, above: str = "", caption: str = ""
) -> str:
    """Return the HTML of a plotly figure, which ``page.js`` draws.

    ``content`` has the traces as ``data`` and the ``layout``, ``label`` is read by screen readers,
    and ``above`` is HTML above the figure. ``label`` and ``caption`` are plain text.
    """
    below = f"<figcaption>{escape_html(caption, None)}</figcaption>" if caption else ""
    return (
        f'<figure class="figure" id="{escape_html(anchor)}">{above}'
        f'<div class="canvas" role="img" aria-label="{escape_html(label, 200)}"></div>'
        f'<script type="application/json">{script_json(content)}</script>{below}</figure>'
    )


def pair_name(pair: Sequence[str]) -> str:
    """Return the name of a view pair as HTML."""
    return " – ".join(user_text(view, 40) for view in pair)


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Return the meaning of colours as HTML; the entries are (HTML, colour)."""
    parts = (
        f'<span><i class="swatch" style="background:var({css_variable(color)})"></i>{name}</span>'
        for name, color in entries
    )
    return f'<div class="legend">{"".join(parts)}</div>'


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    text_columns: int = 1,
    row_classes: Sequence[str] = (),
    caption: str = "",
) -> str:
    """Return an HTML table in a box that scrolls sideways.

    Column names, cells and caption are HTML. The first ``text_columns`` columns are aligned left,
    all others right. ``row_classes`` are the CSS classes of the rows. On phones the cells of a
    table with more than ``MAX_COLUMNS`` columns are below each other, with their column names.
    """
    stacked = len(columns) > MAX_COLUMNS

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{attributes(tag, index)}>{cell}</{tag}>"
            for index, cell in zip(range(len(columns)), row, strict=True)
        )

    def attributes(tag: str, index: int) -> str:
        aligned = ' class="n"' * (index >= text_columns)
        name = re.sub("<[^>]*>", "", columns[index])
        return aligned + f' data-label="{name}"' * (stacked and tag == "td")

    body = "".join(
        f'<tr class="{row_class}">{cells(row, "td")}</tr>'
        for row, row_class in zip(rows, row_classes or [""] * len(rows), strict=True)
    )
    title = f"<caption>{caption}</caption>" if caption else ""
    box, head = "scroll stack" if stacked else "scroll", cells(columns, "th")
    return (
        f'<div class="{box}"><table>{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
