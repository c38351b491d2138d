"""The paper's minibatches of links and uniform pairs (``scheme=\"paper\"``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.errors import ParameterError
from pmvge.graph import Links, MultiViewGraph, Pair
from pmvge.sampling.block import Entities, Index


@dataclass(frozen=True, eq=False)
class PairBatch:
    """The paper's minibatch: links W' and uniform pairs I', by view pair."""

    links: dict[Pair, tuple[Index, Index, NDArray[np.float32]]]  # W': rows, cols, weights
    uniform: dict[Pair, tuple[Index, Index]]  # I': rows, cols
    tau: float  # the weight of a term of I'

    @property
    def inputs(self) -> tuple[Entities, ...]:
        """The entities to encode, by view, each once."""
        return self._layout[0]

    @property
    def ends(self) -> dict[Pair, list[tuple[int, Index]]]:
        """For both sides of a view pair: the number of the input, and positions in it.

        The positions are those of the links' ends, followed by those of the uniform pairs' ends.
        """
        return self._layout[1]

    @cached_property
    def _layout(self) -> tuple[tuple[Entities, ...], dict[Pair, list[tuple[int, Index]]]]:
        pairs = list(dict.fromkeys([*self.links, *self.uniform]))
        drawn: dict[str, list[Index]] = {}
        for pair in pairs:
            for side, view in enumerate(pair):
                parts = [part[pair][side] for part in (self.links, self.uniform) if pair in part]
                drawn.setdefault(view, []).append(np.concatenate(parts))
        distinct: dict[str, Index] = {}
        positions: dict[str, Iterator[Index]] = {}
        for view, ends in drawn.items():
            distinct[view], inverse = np.unique(np.concatenate(ends), return_inverse=True)
            positions[view] = iter(np.split(inverse, np.cumsum([len(part) for part in ends])[:-1]))
        number = {view: k for k, view in enumerate(distinct)}
        sides = {pair: [(number[view], next(positions[view])) for view in pair] for pair in pairs}
        return tuple(distinct.items()), sides


class PairSampler:
    r"""A sampler of the paper's minibatches (section 4.1).

    W' is drawn uniformly from the links, I' uniformly from all pair terms.

    :math:`|I'| + |W'| = m`, :math:`|I'| / |W'| = r`. With :math:`\tau = |I_n| / (r |W_n|)`, the
    default,

    .. math::
        E\Bigl[\sum_{W'} w_{ij} \log\mu_{ij} - \tau \sum_{I'} \mu_{ij}\Bigr]
        = \frac{|W'|}{|W_n|}\, \ell_n .
    """

    def __init__(
        self,
        graph: MultiViewGraph,
        *,
        m: int,
        r: float,
        tau: float | None,
        rng: np.random.Generator,
    ) -> None:
        self.rng = rng
        self._links = graph.links
        self._pairs = tuple(graph.links)
        self._link_edges = np.cumsum([0, *(len(links) for links in graph.links.values())])
        self._term_edges = np.cumsum([0, *(links.n_terms for links in graph.links.values())])
        self.n_links = round(m / (1 + r))
        self.n_uniform = m - self.n_links
        if self.n_links < 1 or self.n_uniform < 1:
            raise ParameterError(
                f"batch_size={m} with negative_rate={r} leaves no links or no uniform pairs "
                f"({self.n_links} and {self.n_uniform}); use a larger batch_size"
            )
        rate = self.n_uniform / self.n_links
        self.tau = graph.n_terms / (rate * graph.n_links) if tau is None else tau

    def prior_weights(self, total: float) -> dict[str, NDArray[np.float64]]:
        """Return 1 / (``total`` times the probability that a step has an entity), by view.

        An entity that a step draws several times is encoded, and penalised, once.
        """
        # The probabilities that one drawn link, and one uniform pair, have the entity.
        chance: dict[str, NDArray[np.float64]] = {}
        n_links, n_terms = int(self._link_edges[-1]), int(self._term_edges[-1])
        for pair, links in self._links.items():
            n, m = links.shape
            partners = ((m - 1) / 2, (n - 1) / 2) if links.within else (m, n)
            ends = (links.rows, links.cols)
            for view, own, count, each in zip(pair, ends, (n, m), partners, strict=True):
                in_links = np.bincount(own, minlength=count) / n_links
                both = np.stack([in_links, np.full(count, each / n_terms)])
                chance[view] = chance.get(view, 0.0) + both
        draws = np.array([[self.n_links], [self.n_uniform]])
        with np.errstate(divide="ignore"):  # an entity that every draw has
            absent = {v: (draws * np.log1p(-np.minimum(p, 1))).sum(0) for v, p in chance.items()}
        return {view: 1 / (total * -np.expm1(log)) for view, log in absent.items()}

    @property
    def total(self) -> float:
        """The number of links, by which the loss is divided."""
        return float(self._link_edges[-1])

    def __iter__(self) -> Iterator[PairBatch]:
        while True:
            drawn_links = self.rng.integers(self._link_edges[-1], size=self.n_links)
            drawn_terms = self.rng.integers(self._term_edges[-1], size=self.n_uniform)
            links, uniform = {}, {}
            for pair, k in _by_pair(self._pairs, self._link_edges, drawn_links):
                drawn = self._links[pair]
                rows, cols = drawn.rows[k].astype(np.int64), drawn.cols[k].astype(np.int64)
                links[pair] = (rows, cols, drawn.weights[k].astype(np.float32))
            for pair, k in _by_pair(self._pairs, self._term_edges, drawn_terms):
                uniform[pair] = unrank(k, self._links[pair])
            yield PairBatch(links, uniform, self.tau)


def _by_pair(
    pairs: tuple[Pair, ...], edges: NDArray[Any], drawn: Index
) -> Iterator[tuple[Pair, Index]]:
    """Yield, for each view pair, the drawn numbers that belong to it, counted within the pair."""
    owner = np.searchsorted(edges, drawn, side="right") - 1
    for p, pair in enumerate(pairs):
        numbers = drawn[owner == p] - edges[p]
        if len(numbers):
            yield pair, numbers


def unrank(k: Index, links: Links) -> tuple[Index, Index]:
    r"""Return the k-th term (i, j) of :math:`I_{de}`; within a view i < j, ordered by j, then i."""
    if not links.within:
        return k // links.shape[1], k % links.shape[1]
    # j is the largest number with j (j - 1) / 2 <= k. The float root of a square is exact, and so
    # never too small. For large k it may equal the root for the next j; the correction below holds
    # for up to 3 billion entities.
    j = ((1 + np.sqrt(1 + 8 * k.astype(np.float64))) / 2).astype(np.int64)
    j -= j * (j - 1) // 2 > k
    return k - j * (j - 1) // 2, j
