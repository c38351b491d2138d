"""The paper's minibatch objective with alternating alpha."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import torch

from pmvge.graph import MultiViewGraph, Pair
from pmvge.likelihoods.objective import Embedded, Loss
from pmvge.likelihoods.poisson import POISSON
from pmvge.sampling import PairBatch
from pmvge.similarities import INNER, Similarity


class PairObjective:
    r"""The paper's minibatch objective (sections 4.1 and 4.2), per drawn link.

    .. math:: -\sum_{W'} w_{ij} \log\mu_{ij} + \tau \sum_{I'} \mu_{ij}

    After each step :math:`\alpha^{(d,e)}` is set to its closed form on I'. The numerator
    :math:`\sum_{I'} w_{ij}` is zero in most steps on a sparse graph, so it is replaced by its
    expectation :math:`|I'_{de}| W_{de} / |I_{de}|`.
    """

    def __init__(self, graph: MultiViewGraph, similarity: Similarity = INNER) -> None:
        self._similarity = similarity
        self._log_density = {
            pair: math.log(links.total / links.n_terms) if links.total > 0 else -math.inf
            for pair, links in graph.links.items()
        }
        self.log_alpha: dict[Pair, float] = {}

    def _solve(self, pair: Pair, g: torch.Tensor) -> float:
        """Return log alpha-hat on uniform pairs with similarities g; without any, that of g = 0."""
        if not len(g):
            return self._log_density[pair]
        log_mean = float(torch.logsumexp(g.double(), 0)) - math.log(len(g))
        return self._log_density[pair] - log_mean

    def __call__(self, batch: PairBatch, y: Embedded) -> Loss:
        """Return the loss of a batch at the current alpha, then update alpha."""
        n_links = sum(len(w) for _, _, w in batch.links.values())
        terms = []
        similarities: dict[Pair, Callable[[], torch.Tensor]] = {}
        for pair, sides in batch.ends.items():
            left, right = (y[k][torch.from_numpy(index).to(y[k].device)] for k, index in sides)
            similarity = self._similarity.for_pair(*pair)
            left, right = similarity.query(left), similarity.candidate(right)
            g = similarity.outer(torch.linalg.vecdot(left, right))
            similarities[pair] = g.detach
            split = len(batch.links[pair][0]) if pair in batch.links else 0
            solved = self._solve(pair, g[split:].detach())
            log_alpha = self.log_alpha.get(pair, solved)  # in the first step, alpha of this batch
            if split:
                w = torch.from_numpy(batch.links[pair][2]).to(g)
                terms.append(-(w @ (g[:split] + log_alpha)))
            if pair in batch.uniform and log_alpha > -math.inf:
                terms.append(batch.tau * POISSON.expected(g[split:] + log_alpha).sum())
                self.log_alpha[pair] = solved
        return Loss(torch.stack(terms).sum() / n_links, similarities)

    def state(self) -> dict[str, float]:
        """Return the current log alpha, by view pair."""
        return {json.dumps(pair): value for pair, value in self.log_alpha.items()}

    def restore(self, state: dict[str, float]) -> None:
        """Restore log alpha."""
        self.log_alpha = {
            pair: state[json.dumps(pair)] for pair in self._log_density if json.dumps(pair) in state
        }
