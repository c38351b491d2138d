"""Minus the distance in hyperbolic space."""

from __future__ import annotations

from typing import ClassVar

import torch

from pmvge.similarities.base import Similarity

# Largest distance from the origin. Lorentz products there are up to cosh(10) = 1.1e4, and are
# differences of such numbers: in float32 the distance of coinciding vectors is 0.05 instead of 0.
MAX_RADIUS = 5.0
MIN_REST = 1e-6  # of cosh(d) - 1: the derivative of arcosh is infinite at 0; it is 0 below this
TINY = 1e-12  # added to squared norms, whose root has no derivative at 0


class Hyperbolic(Similarity):
    r""":math:`g = -d(y, y')`, minus the distance in the Poincaré ball.

    Volumes of hyperbolic balls grow exponentially with their radius, as the number of nodes of a
    tree does with its depth: hierarchies fit into few dimensions.

    The vector of an entity is a point of the unit ball, :math:`y = \tanh(r / 2)\, f / |f|`, at the
    distance :math:`r = R \tanh(|f| / R)` from the origin, with R = 5. In Lorentz coordinates

    .. math:: x = \frac{2 y}{1 - |y|^2}, \qquad x_0 = \frac{1 + |y|^2}{1 - |y|^2}, \qquad
              d = \operatorname{arcosh}(x_0 x_0' - \langle x, x' \rangle),

    so g is an increasing function of the inner product of :math:`(-x_0, x)` and :math:`(x_0, x)`.
    A bias added to that product would not be a bias of g, so that this similarity takes none.

    References
    ----------
    M. Nickel and D. Kiela, "Learning continuous hierarchies in the Lorentz model of hyperbolic
    geometry", ICML 2018.
    """

    linear: ClassVar[bool] = False
    takes_biases: ClassVar[bool] = False

    def forward(self, f: torch.Tensor, effects: torch.Tensor | None = None) -> torch.Tensor:
        """Return points of the unit ball, at most ``MAX_RADIUS`` from the origin."""
        f = super().forward(f, effects)
        norm = (f.square().sum(1, keepdim=True) + TINY).sqrt()
        radius = MAX_RADIUS * torch.tanh(norm / MAX_RADIUS)
        return f * (torch.tanh(radius / 2) / norm)

    def query(self, y: torch.Tensor) -> torch.Tensor:
        """Return (-x_0, x)."""
        time, space = _lorentz(y)
        return torch.cat([-time, space], 1)

    def candidate(self, y: torch.Tensor) -> torch.Tensor:
        """Return (x_0, x)."""
        return torch.cat(_lorentz(y), 1)

    def outer(self, product: torch.Tensor) -> torch.Tensor:
        """Return minus the distance from Lorentz products."""
        return -torch.acosh((-product).clamp_min(1 + MIN_REST))

    def exp_outer(self, product: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Return :math:`e^{-d}` and its derivative from Lorentz products.

        With :math:`w = \cosh d - 1` and :math:`s = \sinh d = \sqrt{w (w + 2)}` they are
        :math:`1 / (1 + w + s)` and :math:`e^{-d} / s`, without logarithms.
        """
        w = product.neg_().sub_(1)
        inside = w >= MIN_REST
        w.clamp_(min=MIN_REST)
        sinh = torch.add(w, 2).mul_(w).sqrt_()
        value = w.add_(sinh).add_(1).reciprocal_()
        return value, torch.div(value, sinh, out=sinh).mul_(inside)


def _lorentz(y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x_0 (n, 1) and x (n, K) of points in the unit ball."""
    square = y.square().sum(1, keepdim=True)
    rest = 1 - square
    return (1 + square) / rest, 2 * y / rest
