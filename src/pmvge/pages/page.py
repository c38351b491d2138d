"""One HTML file with everything in it: text, style, figures, and the program that draws them.

The page's own policy forbids every request, and every script but the two that are known by their
hash: were an id to get through unescaped, it still would not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from plotly.offline import get_plotlyjs

from pmvge.pages.palette import COLORS, css_variable, palette_css
from pmvge.pages.text import data, escaped, script_json
from pmvge.version import __version__


@dataclass(frozen=True)
class Section:
    """A section of the page: what it is called, how to read it, and its HTML."""

    anchor: str
    title: str
    lead: str
    body: str
    short: str = ""  # in the navigation; else the title


def skipped(anchor: str, title: str, reason: str) -> Section:
    """A section whose data are missing, and why."""
    return Section(anchor, title, "", f'<p class="skipped">Not shown: {escaped(reason, 300)}.</p>')


def document(title: str, summary: str, tiles: Sequence[tuple[str, str]], sections: Any) -> str:
    """The page; title, values and names are escaped here, sections are HTML already."""
    program = resources.files(__package__).joinpath("page.js").read_text(encoding="utf-8")
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    scripts = [get_plotlyjs(), program]
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    boxes = "".join(
        f'<div class="tile"><b>{escaped(value)}</b><span>{escaped(name)}</span></div>'
        for name, value in tiles
    )
    links = "".join(
        f'<a href="#{part.anchor}">{escaped(part.short or part.title)}</a>' for part in sections
    )
    body = "\n".join(map(_section, sections))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escaped(title, 200)}</title>
<link rel="icon" href="data:,">
<style>{palette_css()}
{style}</style>
</head>
<body>
<header>
<p class="kind">Model report</p>
<h1>{data(title, 200)}</h1>
<p class="summary">{summary}</p>
<div class="tiles">{boxes}</div>
</header>
<nav aria-label="Sections"><div class="bar">{links}</div></nav>
<main>
<noscript><p class="skipped">The figures need JavaScript; the tables do not.</p></noscript>
{body}
</main>
<footer>Written by pmvge {escaped(__version__)}. This file is complete in itself.</footer>
<script type="application/json" id="palette">{script_json(COLORS)}</script>
<script>{scripts[0]}</script>
<script>{scripts[1]}</script>
</body>
</html>
"""


def _hash(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _section(part: Section) -> str:
    lead = f'<p class="lead">{part.lead}</p>\n' if part.lead else ""
    return (
        f'<section id="{part.anchor}">\n<h2>{escaped(part.title)}</h2>\n{lead}{part.body}\n'
        "</section>"
    )


def figure(anchor: str, content: dict[str, Any], label: str, around: str = "") -> str:
    """A place for a figure, and its numbers; ``around`` is HTML above it."""
    return (
        f'<figure class="figure" id="{anchor}">{around}'
        f'<div class="canvas" role="img" aria-label="{escaped(label, 200)}"></div>'
        f'<script type="application/json">{script_json(content)}</script></figure>'
    )


def pair_name(pair: Sequence[str]) -> str:
    """A view pair, as HTML."""
    return " – ".join(data(view, 40) for view in pair)


def key(entries: Sequence[tuple[str, str]]) -> str:
    """What colours mean: (text of the page's own, colour) or (HTML, colour)."""
    parts = (
        f'<span><i class="swatch" style="background:var({css_variable(color)})"></i>{name}</span>'
        for name, color in entries
    )
    return f'<div class="key">{"".join(parts)}</div>'


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1, last: str = ""
) -> str:
    """A table of HTML cells that scrolls in its box; the first ``words`` columns are words."""

    def cells(row: Sequence[str], tag: str) -> str:
        kinds = [f"<{tag}>" if place < words else f'<{tag} class="n">' for place in range(len(row))]
        return "".join(f"{kind}{cell}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    body = "".join(
        f'<tr class="{last if row is rows[-1] else ""}">{cells(row, "td")}</tr>' for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{cells(head, "th")}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
