"""Evaluation of vectors on the held-out links of all view pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from numpy.typing import NDArray

from pmvge.evaluation.ranking import LinkMetrics, evaluate_links
from pmvge.graph import Links, Pair, pair_key
from pmvge.likelihoods import POISSON, Family, Level, shifted
from pmvge.similarities import INNER, Similarity

Results = dict[str, dict[str, Any]]  # {"pairs": {"users,films": {...}}, "overall": {...}}
# The count that weights each metric in a mean over view pairs.
MEAN_WEIGHTS = {
    "roc_auc": "links",
    "average_precision": "links",
    "recall": "queries",
    "ndcg": "queries",
    "held_out_score": "links",
    "poisson_deviance": "pairs",
    "deviance": "pairs",
    "expected_over_observed": "observed",
}


class HeldOutShare(NamedTuple):
    """How links of a view pair were held out."""

    share: float  # the probability with which a link was held out
    in_alpha: bool  # whether alpha was computed from all links, held-out ones included

    def arguments(self, log_alpha: Level) -> dict[str, Any]:
        """Return the arguments of :func:`evaluate_links` for ``held_out_score``."""
        if not 0 < self.share < 1:
            return {}
        missing = 0.0 if self.in_alpha else -math.log1p(-self.share)
        log_alpha_all = shifted(log_alpha, missing)
        return {"held_out_share": self.share, "log_alpha_all": log_alpha_all}


def evaluate_held_out(
    Y: Mapping[str, NDArray[Any]],
    log_alpha: Mapping[Pair, Level],
    held_out: Mapping[Pair, Links],
    *,
    known: Mapping[Pair, Links] | None = None,
    weights: Mapping[Pair, float],
    exposure: float | None = None,
    shares: Mapping[Pair, HeldOutShare] | None = None,
    similarity: Similarity = INNER,
    family: Family = POISSON,
    k: int = 10,
    max_pairs: int = 10**8,
) -> Results:
    """Return metrics of vectors on the held-out links of every view pair, and over all of them.

    Parameters
    ----------
    Y
        Vectors of each view.
    log_alpha
        The logarithm of alpha of each view pair, or of its known and new entities.
    held_out
        Held-out links of each view pair; pairs without links are skipped.
    known
        Links of the training, which are not evaluated.
    weights
        The total weight that alpha was computed from, for each view pair.
    exposure
        Held-out weight per unit of expected weight. By default the total held-out weight (with
        links that are also in ``known``) divided by the total weight that alpha was computed from:
        a random part of a Poisson number of events has this share of every expected weight. It is 1
        for view pairs without weight, whose expected weights are 0.
    shares
        How links were held out, by view pair, for ``held_out_score``.
    similarity, family, k, max_pairs
        See :func:`~pmvge.evaluation.ranking.evaluate_links`.

    Returns
    -------
    results
        ``{"pairs": {"users,films": metrics}, "overall": metrics}``. The metrics of a pair are those
        of :func:`~pmvge.evaluation.ranking.evaluate_links`, and its exposure.

    Raises
    ------
    InputError
        As in :func:`~pmvge.evaluation.ranking.evaluate_links`.
    """
    pairs: dict[str, LinkMetrics] = {}
    exposures: dict[str, float] = {}
    for (a, b), links in held_out.items():
        if not len(links):
            continue
        seen, key = None if known is None else known.get((a, b)), pair_key((a, b))
        share = links.total / weights[a, b] if weights[a, b] > 0 else 1.0
        exposures[key] = share if exposure is None else exposure
        pairs[key] = evaluate_links(
            Y[a],
            Y[b],
            links,
            log_alpha=log_alpha[a, b],
            known=seen,
            exposure=exposures[key],
            similarity=similarity.for_pair(a, b),
            family=family.for_pair(a, b),
            pair=(a, b),
            k=k,
            max_pairs=max_pairs,
            **({} if shares is None else shares[a, b].arguments(log_alpha[a, b])),
        )
    total = overall(pairs)
    for pair, exposed in exposures.items():
        pairs[pair]["exposure"] = exposed
    return {"pairs": dict(pairs), "overall": total}


def overall(pairs: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the combined results of several view pairs: sums of counts, and means of metrics.

    ``roc_auc`` and ``average_precision`` are weighted by links, ``recall`` and ``ndcg`` by queries,
    and deviances by pairs; ``expected_over_observed`` is a ratio of totals. NaNs are
    skipped.
    """
    names = list(dict.fromkeys(name for results in pairs.values() for name in results))
    combined: dict[str, float] = {}
    for name in names:
        reported = [results for results in pairs.values() if name in results]
        weight = MEAN_WEIGHTS.get(name.partition("@")[0])
        if weight is None:
            combined[name] = sum(results[name] for results in reported)
            continue
        reported = [results for results in reported if not math.isnan(results[name])]
        total = sum(results[weight] for results in reported)
        parts = [results[name] * results[weight] for results in reported]
        combined[name] = math.fsum(parts) / total if reported else math.nan
    return combined
