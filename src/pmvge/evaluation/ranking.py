r"""Ranking of held-out links among all candidate pairs of a view pair.

Row i of Y is a query and row j of Y' a candidate. The score of a pair is its similarity
:math:`g_{ij}`, its expected weight :math:`\mu_{ij}` that of
:math:`\eta_{ij} = \log(\text{exposure} \cdot \alpha) + g_{ij}`. The evaluated pairs J are all
(i, j) that have no training link and, within a view, i != j. A first pass computes the scores of
the held-out links, their ranks among the candidates of their query, and :math:`\sum_J \mu`; a
second one counts the unlinked pairs that score above each link.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge.errors import InputError
from pmvge.evaluation.counting import count_among_all, count_by_row
from pmvge.evaluation.evaluated_pairs import (
    EvaluatedPairs,
    draw_queries,
    entries,
    level_of_links,
    level_of_rows,
    without_known,
)
from pmvge.evaluation.held_out_score import HeldOutScore
from pmvge.evaluation.list_metrics import recall_and_ndcg
from pmvge.graph import Links, Pair
from pmvge.likelihoods import POISSON, Family, Level, PairLevels, shifted
from pmvge.similarities import INNER, Similarity

Array = NDArray[Any]


class LinkMetrics(dict[str, float]):
    """Metrics by name, and ``ndcg``, the nDCG of each query with held-out links (queries,)."""

    def __init__(self, metrics: Mapping[str, float], ndcg: NDArray[np.float64]) -> None:
        super().__init__(metrics)
        self.ndcg = ndcg


def evaluate_links(
    Y: Array,
    Y_other: Array,
    held_out: Links,
    *,
    log_alpha: Level,
    known: Links | None = None,
    exposure: float = 1.0,
    similarity: Similarity = INNER,
    family: Family = POISSON,
    pair: Pair = ("", ""),
    held_out_share: float | None = None,
    log_alpha_all: Level | None = None,
    k: int = 10,
    max_pairs: int = 10**8,
    seed: int = 0,
) -> LinkMetrics:
    """Return metrics of vectors Y (n, K) and Y' (m, K) of a view pair on its held-out links.

    The metrics are over all pairs that are not in ``known``. ``roc_auc`` and ``average_precision``
    separate held-out links from all other pairs. ``recall@k`` and ``ndcg@k`` (gains are weights)
    are means over the queries that have held-out links. ``poisson_deviance`` (``deviance`` for
    other families) is a mean over pairs, ``expected_over_observed`` a ratio of totals.
    ``held_out_score`` compares families: the log-probability of what is held out, in nats per
    held-out link, if each link is held out whole with probability s = ``held_out_share``. A pair
    scores log(s P(w)) if w > 0, else log(1 - s (1 - P(0))). It needs a share, and a family that
    is a likelihood. ``links``,
    ``queries`` and ``pairs`` are the numbers of held-out links, of queries with held-out links
    and of pairs that were evaluated; ``observed`` is the held-out weight among them.

    Within a view both ends of a link are queries, and each unordered pair is evaluated once.
    The attribute ``ndcg`` of the result has the nDCG of each query, for paired comparisons.

    Parameters
    ----------
    Y, Y_other, held_out, log_alpha
        Vectors of both views, the held-out links, and log alpha of the view pair, or of its known
        and new entities. Ranks are those of similarities, which do not depend on it.
    known
        Links of the training. Their pairs are not evaluated, even if they are held out; with None,
        all pairs are.
    exposure
        Held-out weight per unit of expected weight, for instance 0.25 if a fifth of all weight was
        held out.
    similarity
        The similarity of the model; the inner product by default.
    family, pair
        The likelihood family of the model, and the view pair, which a family that has parameters
        for each view pair needs.
    held_out_share, log_alpha_all
        The probability with which a link was held out, and log alpha of all links, held-out ones
        included (by default ``log_alpha``), for ``held_out_score``.
    k
        Length of the ranked lists for recall and nDCG.
    max_pairs, seed
        If there are more than ``max_pairs`` pairs, queries are sampled with ``seed`` to have about
        that many (at least one query, and one with a link); ``sampled_queries`` is their number.
        Within a view, a pair of two sampled queries is then evaluated in both orders.

    Raises
    ------
    InputError
        A shape or number is not valid, or all held-out links are in ``known``.
    """
    equal_widths = similarity.equal_widths
    _check(Y, Y_other, held_out, known, log_alpha, exposure, k, max_pairs, equal_widths)
    truth, seen = without_known(held_out, known)
    n, m = truth.shape
    rows = draw_queries(truth, max(1, max_pairs // m), seed) if n * m > max_pairs else np.arange(n)
    sampled = len(rows) < n
    evaluated = EvaluatedPairs(
        torch.from_numpy(similarity.query_array(np.asarray(Y, np.float32)[rows])),
        torch.from_numpy(similarity.candidate_array(np.array(Y_other, np.float32))),
        rows,
        truth[rows],
        None if seen is None else seen[rows],
        held_out.within,
        similarity,
        once=held_out.within and not sampled,
    )
    log_scale = shifted(log_alpha, math.log(exposure))
    score = None
    if held_out_share is not None and family.is_likelihood:
        log_all = log_alpha if log_alpha_all is None else log_alpha_all
        score = HeldOutScore(family, pair, held_out_share, log_all)
    g, above, equal, at_zero, expected = _rank_links(evaluated, log_scale, family, pair, score)
    w = evaluated.truth.data
    share = 2 if evaluated.once else 1  # the first pass counts each pair in both orders
    n_pairs = evaluated.count()
    with torch.no_grad(), np.errstate(over="ignore"):
        eta = torch.from_numpy(level_of_links(evaluated, log_scale) + g)
        at_links = float(np.sum(family.link_deviance(torch.from_numpy(w), eta, pair).numpy()))
    recall, ndcg = recall_and_ndcg(evaluated.truth, above, equal, min(k, m))
    results = {
        "links": len(w) // share,
        "queries": int(np.count_nonzero(np.diff(evaluated.truth.indptr))),
        "pairs": n_pairs // share,
        "observed": float(w.sum()) / share,
        **_over_all_pairs(evaluated, g),
        f"recall@{k}": float(recall.mean()),
        f"ndcg@{k}": float(ndcg.mean()),
        family.deviance_name: (at_links - 2 * at_zero) / n_pairs,
        "expected_over_observed": expected / float(w.sum()),
    }
    if score is not None:
        results["held_out_score"] = score.per_link(
            w, g + level_of_links(evaluated, score.log_alpha)
        )
    if sampled:
        results["sampled_queries"] = len(rows)
    return LinkMetrics(results, ndcg)


def ndcg_by_query(
    Y: Array, Y_other: Array, held_out: Links, *, known: Links | None = None, k: int = 10
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the queries that have held-out links, and nDCG of the first k for each.

    The mean is ``ndcg@k`` of :func:`evaluate_links` for inner products of all queries; the values
    of two methods allow paired comparisons. Raise InputError as that function does.
    """
    _check(Y, Y_other, held_out, known, 0.0, 1.0, k, 1)
    truth, seen = without_known(held_out, known)
    rows = np.arange(truth.shape[0])
    queries, candidates = (torch.from_numpy(np.array(part, np.float32)) for part in (Y, Y_other))
    within = held_out.within
    evaluated = EvaluatedPairs(queries, candidates, rows, truth, seen, within, INNER, once=within)
    _, above, equal, _, _ = _rank_links(evaluated, 0.0, POISSON, ("", ""))
    _, ndcg = recall_and_ndcg(truth, above, equal, min(k, truth.shape[1]))
    return np.flatnonzero(np.diff(truth.indptr)), ndcg


