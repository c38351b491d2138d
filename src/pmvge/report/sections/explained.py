"""The section that explains one prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pmvge.model import Explanation, Part, PMvGE
from pmvge.pages import (
    TRAINING,
    Section,
    color_of_view,
    css_variable,
    format_number,
    legend,
    skipped_section,
    table,
    user_text,
)
from pmvge.report import retrieval
from pmvge.report.summary import PairData, display_name

TITLE = "A prediction explained"
BARS = 8  # features of each entity


def explained(model: PMvGE, pairs: Sequence[PairData], seed: int) -> Section:
    """Return the section on one prediction, a link that is not known yet.

    The pair is one whose partners have names, if there is any, and the entity the one with the most
    links among a few.
    """
    usable = sorted(
        (part for part in pairs if part.known), key=lambda part: part.pair[1] not in model.names_
    )
    if not usable:
        return skipped_section("explained", TITLE, "no view pair has links")
    data, rng = usable[0], np.random.default_rng([seed, 6])
    example = max(retrieval.examples(model, data, 5, rng), key=lambda entry: entry.training)
    new = [partner for partner in example.partners if partner.status == retrieval.NEW]
    if not example.partners:  # a view of one entity, linked to itself
        return skipped_section("explained", TITLE, "no entity has a partner")
    (a, b), partner = data.pair, (new or example.partners)[0]
    ids = model.ids_[a][example.position].item(), model.ids_[b][partner.position].item()
    found = model.explain(a, ids[0], b, ids[1], max_parts=BARS)
    colors = {view: color_of_view(index) for index, view in enumerate(model.view_names_)}
    names = [(user_text(view, 40), colors[view]) for view in dict.fromkeys(data.pair)]
    called = [
        f"<b>{user_text(display_name(model, view, at), 60)}</b>"
        for view, at in ((a, example.position), (b, partner.position))
    ]
    lead = (
        f"Why {called[0]} and {called[1]} have the expected weight "
        f"{format_number(found.expected_weight)}. The bars add up to {_sum(found)}. "
        "Features and effects are compared with an average entity without links; the remainder is "
        "the error of the numerical integral."
    )
    body = (
        f'<div class="card">{legend([*names, ("both", TRAINING)])}'
        f"{_bars(found.parts, colors)}</div>{_evidence(found)}"
    )
    return Section("explained", TITLE, lead, body, "Explained")


def _sum(found: Explanation) -> str:
    """Return what the bars add up to; not for every family the logarithm of the expected weight."""
    eta = found.log_expected_weight
    if found.sums_to_log:
        return f"its logarithm, {format_number(eta)}"
    return f"{format_number(eta)}, which the likelihood family turns into this weight"


def _bars(parts: Sequence[Part], colors: Mapping[str, str]) -> str:
    """Return a bar for each part, to the right of a common zero if it is positive, as HTML."""
    values = [part.value for part in parts]
    low = min(0.0, *values)
    width = max(0.0, *values) - low or 1.0
    rows = "".join(
        f'<div style="--c:var({css_variable(colors.get(part.view or "", TRAINING))});'
        f'--from:{(min(0.0, part.value) - low) / width:.4f};--share:{abs(part.value) / width:.4f}">'
        f"<dt>{user_text(part.name, 60)}</dt><dd><i></i></dd><dd>{part.value:+.3f}</dd></div>"
        for part in parts
    )
    return f'<dl class="parts" style="--zero:{-low / width:.4f}">{rows}</dl>'


def _evidence(found: Explanation) -> str:
    if not found.evidence:
        return ""
    rows = [
        [
            user_text(entry.name or entry.id, 60),
            format_number(entry.weight),
            format_number(entry.similarity),
        ]
        for entry in found.evidence
    ]
    head = ["known partner", "weight", "similarity to the candidate"]
    return (
        "<h3>Known partners like it</h3>"
        f'<div class="card">{table(head, rows, text_columns=1)}</div>'
    )
