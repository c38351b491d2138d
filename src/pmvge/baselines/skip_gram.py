"""Skip-gram on random walks, by gensim: walks are sentences, and nodes are words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.baselines.base import Baseline
from pmvge.baselines.flattening import flatten
from pmvge.checks import Check, flag, integer
from pmvge.graph import MultiViewGraph, WalkSampler

JOBS = 200  # parts of the corpus: gensim lowers the learning rate after each


class Corpus:
    """A repeatable iterable of random walks, ``n_walks`` from every node with links."""

    def __init__(
        self, W: sparse.csr_array, n_walks: int, walk_length: int, seed: int, p: float, q: float
    ) -> None:
        self._sampler = WalkSampler(W, p=p, q=q)
        self._starts = np.flatnonzero(np.diff(W.indptr)).astype(np.int64)
        self._n_walks, self._length, self._seed = n_walks, walk_length, seed

    @property
    def n_words(self) -> int:
        """Return the number of nodes in all walks."""
        return self._n_walks * len(self._starts) * self._length

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self._seed, 0])
        for _ in range(self._n_walks):
            walks = self._sampler.walk(rng.permutation(self._starts), self._length, rng)
            yield from map(np.ndarray.tolist, walks)


class WalkMethod(Baseline):
    """Base class of methods that apply skip-gram to random walks."""

    n_views = 0
    many_to_many = True
    nonlinear = False
    inductive = False
    likelihood_based = True
    libraries = ("gensim",)
    checks: ClassVar[Mapping[str, Check]] = {
        "n_walks": integer(1),
        "walk_length": integer(2),
        "window": integer(1),
        "hierarchical_softmax": flag,
    }

    n_walks: int
    walk_length: int
    window: int
    n_negatives: int
    hierarchical_softmax: bool
    learning_rate: float

    @property
    def _bias(self) -> tuple[float, float]:
        """Return p and q of the walks."""
        return 1.0, 1.0

    def _fit(self, graph: MultiViewGraph, seed: int) -> dict[str, NDArray[Any]]:
        from gensim.models import Word2Vec

        flat, rate = flatten(graph), self.learning_rate
        corpus = Corpus(flat.W, self.n_walks, self.walk_length, seed, *self._bias)
        model = Word2Vec(
            corpus,
            vector_size=self.n_components,
            sg=1,
            hs=int(self.hierarchical_softmax),
            negative=0 if self.hierarchical_softmax else self.n_negatives,
            window=self.window,
            alpha=rate,
            min_alpha=rate / 250,  # the ratio of gensim's defaults, 0.025 and 0.0001
            epochs=1,
            min_count=0,
            sample=0,
            batch_words=min(10_000, max(self.walk_length, corpus.n_words // JOBS)),
            workers=1,  # several workers give different results in each run
            seed=int(np.random.default_rng([seed, 1]).integers(2**32)),
        )
        Y = np.zeros((graph.n_nodes, self.n_components), np.float32)
        Y[model.wv.index_to_key] = model.wv.vectors
        return flat.split(Y)