def _rank_links(
    evaluated: EvaluatedPairs,
    log_scale: Level,
    family: Family,
    pair: Pair,
    score: HeldOutScore | None = None,
) -> tuple[Array, Array, Array, float, float]:
    r"""Return g, G and E of each held-out link, in float64, and the sums of zero and mu over J.

    :mod:`pmvge.evaluation.list_metrics` defines G and E.
    """
    scores, higher, same, at_zero, expected = [], [], [], 0.0, 0.0
    for part, g in evaluated.tiles():
        with torch.no_grad():
            level = level_of_rows(log_scale, evaluated.rows[part])
            sums = family.sums(g.double().add_(level), pair)
        at_zero, expected = at_zero + sums[0], expected + sums[1]
        if score is not None:
            score.add(g, evaluated.rows[part])
        truth = evaluated.truth[part]
        if truth.nnz == 0:
            continue
        degrees = np.diff(truth.indptr)
        at, j = entries(truth)
        # One row of sorted link scores for each query that has links.
        linked = torch.from_numpy(np.flatnonzero(degrees))
        row = torch.from_numpy((np.cumsum(degrees > 0) - 1)[at.numpy()])
        column = torch.arange(len(at)) - torch.from_numpy(truth.indptr.astype(np.int64))[at]
        levels = g.new_full((len(linked), int(degrees.max())), math.inf)
        levels[row, column] = g[at, j]
        levels, order = levels.sort(dim=1)
        above, equal = count_by_row(g if len(linked) == len(g) else g[linked], levels)
        rank = order.argsort(dim=1)[row, column]
        scores.append(g[at, j])
        higher.append(above[row, rank])
        same.append(equal[row, rank])
    link_scores, G, E = (torch.cat(parts).double().numpy() for parts in (scores, higher, same))
    return link_scores, G, E, at_zero, expected


