"""The first screen of a report: what the data are, how good the model is, and what to try next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pmvge.pages import (
    GREY,
    HELD_OUT,
    TRAINING,
    css_variable,
    escape_html,
    format_count,
    format_duration,
    user_text,
)

MAX_VIEWS, MAX_CARDS, MAX_STEPS = 6, 4, 3
RIVALS = {"popularity": ("popularity list", GREY), "features_only": ("features alone", HELD_OUT)}


def summary(facts: Mapping[str, Any]) -> str:
    """Return sentences on the data, from a model's description, as HTML."""
    views, links = facts["views"], facts["links"]
    named = [f"{entry['n']:,} <b>{user_text(view, 40)}</b>" for view, entry in views.items()]
    shown = named[:MAX_VIEWS]
    if more := len(named) - len(shown):
        shown.append(f"entities of {format_count(more, 'more view')}")
    held = sum(part["held_out"] for part in links.values())
    total = sum(part["links"] for part in links.values())
    pairs = [entry["pair"] for entry in facts["alpha"].values()]
    where = _between(pairs[0]) if len(pairs) == 1 else f"in {len(pairs)} view pairs"
    text = f"A model of {_and(shown)}"
    if links:
        text += f", learned from {format_count(total, 'link')} {where}"
    text += "."
    if held:
        text += f" {format_count(held, 'more link')} were held out to test it."
    if facts["training"]["steps"]:
        text += f" Training took {format_duration(facts['training']['seconds'])}."
    return text


def _between(pair: Sequence[str]) -> str:
    a, b = (user_text(view, 40) for view in pair)
    return f"among {a}" if pair[0] == pair[1] else f"between {a} and {b}"


def opening(facts: Mapping[str, Any], results: Mapping[str, Any] | None) -> str:
    """Return how well held-out links are predicted, and what to try next, as HTML."""
    cards = _cards(facts, results)
    if not cards:
        cards = [
            '<div class="card verdict"><h2>Not tested</h2><p>There are no held-out links, so it is '
            "not known how well the model predicts.</p></div>"
        ]
    steps = "".join(f"<li>{step}</li>" for step in next_steps(facts, results)[:MAX_STEPS])
    advice = f'<div class="card verdict next"><h2>What to try next</h2><ol>{steps}</ol></div>'
    return f'<div class="verdicts">{"".join(cards)}{advice}</div>'


def _cards(facts: Mapping[str, Any], results: Mapping[str, Any] | None) -> list[str]:
    """Return one card for each view pair with held-out links, those with the most links first."""
    if not results:
        return []
    scored = {
        key: values
        for key, values in results["pairs"].items()
        if key in facts["alpha"] and _recall(values)[0]
    }
    order = sorted(scored, key=lambda key: -scored[key].get("links", 0))
    cards = [_card(facts, key, results) for key in order[:MAX_CARDS]]
    if more := len(order) - len(cards):
        rest = f"{format_count(more, 'more view pair')}: see Scores."
        cards[-1] = cards[-1].removesuffix("</div>") + f'<p class="note">{rest}</p></div>'
    return cards


def _card(facts: Mapping[str, Any], key: str, results: Mapping[str, Any]) -> str:
    own, pair = results["pairs"][key], facts["alpha"][key]["pair"]
    name, k = _recall(own)
    a, b = (user_text(view, 40) for view in pair)
    meaning = f"How many of the held-out {b} are among the first {k} suggestions:"
    if facts["views"][pair[1]]["n"] <= int(k) and f"ndcg@{k}" in own:  # all are among the first k
        name = f"ndcg@{k}"
        meaning = f"How well {b} are ordered (nDCG@{k}; 100% if the held-out ones are first):"
    behind = any(text.startswith(f"links {key}:") for text in results.get("warnings") or ())
    rivals = {
        title: (values[name], color)
        for rival, (title, color) in RIVALS.items()
        if name in (values := ((results.get(rival) or {}).get("pairs") or {}).get(key) or {})
    }
    popular = rivals.get(RIVALS["popularity"][0], (None, ""))[0]
    if popular is None:
        verdict, mood = "Tested on held-out links", ""
    elif behind:
        verdict, mood = "Not clearly better than a popularity list", "bad"
    else:
        verdict, mood = "Better than a popularity list", "good"
    bars = {"this model": (own[name], TRAINING), **rivals}
    largest = max([value for value, _ in bars.values()] + [1e-9])
    rows = "".join(
        f'<div style="--c:var({css_variable(color)});--share:{value / largest:.4f}">'
        f"<dt>{title}</dt><dd><i></i><b>{value:.0%}</b></dd></div>"
        for title, (value, color) in bars.items()
    )
    return (
        f'<div class="card verdict {mood}"><p class="kind">{a} → {b}</p><h2>{verdict}</h2>'
        f'<p>{meaning}</p><dl class="bars">{rows}</dl>{_leads(own, results, key)}</div>'
    )


