"""Which view owns the encoder of each view, where views share encoders."""

from __future__ import annotations

from collections.abc import Mapping

from torch import nn

from pmvge.encoders.choices import Choice
from pmvge.encoders.schemas import ViewSchema
from pmvge.encoders.specs import EncoderSpec
from pmvge.errors import ParameterError, choose


def owner_of(view: str, choices: Mapping[str, Choice]) -> str:
    """Return the view whose encoder this view uses: itself, unless it shares."""
    choice = choices[view]
    if isinstance(choice, EncoderSpec):
        return choice.shared_with or view
    return min(v for v, other in choices.items() if other is choice)


def check_owner(view: str, choices: Mapping[str, Choice], schemas: Mapping[str, ViewSchema]) -> str:
    """Return the owner of a view's encoder; raise ParameterError if it cannot be shared."""
    owner = owner_of(view, choices)
    choice = choices[view]
    if isinstance(choice, nn.Module) or choice.shared_with is None:
        return owner
    where = f"view {view!r}: shared_with"
    if owner == view:
        raise ParameterError(f"{where}: a view cannot share with itself; name another view")
    choose("view", owner, choices, where)
    if owner_of(owner, choices) != owner:
        raise ParameterError(
            f"{where}: {owner!r} has no encoder of its own, it shares one too; "
            f"use shared_with={owner_of(owner, choices)!r}"
        )
    expected, got = ((schemas[v].row_shape, schemas[v].sparse) for v in (owner, view))
    if got != expected or not got[0]:
        raise ParameterError(
            f"{where}: expected rows like those of {owner!r} ({expected[0]}, "
            f"sparse={expected[1]}), got ({got[0]}, sparse={got[1]})"
        )
    return owner