def _over_all_pairs(evaluated: EvaluatedPairs, g: Array) -> dict[str, float]:
    """Return ROC AUC and average precision over all evaluated pairs."""
    if evaluated.once:
        at, j = entries(evaluated.truth)
        g = g[(j > at).numpy()]
    levels, hits = np.unique(g.astype(np.float32), return_counts=True)
    above, equal = np.zeros((2, len(levels)), np.int64)
    for part, scores in evaluated.tiles():
        scores[entries(evaluated.truth[part])] = -math.inf
        if evaluated.once:
            lower = torch.ones(scores.shape, dtype=torch.bool).tril_(diagonal=part.start)
            scores.masked_fill_(lower, -math.inf)
        counts = count_among_all(scores, torch.from_numpy(levels))
        above += counts[0].numpy()
        equal += counts[1].numpy()
    n_links = len(g)
    n_others = evaluated.count() // (2 if evaluated.once else 1) - n_links
    misordered = float(hits @ (above + equal / 2))
    n_ranked = hits[::-1].cumsum()[::-1]  # links at this level or above
    precision = n_ranked / (n_ranked + above + equal)
    return {
        "roc_auc": 1 - misordered / (n_links * n_others) if n_others else math.nan,
        "average_precision": float(hits @ precision) / n_links,
    }


def _check(
    Y: Array,
    Y_other: Array,
    held_out: Links,
    known: Links | None,
    log_alpha: Level,
    exposure: float,
    k: int,
    max_pairs: int,
    equal_widths: bool = True,
) -> None:
    for name, number in (("k", k), ("max_pairs", max_pairs)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
            raise InputError(f"{name}: expected a positive integer, got {number!r}")
    if not (isinstance(exposure, Real) and 0 < exposure < math.inf):
        raise InputError(f"exposure: expected a positive number, got {exposure!r}")
    largest_level = log_alpha.table.max() if isinstance(log_alpha, PairLevels) else log_alpha
    if not largest_level < math.inf:
        raise InputError(f"log_alpha: expected a number or -inf, got {log_alpha!r}")
    n, m = held_out.shape
    width = np.shape(Y)[-1] if np.ndim(Y) == 2 else "K"
    for name, vectors, count in (("Y", Y, n), ("Y_other", Y_other, m)):
        if np.ndim(vectors) == 2 and not equal_widths:
            width = np.shape(vectors)[1]
        if np.ndim(vectors) != 2 or np.shape(vectors) != (count, width):
            raise InputError(f"{name}: expected shape ({count}, {width}), got {np.shape(vectors)}")
    if known is not None and (known.shape, known.within) != (held_out.shape, held_out.within):
        raise InputError(
            f"known: expected links {_kind(held_out)} entities as in held_out, got {_kind(known)}"
        )
    # If this bound of all scores is finite in float32, so are the scores.
    largest = [float(np.abs(vectors).max(initial=0)) for vectors in (Y, Y_other)]
    bound = np.max([*largest, largest[0] * largest[1] * np.shape(Y)[1]])
    if not bound < np.finfo(np.float32).max:
        raise InputError(
            "expected vectors whose inner products are finite in float32, got entries up to "
            f"{largest[0]} in Y and {largest[1]} in Y_other"
        )


def _kind(links: Links) -> str:
    n, m = links.shape
    return f"within a view of {n}" if links.within else f"between {n} and {m}"
