"""Paired differences of two methods: means and bootstrap intervals."""

import numpy as np

from pmvge.experiments import Job
from pmvge.experiments.paired import BY_QUERY, paired_difference


def result(ids, values) -> dict:
    return {BY_QUERY: {"ndcg": [ids, values]}}


def test_paired_differences_resample_queries_with_all_their_splits() -> None:
    ids = list(range(200))
    rng = np.random.default_rng(0)
    base = rng.random((2, 200))
    gain = rng.normal(0.05, 0.1, size=200)  # of a user, the same in both splits
    results = {
        Job(name, str(k)): result(ids, (base[k] + add).tolist())
        for k in range(2)
        for name, add in (("a", gain), ("b", 0))
    }
    found = paired_difference(results, "a", "b", "ndcg")
    assert np.isclose(found.mean, 100 * gain.mean())
    error = 100 * gain.std() / np.sqrt(200)  # that of 400 queries would be smaller
    assert np.isclose(found.high - found.low, 2 * 1.96 * error, rtol=0.1)
    assert found.low > 0
    none = paired_difference(results, "a", "a", "ndcg")
    assert (none.mean, none.low, none.high) == (0, 0, 0)
    assert paired_difference(results, "a", "c", "ndcg") is None


def test_paired_differences_are_over_queries_that_both_have() -> None:
    results = {
        Job("a", "0"): result([1, 2, 3], [0.5, 0.5, 1.0]),
        Job("b", "0"): result([2, 1], [0.25, 0.5]),
        Job("a", "1"): result([1], [1.0]),
    }
    assert np.isclose(paired_difference(results, "a", "b", "ndcg").mean, 12.5)
