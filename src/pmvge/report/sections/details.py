"""The section on alpha, encoders and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmvge.pages import Section, escape_html, format_number, pair_name, table, user_text
from pmvge.report.summary import format_setting


def details(facts: Mapping[str, Any]) -> Section:
    """Return the section on alpha, encoders and parameters, from a model's description."""
    views = [
        [
            user_text(view, 40),
            escape_html(f"{entry['encoder']} → {facts['n_components']}"),
            escape_html(entry["features"]),
            f"{entry['n']:,}",
        ]
        for view, entry in facts["views"].items()
    ]
    settings = "".join(
        f'<div class="{"changed" if name in facts["changed_settings"] else ""}">'
        f"<dt>{escape_html(name)}</dt><dd>{escape_html(format_setting(value), 120)}</dd></div>"
        for name, value in facts["settings"].items()
    )
    body = (
        f'<h3>View pairs</h3><div class="card">{_alpha_table(facts)}</div>'
        f'<h3>Views and their encoders</h3><div class="card">'
        f"{table(['view', 'encoder', 'features', 'entities'], views, text_columns=2)}</div>"
        '<h3>Parameters</h3><p class="lead">Highlighted values differ from the default.</p>'
        f'<div class="card"><dl class="settings">{settings}</dl></div>'
    )
    lead = (
        f"Weights have the distribution {_family(facts['family'])} with the parameter "
        "<i>alpha</i> · exp(<i>g</i>), where <i>g</i> is the "
        f"{escape_html(facts['similarity'])} similarity of the two vectors. For Poisson weights "
        "the parameter is the expected weight."
    )
    return Section("details", "The model in detail", lead, body, "Details")


def _family(family: str | Mapping[str, str]) -> str:
    """Return the name of the family, or those of all view pairs."""
    if isinstance(family, str):
        return escape_html(family)
    return ", ".join(
        f"{escape_html(name)} ({user_text(pair, 40)})" for pair, name in family.items()
    )


def _alpha_table(facts: Mapping[str, Any]) -> str:
    """Return the table of view pairs: alpha, its error, and the links if they are known."""
    links = facts["links"]
    held = any(entry["held_out"] for entry in links.values())
    head = ["view pair", "alpha", "error of alpha"]
    dispersed = any("dispersion" in entry for entry in facts["alpha"].values())
    head += ["dispersion"] * dispersed
    head += ["links", "weight"] * bool(links) + ["held-out links", "held-out weight"] * held
    rows = []
    for pair, entry in facts["alpha"].items():
        error = entry["relative_error"]
        row = [pair_name(entry["pair"]), format_number(entry["alpha"])]
        row.append(f"± {error:.2%}" if error else "exact")
        if dispersed:
            row.append(format_number(entry["dispersion"]) if "dispersion" in entry else "")
        if links:
            row += [f"{links[pair]['links']:,}", format_number(links[pair]["weight"])]
        if held:
            row += [f"{links[pair]['held_out']:,}", format_number(links[pair]["held_out_weight"])]
        rows.append(row)
    return table(head, rows)
