"""The training loss: encode the rows of a batch, then apply an objective to the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge.encoders import MultiViewEncoder, batch_norms
from pmvge.errors import ParameterError
from pmvge.likelihoods import Loss, Objective
from pmvge.sampling import BatchWithRows, RowTensors


class EncodedLoss(nn.Module):
    """The loss of a batch: an objective applied to the vectors of the batch's rows.

    With ``precision="bfloat16"`` the encoders' products are computed in bfloat16 in training.
    Weights, their gradients and the objective stay in float32. ``prior_weights`` gives, for each
    view with effects, the weight of the prior of an entity each time that it occurs in a batch.
    """

    def __init__(
        self,
        network: MultiViewEncoder,
        objective: Objective[Any],
        device: torch.device,
        precision: str = "float32",
        prior_weights: Mapping[str, NDArray[np.float64]] | None = None,
    ) -> None:
        super().__init__()
        self.network, self.objective = network, objective
        self._prior_weights = {
            view: torch.from_numpy(weights.astype(np.float32)).to(device)
            for view, weights in (prior_weights or {}).items()
        }
        self._device, self._dtype = device.type, getattr(torch, precision)
        self._norms = {view: batch_norms(network.encoder_of(view)) for view in network.views}

    def forward(self, item: BatchWithRows) -> Loss:
        """Return the loss of a batch."""
        y, penalties = [], []
        for (view, entities), x in zip(item.batch.inputs, item.x, strict=True):
            rows, penalty = self._effects(view, entities)
            y.append(self._encode(view, x, rows))
            penalties += [] if penalty is None else [penalty]
        loss = self.objective(item.batch, y)
        return loss._replace(penalty=torch.stack(penalties).sum()) if penalties else loss

    def _effects(
        self, view: str, entities: NDArray[np.int64]
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Return the effects of entities, and the part of the prior of these occurrences."""
        effects = self.network.effects_of(view)
        if effects is None:
            return None, None
        index = torch.from_numpy(entities).to(self._device)
        rows = effects(index)
        if view not in self._prior_weights:
            return rows, None
        return rows, effects.penalty(rows, self._prior_weights[view][index])

    def _encode(self, view: str, x: RowTensors, rows: torch.Tensor | None) -> torch.Tensor:
        norms = self._norms[view] if self.network.training and x.shape[0] == 1 else []
        for norm in norms:  # a single row has no batch statistics: use the running ones
            norm.eval()
        with torch.autocast(self._device, self._dtype) if self._is_low() else nullcontext():
            y: torch.Tensor = self.network(view, x, effects=False if rows is None else rows)
        for norm in norms:
            norm.train()
        return y

    def _is_low(self) -> bool:
        return self.network.training and self._dtype is not torch.float32


def check_precision(precision: str, device: torch.device) -> None:
    """Raise ParameterError if products in that precision fail or are wrong on the device."""
    if precision == "float32":
        return
    n = 256
    try:
        with torch.autocast(device.type, getattr(torch, precision)):
            x = torch.ones(n, n, device=device, requires_grad=True)
            (x @ x).float().sum().backward()
        works = x.grad is not None and bool((x.grad == 2 * n).all())
        reason = "its products are wrong"
    except (RuntimeError, NotImplementedError) as error:
        works, reason = False, str(error).splitlines()[0]
    if not works:
        raise ParameterError(
            f"precision: {precision!r} does not work on {device.type!r} here ({reason}); "
            "precision='float32' works everywhere"
        )
