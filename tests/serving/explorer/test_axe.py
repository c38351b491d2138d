"""axe-core finds no serious fault of accessibility, in both themes and on a phone."""

from __future__ import annotations

from importlib import resources

import pytest

pytestmark = pytest.mark.slow  # starts a browser

STATES = {
    "overview": "",
    "entity": "#view=films&id=f00003",
    "form": '#form=users&row={"age":"33"}&links={"films":[{"id":"f00003","weight":1}]}',
    "compare": "#view=users&id=u00003&with_view=users&with_id=u00007",
    "selection": "#color=view&lasso=[[-1,-1],[1,-1],[1,1],[-1,1]]",
    "numbers": '#color=["films","year"]&hide=["genre"]',
}


@pytest.fixture(scope="module")
def axe() -> str:
    package = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    return resources.files(package).joinpath("axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_serious_is_found(browser, server, axe, dark, width):
    found = []
    for name, state in STATES.items():
        browser.open(server.url + state, width=width, dark=dark)
        browser.wait("document.querySelector('#panel').childElementCount > 2")
        browser.wait("!document.querySelector('[aria-busy]')")
        if name == "entity":
            browser.click(".why")
            browser.wait("document.querySelector('.factors')")
        assert browser.run("document.documentElement.scrollWidth") <= width
        browser.run(axe + "; undefined")
        violations = browser.run("axe.run().then(result => result.violations)")
        found += [
            (name, one["id"], node["target"], node["failureSummary"][:200])
            for one in violations
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]
    assert found == []
