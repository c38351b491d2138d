"""Skip-gram on random walks: nodes are words, walks are sentences, gensim does the rest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.walks import WalkSampler

JOBS = 200  # pieces that the walks are handed over in: the learning rate falls from one to the next


class Corpus:
    """Walks from every linked node, in rounds; the same ones each time it is run through."""

    def __init__(
        self, W: sparse.csr_array, n_walks: int, walk_length: int, seed: int, p: float, q: float
    ) -> None:
        self._sampler = WalkSampler(W, p=p, q=q)
        self._starts = np.flatnonzero(np.diff(W.indptr)).astype(np.int64)
        self._n_walks, self._length, self._seed = n_walks, walk_length, seed

    @property
    def n_words(self) -> int:
        """Number of nodes in all walks."""
        return self._n_walks * len(self._starts) * self._length

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng([self._seed, 0])
        for _ in range(self._n_walks):
            walks = self._sampler.walk(rng.permutation(self._starts), self._length, rng)
            yield from map(np.ndarray.tolist, walks)


def walk_vectors(
    W: sparse.csr_array,
    K: int,
    *,
    n_walks: int,
    walk_length: int,
    window: int,
    n_negatives: int,
    hierarchical_softmax: bool,
    learning_rate: float,
    seed: int,
    p: float = 1.0,
    q: float = 1.0,
) -> NDArray[np.float32]:
    """Skip-gram vectors of all nodes, (n, K); those of nodes without links are 0."""
    from gensim.models import Word2Vec

    corpus = Corpus(W, n_walks, walk_length, seed, p, q)
    model = Word2Vec(
        corpus,
        vector_size=K,
        sg=1,
        hs=int(hierarchical_softmax),
        negative=0 if hierarchical_softmax else n_negatives,
        window=window,
        alpha=learning_rate,
        min_alpha=learning_rate / 250,  # as the default 0.025 and 0.0001
        epochs=1,
        min_count=0,
        sample=0,
        batch_words=min(10_000, max(walk_length, corpus.n_words // JOBS)),
        workers=1,  # two would race
        seed=int(np.random.default_rng([seed, 1]).integers(2**32)),
    )
    Y = np.zeros((W.shape[0], K), np.float32)
    Y[model.wv.index_to_key] = model.wv.vectors
    return Y
