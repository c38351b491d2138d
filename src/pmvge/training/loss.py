"""The training loss: encode the rows of a batch, then apply an objective to the vectors."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from pmvge.encoders import MultiViewEncoder, batch_norms
from pmvge.errors import ParameterError
from pmvge.likelihoods import Loss, Objective
from pmvge.sampling import BatchWithRows, RowTensors


class EncodedLoss(nn.Module):
    """The loss of a batch: an objective applied to the vectors of the batch's rows.

    With ``precision="bfloat16"`` the encoders' products are computed in bfloat16 in training.
    Weights, their gradients and the objective stay in float32.
    """

    def __init__(
        self,
        network: MultiViewEncoder,
        objective: Objective[Any],
        device: torch.device,
        precision: str = "float32",
    ) -> None:
        super().__init__()
        self.network, self.objective = network, objective
        self._device, self._dtype = device.type, getattr(torch, precision)
        self._norms = {view: batch_norms(network.encoder_of(view)) for view in network.views}

    def forward(self, item: BatchWithRows) -> Loss:
        """Return the loss of a batch."""
        views = [view for view, _ in item.batch.inputs]
        y = [self._encode(view, x) for view, x in zip(views, item.x, strict=True)]
        return self.objective(item.batch, y)

    def _encode(self, view: str, x: RowTensors) -> torch.Tensor:
        norms = self._norms[view] if self.network.training and x.shape[0] == 1 else []
        for norm in norms:  # a single row has no batch statistics: use the running ones
            norm.eval()
        with torch.autocast(self._device, self._dtype) if self._is_low() else nullcontext():
            y: torch.Tensor = self.network(view, x)
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
