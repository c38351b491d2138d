"""The first screen: the comparison in numbers, advice, and pages of unusual models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.report import write_report
from pmvge.report.opening import next_steps, opening, summary

LONG = ["<img src=x onerror=alert(1)>", "🎬🍿", "x" * 10_000, "a|b", ""]


def text_of(html: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", html).split())


def test_the_summary_says_what_the_data_are(case: Any) -> None:
    facts = case.model.describe()
    text = text_of(summary(facts))
    links = sum(part["links"] for part in facts["links"].values())
    held = sum(part["held_out"] for part in facts["links"].values())
    assert text.startswith(f"A model of 24 item and 60 user , learned from {links:,} links in 2")
    assert f"{held:,} more links were held out to test it." in text


def test_the_cards_compare_the_model_with_others(case: Any) -> None:
    facts, results = case.model.describe(), case.model.evaluate()
    text = text_of(opening(facts, results))
    for key in results["pairs"]:
        for part in (results, results["popularity"], results["features_only"]):
            assert f"{part['pairs'][key]['recall@10']:.0%}" in text
        behind = any(warning.startswith(f"links {key}:") for warning in results["warnings"])
        own, popular = (r["pairs"][key]["ndcg@10"] for r in (results, results["popularity"]))
        if own > 2 * popular:
            assert f"{own / popular:.2g} times as good as the popularity list" in text
        verdict = "Not clearly better than" if behind else "Better than"
        assert f"{key.replace(',', ' → ')} {verdict} a popularity list" in text


def results_of(own: float, popular: float, features: float, *, behind: bool) -> dict[str, Any]:
    def part(value: float) -> dict[str, Any]:
        return {"pairs": {"user,item": {"recall@10": value, "ndcg@10": value}}}

    warnings = [
        "links user,item: not clearly better",
        "try more links (docs/settings.md, Symptoms)",
    ]
    return part(own) | {
        "popularity": part(popular),
        "features_only": part(features),
        "warnings": warnings if behind else [],
    }


def test_advice_follows_the_scores(case: Any) -> None:
    facts = case.model.describe()
    good = results_of(0.5, 0.25, 0.4, behind=False)
    text = text_of(opening(facts, good))
    assert "Better than a popularity list" in text
    assert "2 times as good as the popularity list and 25% ahead of features alone" in text
    assert not any("say more about links" in step for step in next_steps(facts, good))
    bad = results_of(0.2, 0.25, 0.1, behind=True)
    assert "Not clearly better than a popularity list" in opening(facts, bad)
    first, second, *_ = next_steps(facts, bad)
    assert first == "Improve it: try more links."
    assert "Add features of <bdi>user</bdi> that say more" in second
    assert "fit(graph, hold_out=0.1)" in next_steps(facts, None)[0]


def test_few_candidates_are_compared_by_their_order(case: Any) -> None:
    facts = case.model.describe()
    facts["views"]["item"]["n"] = 10
    assert "How well item are ordered (nDCG@10" in text_of(
        opening(facts, results_of(0.5, 0.25, 0.4, behind=False))
    )


def unusual(name: str) -> PMvGE:
    """Return a model that is unusual in one way."""
    rng = np.random.default_rng(0)
    settings: dict[str, Any] = {"max_steps": 5, "random_state": 0, "progress": False}
    W = (rng.random((20, 5)) < 0.5).astype(float)
    if name == "one view":
        graph = MultiViewGraph(
            {"a": 20}, {("a", "a"): np.triu(rng.random((20, 20)) < 0.3, 1) * 1.0}
        )
        return PMvGE(3, **settings).fit(graph)
    if name == "3 entities":
        return PMvGE(3, **settings).fit(MultiViewGraph({"a": 2, "b": 1}, {("a", "b"): [[1], [2]]}))
    if name == "without effects":
        settings["effects"] = "none"
    ids = {"a": [f"{LONG[i % 5]}{i}" for i in range(20)]} if name == "long ids" else None
    sizes: dict[str, Any] = {"a": rng.normal(size=(20, 2)), "b": 5}
    if name == "a view without links":
        sizes["c"] = 4
    model = PMvGE(3, **settings).fit(MultiViewGraph(sizes, {("a", "b"): W}, ids=ids), hold_out=0.2)
    if name == "long ids":
        model.label({"a": {LONG[0]: (LONG * 4)[:20]}}, names={"a": LONG[0]})
    return model


KINDS = ["one view", "3 entities", "without effects", "long ids", "a view without links"]


@pytest.mark.parametrize("name", KINDS)
def test_unusual_models_have_a_page(name: str, tmp_path: Path, read_page: Any) -> None:
    path = write_report(tmp_path / "r.html", unusual(name))
    page = read_page(path)
    assert "What to try next" in page.words
    assert "A model of" in page.words
    assert "nan" not in page.words.lower().split()
    assert "x" * 200 not in page.source
    assert "<img" not in page.source
    assert path.stat().st_size < 5_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_unusual_models_are_drawn(name: str, tmp_path: Path, browser: Any) -> None:
    path = write_report(tmp_path / "r.html", unusual(name))
    for width in (400, 1400):
        browser.open(path, width=width)
        assert browser.errors() == []
        assert browser.requests() == [path.resolve().as_uri()]
        assert browser.run("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 900, 1400])
def test_nothing_is_cut_at_the_right(case: Any, tmp_path: Path, browser: Any, width: int) -> None:
    browser.open(write_report(tmp_path / "r.html", case.model), width=width)
    wider = (
        "[...document.querySelectorAll('.scroll, .tile, .tile b, .card, .bars div')]"
        ".filter(part => part.scrollWidth > part.clientWidth + 1 && part.clientWidth)"
        ".map(part => part.innerText)"
    )
    assert browser.run(wider) == []
