"""Sections that compare the model with links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pmvge.evaluation import Reliability
from pmvge.model import PMvGE
from pmvge.pages import (
    HELD_OUT,
    TRAINING,
    Section,
    color_of_view,
    escape_html,
    figure,
    format_count,
    format_number,
    legend,
    pair_name,
    skipped_section,
    table,
    user_text,
)
from pmvge.report import comparison, figures, retrieval
from pmvge.report.sections.example_cards import example_card, similar_card, status_pill
from pmvge.report.summary import PairData

MAX_PANELS = 24  # view pairs that are shown


def calibration(pairs: Sequence[PairData], facts: Mapping[str, Any], seed: int) -> Section:
    """Return the section on expected and observed weights, one panel for each view pair."""
    title = "Calibration"
    usable = [part for part in pairs if part.known]
    if not usable:
        return skipped_section("calibration", title, "no view pair has links")
    panels, on_held_out = [], set()
    for index, part in enumerate(usable[:MAX_PANELS]):
        measured = comparison.calibration(part, np.random.default_rng([seed, 3, index]))
        on_held_out.add(measured.held_out)
        rows, n, view = measured.rows
        note = f"Estimated on {rows:,} of {n:,} entities of {user_text(view, 40)}."
        panels.append(
            _panel(
                pair_name(part.pair),
                f'<p class="note">{note}</p>' if rows < n else "",
                figure(
                    f"calibration-{index}",
                    figures.calibration_panel(
                        measured.bins, HELD_OUT if measured.held_out else TRAINING
                    ),
                    "Calibration",
                ),
            )
        )
    lead = (
        "Mean observed against mean expected weight, for pairs in bins of expected weight. A "
        "calibrated model lies on the dotted diagonal. Bars show one standard error. "
    )
    names = []
    if True in on_held_out:
        lead += (
            "Observed weights are those of <b>held-out links</b>; expected weights are scaled by "
            "the share of the weight that is held out. A drop at the right end indicates "
            "overfitting to the training links. "
        )
        names.append(("held-out links", HELD_OUT))
    if False in on_held_out:
        lead += (
            "View pairs without held-out links use "
            if True in on_held_out
            else "There are no held-out links: observed weights are those of "
        ) + "<b>the training links</b>. "
        names.append(("training links", TRAINING))
    body = legend(names) + _grid(panels) + _new_entities(facts)
    return Section("calibration", title, lead + _first(usable), body)


def _new_entities(facts: Mapping[str, Any]) -> str:
    """Return the factors of expected weights of new entities, and their reliability diagrams."""
    rows, panels = [], []
    for index, (pair, kinds) in enumerate(facts["calibrated"].items()):
        name = pair_name(facts["alpha"][pair]["pair"])
        for kind, entry in kinds.items():
            if entry is None:
                rows.append([name, kind, "not calibrated", "–", "–"])
                continue
            error, weight = f"± {entry['relative_error']:.1%}", format_number(entry["weight"])
            rows.append([name, kind, format_number(entry["factor"]), error, weight])
            columns = {key: np.array(values) for key, values in entry["bins"].items()}
            drawn = figures.calibration_panel(Reliability(**columns, n_sampled=0), HELD_OUT)
            chart = figure(f"calibration-{index}-{kind}", drawn, "Calibration")
            panels.append(_panel(f"{name}: {kind}", "", chart))
    head = ["view pair", "entities", "factor", "error", "weight"]
    return (
        '<h3>New entities</h3><p class="lead">Vectors of new entities come from their features, so '
        "their expected weights can be wrong by a factor, which calibration measures on entities "
        "that were not in training. Where it says not calibrated, rankings of partners are valid, "
        "but sums of expected weights are not. The diagrams are after calibration, on the "
        "entities that it was measured on.</p>"
        f'<div class="card">{table(head, rows, text_columns=2)}</div>{_grid(panels)}'
    )


def distributions(
    pairs: Sequence[PairData], views: Sequence[str], seed: int, explained: str = ""
) -> Section:
    """Return the section on degrees of entities and similarities of pairs.

    ``explained`` is a sentence on the size of similarities.
    """
    title = "Degrees and similarities"
    usable = [part for part in pairs if part.known]
    if not usable:
        return skipped_section("distributions", title, "no view pair has links")
    colors = {view: color_of_view(index) for index, view in enumerate(views)}
    degree_panels, similarity_panels = [], []
    roles: dict[str, str] = {}
    for index, part in enumerate(usable[:MAX_PANELS]):
        sides = comparison.degrees(part)
        names = [(user_text(side.view, 40) + _unlinked(side), colors[side.view]) for side in sides]
        drawn = figures.degree_panel(sides, colors)
        degree_panels.append(
            _panel(
                pair_name(part.pair), legend(names), figure(f"degrees-{index}", drawn, "Degrees")
            )
        )
        similarities = comparison.similarities(part, np.random.default_rng([seed, 4, index]))
        roles |= {name: figures.SIMILARITY_COLORS[name] for name in similarities}
        drawn = figures.similarity_panel(similarities)
        similarity_panels.append(
            _panel(pair_name(part.pair), "", figure(f"similar-{index}", drawn, "Similarities"))
        )
    body = (
        '<h3>Degrees</h3><p class="lead">The share of linked entities with at least a given '
        "weighted degree in the training links.</p>"
        f"{_grid(degree_panels)}"
        '<h3>Similarities</h3><p class="lead">The similarity <i>g</i> of linked pairs and of '
        "random pairs without a link. The less the curves overlap, the better. "
        f"{escape_html(explained, None)} Each curve shows at most "
        f"{comparison.MAX_SIMILARITIES:,} pairs.</p>"
        f"{legend(list(roles.items()))}{_grid(similarity_panels)}"
    )
    return Section("distributions", title, _first(usable), body, "Distributions")


def _unlinked(side: comparison.Degrees) -> str:
    if not side.n_unlinked:
        return ""
    return f" ({side.n_unlinked:,} of {side.n_entities:,} without links)"


def examples(model: PMvGE, pairs: Sequence[PairData], k: int, seed: int) -> Section:
    """Return the section with the best partners of a few entities."""
    title = "Examples"
    usable = [part for part in pairs if part.known]
    if not usable:
        return skipped_section("examples", title, "no view pair has links")
    groups = []
    # View pairs whose partners have names first: people recognise them.
    usable.sort(key=lambda part: part.pair[1] not in model.names_)
    for index, part in enumerate(usable[:MAX_PANELS]):
        a, b = (user_text(view, 40) for view in part.pair)
        found = retrieval.examples(model, part, k, np.random.default_rng([seed, 5, index]))
        cards = [example_card(model, part, example) for example in found]
        groups.append(f"<h3>{b} suggested for {a}</h3>{_grid(cards)}")
    for view in list(model.names_)[:MAX_PANELS]:
        cards = [similar_card(model, view, *entry) for entry in retrieval.similar(model, view, k)]
        groups.append(f"<h3>{user_text(view, 40)} with similar vectors</h3>{_grid(cards)}")
    lead = (
        f"The {format_count(k, 'partner')} with the largest expected weight among those without a "
        f"training link. {status_pill('held out')} marks a link that was held out: the suggestion "
        "is right. The others cannot be checked here. "
    )
    return Section("examples", title, lead + _first(usable), "".join(groups))


def _panel(title: str, above: str, drawn: str) -> str:
    return f'<div class="card"><h4>{title}</h4>{above}{drawn}</div>'


def _grid(cards: Sequence[str]) -> str:
    return f'<div class="grid">{"".join(cards)}</div>'


def _first(usable: Sequence[PairData]) -> str:
    if len(usable) <= MAX_PANELS:
        return ""
    return f"The first {MAX_PANELS} of {len(usable)} view pairs are shown."
