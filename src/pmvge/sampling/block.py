"""Degree-mixed importance sampling of blocks (``scheme=\"block\"``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pmvge.graph import Links, MultiViewGraph, Pair

Index = NDArray[np.int64]
Entities = tuple[str, Index]  # a view, and positions in it
Measure = Literal["weight", "uniform"]
RUN = 32  # links whose weights are added up in advance


@dataclass(frozen=True, eq=False)
class Side:
    """The entities of one side of a block, and their importance weights."""

    entities: Index  # (N,)
    log_weight: NDArray[np.float32]  # (N,) -log(N q_i): 1 / (expected times i is in the block)
    links: Index  # (B,) positions in ``entities`` of the drawn links' ends


@dataclass(frozen=True, eq=False)
class LinkBatch:
    r"""Links of one view pair, and a block that estimates sums over all of its entity pairs.

    For any function h of the similarity, for instance exp, whose sum is Z, the estimate of
    :math:`\sum_{I_{de}} h(g_{ij})` is

    .. math::
        c \sum_{(s, t)\ \text{not masked}} h(g_{st})\, e^{a_s + b_t}
          \bigl(\tfrac{B}{B - 1}\bigr)^{[s, t < \text{corner}]}

    with :math:`a, b` the sides' ``log_weight`` and c = ``factor``. It is unbiased.
    """

    pair: Pair
    left: Side
    right: Side
    link_weights: NDArray[np.float32] | None  # (B,) adding up to 1; None: all equal
    weights: NDArray[np.float64]  # (B,) w of the links
    measure: Measure  # by which links were drawn
    total: float  # the total measure of all links of the view pair, times its factor
    masked: tuple[Index, Index]  # cells that are left out
    corner: int  # the first ``corner`` rows and columns are ends of drawn links
    factor: float  # 1/2 within a view, where each unordered pair has two cells
    shared: bool  # both sides are the same entities, which are encoded once

    @cached_property
    def inputs(self) -> tuple[Entities, ...]:
        """The entities to encode: one input for each side, or one for both within a view."""
        (a, b), left, right = self.pair, self.left.entities, self.right.entities
        if self.shared:
            return ((a, left),)
        if a == b:  # one input: one larger product, and one set of batch statistics
            return ((a, np.concatenate([left, right])),)
        return ((a, left), (b, right))

    @cached_property
    def link_counts(self) -> NDArray[np.float64]:
        r"""How many links each link stands for, per unit of the total measure.

        A sum of f over these links, times the counts, estimates the sum of f over all links of the
        view pair divided by ``total``. The estimate is unbiased.
        """
        shares = self.link_weights
        parts = np.full(len(self.weights), 1.0) / len(self.weights) if shares is None else shares
        with np.errstate(over="ignore"):
            counts = parts / (self.weights if self.measure == "weight" else np.ones(1))
        return counts.astype(np.float64)

    @property
    def corner_weight(self) -> float:
        """The weight of a link x link cell, which compensates for the masked cells."""
        return self.corner / (self.corner - 1) if self.corner else 1.0


class BlockSampler:
    r"""A sampler of blocks by degree-mixed importance sampling.

    Every link has a measure: its weight w with ``measure="weight"``, 1 with ``"uniform"``, which
    may differ by view pair. Below, W is the total measure of a view pair, and deg the measure of an
    entity's links.

    B links are drawn with replacement with probability :math:`w_{ij} / W`, and U uniform entities
    are added to each side. With :math:`p_i = \deg_i / W` an entity has density
    :math:`q_i = (B p_i + U / n) / N`, N = B + U. All cells of the block are product draws, except
    the cell of each drawn link. That cell is masked, and the other link x link cells get the
    weight B / (B - 1).

    If a view is no larger than the block, all of its entities are taken, with weight 1, and nothing
    is masked. If this holds for both views and there are at most B links, all links are taken and
    the estimate is exact.

    Within a view :math:`p_i = \deg_i / 2W`, each drawn link is oriented at random, and cells of an
    entity with itself are masked.

    Each batch has one view pair, drawn with probability proportional to its total measure times
    its factor in ``pair_weights``, 1 by default.
    """

    def __init__(
        self,
        graph: MultiViewGraph,
        *,
        n_links: int,
        n_uniform: int,
        rng: np.random.Generator,
        measure: Measure | Mapping[Pair, Measure] = "weight",
        pair_weights: Mapping[Pair, float] = MappingProxyType({}),
    ) -> None:
        self.rng = rng
        measures = dict.fromkeys(graph.links, measure) if isinstance(measure, str) else measure
        self._samplers = [
            _ViewPairSampler(
                pair, links, n_links, n_uniform, measures[pair], pair_weights.get(pair, 1.0)
            )
            for pair, links in graph.links.items()
            if links.total > 0
        ]
        totals = np.array([sampler.total for sampler in self._samplers])
        self._cumulative = np.cumsum(totals / totals.sum())

    def __iter__(self) -> Iterator[LinkBatch]:
        while True:
            k = 0
            if len(self._samplers) > 1:
                k = int(np.searchsorted(self._cumulative[:-1], self.rng.random()))
            yield self._samplers[k].draw(self.rng)

    def prior_weights(self, total: float) -> dict[str, NDArray[np.float64]]:
        """Return 1 / (``total`` times the expected occurrences of an entity in a step), by view.

        If each occurrence of an entity adds this share of its penalty to the loss, the expected
        loss has the sum of all penalties over ``total``, whatever the size of a batch.
        """
        share = np.diff(self._cumulative, prepend=0.0)
        expected: dict[str, NDArray[np.float64]] = {}
        for probability, sampler in zip(share, self._samplers, strict=True):
            sides = 1 if sampler.links.within and all(sampler.complete) else 2  # shared: once
            for view, log_weight in list(zip(sampler.pair, sampler.log_weight, strict=True))[
                :sides
            ]:
                times = probability * np.exp(-log_weight.astype(np.float64))
                expected[view] = expected.get(view, 0.0) + times
        return {view: 1 / (total * times) for view, times in expected.items()}

    @property
    def total(self) -> float:
        """The measure of all links, times the factors of their view pairs."""
        return float(sum(sampler.total for sampler in self._samplers))

    def each_pair(self) -> Iterator[LinkBatch]:
        """Yield one batch for every view pair that has links."""
        for sampler in self._samplers:
            yield sampler.draw(self.rng)


def with_measure(links: Links, measure: Measure) -> Links:
    """Return the links with their measure as weights: ``total`` is then the total measure."""
    if measure == "weight":
        return links
    return replace(links, weights=np.broadcast_to(np.float64(1), (len(links),)))


class _ViewPairSampler:
    """A sampler of blocks of one view pair, with all weights computed once."""

    def __init__(
        self,
        pair: Pair,
        links: Links,
        n_links: int,
        n_uniform: int,
        measure: Measure,
        pair_weight: float,
    ) -> None:
        self.pair, self.weights, self.measure = pair, links.weights, measure
        self.links = links = with_measure(links, measure)
        self.total = pair_weight * links.total
        block = n_links + n_uniform
        self.complete = (links.shape[0] <= block, links.shape[1] <= block)  # all entities are taken
        self.all_links = all(self.complete) and len(links) <= n_links
        # No more draws than links, but at least two, for the corner's weight B / (B - 1).
        self.B = max(2, min(n_links, len(links)))
        self.U = n_uniform
        self.corner = 0 if any(self.complete) else self.B
        scale = links.total * (2 if links.within else 1)
        self.log_weight = [
            np.zeros(n, np.float32)
            if complete
            else -np.log(self.B * (degree / scale) + self.U / n).astype(np.float32)
            for n, complete, degree in zip(links.shape, self.complete, links.degrees(), strict=True)
        ]
        self.weighted = None if links.equal_weights else _WeightedDraws(links.weights)

    def draw(self, rng: np.random.Generator) -> LinkBatch:
        """Draw a batch."""
        links, B = self.links, self.B
        chosen = slice(None) if self.all_links else self._draw_links(rng)
        i, j = links.rows[chosen].astype(np.int64), links.cols[chosen].astype(np.int64)
        if links.within and not self.all_links:
            flip = rng.random(B) < 0.5
            i, j = np.where(flip, j, i), np.where(flip, i, j)
        left, right = self._side(0, i, rng), self._side(1, j, rng)
        weights = None
        if self.all_links and self.weighted is not None:
            weights = (links.weights / links.total).astype(np.float32)
        return LinkBatch(
            pair=self.pair,
            left=left,
            right=right,
            link_weights=weights,
            weights=self.weights[chosen],
            measure=self.measure,
            total=self.total,
            masked=self._masked(left, right),
            corner=self.corner,
            factor=0.5 if links.within else 1.0,
            shared=links.within and all(self.complete),
        )

    def _draw_links(self, rng: np.random.Generator) -> Index:
        if self.weighted is None:
            return rng.integers(len(self.links), size=self.B)
        return self.weighted.draw(self.B, rng)

    def _side(self, side: int, ends: Index, rng: np.random.Generator) -> Side:
        n = self.links.shape[side]
        if self.complete[side]:
            return Side(np.arange(n), self.log_weight[side], ends)
        entities = np.concatenate([ends, rng.integers(n, size=self.U)])
        return Side(entities, self.log_weight[side][entities], np.arange(self.B))

    def _masked(self, left: Side, right: Side) -> tuple[Index, Index]:
        own = np.arange(self.corner)
        if not self.links.within:
            return own, own
        rows, cols = _coincidences(left.entities, right.entities)
        return np.concatenate([own, rows]), np.concatenate([own, cols])


class _WeightedDraws:
    r"""A sampler of links with probability w / W, from E / ``RUN`` cumulative sums.

    Bisection finds the run of ``RUN`` links that a point :math:`u W` falls on. The weights of the
    run, added up from its first link, give the link.
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        self.weights = weights
        sums = np.add.reduceat(weights, np.arange(0, len(weights), RUN))
        self.edges = np.concatenate([[0.0], np.cumsum(sums)])

    def draw(self, size: int, rng: np.random.Generator) -> Index:
        """Draw the numbers of ``size`` links, with replacement."""
        # Keep points below the last edge: u < 1, but u times a tiny total may round up to it.
        point = np.minimum(rng.random(size) * self.edges[-1], np.nextafter(self.edges[-1], 0))
        run = np.searchsorted(self.edges, point, side="right") - 1
        link = run[:, None] * RUN + np.arange(RUN)
        inside = self.weights[np.minimum(link, len(self.weights) - 1)]
        inside[link >= len(self.weights)] = 0  # the last run may have fewer links
        np.cumsum(inside, axis=1, out=inside)
        # Keep the rest below the sum of the run, which may have been rounded differently above.
        rest = np.minimum(point - self.edges[run], np.nextafter(inside[:, -1], 0))
        drawn: Index = run * RUN + (inside <= rest[:, None]).sum(axis=1)
        return drawn


def _coincidences(left: Index, right: Index) -> tuple[Index, Index]:
    """Return all (s, t) with left[s] == right[t]."""
    order = np.argsort(right)
    first = np.searchsorted(right[order], left)
    count = np.searchsorted(right[order], left, side="right") - first
    rows = np.repeat(np.arange(len(left)), count)
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return rows, order[np.repeat(first, count) + offset]
