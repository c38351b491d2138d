r"""Held-out links against all pairs that might have been linked, never holding all of them.

Row i of Y asks, row j of Y' answers with the score :math:`g_{ij} = \langle y_i, y'_j \rangle`, and
:math:`\mu_{ij} = \text{exposure} \cdot \alpha \exp g_{ij}` is expected. The judged pairs J are all
(i, j) that are not known from training and, within a view, not (i, i). Scores come in tiles of
rows: a first pass reads the scores of the held-out links, their places among the candidates of
their query, and :math:`\sum_J \mu`; a second one places the unlinked pairs among those scores.

Equal scores come in random order, of which the expectation is taken. If G candidates of a query
score higher than one of its links, and E the same (the link included), then

.. math:: P(\text{in the top } k) = \min(1, \max(0, (k - G) / E)), \qquad
          \text{discount} = \frac 1 E \sum_{r = G + 1}^{G + E} \frac{[r \le k]}{\log_2(r + 1)}.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from pmvge.errors import InputError
from pmvge.graph import Links

TILE = 1 << 22  # scores held at once; larger ones are no faster
# What each mean over view pairs is weighted by.
WEIGHT = {
    "roc_auc": "links",
    "average_precision": "links",
    "recall": "queries",
    "ndcg": "queries",
    "poisson_deviance": "pairs",
    "expected_over_observed": "observed",
}
Array = NDArray[Any]


def evaluate_links(
    Y: Array,
    Y_other: Array,
    held_out: Links,
    *,
    log_alpha: float,
    known: Links | None = None,
    exposure: float = 1.0,
    k: int = 10,
    max_pairs: int = 10**8,
    seed: int = 0,
) -> dict[str, float]:
    """How well the embeddings Y (n, K) and Y' (m, K) of a view pair foretell its held-out links.

    ``roc_auc`` and ``average_precision`` tell held-out links from all other judged pairs;
    ``recall@k`` and ``ndcg@k`` (gains are weights) are means over the queries that have held-out
    links; ``poisson_deviance`` is a mean over the judged pairs, ``expected_over_observed`` a ratio
    of totals over them. ``links``, ``queries``, ``pairs`` and ``observed`` are how many held-out
    links, queries with any, and pairs were judged, and the held-out weight among them.

    Within a view both ends of a link are queries, and each pair of nodes is judged once.

    Parameters
    ----------
    Y, Y_other, held_out, log_alpha
        Embeddings of both views, the links to foretell, and log alpha of the pair.
    known
        Links of training. Their pairs are not judged, held out or not; None keeps all.
    exposure
        The held-out weight to expect where training expects 1, for instance 0.25 if a fifth of all
        weight was held out.
    k
        Length of the lists for recall and nDCG.
    max_pairs, seed
        If there are more pairs, only so many rows are queries as make this many (at least one, and
        one with a link), drawn with ``seed``; ``sampled_queries`` says how many. Within a view a
        pair of two drawn nodes is then judged in both its orders.
    """
    _check(Y, Y_other, held_out, known, log_alpha, exposure, k, max_pairs)
    truth, seen = held_out.matrix(), None
    if known is not None:
        seen = known.matrix()
        truth = (truth - truth.multiply(seen > 0)).tocsr()
        truth.eliminate_zeros()
    if truth.nnz == 0:
        raise InputError(
            f"held_out: expected links that are not known, got none among {len(held_out)}"
        )
    n, m = truth.shape
    rows = _draw(truth, max(1, max_pairs // m), seed) if n * m > max_pairs else np.arange(n)
    sampled = len(rows) < n
    judged = _Judged(
        torch.from_numpy(np.asarray(Y, np.float32)[rows]),
        torch.from_numpy(np.array(Y_other, np.float32)),
        rows,
        truth[rows],
        None if seen is None else seen[rows],
        held_out.within,
        once=held_out.within and not sampled,
    )
    log_scale = log_alpha + math.log(exposure)
    g, above, equal, expected = _place_links(judged, log_scale)
    w = judged.truth.data
    share = 2 if judged.once else 1  # the first pass meets each pair in both its orders
    n_pairs = judged.count()
    # Kept apart from the sum of mu, which may be infinite: log mu never is because of g.
    with np.errstate(over="ignore"):
        at_links = float(np.sum(w * (np.log(w) - (log_scale + g)) - w))
    results = {
        "links": len(w) // share,
        "queries": int(np.count_nonzero(np.diff(judged.truth.indptr))),
        "pairs": n_pairs // share,
        "observed": float(w.sum()) / share,
        **_pooled(judged, g),
        **_by_query(judged.truth, above, equal, min(k, m), f"@{k}"),
        "poisson_deviance": 2 * (at_links + expected) / n_pairs,
        "expected_over_observed": expected / float(w.sum()),
    }
    return results | ({"sampled_queries": len(rows)} if sampled else {})


def overall(pairs: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The results of several view pairs as one: sums of counts, weighted means of the rest.

    Links weigh ``roc_auc`` and ``average_precision``, queries ``recall`` and ``ndcg``, judged pairs
    ``poisson_deviance``; ``expected_over_observed`` is total over total. NaNs are left out.
    """
    names = list(dict.fromkeys(name for results in pairs.values() for name in results))
    together: dict[str, float] = {}
    for name in names:
        found = [results for results in pairs.values() if name in results]
        weight = WEIGHT.get(name.partition("@")[0])
        if weight is None:
            together[name] = sum(results[name] for results in found)
            continue
        found = [results for results in found if not math.isnan(results[name])]
        total = sum(results[weight] for results in found)
        parts = [results[name] * results[weight] for results in found]
        together[name] = math.fsum(parts) / total if found else math.nan
    return together


