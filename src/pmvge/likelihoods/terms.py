r"""The log-likelihood of a view pair as a function of log alpha, for any family.

Sums over entity pairs run over cells: similarities g with weights, in one tile or several. The
slope in log alpha is computed by autograd, so a family defines no derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.graph import CHUNK, Links, Pair
from pmvge.likelihoods.tiles import tile_rows
from pmvge.progress import OnProgress
from pmvge.similarities import INNER, Similarity

if TYPE_CHECKING:
    from pmvge.likelihoods.base import Family

Array = NDArray[Any]
Cells = Callable[[], Iterator[tuple[torch.Tensor, torch.Tensor | None]]]  # g and weights, by tile

LINKS_AT_ONCE = 1 << 16  # links whose vectors are read at once
REACH = 60.0  # log alpha is searched within this distance of its start
MAX_STEP = 3.0  # largest change of log alpha in one step
MAX_EVALUATIONS = 50


@dataclass(frozen=True, eq=False)
class PairTerms:
    r"""The log-likelihood of one view pair as a function of log alpha.

    .. math:: \ell(a) = s \sum_{\text{cells}} v\, \mathrm{zero}(g + a)
              + \sum_{\text{links}} n\, \mathrm{excess}(w, g + a)
    """

    family: Family
    pair: Pair
    cells: Cells
    scale: float  # s, the factor of sums over cells
    weights: torch.Tensor  # (E,) w of links
    similarities: torch.Tensor  # (E,) g of links
    counts: torch.Tensor  # (E,) n, how many links each stands for

    def value(self, log_alpha: float) -> torch.Tensor:
        """Return the log-likelihood, differentiable in g and in the family's parameters."""
        total = self.similarities.new_zeros(())
        for g, weight in self.cells():
            zero = self.family.zero(g + log_alpha, self.pair)
            total = total + self.scale * (zero if weight is None else weight * zero).sum()
        for w, g, n in self._chunks():
            total = total + (n * self.family.excess(w, g + log_alpha, self.pair)).sum()
        return total

    def slope(self, log_alpha: float) -> float:
        """Return the derivative in log alpha."""
        return self.zero_slope(log_alpha) + self.link_slope(log_alpha)

    def zero_slope(self, log_alpha: float) -> float:
        """Return the derivative of the sum over cells in log alpha."""
        slopes = (
            _slope(partial(self.family.zero, pair=self.pair), g, log_alpha, weight)
            for g, weight in self.cells()
        )
        return self.scale * sum(slopes)

    def link_slope(self, log_alpha: float) -> float:
        """Return the derivative of the sum over links in log alpha."""
        total = 0.0
        for w, g, n in self._chunks():
            total += _slope(partial(self.family.excess, w, pair=self.pair), g, log_alpha, n)
        return total

    def log_partition(self) -> float:
        """Return the log of the sum of exp(g) over cells, times the factor of the sum."""
        parts = [-math.inf]
        for g, weight in self.cells():
            terms = (g if weight is None else g + weight.log()).detach()
            parts.append(float(torch.logsumexp(terms.flatten(), 0)) if len(terms) else -math.inf)
        return float(np.logaddexp.reduce(parts)) + math.log(self.scale)

    def _chunks(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        links = (self.weights, self.similarities, self.counts)
        return zip(*(values.split(CHUNK) for values in links), strict=True)


def no_cells() -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
    """Return no cells, for sums over links alone."""
    return iter(())


def _slope(
    terms: Callable[[torch.Tensor], torch.Tensor],
    g: torch.Tensor,
    log_alpha: float,
    weight: torch.Tensor | None,
) -> float:
    """Return the derivative of a weighted sum of ``terms(g + log_alpha)`` in log alpha."""
    with torch.enable_grad():
        a = torch.tensor(log_alpha, dtype=torch.float64, device=g.device, requires_grad=True)
        values = terms(g.detach() + a)
        (slope,) = torch.autograd.grad((values if weight is None else weight * values).sum(), a)
    return float(slope)


def solve(
    slope: Callable[[float], float], start: float, *, tolerance: float, inverse: float = 1.0
) -> float:
    """Return the root of a decreasing function, by a safeguarded secant method.

    The first step assumes a slope of -1 / ``inverse``; by default that of the Poisson likelihood
    per unit of weight, at its maximum. A value that is not a number counts as negative: mu
    overflows where alpha is too large.
    """
    low, high = start - REACH, start + REACH
    x = start
    before: tuple[float, float] | None = None
    for _ in range(MAX_EVALUATIONS):
        y = slope(x)
        if y > 0:
            low = x
        else:
            high = x
        if before is not None and before[1] != y:
            secant = (x - before[0]) / (before[1] - y)
            inverse = secant if 0 < secant < math.inf else inverse  # also if y is not finite
        step = float(np.clip(inverse * y, -MAX_STEP, MAX_STEP))
        if abs(step) <= tolerance:
            return x + step
        before = (x, y)
        x = x + step if low < x + step < high else (low + high) / 2
    return x


# -- all entity pairs and links ---------------------------------------------------------------


def all_cells(
    Y: Array, Y_other: Array | None, similarity: Similarity, on_progress: OnProgress | None = None
) -> Cells:
    """Return the similarities of all entity pairs in tiles; of pairs i < j without ``Y_other``."""
    query = similarity.query_array(Y)
    candidate = similarity.candidate_array(Y if Y_other is None else Y_other)
    within, n = Y_other is None, len(query)

    def tiles() -> Iterator[tuple[torch.Tensor, None]]:
        done = 0
        for left, others in tile_rows(query, candidate, within=within):
            for right, diagonal in others:
                with torch.no_grad():
                    g = similarity.outer(left @ right.T)
                if diagonal:
                    g = g[torch.ones(g.shape, dtype=torch.bool).triu_(diagonal=1)]
                yield g, None
            if on_progress is not None:
                done += len(left)
                on_progress(done, n)

    return tiles


def _link_similarity_chunks(
    links: Links, Y: Array, Y_other: Array, similarity: Similarity, chunk: int
) -> Iterator[tuple[slice, Array]]:
    """Yield a range of links and their g in float64."""
    for start in range(0, len(links), chunk):
        part = slice(start, start + chunk)
        left = similarity.query_array(Y[links.rows[part]]).astype(np.float64)
        right = similarity.candidate_array(Y_other[links.cols[part]]).astype(np.float64)
        yield part, similarity.outer_array(np.einsum("nk,nk->n", left, right))


def link_similarity(
    links: Links,
    Y: Array,
    Y_other: Array,
    *,
    similarity: Similarity = INNER,
    chunk: int = LINKS_AT_ONCE,
) -> float:
    r"""Return :math:`\sum w_{ij} g_{ij}` over the links."""
    total = 0.0
    for part, g in _link_similarity_chunks(links, Y, Y_other, similarity, chunk):
        total += float(links.weights[part] @ g)
    return total


def link_similarities(
    links: Links, Y: Array, Y_other: Array, similarity: Similarity
) -> NDArray[np.float64]:
    """Return g of all links in float64."""
    values = np.empty(len(links))
    for part, g in _link_similarity_chunks(links, Y, Y_other, similarity, LINKS_AT_ONCE):
        values[part] = g
    return values


def pair_log_likelihood(
    family: Family,
    pair: Pair,
    links: Links,
    Y: Array,
    Y_other: Array,
    log_alpha: float,
    similarity: Similarity,
    on_progress: OnProgress | None,
) -> float:
    """Return the exact log-likelihood of a view pair in float64."""
    g = torch.from_numpy(link_similarities(links, Y, Y_other, similarity))
    cells = all_cells(Y, None if links.within else Y_other, similarity, on_progress)
    weights = torch.from_numpy(np.array(links.weights))
    terms = PairTerms(family, pair, cells, 1.0, weights, g, g.new_ones(()).expand(len(g)))
    with torch.no_grad():
        return float(terms.value(log_alpha))
