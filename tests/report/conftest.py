"""Fixtures: models to report on, and pages as parsed HTML."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE

# -- models to report on ------------------------------------------------------------------------

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<!-- <script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"\'><b onclick="window.hacked = 1">&amp;',
    "<a href='https://example.org/'>%{x}</a>",
    "line\u2028separator\u2029and\nnew\r\x00line",
    "half a pair \ud800 of surrogates",
    "\u202egnp.exe",
    "x" * 5000,
    "",
]


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model."""

    model: PMvGE

    @cached_property
    def bare(self) -> PMvGE:
        """The same model without its links."""
        with TemporaryDirectory() as folder:
            self.model.save(folder, links=False)
            return PMvGE.load(folder)


def fitted(
    names: tuple[str, str] = ("user", "item"), *, hostile: bool = False, hold_out: float = 0.2
) -> Case:
    """Fit a model of two views, one without features, with links between and within views."""
    rng = np.random.default_rng(0)
    n, m = 60, 24
    group, kind = np.arange(n) % 3, np.arange(m) % 3
    user, item = names
    W = rng.poisson(np.where(group[:, None] == kind, 1.0, 0.05))
    friends = np.triu(rng.random((n, n)) < np.where(group[:, None] == group, 0.3, 0.02), 1)
    X = np.eye(3)[group] + 0.2 * rng.normal(size=(n, 3))
    ids = {
        user: [f"{HOSTILE[i % 10]}{i}" if hostile else f"user-{i}" for i in range(n)],
        item: [f"{HOSTILE[j % 10]}{j}" if hostile else f"item-{j}" for j in range(m)],
    }
    links = {(user, item): W, (user, user): friends.astype(float)}
    graph = MultiViewGraph({user: X, item: m}, links, ids=ids)
    words = HOSTILE if hostile else ["red", "green", "blue"]
    labels = {user: {words[0] if hostile else "colour": [words[i % 3] for i in range(n)]}}
    model = PMvGE(n_components=4, max_steps=60, random_state=0, progress=False)
    names = {user: {"name": [f"{HOSTILE[(i + 1) % 10]}{i}" for i in range(n)]}} if hostile else {}
    called = dict.fromkeys(names, "name")
    return Case(model.fit(graph, hold_out=hold_out).label(labels, columns=names, names=called))


@pytest.fixture(scope="session")
def case() -> Case:
    return fitted()


@pytest.fixture(scope="session")
def hostile() -> Case:
    return fitted((HOSTILE[0], HOSTILE[4]), hostile=True)


@pytest.fixture(scope="session")
def fit() -> Callable[..., Case]:
    return fitted


class Page(HTMLParser):
    """The page as parsed HTML: elements, attributes, scripts and text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text: list[str] = []
        self._within = ""
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self._within != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())

    def data(self) -> list[Any]:
        """Return the content of all JSON scripts."""
        found = [text for attrs, text in self.scripts if attrs.get("type") == "application/json"]
        return [json.loads(text) for text in found]

    def figures(self) -> list[dict[str, Any]]:
        return [block for block in self.data() if isinstance(block, dict) and "layout" in block]


@pytest.fixture(scope="session")
def read_page() -> type[Page]:
    return Page
