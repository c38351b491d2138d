"""The description of an encoder."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from numbers import Integral, Real

import numpy as np
from torch import nn

from pmvge.errors import ParameterError, choose

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
    "identity": nn.Identity,
}
KINDS = ("mlp", "linear", "lookup", "identity")


@dataclass(frozen=True)
class EncoderSpec:
    """The description of a view's encoder. None means the estimator's parameter of that name.

    Parameters
    ----------
    kind
        "mlp", "linear", "lookup" or "identity".
    hidden_sizes, activation, output_activation, batch_norm, dropout, input_dropout, standardize
        As in :class:`pmvge.PMvGE`, for this view only.
    shared_with
        Name of a view of the same dimension whose encoder this view uses; the other fields are
        then ignored.
    """

    kind: str | None = None
    hidden_sizes: tuple[int, ...] | None = None
    activation: str | None = None
    output_activation: str | None = None
    batch_norm: bool | None = None
    dropout: float | None = None
    input_dropout: float | None = None
    standardize: bool | None = None
    shared_with: str | None = None

    def or_else(self, defaults: EncoderSpec) -> EncoderSpec:
        """Return this spec with every None replaced by the value of ``defaults``."""
        unset = [f.name for f in fields(self) if getattr(self, f.name) is None]
        return replace(self, **{name: getattr(defaults, name) for name in unset})

    def check(self, where: str) -> None:
        """Raise ParameterError if a value is unknown or out of range."""
        choose("encoder", self.kind, KINDS, where)
        choose("activation", self.activation, ACTIVATIONS, where)
        choose("output_activation", self.output_activation, ACTIVATIONS, where)
        sizes = () if self.hidden_sizes is None else self.hidden_sizes
        if not isinstance(sizes, tuple | list) or not all(map(_is_size, sizes)):
            raise ParameterError(
                f"{where}: hidden_sizes must be positive integers, got {self.hidden_sizes!r}"
            )
        for name in ("batch_norm", "standardize"):
            if not isinstance(getattr(self, name), bool | np.bool_ | None):
                raise ParameterError(
                    f"{where}: {name} must be True or False, got {getattr(self, name)!r}"
                )
        for name in ("dropout", "input_dropout"):
            rate = getattr(self, name)
            if not isinstance(rate, Real) or not 0 <= float(rate) < 1:
                raise ParameterError(f"{where}: {name} must lie in [0, 1), got {rate!r}")


def _is_size(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
