"""The page on unusual models: it makes sense, nothing in the data runs, no error is logged."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.model import saved_map

pytestmark = pytest.mark.slow  # starts a browser

QUICK: dict[str, Any] = {"n_components": 4, "max_steps": 20, "random_state": 0, "progress": False}
HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"\'><b onclick="window.hacked = 1">&amp;',
    "javascript:window.hacked=1",
    "<a href='https://example.org/'>%{x}</a>",
    "line\u2028separator and\nnew\r line",
    "\u202egnp.exe",
    "👩‍👩‍👧 🇩🇪 é",
    "x" * 10_000,
    "😀" * 2_000,
    "",
]


def links_of(rng: np.random.Generator, n: int, m: int, size: int) -> Any:
    return rng.integers(n, size=size), rng.integers(m, size=size)


def hostile() -> PMvGE:
    rng = np.random.default_rng(0)
    n = len(HOSTILE)
    a, b = "<b>view</b>", "🙂 'view\" &amp;"
    graph = MultiViewGraph(
        {a: rng.normal(size=(n, 3)), b: n},
        {(a, b): links_of(rng, n, n, 60)},
        ids={a: HOSTILE, b: [f"{text}!" for text in HOSTILE]},
    )
    model = PMvGE(**QUICK).fit(graph)
    return model.label(
        {a: {HOSTILE[0]: HOSTILE}}, columns={a: {HOSTILE[1]: HOSTILE[::-1]}}, names={a: HOSTILE[1]}
    )


def one_view() -> PMvGE:
    rng = np.random.default_rng(0)
    rows, columns = links_of(rng, 20, 20, 60)
    keep = rows < columns
    return PMvGE(**QUICK).fit(
        MultiViewGraph({"paper": 20}, {("paper", "paper"): (rows[keep], columns[keep])})
    )


def three_entities() -> PMvGE:
    settings = {**QUICK, "n_components": 1, "patience": None}
    return PMvGE(**settings).fit(MultiViewGraph({"a": 2, "b": 1}, {("a", "b"): ([0, 1], [0, 0])}))


def unlinked_view() -> PMvGE:
    rng = np.random.default_rng(0)
    views = {"a": rng.normal(size=(20, 2)), "b": 15, "alone": rng.normal(size=(10, 3))}
    return PMvGE(**QUICK).fit(MultiViewGraph(views, {("a", "b"): links_of(rng, 20, 15, 60)}))


def no_effects() -> PMvGE:
    rng = np.random.default_rng(0)
    settings = {**QUICK, "n_components": 2, "effects": "none"}
    views = {"a": rng.normal(size=(20, 2)), "b": rng.normal(size=(15, 2))}
    return PMvGE(**settings).fit(MultiViewGraph(views, {("a", "b"): links_of(rng, 20, 15, 60)}))


MODELS = {
    make.__name__: make for make in (hostile, one_view, three_entities, unlinked_view, no_effects)
}


@pytest.fixture(scope="module")
def serve_odd(open_server, tmp_path_factory):
    def start(name: str, **saved: Any) -> tuple[Any, PMvGE]:
        folder = tmp_path_factory.mktemp(name) / "model"
        MODELS[name]().save(folder, **saved)
        model = PMvGE.load(folder)
        saved_map(model, folder, progress=False)
        return open_server(folder), model

    return start


def visit(browser: Any, server: Any, model: PMvGE) -> None:
    """Open the details, the form and a comparison of entities of every view."""
    browser.open(server.url)
    assert browser.run("document.querySelector('#panel').textContent.length") > 40
    for view in model.view_names_:
        for at in dict.fromkeys((0, len(model.ids_[view]) - 1)):
            id_ = model.ids_[view][at].item()
            name = model.names_[view][at] if view in model.names_ else ""
            state = {"view": view, "id": str(id_)}
            browser.run(_go(state))
            browser.wait(_title(str(name) or str(id_)), 30)
            browser.run("document.querySelector('.why')?.click()")
            browser.wait("!document.querySelector('.explained')?.textContent.includes('Comp')")
        browser.run(_go({**state, "with_view": view, "with_id": str(model.ids_[view][0].item())}))
        browser.wait("document.querySelector('.versus')", 30)
        browser.run(_go({"form": view}))
        browser.wait("document.querySelector('.choice')", 30)
    width = browser.run("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]


def _go(state: dict[str, str]) -> str:
    return f"location.hash = new URLSearchParams({json.dumps(state)}).toString()"


def _title(text: str) -> str:
    found = "document.querySelector('#panel .title')?.textContent"
    start = json.dumps("".join(" " if c in "\u2028\n\r" else c for c in text)[:60] or "(empty id)")
    return f"{found}?.startsWith({start}) && !document.querySelector('[aria-busy]')"


@pytest.mark.parametrize("name", list(MODELS))
def test_every_part_of_the_page_makes_sense(browser, serve_odd, name):
    server, model = serve_odd(name)
    visit(browser, server, model)
    assert browser.errors() == []
    assert all(r.startswith(server.url) for r in browser.requests()[1:])
    assert browser.run("window.hacked === undefined")
    assert browser.run("document.querySelectorAll('main a, main img, main script').length") == 0


def test_hostile_texts_do_not_widen_a_phone_and_are_found(browser, serve_odd):
    server, model = serve_odd("hostile")
    browser.open(server.url, width=390, height=800)
    for view in model.view_names_:
        browser.run(_go({"view": view, "id": str(model.ids_[view][8].item())}))
        browser.wait("document.querySelector('.title') && !document.querySelector('[aria-busy]')")
        assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.run("document.querySelector('#find input').focus()")
    browser.type("<img")
    browser.wait("document.querySelector('[role=option]')")
    assert "onerror" in browser.run("document.querySelector('[role=option]').textContent")
    assert browser.run("window.hacked === undefined")


def test_a_model_without_links_has_no_known_ones(browser, serve_odd):
    server, model = serve_odd("no_effects", links=False)
    visit(browser, server, model)
    browser.run(_go({"view": "a", "id": "3"}))
    browser.wait(_title("3"))
    assert browser.run("document.querySelectorAll('.pill.known, #unknown').length") == 0
    assert browser.errors() == []


def test_a_model_without_a_map_says_how_to_make_one(browser, open_server, film_model):
    server = open_server(film_model)
    browser.open(server.url)
    assert "pmvge explore" in browser.run("document.querySelector('#empty').textContent")
    browser.press("/")
    browser.type("f00003")
    browser.wait("document.querySelector('[role=option]')")
    browser.press("Enter")
    browser.wait("document.querySelector('.near')")
    assert browser.errors() == []


def test_views_are_named_in_the_header(browser, serve_odd):
    server, _ = serve_odd("unlinked_view")
    browser.open(server.url)
    assert browser.run("document.querySelector('#title').textContent") == "A, Alone, B"
    browser.run(_go({"form": "alone"}))
    browser.wait("document.querySelector('.choice')")
    assert "No links of this view" in browser.run("document.querySelector('#panel').textContent")
