"""What the model expects against the links that there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pmvge.model import Background, PMvGE
from pmvge.pages import (
    HELD_OUT,
    TRAINING,
    Section,
    color_of_view,
    count,
    css_variable,
    data,
    figure,
    key,
    number,
    pair_name,
    skipped,
)
from pmvge.report import comparison, figures, retrieval
from pmvge.report.summary import PairData

PANELS = 24  # view pairs that get panels; a page of hundreds is read by nobody


def calibration(pairs: Sequence[PairData], seed: int) -> Section:
    """Expected against observed weights, a panel for each view pair."""
    title = "Calibration"
    usable = [part for part in pairs if part.known]
    if not usable:
        return skipped("calibration", title, "no view pair has links")
    panels, judged = [], set()
    for place, part in enumerate(usable[:PANELS]):
        found = comparison.calibration(part, np.random.default_rng([seed, 3, place]))
        judged.add(found.held_out)
        rows, n, view = found.rows
        note = "" if rows == n else f"Estimated on {rows:,} of {n:,} rows of {data(view, 40)}."
        panels.append(
            _panel(
                pair_name(part.pair),
                f'<p class="note">{note}</p>' if note else "",
                figure(f"calibration-{place}", figures.calibration_panel(found), "Calibration"),
            )
        )
    lead = (
        "Pairs in bins of expected weight: a calibrated model lies on the dotted diagonal. "
        "Bars are one standard error. "
    )
    names = []
    if True in judged:
        lead += (
            "Judged on <b>held-out links</b>: expected weights are scaled by the share of the "
            "weight that is held out. A fall at the right end means that training links were "
            "learned by heart. "
        )
        names.append(("held-out links", HELD_OUT))
    if False in judged:
        lead += "Judged on <b>the training links</b> themselves" + (
            " where none are held out. " if True in judged else ": none are held out. "
        )
        names.append(("training links", TRAINING))
    return Section("calibration", title, lead + _first(usable), key(names) + _grid(panels))


def distributions(pairs: Sequence[PairData], views: Sequence[str], seed: int) -> Section:
    """Degrees of both sides, and similarities of linked and other pairs."""
    title = "Degrees and similarities"
    usable = [part for part in pairs if part.known]
    if not usable:
        return skipped("distributions", title, "no view pair has links")
    colors = {view: color_of_view(place) for place, view in enumerate(views)}
    degree_panels, similarity_panels = [], []
    roles: dict[str, str] = {}
    for place, part in enumerate(usable[:PANELS]):
        sides = comparison.degrees(part)
        names = [(data(side.view, 40) + _without(side), colors[side.view]) for side in sides]
        drawn = figures.degree_panel(sides, colors)
        degree_panels.append(
            _panel(pair_name(part.pair), key(names), figure(f"degrees-{place}", drawn, "Degrees"))
        )
        found = comparison.similarities(part, np.random.default_rng([seed, 4, place]))
        roles |= {name: figures.SIMILARITY_COLORS[name] for name in found}
        drawn = figures.similarity_panel(found)
        similarity_panels.append(
            _panel(pair_name(part.pair), "", figure(f"similar-{place}", drawn, "Similarities"))
        )
    body = (
        '<h3>How many links entities have</h3><p class="lead">The share of linked entities whose '
        "weighted degree in training is at least so much.</p>"
        f"{_grid(degree_panels)}"
        '<h3>How similar linked pairs are</h3><p class="lead">The inner product <i>g</i> of the '
        "embeddings of linked pairs and of random pairs without a link; the less they overlap, the "
        f"better. At most {comparison.DRAWN:,} pairs are drawn for each curve.</p>"
        f"{key(list(roles.items()))}{_grid(similarity_panels)}"
    )
    return Section("distributions", title, _first(usable), body, "Distributions")


def _without(side: comparison.Degrees) -> str:
    return f" ({side.without:,} of {side.nodes:,} without links)" if side.without else ""


def examples(
    model: PMvGE, background: Background | None, pairs: Sequence[PairData], k: int, seed: int
) -> Section:
    """The best partners of a few entities."""
    title = "Retrieval examples"
    usable = [part for part in pairs if part.known]
    if not usable:
        return skipped("examples", title, "no view pair has links")
    labels = background.labels if background else {}

    def named(view: str, at: int) -> str:
        told = {"", str(model.ids_[view][at])}
        words = [str(column[at]) for column in labels.get(view, {}).values()]
        words = [word for word in words if word not in told]
        rest = f" <small>{', '.join(data(word, 30) for word in words[:3])}</small>" if words else ""
        return data(model.ids_[view][at], 60) + rest

    blocks = []
    for place, part in enumerate(usable[:PANELS]):
        a, b = part.pair
        cards = []
        for example in retrieval.examples(part, k, np.random.default_rng([seed, 5, place])):
            rows = "".join(
                f'<tr><td>{rank}</td><td>{named(b, partner.position)}</td><td class="n">'
                f'{number(partner.expected)}</td><td class="mark">{_mark(partner.mark)}</td></tr>'
                for rank, partner in enumerate(example.partners, 1)
            )
            links = count(example.training, "training link")
            if part.held_out is not None:
                links += f", {example.held_out:,} held out"
            cards.append(
                f'<div class="card"><h4>{named(a, example.position)}</h4>'
                f'<p class="note">{links}</p><table class="examples"><tbody>{rows}</tbody></table>'
                "</div>"
            )
        blocks.append(f"<h3>{data(a, 40)} → {data(b, 40)}</h3>{_grid(cards)}")
    lead = (
        f"The {count(k, 'partner')} with the largest expected weight, and what is known of the "
        f"link: {_mark('training')} was trained on, {_mark('held out')} was not, {_mark('new')} "
        "stands in neither, so it is a suggestion, or a mistake. "
    )
    return Section("examples", title, lead + _first(usable), "".join(blocks), "Examples")


def _mark(mark: str) -> str:
    looks = {"training": ("known", TRAINING), "held out": ("held", HELD_OUT)}
    if mark not in looks:
        return f'<span class="pill">{mark}</span>'
    kind, color = looks[mark]
    return f'<span class="pill {kind}" style="--c:var({css_variable(color)})">{mark}</span>'


def _panel(title: str, above: str, drawn: str) -> str:
    return f'<div class="card"><h4>{title}</h4>{above}{drawn}</div>'


def _grid(cards: Sequence[str]) -> str:
    return f'<div class="grid">{"".join(cards)}</div>'


def _first(usable: Sequence[PairData]) -> str:
    return f"The first {PANELS} of {len(usable)} view pairs." if len(usable) > PANELS else ""
