r"""Effects: what the links of an entity say beyond its features.

.. math:: y_i = f(x_i) + e_i, \qquad \text{bias}_i^{(de)} = u^{(de)}(x_i) + b_i^{(de)}

with Gaussian priors :math:`e_i \sim N(0, \sigma_d^2 I)` and :math:`b_i \sim N(0, \tau_d^2)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from numbers import Real
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from pmvge.encoders.lazy_rows import LazyRows
from pmvge.errors import ParameterError, choose

KINDS = ("none", "bias", "vector")
INITIAL_STD = 0.01  # of vectors of featureless views, which cannot start at 0
# Sigma and tau, where they are learned. A narrower one would hold featureless views at 0; where
# there are features, the similarity gives the initial sigma.
INITIAL_PRIOR = (0.3, 0.3)
MIN_PRIOR, MAX_PRIOR = 1e-6, 1e18  # precisions, and squares of gradients, are float32


class Effects(nn.Module, LazyRows):
    """The effects (e, b) of a view's entities: K numbers or none, and one for each view pair.

    Entities without training links, and new entities, have effects 0.
    """

    accessed_by_row = True
    lr_multiplier = 2.0  # an effect gets gradients from few links, weights of encoders from all
    decays = False  # the prior takes the place of weight decay
    prior: torch.Tensor

    def __init__(self, n: int, n_vector: int, n_biases: int, *, featureless: bool = False) -> None:
        super().__init__()
        self.n_vector = n_vector
        self.weight = nn.Parameter(torch.zeros(n, n_vector + n_biases))
        if featureless and n_vector:
            nn.init.normal_(self.weight.detach()[:, :n_vector], std=INITIAL_STD)
        self.register_buffer("prior", torch.tensor(INITIAL_PRIOR))  # sigma, tau
        self._linked: torch.Tensor | None = None  # (n, 1); None: all entities have links

    def hold_unlinked(self, linked: torch.Tensor) -> None:
        """Set the effects of entities without links (n,) to 0; training does not change them."""
        mask = linked.to(self.weight.device)[:, None]
        self.weight.detach().mul_(mask)
        self._linked = None if bool(linked.all()) else mask

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """Return (e, b), (n, K + P), of the training entities at positions ``index``."""
        weight, position = self.rows_at(index)
        rows = functional.embedding(position, weight)
        return rows if self._linked is None else rows * self._linked[index]

    def of_known(self, index: torch.Tensor) -> torch.Tensor:
        """Return (e, b) of entities at positions ``index``, where -1 is a new entity."""
        rows: torch.Tensor = self(index.clamp_min(0))
        return rows * (index >= 0)[:, None]

    def split(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return e and b from (e, b)."""
        return rows[:, : self.n_vector], rows[:, self.n_vector :]

    def penalty(self, rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        r"""Return :math:`\sum_i w_i (|e_i|^2 / 2\sigma^2 + |b_i|^2 / 2\tau^2)` of (e, b)."""
        n_biases = rows.shape[1] - self.n_vector
        sigma, tau = self.prior.pow(-2) / 2
        precision = torch.cat([sigma.expand(self.n_vector), tau.expand(n_biases)])
        return weights @ (rows.square() @ precision)


class Zero(nn.Module):
    """The encoder of a featureless view whose vectors are effects: :math:`f = 0`."""

    def __init__(self, n_out: int) -> None:
        super().__init__()
        self.n_out = n_out

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        """Return zeros (n, K)."""
        return torch.zeros(len(index), self.n_out, device=index.device)


def choose_effects(
    effects: Any, views: Mapping[str, bool], fixed: Collection[str] = ()
) -> dict[str, str]:
    """Return the kind of effects of every view, from the ``effects`` parameter of an estimator.

    ``views`` says which views have links; others have no effects. "auto" is "vector", and "none"
    for views in ``fixed``, whose vectors cannot have effects. Raise ParameterError for an unknown
    view or kind.
    """
    given = effects if isinstance(effects, Mapping) else dict.fromkeys(views, effects)
    chosen = {}
    for view, kind in given.items():
        choose("view", view, views, "effects")
        kind = "none" if kind is None else kind  # so reads --set effects=none
        choose("effects", kind, ("auto", *KINDS), f"view {view!r}: effects")
        automatic = "none" if view in fixed else "vector"
        chosen[view] = automatic if kind == "auto" else kind
    return {view: chosen.get(view, "none") if linked else "none" for view, linked in views.items()}


def choose_priors(prior: Any, views: Mapping[str, str]) -> dict[str, tuple[float, float] | None]:
    """Return sigma and tau of every view with effects; None where they are learned.

    ``prior`` is the ``effects_prior`` parameter: None, one number for both, (sigma, tau), or one of
    these for each view. Raise ParameterError if a number is not positive, or for an unknown view.
    """
    given = prior if isinstance(prior, Mapping) else dict.fromkeys(views, prior)
    for view in given:
        choose("view", view, views, "effects_prior")
    priors = {view: _check_prior(view, given.get(view)) for view in views}
    return {view: priors[view] for view, kind in views.items() if kind != "none"}


def _check_prior(view: str, value: Any) -> tuple[float, float] | None:
    if value is None:
        return None
    both = (value, value) if not isinstance(value, tuple | list) else tuple(value)
    valid = len(both) == 2 and all(
        isinstance(number, Real)
        and not isinstance(number, bool)
        and MIN_PRIOR <= float(number) < MAX_PRIOR
        for number in both
    )
    if not valid:
        raise ParameterError(
            f"effects_prior: view {view!r}: expected a positive number, or (sigma, tau), got "
            f"{value!r}; the least is {MIN_PRIOR:g}"
        )
    return float(both[0]), float(both[1])