@dataclass(frozen=True, eq=False)
class _Judged:
    """The judged pairs: R queries, all m candidates, less what is known."""

    Y: torch.Tensor  # (R, K)
    Y_other: torch.Tensor  # (m, K)
    rows: NDArray[np.int64]  # (R,) which rows of the view pair the queries are
    truth: sparse.csr_array  # (R, m) held-out weights
    known: sparse.csr_array | None  # (R, m)
    within: bool
    once: bool  # the queries are all nodes of a view: (i, j) and (j, i) are one pair

    def count(self) -> int:
        """The number of judged (query, candidate)."""
        left_out = 0 if self.known is None else int(self.known.nnz)
        return len(self.rows) * (len(self.Y_other) - self.within) - left_out

    def tiles(self) -> Iterator[tuple[slice, torch.Tensor]]:
        """Queries and their scores (queries, m), -inf where a pair is not judged.

        The tiles are the same each time, so that a pair scores the same to the last bit.
        """
        height = max(1, TILE // len(self.Y_other))
        for start in range(0, len(self.rows), height):
            part = slice(start, min(start + height, len(self.rows)))
            g = self.Y[part] @ self.Y_other.T
            if self.known is not None:
                g[_entries(self.known[part])] = -math.inf
            if self.within:
                g[torch.arange(len(g)), torch.from_numpy(self.rows[part])] = -math.inf
            yield part, g


def _entries(matrix: sparse.csr_array) -> tuple[torch.Tensor, torch.Tensor]:
    """The rows and columns of the stored entries, in their order."""
    at = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return torch.from_numpy(at), torch.from_numpy(matrix.indices.astype(np.int64))


def _draw(truth: sparse.csr_array, size: int, seed: int) -> NDArray[np.int64]:
    """Uniform rows, in order; if none of them has a link, one that has takes a place."""
    order = np.random.default_rng(seed).permutation(truth.shape[0])
    rows, linked = order[:size], np.diff(truth.indptr)[order] > 0
    if not linked[:size].any():
        rows[-1] = order[np.argmax(linked)]
    return np.sort(rows)


def _place_links(judged: _Judged, log_scale: float) -> tuple[Array, Array, Array, float]:
    r"""Of each held-out link g, G and E, in float64; and :math:`\sum_J \mu`."""
    scores, higher, same, expected = [], [], [], 0.0
    for part, g in judged.tiles():
        expected += float(g.double().add_(log_scale).exp_().sum())
        truth = judged.truth[part]
        if truth.nnz == 0:
            continue
        degrees = np.diff(truth.indptr)
        at, j = _entries(truth)
        # The links of each query, side by side; queries without any are not looked at.
        asking = torch.from_numpy(np.flatnonzero(degrees))
        row = torch.from_numpy((np.cumsum(degrees > 0) - 1)[at.numpy()])
        column = torch.arange(len(at)) - torch.from_numpy(truth.indptr.astype(np.int64))[at]
        levels = g.new_full((len(asking), int(degrees.max())), math.inf)
        levels[row, column] = g[at, j]
        levels, order = levels.sort(dim=1)
        above, equal = _count(g if len(asking) == len(g) else g[asking], levels)
        back = order.argsort(dim=1)[row, column]
        scores.append(g[at, j])
        higher.append(above[row, back])
        same.append(equal[row, back])
    found, G, E = (torch.cat(parts).double().numpy() for parts in (scores, higher, same))
    return found, G, E, expected


def _count(values: torch.Tensor, levels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How many values (R, c) are above and at each level (R, r) of their row; levels ascend."""
    ended = torch.cat([levels, levels.new_full((len(levels), 1), math.inf)], 1)
    place = torch.searchsorted(ended, values)  # the first level that is not below
    met = ended.gather(1, place) == values
    R, r = ended.shape
    place.add_(torch.arange(R)[:, None] * r).mul_(2).add_(met)
    counts = torch.bincount(place.view(-1), minlength=2 * R * r).view(R, r, 2)
    reached = counts.sum(2).cumsum(1)
    first = torch.searchsorted(ended, levels)  # of levels that are equal, the first has the counts
    return values.shape[1] - reached.gather(1, first), counts[..., 1].gather(1, first)


def _pooled(judged: _Judged, g: Array) -> dict[str, float]:
    """ROC AUC and average precision over all judged pairs, from the scores of the links."""
    if judged.once:
        at, j = _entries(judged.truth)
        g = g[(j > at).numpy()]
    levels, hits = np.unique(g.astype(np.float32), return_counts=True)
    above, equal = np.zeros((2, len(levels)), np.int64)
    for part, scores in judged.tiles():
        scores[_entries(judged.truth[part])] = -math.inf
        if judged.once:
            lower = torch.ones(scores.shape, dtype=torch.bool).tril_(diagonal=part.start)
            scores.masked_fill_(lower, -math.inf)
        counts = _count(scores.view(1, -1), torch.from_numpy(levels)[None])
        above += counts[0][0].numpy()
        equal += counts[1][0].numpy()
    n_links = len(g)
    n_others = judged.count() // (2 if judged.once else 1) - n_links
    lost = float(hits @ (above + equal / 2))
    found = hits[::-1].cumsum()[::-1]  # links at this level or above
    precision = found / (found + above + equal)
    return {
        "roc_auc": 1 - lost / (n_links * n_others) if n_others else math.nan,
        "average_precision": float(hits @ precision) / n_links,
    }


def _by_query(
    truth: sparse.csr_array, above: Array, equal: Array, k: int, suffix: str
) -> dict[str, float]:
    """Recall and nDCG among the first k, means over the queries with links."""
    w = truth.data
    degrees = np.diff(truth.indptr)
    degrees = degrees[degrees > 0]
    query = np.repeat(np.arange(len(degrees)), degrees)
    discounts = np.append(1 / np.log2(np.arange(2, k + 2)), 0.0)  # by rank, none from k on
    until = np.concatenate(([0.0], np.cumsum(discounts[:k])))
    start, stop = (np.minimum(rank, k).astype(np.int64) for rank in (above, above + equal))
    gain = w * (until[stop] - until[start]) / equal
    # The best order has the heaviest links of a query first.
    heaviest = w[np.lexsort((-w, query))]
    rank = np.arange(len(w)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    ideal = heaviest * discounts[np.minimum(rank, k)]
    recall = np.bincount(query, np.clip((k - above) / equal, 0, 1)) / degrees
    ndcg = np.bincount(query, gain) / np.bincount(query, ideal)
    return {f"recall{suffix}": float(recall.mean()), f"ndcg{suffix}": float(ndcg.mean())}


def _check(
    Y: Array,
    Y_other: Array,
    held_out: Links,
    known: Links | None,
    log_alpha: float,
    exposure: float,
    k: int,
    max_pairs: int,
) -> None:
    for name, number in (("k", k), ("max_pairs", max_pairs)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise InputError(f"{name} must be a positive integer, got {number!r}")
    if not 0 < exposure < math.inf:
        raise InputError(f"exposure must be a positive number, got {exposure!r}")
    if not log_alpha < math.inf:
        raise InputError(f"log_alpha must be a number, or -inf, got {log_alpha!r}")
    n, m = held_out.shape
    width = np.shape(Y)[-1] if np.ndim(Y) == 2 else "K"
    for name, vectors, count in (("Y", Y, n), ("Y_other", Y_other, m)):
        if np.ndim(vectors) != 2 or np.shape(vectors) != (count, width):
            raise InputError(f"{name}: expected shape ({count}, {width}), got {np.shape(vectors)}")
    if known is not None and (known.shape, known.within) != (held_out.shape, held_out.within):
        raise InputError(
            f"known: expected links {_kind(held_out)} as held_out has, got {_kind(known)}"
        )
    # No score can be infinite or NaN if this bound of them all is not.
    largest = [float(np.abs(vectors).max(initial=0)) for vectors in (Y, Y_other)]
    bound = np.max([*largest, largest[0] * largest[1] * np.shape(Y)[1]])
    if not bound < np.finfo(np.float32).max:
        raise InputError(
            "expected vectors whose inner products a float32 can hold, got entries as large as "
            f"{largest[0]} in Y and {largest[1]} in Y_other"
        )


def _kind(links: Links) -> str:
    n, m = links.shape
    return f"within a view of {n}" if links.within else f"between {n} and {m}"
