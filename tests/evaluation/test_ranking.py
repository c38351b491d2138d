"""Metrics of held-out links against loops over all pairs and against scikit-learn."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.metrics import (
    average_precision_score,
    mean_poisson_deviance,
    ndcg_score,
    roc_auc_score,
)

from pmvge.errors import InputError
from pmvge.evaluation import evaluate_links, evaluated_pairs, overall, ranking
from pmvge.graph import parse_links


def links(W, within=False):
    return parse_links("here", np.triu(W) if within else W, np.shape(W), within, None)


def brute_force(Y, Y_other, W, *, known, within, k, log_alpha, exposure):
    """Compute all metrics with dense arrays and scikit-learn; within, W is symmetric."""
    n, m = W.shape
    open_pairs = [
        (i, j) for i in range(n) for j in range(m) if not known[i, j] and not (within and i == j)
    ]
    g = np.array([[float(np.dot(y, z)) for z in Y_other] for y in Y])
    pairs = [(i, j) for i, j in open_pairs if i < j or not within]
    w, s = (np.array([a[pair] for pair in pairs]) for a in (W, g))
    mu = exposure * np.exp(log_alpha + s)
    recall, ndcg = [], []
    for i in range(n):
        choice = [j for a, j in open_pairs if a == i]
        truth, scores = W[i, choice], g[i, choice]
        if not truth.any():
            continue
        recall.append(chance_in_top(truth, scores, k))
        # scikit-learn needs two candidates: add an unlinked one with the lowest score.
        truth, scores = np.append(truth, 0.0), np.append(scores, -1e6)
        ndcg.append(ndcg_score([truth], [scores], k=k))
    return {
        "links": np.sum(w > 0),
        "queries": len(recall),
        "pairs": len(pairs),
        "observed": w.sum(),
        "roc_auc": roc_auc_score(w > 0, s) if (w == 0).any() else math.nan,
        "average_precision": average_precision_score(w > 0, s),
        f"recall@{k}": np.mean(recall),
        f"ndcg@{k}": np.mean(ndcg),
        "poisson_deviance": mean_poisson_deviance(w, mu),
        "expected_over_observed": mu.sum() / w.sum(),
    }


def chance_in_top(truth, scores, k):
    """Return the expected share of links in the top k if ties are broken at random."""
    chances = []
    for s in scores[truth > 0]:
        left = k - sum(t > s for t in scores)
        chances.append(min(1.0, max(0.0, left / sum(t == s for t in scores))))
    return np.mean(chances)


@st.composite
def cases(draw, within):
    """Draw small graphs with few distinct scores, exact in float32, with many ties."""
    n = draw(st.integers(2, 6))
    m = n if within else draw(st.integers(1, 7))
    vectors = st.integers(-2, 2)
    Y = draw(arrays.arrays(np.float64, (n, 2), elements=vectors))
    Y_other = Y if within else draw(arrays.arrays(np.float64, (m, 2), elements=vectors))
    W = draw(arrays.arrays(np.float64, (n, m), elements=st.sampled_from([0, 0, 1, 1, 2.5])))
    known = draw(arrays.arrays(np.float64, (n, m), elements=st.sampled_from([0, 0, 1])))
    if within:
        W, known = (np.triu(a, 1) + np.triu(a, 1).T for a in (W, known))
    return Y, Y_other, W, known


@pytest.mark.parametrize("within", [False, True])
@given(
    data=st.data(),
    k=st.integers(1, 9),
    tile=st.sampled_from([1, 10, evaluated_pairs.MAX_SCORES]),
    log_alpha=st.sampled_from([-1.5, 0.0]),
    exposure=st.sampled_from([0.25, 1.0]),
)
def test_metrics_agree_with_loops_over_all_pairs(
    within, data, k, tile, log_alpha, exposure
) -> None:
    Y, Y_other, W, known = data.draw(cases(within))
    open_links = np.where(known > 0, 0, W)
    assume(open_links.any())
    setting = {"k": k, "log_alpha": log_alpha, "exposure": exposure}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluated_pairs, "MAX_SCORES", tile)
        found = evaluate_links(Y, Y_other, links(W, within), known=links(known, within), **setting)
        alone = evaluate_links(Y, Y_other, links(W, within), **setting)
    expected = brute_force(Y, Y_other, open_links, known=known > 0, within=within, **setting)
    assert found == pytest.approx(expected, nan_ok=True)
    none = np.zeros(W.shape, bool)
    expected = brute_force(Y, Y_other, W, known=none, within=within, **setting)
    assert alone == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_without_ties_over_many_tiles(within, dtype, monkeypatch) -> None:
    """Vectors so wide that sums in another order differ in their last bits."""
    monkeypatch.setattr(evaluated_pairs, "MAX_SCORES", 700)
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(61, 33), scale=0.3).astype(dtype)
    Y_other = Y if within else rng.normal(size=(53, 33), scale=0.3).astype(dtype)
    W, known = (rng.poisson(0.1, (61, len(Y_other))).astype(float) for _ in range(2))
    if within:
        W, known = (np.triu(a, 1) + np.triu(a, 1).T for a in (W, known))
    W[known > 0] = 0
    setting = {"k": 10, "log_alpha": -2.0, "exposure": 1.0}
    found = evaluate_links(Y, Y_other, links(W, within), known=links(known, within), **setting)
    expected = brute_force(Y, Y_other, W, known=known > 0, within=within, **setting)
    assert found == pytest.approx(expected, rel=1e-5)


def test_one_query_by_hand() -> None:
    """Scores 3 2 2 2 1 0: links are the 3, one of the 2s, and the 0."""
    Y, Y_other = np.ones((1, 1)), np.array([[3.0], [2], [2], [2], [1], [0]])
    W = np.array([[1.0, 4, 0, 0, 0, 2]])
    found = evaluate_links(Y, Y_other, links(W), log_alpha=0.0, k=2)
    assert found["roc_auc"] == pytest.approx((3 + 2 + 0) / 9)
    assert found["average_precision"] == pytest.approx((1 + 2 / 4 + 3 / 6) / 3)
    # The second position of the top 2 goes to each of the three 2s with probability 1/3.
    assert found["recall@2"] == pytest.approx((1 + 1 / 3) / 3)
    second = 1 / math.log2(3)
    assert found["ndcg@2"] == pytest.approx((1 + 4 * second / 3) / (4 + 2 * second))


def test_ties_are_averaged_over_every_order() -> None:
    """Compare with the mean over all orders of the ties."""
    W, scores, k = [2.0, 0, 1, 0, 3], [1.0, 1, 1, 1, 2], 3
    ideal = 3 + 2 / math.log2(3) + 1 / 2
    recalls, gains = [], []
    for order in permutations(range(5)):
        ranked = [w for _, _, w in sorted(zip([-s for s in scores], order, W, strict=True))][:k]
        recalls.append(sum(w > 0 for w in ranked) / 3)
        gains.append(sum(w / math.log2(rank + 2) for rank, w in enumerate(ranked)) / ideal)
    found = evaluate_links(
        np.ones((1, 1)), np.array(scores)[:, None], links([W]), log_alpha=0.0, k=k
    )
    assert found["recall@3"] == pytest.approx(np.mean(recalls))
    assert found["ndcg@3"] == pytest.approx(np.mean(gains))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("log_alpha", [0.0, -1000.0, -math.inf])
def test_extreme_similarities(sign, log_alpha) -> None:
    """Warnings are errors: exp(1000) is infinite without one."""
    Y, Y_other = np.array([[1.0], [0.0]]), sign * np.array([[1000.0], [0.0], [-1000.0]])
    W = np.array([[3.0, 0, 0], [0, 0, 0]])
    found = evaluate_links(Y, Y_other, links(W), log_alpha=log_alpha, k=1)
    assert found["roc_auc"] == found["recall@1"] == found["ndcg@1"] == (sign == 1)
    assert found["average_precision"] == pytest.approx(1 if sign == 1 else 1 / 6)
    if log_alpha == -math.inf:
        deviance, ratio = math.inf, 0
    elif log_alpha == 0:
        deviance, ratio = math.inf, math.inf
    else:
        # mu is 1 for one pair and 0 for all others; log mu of the link is 0 or -2000.
        log_mu = 0 if sign == 1 else -2000
        deviance, ratio = 2 * (3 * math.log(3) - 3 * log_mu - 3 + 1) / 6, 1 / 3
    assert found["poisson_deviance"] == pytest.approx(deviance)
    assert found["expected_over_observed"] == pytest.approx(ratio)


def test_weights_that_overflow_give_no_warning() -> None:
    found = evaluate_links(np.ones((1, 1)), np.ones((2, 1)), links([[1e307, 0]]), log_alpha=0.0)
    assert found["poisson_deviance"] == math.inf


def test_totals_are_added_in_double_precision() -> None:
    """One mu is 2^26, the others are too small to change a float32 sum."""
    Y_other = np.zeros((2**16, 1))
    Y_other[0] = 26 * math.log(2)
    W = np.zeros((1, 2**16))
    W[0, 5] = 1
    found = evaluate_links(np.ones((1, 1)), Y_other, links(W), log_alpha=math.log(0.5))
    # The score itself is a float32.
    large = math.exp(float(np.float32(Y_other[0, 0])))
    expected = 0.5 * (large + 2**16 - 1)
    assert found["expected_over_observed"] == pytest.approx(expected, rel=1e-12)


def test_auc_is_nan_without_unlinked_pairs() -> None:
    found = evaluate_links(np.ones((1, 1)), np.ones((2, 1)), links([[2.0, 2.0]]), log_alpha=0.0)
    assert math.isnan(found["roc_auc"])
    assert found["average_precision"] == found["ndcg@10"] == found["recall@10"] == 1


@pytest.mark.parametrize("within", [False, True])
def test_tiles_hold_at_most_max_scores(within, monkeypatch) -> None:
    held = []
    monkeypatch.setattr(evaluated_pairs, "MAX_SCORES", 40)
    for name in ("count_by_row", "count_among_all"):
        count = getattr(ranking, name)
        monkeypatch.setattr(
            ranking, name, lambda g, s, count=count: (held.append(g.numel()), count(g, s))[1]
        )
    W = np.ones((11, 11)) - np.eye(11)
    evaluate_links(np.ones((11, 1)), np.ones((11, 1)), links(W, within), log_alpha=0.0)
    assert max(held) == 33
    assert len(held) == 2 * 4


def sampled_case(within, n=40, m=30, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n, 3))
    Y_other = Y if within else rng.normal(size=(m, 3))
    W = rng.poisson(0.2 * np.exp(0.4 * Y @ Y_other.T)).astype(float)
    if within:
        W = np.triu(W, 1) + np.triu(W, 1).T
    return Y, Y_other, W


@pytest.mark.parametrize("within", [False, True])
def test_sampled_queries_are_evaluated_against_all_candidates(within, monkeypatch) -> None:
    """The sampled rows, as queries between two views with (i, i) known, give the same."""
    Y, Y_other, W = sampled_case(within)
    m = len(Y_other)
    drawn = []
    draw = ranking.draw_queries
    monkeypatch.setattr(ranking, "draw_queries", lambda *a: (drawn.append(draw(*a)), drawn[-1])[1])
    held_out = links(W, within)
    found = evaluate_links(Y, Y_other, held_out, log_alpha=-1.0, max_pairs=7 * m + 5, seed=3)
    (rows,) = drawn
    assert found.pop("sampled_queries") == len(rows) == len(set(rows)) == 7
    known = np.eye(len(Y), m)[rows] if within else np.zeros((7, m))
    setting = {"k": 10, "log_alpha": -1.0, "exposure": 1.0}
    expected = brute_force(Y[rows], Y_other, W[rows], known=known > 0, within=False, **setting)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("within", [False, True])
def test_metrics_of_samples_are_unbiased(within) -> None:
    Y, Y_other, W = sampled_case(within)
    held_out = links(W, within)
    known = links(np.roll(W, 1, 0) * (W == 0)) if not within else None
    every = evaluate_links(Y, Y_other, held_out, known=known, log_alpha=-1.0)
    samples = [
        evaluate_links(Y, Y_other, held_out, known=known, log_alpha=-1.0, max_pairs=600, seed=seed)
        for seed in range(200)
    ]
    for name in ("roc_auc", "average_precision", "recall@10", "ndcg@10", "poisson_deviance"):
        values = [sample[name] for sample in samples]
        assert np.mean(values) == pytest.approx(every[name], rel=0.03), name
        assert np.std(values) > 0, name


def test_samples_depend_on_the_seed() -> None:
    Y, Y_other, W = sampled_case(False)
    first, again, other = (
        evaluate_links(Y, Y_other, links(W), log_alpha=0.0, max_pairs=300, seed=seed)
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_has_at_least_one_link(seed) -> None:
    """One of 1000 rows is linked; max_pairs allows five rows, or less than one."""
    W = np.zeros((1000, 4))
    W[617, 2] = 1
    vectors = np.arange(1000.0)[:, None], np.ones((4, 1))
    for max_pairs, queries in [(20, 5), (3, 1)]:
        found = evaluate_links(*vectors, links(W), log_alpha=-800.0, max_pairs=max_pairs, seed=seed)
        assert found["links"] == found["queries"] == 1
        assert found["sampled_queries"] == queries
        assert found["pairs"] == 4 * queries


@pytest.mark.parametrize(("n", "max_pairs"), [(3, 12), (1, 3)])
def test_no_sampling_if_all_rows_fit_or_there_is_one_row(n, max_pairs) -> None:
    found = evaluate_links(
        np.ones((n, 1)), np.ones((4, 1)), links(np.eye(n, 4)), log_alpha=0.0, max_pairs=max_pairs
    )
    assert "sampled_queries" not in found
    assert found["pairs"] == 4 * n


def test_inputs_are_not_changed() -> None:
    Y, Y_other, W = sampled_case(False)
    Y, Y_other = (
        Y.astype(np.float32),
        Y_other.astype(np.float32),
    )  # evaluate_links need not convert them
    before = Y.copy(), Y_other.copy()
    for part in (Y, Y_other):
        part.flags.writeable = False
    known = links(np.roll(W, 1))
    evaluate_links(Y, Y_other, links(W), log_alpha=0.0, known=known)
    assert np.array_equal(before[0], Y)
    assert np.array_equal(before[1], Y_other)
    assert known.total == W.sum()


def test_known_links_are_not_evaluated_even_if_held_out() -> None:
    W = np.array([[1.0, 1, 0], [0, 0, 0]])
    Y, Y_other = np.ones((2, 1)), np.ones((3, 1))
    known = links([[5.0, 0, 0], [0, 0, 1]])
    found = evaluate_links(Y, Y_other, links(W), log_alpha=0.0, known=known)
    assert (found["links"], found["pairs"], found["observed"]) == (1, 4, 1)
    with pytest.raises(
        InputError, match="held_out: expected links that are not in known, got none"
    ):
        evaluate_links(Y, Y_other, links(W), log_alpha=0.0, known=links(W))
    with pytest.raises(InputError, match="got none among 0"):
        evaluate_links(Y, Y_other, links(0 * W), log_alpha=0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Y": np.ones((3, 2))}, r"Y: expected shape \(2, 2\), got \(3, 2\)"),
        ({"Y": np.ones(2)}, r"Y: expected shape \(2, K\), got \(2,\)"),
        ({"Y_other": np.ones((3, 1))}, r"Y_other: expected shape \(3, 2\), got \(3, 1\)"),
        ({"Y_other": np.ones((2, 2))}, r"Y_other: expected shape \(3, 2\), got \(2, 2\)"),
        ({"Y_other": np.ones((3, 2, 1))}, r"Y_other: expected shape \(3, 2\), got \(3, 2, 1\)"),
        ({"Y": np.full((2, 2), np.nan)}, "expected vectors whose inner products are finite"),
        ({"Y_other": np.full((3, 2), np.nan)}, "expected vectors whose inner products are finite"),
        ({"Y": np.full((2, 2), -np.inf)}, "got entries up to inf in Y and 1.0 in Y_other"),
        ({"Y": np.full((2, 2), 3e38)}, "expected vectors whose inner products are finite"),
        ({"Y": np.full((2, 2), 1e39), "Y_other": np.full((3, 2), 1e-9)}, "are finite in float32"),
        (
            {"known": links(np.ones((3, 2)))},
            "known: expected links between 2 and 3 entities as in held_out, got between 3 and 2",
        ),
        ({"known": links(np.eye(3, k=1), within=True)}, "got within a view of 3"),
        ({"k": 0}, "k: expected a positive integer, got 0"),
        ({"k": True}, "k: expected a positive integer, got True"),
        ({"k": 2.0}, r"k: expected a positive integer, got 2\.0"),
        ({"max_pairs": 0}, "max_pairs: expected a positive integer, got 0"),
        ({"exposure": 0.0}, r"exposure: expected a positive number, got 0\.0"),
        ({"exposure": math.inf}, "exposure: expected a positive number, got inf"),
        ({"exposure": math.nan}, "exposure: expected a positive number, got nan"),
        ({"log_alpha": math.nan}, "log_alpha: expected a number or -inf, got nan"),
        ({"log_alpha": math.inf}, "log_alpha: expected a number or -inf, got inf"),
    ],
)
def test_bad_input_says_what_was_expected(change, message) -> None:
    fine = {"Y": np.ones((2, 2)), "Y_other": np.ones((3, 2)), "log_alpha": 0.0}
    fine["held_out"] = links(np.eye(2, 3))
    evaluate_links(**fine)
    with pytest.raises(InputError, match=message):
        evaluate_links(**fine | change)


def test_known_and_held_out_must_both_be_within_a_view() -> None:
    Y, square = np.ones((3, 1)), np.eye(3, k=1)
    with pytest.raises(
        InputError, match="within a view of 3 entities as in held_out, got between 3 and 3"
    ):
        evaluate_links(Y, Y, links(square, True), log_alpha=0.0, known=links(square))


def test_overall_by_hand() -> None:
    a = {"links": 1, "queries": 3, "pairs": 10, "observed": 2.0, "roc_auc": 0.5}
    a |= {"average_precision": 0.2, "recall@5": 1.0, "ndcg@5": 0.4, "poisson_deviance": 3.0}
    a |= {"expected_over_observed": 1.0}
    b = {"links": 3, "queries": 1, "pairs": 30, "observed": 6.0, "roc_auc": 0.9}
    b |= {"average_precision": 0.6, "recall@5": 0.0, "ndcg@5": 0.8, "poisson_deviance": 1.0}
    b |= {"expected_over_observed": 3.0, "sampled_queries": 7}
    assert overall({"a": a, "b": b}) == pytest.approx(
        {
            "links": 4,
            "queries": 4,
            "pairs": 40,
            "observed": 8.0,
            "roc_auc": 0.8,
            "average_precision": 0.5,
            "recall@5": 0.75,
            "ndcg@5": 0.5,
            "poisson_deviance": 1.5,
            "expected_over_observed": 2.5,
            "sampled_queries": 7,
        }
    )
    assert overall({"a": a}) == pytest.approx(a)
    assert overall({}) == {}


def test_overall_skips_undefined_metrics() -> None:
    results = {
        name: {"links": n, "pairs": 1, "roc_auc": auc, "poisson_deviance": deviance}
        for name, n, auc, deviance in [("a", 9, math.nan, math.inf), ("b", 2, 0.75, 1.0)]
    }
    assert overall(results) == {
        "links": 11,
        "pairs": 2,
        "roc_auc": 0.75,
        "poisson_deviance": math.inf,
    }
    assert math.isnan(overall({"a": results["a"]})["roc_auc"])


def test_overall_of_parts_is_the_result_of_all_rows() -> None:
    """All metrics but those over all pairs are sums or weighted means."""
    Y, Y_other, W = sampled_case(False)
    together = evaluate_links(Y, Y_other, links(W), log_alpha=-1.0)
    parts = {
        str(rows): evaluate_links(Y[rows], Y_other, links(W[rows]), log_alpha=-1.0)
        for rows in (slice(0, 11), slice(11, 40))
    }
    over_all_pairs = ("roc_auc", "average_precision")
    found = {name: value for name, value in overall(parts).items() if name not in over_all_pairs}
    assert found == pytest.approx({name: together[name] for name in found}, rel=1e-6)
    assert len(found) == len(together) - 2
