"""The section on alpha, encoders and parameters."""

from __future__ import annotations

from pmvge.model import Background, PMvGE
from pmvge.pages import Section, escape_html, format_number, pair_name, table, user_text
from pmvge.report import summary


def details(model: PMvGE, background: Background | None) -> Section:
    """Return the section on alpha, encoders and parameters."""
    head, alphas = ["view pair", "alpha", "error of alpha"], []
    parts = [part for part in (background.links, background.held_out) if part] if background else []
    for name in ("", "held-out ")[: len(parts)]:
        head += [f"{name}links", f"{name}weight"]
    for (a, b), error in model.alpha_error_.items():
        i, j = model.view_names_.index(a), model.view_names_.index(b)
        row = [pair_name((a, b)), format_number(float(model.alpha_[i, j]))]
        row.append(f"± {error:.2%}" if error else "exact")
        for part in parts:
            links = part.get((a, b))
            row += ["–", "–"] if links is None else [f"{len(links):,}", format_number(links.total)]
        alphas.append(row)
    views = [
        [
            user_text(row["view"], 40),
            escape_html(row["encoder"]),
            escape_html(row["features"]),
            row["entities"],
        ]
        for row in summary.encoders(model)
    ]
    settings = "".join(
        f'<div class="{"changed" if changed else ""}"><dt>{escape_html(name)}</dt>'
        f"<dd>{escape_html(value, 120)}</dd></div>"
        for name, value, changed in summary.settings(model)
    )
    body = (
        f'<h3>View pairs</h3><div class="card">{table(head, alphas)}</div>'
        f'<h3>Views and their encoders</h3><div class="card">'
        f"{table(['view', 'encoder', 'features', 'entities'], views, text_columns=2)}</div>"
        '<h3>Parameters</h3><p class="lead">Highlighted values differ from the default.</p>'
        f'<div class="card"><dl class="settings">{settings}</dl></div>'
    )
    lead = (
        "The expected weight of a pair is <i>alpha</i> · exp(<i>g</i>), where the similarity "
        "<i>g</i> is the inner product of the two vectors."
    )
    return Section("details", "The model in detail", lead, body, "Details")
