"""Paired comparison of two methods on the same queries, with a bootstrap interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from pmvge.experiments.base import Job, Result

BY_QUERY = "ndcg_by_query"  # in results: {metric: [ids of queries, nDCG]}


class Difference(NamedTuple):
    """A mean difference in percentage points, with its 95 % bootstrap interval."""

    mean: float
    low: float
    high: float

    def interval(self) -> str:
        """Return the interval as text."""
        return f"{self.low:+.1f} to {self.high:+.1f}"


def paired_difference(
    results: Mapping[Job, Result], label: str, other: str, metric: str, *, draws: int = 2000
) -> Difference | None:
    """Return how much a method is above another on the queries that both have; None if on none.

    The bootstrap draws queries (users) with all their splits: the splits share users.
    """
    by_split: dict[str, dict[str, dict[Any, float]]] = {label: {}, other: {}}
    for job, result in results.items():
        if job.row in by_split and metric in result.get(BY_QUERY, {}):
            ids, values = result[BY_QUERY][metric]
            by_split[job.row][job.column] = dict(zip(ids, values, strict=True))
    sums: dict[Any, list[float]] = {}
    for column, mine in by_split[label].items():
        theirs = by_split[other].get(column, {})
        for query in mine.keys() & theirs.keys():
            sums.setdefault(query, []).append(mine[query] - theirs[query])
    if not sums:
        return None
    ordered = [sums[query] for query in sorted(sums)]
    totals, counts = (np.array([f(each) for each in ordered], float) for f in (sum, len))
    drawn = np.random.default_rng(0).integers(len(totals), size=(draws, len(totals)))
    means = totals[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Difference(*(100 * float(v) for v in (totals.sum() / counts.sum(), low, high)))
