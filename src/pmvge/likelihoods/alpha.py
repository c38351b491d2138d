r"""Alpha of a trained model, for any family: exact over all entity pairs, or estimated on blocks.

The slope of the log-likelihood in log alpha is summed over the links of all processes, so that all
of them find the same root.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.distributed import SINGLE_PROCESS, Shards, total_weight
from pmvge.graph import Links, MultiViewGraph, Pair, merge_links
from pmvge.likelihoods.block_loss import block_cells
from pmvge.likelihoods.sharded import sharded_log_partitions
from pmvge.likelihoods.terms import PairTerms, all_cells, link_similarities, no_cells, solve
from pmvge.progress import OnProgress
from pmvge.sampling import BlockSampler, LinkBatch, with_measure
from pmvge.similarities import INNER, Similarity

if TYPE_CHECKING:
    from pmvge.likelihoods.base import Family

Vectors = Mapping[str, NDArray[Any]]

EXACT_TERMS = 200_000_000  # pair terms up to which all are summed, in each of about 8 passes
BLOCK_SIZE = 1024  # links, and uniform entities a side, of one block of the estimate
N_BLOCKS = 16  # blocks of the estimate
TOLERANCE = 1e-10  # of log alpha
EXPECTED_PASSES = 8  # for progress


class LogAlpha(NamedTuple):
    """Log alpha of a view pair, and the links that it was computed from."""

    value: float
    standard_error: float  # 0 if exact
    weight: float  # total weight of the links


@dataclass(frozen=True, eq=False)
class TrainedGraph:
    """The links given to a fit, and the vectors that it learned.

    ``own`` has the vectors of this process's entities, ``gathered`` those of all processes.
    """

    graph: MultiViewGraph
    validation: MultiViewGraph | None  # held-out links, if they are not in ``graph``
    own: Vectors
    gathered: Vectors
    similarity: Similarity = INNER
    shards: Shards = SINGLE_PROCESS

    @cached_property
    def terms(self) -> dict[Pair, int]:
        """The number of pair terms of each view pair, over the entities of all processes."""
        sizes = {view: len(Y) for view, Y in self.gathered.items()}
        return {
            (a, b): sizes[a] * (sizes[a] - 1) // 2 if a == b else sizes[a] * sizes[b]
            for a, b in self.graph.links
        }

    def links(self, pair: Pair) -> Links:
        """Return the training and validation links of a view pair, those of this process."""
        held = None if self.validation is None else self.validation.links.get(pair)
        return merge_links(self.graph.links[pair], held)

    def weight(self, pair: Pair) -> float:
        """Return the total weight of a view pair's links, over all processes."""
        total = self.graph.links[pair].total
        if self.validation is not None and pair in self.validation.links:
            total += self.validation.links[pair].total
        return total_weight(self.shards, total)


def alphas_from_partitions(
    trained: TrainedGraph,
    rng: np.random.Generator,
    log_alpha_of: Callable[[Pair, float], float],
    *,
    similarity: Similarity | None = None,
    on_progress: OnProgress | None = None,
) -> dict[Pair, LogAlpha]:
    r"""Return log alpha of each view pair as a function of the pair and its :math:`\log Z`.

    Z is that of ``similarity``, by default of the trained one. Alpha of a pair without weight is 0.
    """
    partitions = sharded_log_partitions(
        trained.shards,
        trained.graph,
        trained.own,
        trained.gathered,
        rng,
        similarity=similarity or trained.similarity,
        on_progress=on_progress,
    )
    alphas = {}
    for pair, partition in partitions.items():
        weight = trained.weight(pair)
        value = log_alpha_of(pair, partition.value) if weight > 0 else -math.inf
        error = partition.standard_error if weight > 0 else 0.0
        alphas[pair] = LogAlpha(value, error, weight)
    return alphas


def fit_log_alpha(
    family: Family,
    trained: TrainedGraph,
    pair: Pair,
    rng: np.random.Generator,
    on_progress: OnProgress | None = None,
) -> LogAlpha:
    """Return log alpha of a view pair: exact up to ``EXACT_TERMS`` pair terms, else estimated."""
    weight = trained.weight(pair)
    if weight <= 0:
        return LogAlpha(-math.inf, 0.0, weight)
    links = trained.links(pair)
    measure = total_weight(trained.shards, with_measure(links, family.measure).total)
    exact = trained.terms[pair] <= EXACT_TERMS
    if exact:
        sums = _exact(family, trained, pair, links, measure)
    else:
        sums = _estimated(family, trained, pair, links, measure, rng)
    done = 0

    def slope(log_alpha: float) -> float:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(min(done, EXPECTED_PASSES), EXPECTED_PASSES)
        return sums.slope(log_alpha)

    value = solve(slope, -sums.log_partition(), tolerance=TOLERANCE)
    if on_progress is not None:
        on_progress(EXPECTED_PASSES, EXPECTED_PASSES)
    return LogAlpha(value, 0.0 if exact else sums.standard_error(value), weight)


