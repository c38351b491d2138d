"""The choice of an encoder for every view, from the ``encoder`` parameter of an estimator."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import nn

from pmvge.encoders.schemas import ViewSchema
from pmvge.encoders.specs import KINDS, EncoderSpec
from pmvge.errors import ParameterError, choose

Choice = EncoderSpec | nn.Module
DROPOUT = 0.5  # of columns and hidden units of the views that have dropout by default


def describe_choice(choice: Choice) -> str:
    """Return a short description of an encoder, such as "mlp 128-64"."""
    if isinstance(choice, nn.Module):
        return type(choice).__name__
    sizes = "-".join(map(str, choice.hidden_sizes or ()))
    return f"mlp {sizes}" if choice.kind == "mlp" and sizes else str(choice.kind)


def choose_encoders(
    encoder: Any,
    defaults: EncoderSpec,
    schemas: Mapping[str, ViewSchema],
    *,
    unscaled: Collection[str] = frozenset(),
    dropped: Collection[str] = frozenset(),
) -> dict[str, Choice]:
    """Return a complete spec, or a module, for every view.

    ``encoder`` is the estimator's parameter: one choice for all views, or one per view. Values of a
    spec that are None are taken from ``defaults``. Views in ``unscaled`` are not standardised,
    unless a spec was given for them; views in ``dropped`` have dropout, unless it is set. Raise
    ParameterError for an unknown view or encoder.
    """
    given = encoder if isinstance(encoder, Mapping) else dict.fromkeys(schemas, encoder)
    for view in given:
        choose("view", view, schemas, "encoder")
    choices: dict[str, Choice] = {}
    for view, schema in schemas.items():
        where = f"view {view!r}: encoder"
        wanted = given.get(view, "mlp" if schema.row_shape is not None else "lookup")
        if isinstance(wanted, nn.Module):
            choices[view] = wanted
            continue
        if isinstance(wanted, str):
            kind = choose("encoder", wanted, KINDS, where)
            wanted = EncoderSpec(kind=kind, standardize=False if view in unscaled else None)
        if not isinstance(wanted, EncoderSpec):
            raise ParameterError(
                f"{where}: expected a name, an EncoderSpec or a torch.nn.Module, got "
                f"{type(wanted).__name__}"
            )
        if schema.row_shape is None and not (isinstance(encoder, Mapping) and view in encoder):
            wanted = EncoderSpec(kind="lookup")  # one name was given for all views
        rate = DROPOUT if view in dropped else 0.0
        spec = wanted.or_else(defaults).or_else(EncoderSpec(dropout=rate, input_dropout=rate))
        spec.check(where)
        choices[view] = spec
    return choices
