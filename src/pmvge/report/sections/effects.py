"""The section on features and effects: what each explains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmvge.pages import TRAINING, Section, css_variable, format_number, table, user_text


def effects(facts: Mapping[str, Any]) -> Section | None:
    """Return the section on effects, from a model's description; None if it has no effects."""
    rows = [
        [
            user_text(view, 40),
            user_text(other, 40),
            entry["effects"]["kind"],
            format_number(entry["effects"]["sigma"]) if "sigma" in entry["effects"] else "–",
            format_number(entry["effects"]["tau"]),
            _bar(share),
        ]
        for view, entry in facts["views"].items()
        for other, share in entry["effects"].get("feature_shares", {}).items()
    ]
    if not rows:
        return None
    lead = (
        "How much of the differences between the entities of a view comes from their features, and "
        "how much from effects: what their links say beyond the features. If the share of features "
        "is small, new entities, which have no effects yet, are predicted less well than known "
        "ones. Sigma and tau are the standard deviations of the effects’ priors, for vectors and "
        "for biases."
    )
    head = ["view", "partners", "effects", "sigma", "tau", "features · effects"]
    body = f'<div class="card">{table(head, rows, text_columns=3)}</div>'
    return Section("effects", "Features and effects", lead, body, "Effects")


def _bar(share: float) -> str:
    """Return a bar of two parts with their percentages."""
    return (
        f'<span class="share" style="--c:var({css_variable(TRAINING)})"><b>{share:.0%}</b>'
        f'<i style="--share:{share:.4f}"></i>'
        f"<b>{1 - share:.0%}</b></span>"
    )