@dataclass(frozen=True, eq=False)
class _Sums:
    """The slope of the log-likelihood per unit of measure, over all processes."""

    links: PairTerms  # without cells
    cells: list[PairTerms]  # without links: all entity pairs, or one for each block
    shards: Shards
    exact: bool

    def slope(self, log_alpha: float) -> float:
        """Return the derivative in log alpha."""
        at_links = total_weight(self.shards, self.links.link_slope(log_alpha))
        return at_links + self._mean(self._zero_slopes(log_alpha))

    def log_partition(self) -> float:
        """Return the log of Z per unit of measure."""
        logs = np.array([part.log_partition() for part in self.cells])
        largest = self._mean(logs)  # any common shift will do
        return math.log(self._mean(np.exp(logs - largest))) + largest

    def standard_error(self, log_alpha: float, step: float = 1e-3) -> float:
        """Return the standard error of the root (delta method)."""
        slopes = self._zero_slopes(log_alpha)
        error = slopes.std(ddof=1) / math.sqrt(len(slopes)) if len(slopes) > 1 else 0.0
        below, above = self.slope(log_alpha - step), self.slope(log_alpha + step)
        variance = error**2
        if self.shards.sharded:
            world = self.shards.world
            between = (slopes.mean() - self._mean(slopes)) ** 2 if len(slopes) else 0.0
            variance = world.mean(variance + between) / world.size
        return math.sqrt(variance) / max((below - above) / (2 * step), 1e-12)

    def _zero_slopes(self, log_alpha: float) -> NDArray[np.float64]:
        return np.array([part.zero_slope(log_alpha) for part in self.cells])

    def _mean(self, values: NDArray[np.float64]) -> float:
        """Return the mean over blocks; over the processes that have any, if they are estimates."""
        if self.exact or not self.shards.sharded:
            return float(values.mean())
        world = self.shards.world
        count = world.total(float(len(values) > 0))
        return world.total(float(values.mean()) if len(values) else 0.0) / count


def _exact(
    family: Family, trained: TrainedGraph, pair: Pair, links: Links, measure: float
) -> _Sums:
    a, b = pair
    Y = trained.gathered
    cells = all_cells(Y[a], None if a == b else Y[b], trained.similarity.for_pair(a, b))
    at_links = link_terms(family, trained, pair, links, measure)
    over_pairs = PairTerms(family, pair, cells, 1 / measure, *_no_links())
    return _Sums(at_links, [over_pairs], trained.shards, exact=True)


def _estimated(
    family: Family,
    trained: TrainedGraph,
    pair: Pair,
    links: Links,
    measure: float,
    rng: np.random.Generator,
) -> _Sums:
    a, b = pair
    blocks: list[PairTerms] = []
    if len(links):
        sampler = BlockSampler(
            trained.graph.with_links({pair: links}),
            n_links=BLOCK_SIZE,
            n_uniform=BLOCK_SIZE,
            rng=rng,
            measure=family.measure,
        )
        # Own pairs stand for the pairs of all processes.
        scale = trained.terms[pair] / links.n_terms / measure
        for _ in range(N_BLOCKS):
            cells = _BlockCells(next(iter(sampler)), trained.own[a], trained.own[b], trained)
            blocks.append(PairTerms(family, pair, cells, scale, *_no_links()))
    at_links = link_terms(family, trained, pair, links, measure)
    return _Sums(at_links, blocks, trained.shards, exact=False)


class _BlockCells:
    """The cells of one block in float64, computed in every pass."""

    def __init__(
        self, batch: LinkBatch, Y: NDArray[Any], Y_other: NDArray[Any], trained: TrainedGraph
    ) -> None:
        self.batch, self.similarity = batch, trained.similarity.for_pair(*batch.pair)
        self.left = self.similarity.query_array(Y[batch.left.entities])
        self.right = self.similarity.candidate_array(Y_other[batch.right.entities])

    def __call__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor | None]]:
        left, right = (torch.from_numpy(Y.astype(np.float64)) for Y in (self.left, self.right))
        with torch.no_grad():
            cells = block_cells(left, right, self.batch, self.similarity)
        yield cells


def link_terms(
    family: Family, trained: TrainedGraph, pair: Pair, links: Links, measure: float
) -> PairTerms:
    """Return the terms of this process's links per unit of measure, without cells."""
    (a, b), similarity = pair, trained.similarity.for_pair(*pair)
    g = link_similarities(links, trained.own[a], trained.own[b], similarity)
    weights = torch.from_numpy(np.array(links.weights))
    counts = weights.new_tensor(1 / measure).expand(len(weights))
    return PairTerms(family, pair, no_cells, 1.0, weights, torch.from_numpy(g), counts)


def _no_links() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return (torch.empty(0, dtype=torch.float64),) * 3