def _leads(own: Mapping[str, Any], results: Mapping[str, Any], key: str) -> str:
    """Return by how much the model is ahead of the others, in nDCG."""
    name = next((name for name in own if name.startswith("ndcg@")), "")
    parts = []
    for rival, (title, _) in RIVALS.items():
        value = (((results.get(rival) or {}).get("pairs") or {}).get(key) or {}).get(name)
        if value:
            article = "" if title.endswith("alone") else "the "
            parts.append(f"{_lead(own[name] / value)} {article}{title}")
    if not parts:
        return ""
    metric = escape_html(name.replace("ndcg", "nDCG"))
    return f'<p class="note">In {metric}, where the first ranks count more: {_and(parts)}.</p>'


def _lead(ratio: float) -> str:
    """Return how a value compares with another one.

    >>> [_lead(ratio) for ratio in (12.3, 1.25, 1.001, 0.9)]
    ['12 times as good as', '25% ahead of', 'level with', '10% behind']
    """
    if ratio >= 2:
        return f"{ratio:.2g} times as good as"
    if abs(ratio - 1) < 0.005:
        return "level with"
    return f"{abs(ratio - 1):.0%} {'ahead of' if ratio > 1 else 'behind'}"


def _recall(values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name of the recall, and its k; empty if it was not measured, or is NaN."""
    for name, value in values.items():
        base, _, k = name.partition("@")
        if base == "recall" and k.isdecimal() and value == value:
            return name, k
    return "", ""


def next_steps(facts: Mapping[str, Any], results: Mapping[str, Any] | None) -> list[str]:
    """Return what would improve or check the model, as HTML, the most important first."""
    steps = []
    warnings = list((results or {}).get("warnings") or ())
    if not results:
        steps.append("Hold out links to test the model: <code>fit(graph, hold_out=0.1)</code>.")
    if warnings and warnings[-1].startswith("try "):
        advice = warnings[-1].removesuffix(" (docs/settings.md, Symptoms)")
        steps.append(f"Improve it: {escape_html(advice, None)}.")
    for key in _weak_features(results):
        views = [v for v in facts["alpha"][key]["pair"] if facts["views"][v]["features"] != "none"]
        steps.append(
            f"Add features of {_and([user_text(v, 40) for v in dict.fromkeys(views)])} that say "
            "more about links: new entities are predicted by features alone."
        )
    if featureless := [v for v, entry in facts["views"].items() if entry["features"] == "none"]:
        names = _and([user_text(view, 40) for view in featureless[:MAX_VIEWS]])
        steps.append(f"Give {names} features, so that new ones can be placed without links.")
    if any(entry is None for kinds in facts["calibrated"].values() for entry in kinds.values()):
        steps.append(
            "Calibrate before you add up expected weights of new entities: "
            "<code>pmvge fit --calibrate</code>, or in Python "
            "<code>fit(graph, calibrate=0.1)</code>. Rankings need no calibration."
        )
    steps.append("Search for better settings: <code>pmvge tune</code>.")
    return list(dict.fromkeys(steps))


def _weak_features(results: Mapping[str, Any] | None) -> list[str]:
    """Return the view pairs in which features alone are behind the popularity list."""
    if not results or not results.get("features_only"):
        return []
    popular = (results.get("popularity") or {"pairs": {}})["pairs"]
    return [
        key
        for key, values in results["features_only"]["pairs"].items()
        if (name := _recall(values)[0]) and values[name] < popular.get(key, {}).get(name, 0)
    ]


def _and(texts: Sequence[str]) -> str:
    """Return texts as an enumeration.

    >>> _and(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))
