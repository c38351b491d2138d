"""The view pair of a link table that is given on the command line."""

from __future__ import annotations

from pmvge.errors import InputError
from pmvge.graph import Pair, pair_key
from pmvge.model import PMvGE
from pmvge.tables import link_pairs, pair_of


def view_pair(model: PMvGE, text: str | None, table: str, view: str | None = None) -> Pair:
    """Return the view pair of a link table, from ``--pair`` or from the table's columns.

    With a view, it is one of the pairs of that view. Raise InputError if the pair was not in
    training, and TableError if the columns do not say which it is.
    """
    known = [pair for pair in link_pairs(model.tables_) if view is None or view in pair]
    if not known:
        raise InputError(f"--links: view {view!r} had no link table in training")
    if text is None:
        pair = known[0] if len(known) == 1 else pair_of(model.tables_, table)
        if pair in known:
            return pair
        text = pair_key(pair)
    a, comma, b = text.partition(",")
    if comma and ((a, b) in known or (b, a) in known):
        return a, b
    listed = " or ".join(map(pair_key, known))
    raise InputError(f"--pair: no links of {text!r} in training: expected {listed}")
