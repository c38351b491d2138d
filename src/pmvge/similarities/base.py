"""The interface of a similarity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn


class Similarity(nn.Module):
    r"""A similarity of two entities, :math:`g_{ij} = o(\langle q(y_i), c(y_j) \rangle)`.

    Every similarity is an increasing function of an inner product. So training compares a block of
    entities with one matrix product, and search is maximum inner product search.

    A subclass overrides what differs from the inner product of the encoders' outputs:

    - :meth:`forward` maps the output f of an encoder to the vector y of an entity, which
      :meth:`PMvGE.embed <pmvge.PMvGE.embed>` returns. It may have parameters, which are learned.
    - :meth:`query` and :meth:`candidate` map y to the two factors of the inner product. They have
      one width. Within a view links have no direction, so
      :math:`\langle q(y_i), c(y_j) \rangle = \langle q(y_j), c(y_i) \rangle` must hold.
    - :meth:`outer` is elementwise and increasing. A subclass that overrides it sets
      ``linear = False``, and may override :meth:`exp_outer` to make training faster.

    A subclass with parameters has them in its ``__init__``, which is called with K.
    """

    linear: ClassVar[bool] = True  # whether ``outer`` is the identity
    takes_biases: ClassVar[bool] = True  # whether <query, candidate> may have biases added
    always_biased: ClassVar[bool] = False  # whether views without effects have biases u(x), too
    biased: bool = False  # whether query and candidate end in (bias, 1) and (1, bias)
    equal_widths: ClassVar[bool] = True  # whether the vectors y of both views have one width
    effect_sigma: ClassVar[float] = 0.3  # initial sigma of effects that are added to features

    def __init__(self, n_components: int = 0) -> None:
        super().__init__()

    def forward(self, f: torch.Tensor, effects: torch.Tensor | None = None) -> torch.Tensor:
        """Return the vectors y (n, K) from the outputs f (n, K) of an encoder, and effects."""
        return f if effects is None else f + effects

    def from_effects(self, effects: torch.Tensor) -> torch.Tensor:
        """Return the vectors y (n, K) of entities without features from their effects (n, K)."""
        y: torch.Tensor = self(torch.zeros_like(effects), effects)
        return y

    def effect_scale(self, effects: torch.Tensor, *, featureless: bool) -> float:
        """Return the mean squared derivative of the vectors in their effects."""
        return 1.0

    def partner_slopes(self, y: torch.Tensor) -> torch.Tensor:
        """Return the derivatives of g in the vector of an entity, (n, K), from its partners' y."""
        return y

    def query(self, y: torch.Tensor) -> torch.Tensor:
        """Return the left factors (n, Q) of the inner products of vectors y (n, K)."""
        return y

    def candidate(self, y: torch.Tensor) -> torch.Tensor:
        """Return the right factors (n, Q) of the inner products of vectors y (n, K)."""
        return y

    def outer(self, product: torch.Tensor) -> torch.Tensor:
        """Return g from inner products, elementwise and increasing."""
        return product

    def exp_outer(self, product: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return exp(g) and its derivative in the inner products, which may be overwritten.

        Both are 0 where a product is -inf. None, the default, means autograd of :meth:`outer`,
        which is slower.
        """
        return None

    def for_pair(self, a: str, b: str) -> Similarity:
        """Return the similarity of vectors of view ``a`` and of view ``b``; one for all pairs."""
        return self

    def explain(self) -> str:
        """Return a sentence on the size of the similarities g."""
        return "A similarity is an inner product of two vectors, plus biases if there are effects."

    # -- the same for arrays ----------------------------------------------------------------

    def query_array(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Return :meth:`query` of an array; the array itself if the method is not overridden."""
        return Y if type(self).query is Similarity.query else _apply(self.query, Y)

    def candidate_array(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Return :meth:`candidate` of an array; the array itself if it is not overridden."""
        return Y if type(self).candidate is Similarity.candidate else _apply(self.candidate, Y)

    def outer_array(self, product: NDArray[Any]) -> NDArray[Any]:
        """Return :meth:`outer` of an array; the array itself if the similarity is linear."""
        return product if self.linear else _apply(self.outer, product)


def _apply(function: Callable[[torch.Tensor], torch.Tensor], Y: NDArray[Any]) -> NDArray[Any]:
    """Apply a function of tensors to an array, without gradients."""
    with torch.no_grad():
        return function(torch.from_numpy(np.array(Y))).cpu().numpy()
