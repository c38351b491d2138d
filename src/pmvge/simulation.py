r"""Simulate graphs from a model; Poisson weights in one of the two ways of the paper's section 3.2.

Either the weight of each pair is drawn, :math:`w_{ij} \sim \mathrm{Poisson}(\mu_{ij})`
independently; or :math:`T \sim \mathrm{Poisson}(\sum\mu)` links are drawn, each the pair (i, j)
with probability :math:`\mu_{ij} / \sum\mu`. Both have the same distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.errors import ParameterError, choose
from pmvge.graph import (
    Features,
    MultiViewGraph,
    Pair,
    SparseRows,
    canonical,
    check_ids,
    check_pairs,
    check_views,
    take,
)
from pmvge.likelihoods import POISSON, Family, Poisson, intensity
from pmvge.similarities import INNER, Similarity

ROWS_PER_TILE = 1024  # rows of mu held at once
MAX_INTENSITY = 1e15  # the largest mean of numpy's Poisson draws that is allowed
Encoder = Callable[[torch.Tensor], torch.Tensor]
Drawn = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def simulate(
    views: Mapping[str, Any],
    encoders: Mapping[str, Encoder],
    alpha: Mapping[Pair, float],
    rng: np.random.Generator,
    *,
    draw: Literal["pairs", "links"] = "pairs",
    similarity: Similarity = INNER,
    family: Family = POISSON,
) -> MultiViewGraph:
    r"""Draw a graph from the model with the given encoders and alpha.

    .. math:: w_{ij} \sim \mathrm{Poisson}(\alpha^{(d,e)} \exp\langle y_i, y_j\rangle)

    or from another similarity or family.

    Parameters
    ----------
    views
        As in :class:`~pmvge.MultiViewGraph`.
    encoders
        ``{view: callable}``, such as an ``nn.Module``, from a tensor of rows to a tensor (n, K).
        It gets the positions 0..n-1 for a featureless view, and dense rows for a sparse one.
    alpha
        ``{(view, view): value >= 0}``; the keys are the observed pairs.
    rng
        Generator of the draws.
    draw
        "pairs": draw the weight of every pair; "links": draw T links, for Poisson weights only.
    similarity, family
        The similarity of the encoders' outputs, and the distribution of weights, for instance
        ``model.similarity_`` and ``model.family_``.

    Raises
    ------
    GraphError
        The views or pairs are not valid.
    ParameterError
        An encoder is missing, alpha is negative, an expected weight is too large to draw, the
        family is a divergence, or links are drawn from another family than Poisson.
    """
    choose("draw", draw, ("pairs", "links"))
    sizes, features = check_views(views)
    for view in sizes:
        if view not in encoders:
            raise ParameterError(
                f"encoders: expected an encoder for every view, got none for {view!r}"
            )
    Y = {view: _embed(encoders[view], features[view], n, similarity) for view, n in sizes.items()}
    links = {}
    for a, b in check_pairs(alpha, sizes):
        if not isinstance(alpha[a, b], Real) or not 0 <= alpha[a, b] < np.inf:
            raise ParameterError(
                f"alpha of ({a!r}, {b!r}): expected a finite number >= 0, got {alpha[a, b]!r}"
            )
        own = family.for_pair(a, b)
        _check_family(own, (a, b), draw)
        mu = _Intensities(Y[a], Y[b], alpha[a, b], similarity.for_pair(a, b), within=a == b)
        if (largest := max(float(tile.max()) for _, tile in mu)) > MAX_INTENSITY:
            raise ParameterError(
                f"({a!r}, {b!r}): expected intensities up to {MAX_INTENSITY:g}, got {largest:g}; "
                "scale the outputs of the encoders down"
            )
        rows, cols, w = (
            _pair_by_pair(mu, own, (a, b), rng) if draw == "pairs" else _link_by_link(mu, rng)
        )
        links[a, b] = canonical(rows, cols, w, (sizes[a], sizes[b]), within=a == b)
    ids = {view: check_ids(view, None, n) for view, n in sizes.items()}
    return MultiViewGraph.trusted(sizes, features, ids, links, given_ids=())


def _check_family(family: Family, pair: Pair, draw: str) -> None:
    """Raise ParameterError if the family has no weights to draw, or none by links."""
    if not family.is_likelihood:
        raise ParameterError(
            f"family of {pair!r}: expected a distribution, got the divergence "
            f"{type(family).__name__}"
        )
    if draw == "links" and not isinstance(family, Poisson):
        raise ParameterError(
            f"draw='links': expected the Poisson family, got {type(family).__name__} for {pair!r}; "
            "use draw='pairs'"
        )


def _embed(
    encoder: Encoder, X: Features | None, n: int, similarity: Similarity
) -> NDArray[np.float64]:
    rows = torch.arange(n) if X is None else take(X, slice(None), torch.device("cpu"))
    with torch.no_grad():
        y: torch.Tensor = similarity(
            encoder(rows.to_dense() if isinstance(rows, SparseRows) else rows)
        )
        return y.double().numpy()


class _Intensities:
    """The expected weights mu of one view pair, tile by tile; 0 where there is no pair term."""

    def __init__(
        self,
        Y: NDArray[np.float64],
        Y_other: NDArray[np.float64],
        alpha: float,
        similarity: Similarity,
        within: bool,
    ) -> None:
        self.Y, self.Y_other, self.similarity, self.within = Y, Y_other, similarity, within
        self.log_alpha = math.log(alpha) if alpha > 0 else -math.inf

    def rows(self, start: int) -> NDArray[np.float64]:
        """Return the tile that begins at row ``start``."""
        Y = self.Y[start : start + ROWS_PER_TILE]
        mu = intensity(Y, self.Y_other, self.log_alpha, similarity=self.similarity)
        return np.triu(mu, k=start + 1) if self.within else mu

    def __iter__(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        for start in range(0, len(self.Y), ROWS_PER_TILE):
            yield start, self.rows(start)


def _pair_by_pair(mu: _Intensities, family: Family, pair: Pair, rng: np.random.Generator) -> Drawn:
    rows, cols, weights = [], [], []
    for start, tile in mu:
        with np.errstate(divide="ignore"):
            w = family.sample(np.log(tile), pair, rng)
        i, j = np.nonzero(w)
        rows.append(i + start)
        cols.append(j)
        weights.append(w[i, j].astype(np.float64))
    return np.concatenate(rows), np.concatenate(cols), np.concatenate(weights)


def _link_by_link(mu: _Intensities, rng: np.random.Generator) -> Drawn:
    """Draw T links: the number in each row from the row sums, then the column of each link."""
    row_sums = np.concatenate([tile.sum(axis=1) for _, tile in mu])
    total = float(row_sums.sum())
    T = rng.poisson(total)
    per_row = rng.multinomial(T, row_sums / total if total > 0 else row_sums)
    n_cols = len(mu.Y_other)
    cells = [np.empty(0, np.int64)]
    for start, tile in mu:
        for i in np.flatnonzero(per_row[start : start + len(tile)]):
            edges = np.cumsum(tile[i])
            points = rng.random(per_row[start + i]) * edges[-1]
            at = np.minimum(np.searchsorted(edges, points, side="right"), n_cols - 1)
            cells.append((start + i) * n_cols + at)
    drawn, counts = np.unique(np.concatenate(cells), return_counts=True)
    return drawn // n_cols, drawn % n_cols, counts.astype(np.float64)
