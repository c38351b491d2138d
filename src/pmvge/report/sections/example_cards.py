"""Cards with the known and suggested partners of an entity."""

from __future__ import annotations

from collections.abc import Sequence

from pmvge.model import PMvGE
from pmvge.pages import HELD_OUT, css_variable, format_count, format_number, user_text
from pmvge.report import retrieval
from pmvge.report.summary import PairData, display_name

MAX_FACTS = 3  # beside a name: the id, and labels


def example_card(model: PMvGE, data: PairData, example: retrieval.Example) -> str:
    """Return the known links of an entity, and apart from them the suggestions, as HTML."""
    a, b = data.pair
    known = "".join(f"<li>{_named(model, b, entry.position)}</li>" for entry in example.known)
    links = format_count(example.training, "known link")
    links += ", the strongest:" if example.training > len(example.known) else ":" if known else ""
    held = f" ({example.held_out:,} held out)" if data.held_out is not None else ""
    return _card(
        _title(model, a, example.position),
        f'<p class="note">{links}</p>'
        + (f'<ul class="known">{known}</ul>' if known else "")
        + f'<p class="note">Suggestions{held}:</p>',
        _rows(model, b, example.partners),
    )


def similar_card(model: PMvGE, view: str, position: int, found: Sequence[retrieval.Partner]) -> str:
    """Return the entities of a view with the most similar vectors, as HTML."""
    return _card(_title(model, view, position), "", _rows(model, view, found))


def status_pill(status: str) -> str:
    """Return the status of a link as HTML; nothing for a suggestion that cannot be checked."""
    if status != retrieval.HELD_OUT:
        return ""
    return f'<span class="pill held" style="--c:var({css_variable(HELD_OUT)})">{status}</span>'


def _card(title: str, above: str, rows: str) -> str:
    table = f'<table class="examples"><tbody>{rows}</tbody></table>'
    return f'<div class="card"><h4>{title}</h4>{above}{table}</div>'


def _rows(model: PMvGE, view: str, partners: Sequence[retrieval.Partner]) -> str:
    return "".join(
        f"<tr><td>{rank}</td><td>{_named(model, view, partner.position)}</td>"
        f'<td class="mark">{status_pill(partner.status)}</td>'
        f'<td class="n">{format_number(partner.expected)}</td></tr>'
        for rank, partner in enumerate(partners, 1)
    )


def _title(model: PMvGE, view: str, at: int) -> str:
    """Return the name of an entity; before an id, the view."""
    before = "" if view in model.names_ else f"<small>{user_text(view, 40)}</small>"
    return before + _named(model, view, at)


def _named(model: PMvGE, view: str, at: int) -> str:
    """Return the name of an entity, and small beside it its id and labels."""
    name = display_name(model, view, at)
    values = [str(column[at]) for column in model.labels_.get(view, {}).values()]
    if view in model.names_:
        values.insert(0, str(model.ids_[view][at]))
    facts = dict.fromkeys(value for value in values if value not in ("", name))
    small = "".join(f"<small>{user_text(value, 40)}</small>" for value in list(facts)[:MAX_FACTS])
    return f'<span class="name">{user_text(name, 120)}</span> {small}'
