r"""Integrated gradients of a similarity, over the inputs of both entities jointly.

With inputs :math:`z = (x_i, e_i, x_j, e_j)` and a baseline :math:`z^0`, the part of coordinate k is

.. math:: (z_k - z_k^0) \int_0^1 \frac{\partial s}{\partial z_k}(z^0 + t (z - z^0)) \, dt,

and the parts add up to :math:`s(z) - s(z^0)`. The integral is a composite Gauss-Legendre rule,
whose number of panels doubles until the sum and the parts are accurate. A relu network has
gradients with jumps, so that it needs more panels than a smooth one.

References
----------
M. Sundararajan, A. Taly and Q. Yan, "Axiomatic attribution for deep networks", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

ORDER = 4  # nodes of a panel: exact for polynomials of degree 7
FIRST_PANELS, MAX_PANELS = 8, 1024
# Accuracy of the sum, and of the parts, relative to the change of s; and of float32 encoders.
TOLERANCE, PART_TOLERANCE, ROUNDING = 1e-3, 1e-2, 1e-5
CELLS = 1 << 21  # inputs that are encoded at once

Vectors = Callable[..., torch.Tensor]  # inputs (S, ...) -> y (S, K)
PairSimilarity = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # (S, K), (S, K) -> (S,)


@dataclass(frozen=True, eq=False)
class Side:
    """One entity: its inputs, those of the baseline, and the map from inputs to vectors."""

    start: tuple[torch.Tensor, ...]  # the baseline's inputs, without a batch axis
    end: tuple[torch.Tensor, ...]  # the entity's inputs
    vectors: Vectors


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each input adds to a similarity, relative to the baseline."""

    baseline: float  # s of the two baselines
    total: float  # s of the two entities
    parts: tuple[list[torch.Tensor], ...]  # for each side, for each input, in its shape
    nodes: int  # gradients that were computed


def integrated_gradients(sides: tuple[Side, Side], similarity: PairSimilarity) -> Attribution:
    """Return the parts of ``similarity`` of two entities, by side and input."""
    baseline = _value(similarity, [(side.vectors, side.start) for side in sides])
    total = _value(similarity, [(side.vectors, side.end) for side in sides])
    change, before, panels, nodes = total - baseline, None, FIRST_PANELS, 0
    while True:
        parts = _integrate(sides, similarity, panels)
        nodes += ORDER * panels
        flat = torch.cat([part.flatten() for side in parts for part in side] or [torch.zeros(0)])
        error = abs(change - float(flat.sum()))
        moved = np.inf if before is None else float((flat - before).abs().sum())
        accurate = error <= TOLERANCE * abs(change) + ROUNDING
        stable = moved <= PART_TOLERANCE * float(flat.abs().sum()) + ROUNDING
        if (accurate and stable) or panels >= MAX_PANELS or not flat.numel():
            return Attribution(baseline, total, parts, nodes)
        before, panels = flat, 2 * panels


def _value(
    similarity: PairSimilarity, sides: list[tuple[Vectors, tuple[torch.Tensor, ...]]]
) -> float:
    """Return the similarity at one point of the path."""
    with torch.no_grad():
        left, right = (vectors(*(z[None] for z in inputs)) for vectors, inputs in sides)
        return float(similarity(left, right))


def _integrate(
    sides: tuple[Side, Side], similarity: PairSimilarity, panels: int
) -> tuple[list[torch.Tensor], ...]:
    """Return the parts of a composite Gauss-Legendre rule with ``panels`` panels."""
    points, weights = np.polynomial.legendre.leggauss(ORDER)
    t = ((np.arange(panels)[:, None] + (points + 1) / 2) / panels).ravel()
    w = np.tile(weights / (2 * panels), panels)
    gradients = [[torch.zeros(z.shape, dtype=torch.float64) for z in side.end] for side in sides]
    for part in _chunks(sides, len(t)):
        at = torch.from_numpy(t[part])
        inputs = [
            [
                torch.lerp(a.double(), b.double(), at.view(-1, *[1] * a.ndim))
                .to(b.dtype)
                .requires_grad_()
                for a, b in zip(side.start, side.end, strict=True)
            ]
            for side in sides
        ]
        with torch.enable_grad():
            s = similarity(*(side.vectors(*z) for side, z in zip(sides, inputs, strict=True)))
        leaves = [z for own in inputs for z in own]
        found = torch.autograd.grad(s.sum(), leaves, allow_unused=True) if leaves else ()
        slopes = iter(found)
        for own in gradients:
            for gradient in own:
                if (slope := next(slopes)) is not None:
                    gradient += torch.tensordot(torch.from_numpy(w[part]), slope.double(), 1)
    return tuple(
        [g * (b.double() - a.double()) for g, a, b in zip(own, side.start, side.end, strict=True)]
        for own, side in zip(gradients, sides, strict=True)
    )


def _chunks(sides: tuple[Side, Side], n: int) -> Iterator[slice]:
    """Yield slices of n nodes whose inputs have at most ``CELLS`` cells."""
    width = sum(z.numel() for side in sides for z in side.end)
    step = max(1, min(n, CELLS // max(1, width)))
    return (slice(start, start + step) for start in range(0, n, step))
