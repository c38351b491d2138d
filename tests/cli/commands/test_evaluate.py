"""``pmvge evaluate`` against scikit-learn on dense matrices made from the raw tables."""

import json

import numpy as np
import pytest
from scipy.stats import poisson
from sklearn.metrics import (
    average_precision_score,
    mean_poisson_deviance,
    ndcg_score,
    roc_auc_score,
)

from pmvge import PMvGE
from pmvge.errors import InputError, ParameterError, TableError

METRICS = ("roc_auc", "average_precision", "recall@10", "ndcg@10", "poisson_deviance",
           "expected_over_observed", "held_out_score")  # fmt: skip
COUNTS = ("links", "queries", "pairs", "observed")


def by_hand(g, mu, W, scored, k=10):
    """Return the metrics of weights W (n, m) at the scored pairs, computed one by one."""
    W = np.where(scored, W, 0)
    asking = np.flatnonzero(W.sum(1) > 0)
    recalls, gains = [], []
    for i in asking:
        scores, weights = g[i, scored[i]], W[i, scored[i]]
        top = np.argsort(-scores)[:k]
        recalls.append((weights[top] > 0).sum() / (weights > 0).sum())
        gains.append(ndcg_score(weights[None], scores[None], k=k))
    return {
        "links": int((W > 0).sum()),
        "queries": len(asking),
        "pairs": int(scored.sum()),
        "observed": W.sum(),
        "roc_auc": roc_auc_score(W[scored] > 0, g[scored]),
        "average_precision": average_precision_score(W[scored] > 0, g[scored]),
        f"recall@{k}": np.mean(recalls),
        f"ndcg@{k}": np.mean(gains),
        "poisson_deviance": mean_poisson_deviance(W[scored], mu[scored]),
        "expected_over_observed": mu[scored].sum() / W[scored].sum(),
    }


def score_by_hand(mu, W, trained, scored):
    """Return the log-probability, per link, of links of W (n, m) that were held out whole.

    Each of all links is held out with the same probability s. ``mu`` are the expected weights of
    the training, whose links ``trained`` are a share 1 - s of all.
    """
    links = np.count_nonzero(W[scored])
    s = links / (np.count_nonzero(trained) + links)
    of_all = poisson(mu / (1 - s))
    by_pair = np.where(W > 0, np.log(s) + of_all.logpmf(W), np.log1p(-s * of_all.sf(0)))
    return {"held_out_score": by_pair[scored].sum() / links}


@pytest.fixture(scope="module")
def held_out(films):
    return films / "later" / "held_out.csv"


@pytest.fixture(scope="module")
def held(held_out, truth, read):
    return truth.dense(read(held_out))


def evaluated(run, model, *flags):
    return json.loads(run("evaluate", model, *flags, "--json").out)


def test_the_json_has_the_documented_shape(run, model, held_out):
    results = evaluated(run, model, "--links", held_out)
    assert set(results) == {"pairs", "overall", "popularity", "uncalibrated", "warnings"}
    assert set(results["pairs"]) == {"users,films"}
    assert set(results["pairs"]["users,films"]) == {*COUNTS, *METRICS, "exposure", "in_training"}
    assert set(results["overall"]) == {*COUNTS, *METRICS}
    assert set(results["popularity"]) == {"pairs", "overall", "meaning"}
    assert set(results["popularity"]["overall"]) == {*COUNTS, *METRICS}


def test_the_numbers_are_those_of_sklearn(run, model, held_out, truth, held):
    results = evaluated(run, model, "--links", held_out)
    exposure = held.sum() / truth.W.sum()
    expected = by_hand(truth.g, exposure * truth.mu, held, truth.W == 0)
    expected |= score_by_hand(truth.mu, held, truth.W, truth.W == 0)
    assert 20 < expected["links"] < (held > 0).sum()
    assert results["overall"] == pytest.approx(expected, rel=1e-4)
    both = int(np.count_nonzero((held > 0) & (truth.W > 0)))
    assert results["pairs"]["users,films"] == pytest.approx(
        {**expected, "exposure": exposure, "in_training": both}, rel=1e-4
    )
    popular = np.outer(truth.W.sum(1), truth.W.sum(0)) / truth.W.sum()
    found = results["popularity"]["overall"]
    wanted = by_hand(np.log(popular), exposure * popular, held, truth.W == 0)
    assert {key: found[key] for key in ("links", "pairs", "queries")} == {
        key: wanted[key] for key in ("links", "pairs", "queries")
    }
    # Products of degrees are equal for some pairs: the brute-force ranking breaks ties otherwise.
    assert found["roc_auc"] == pytest.approx(wanted["roc_auc"], abs=0.01)
    score = score_by_hand(popular, held, truth.W, truth.W == 0)["held_out_score"]
    assert found["held_out_score"] == pytest.approx(score, rel=1e-4)


def test_include_known_scores_all_pairs(run, model, held_out, truth, held):
    results = evaluated(run, model, "--links", held_out, "--include-known")
    exposure = held.sum() / truth.W.sum()
    everything = np.ones_like(held, dtype=bool)
    expected = by_hand(truth.g, exposure * truth.mu, held, everything)
    assert results["overall"] == pytest.approx(expected, rel=1e-4)
    assert results["overall"]["pairs"] == held.size


def test_length_and_exposure_are_options(run, model, held_out, truth, held):
    flags = ("--links", held_out, "-k", 3, "--exposure", 0.5)
    results = evaluated(run, model, *flags)
    expected = by_hand(truth.g, 0.5 * truth.mu, held, truth.W == 0, k=3)
    expected |= score_by_hand(truth.mu, held, truth.W, truth.W == 0)
    assert results["overall"] == pytest.approx(expected, rel=1e-4)


def test_links_within_a_view(run, paper_model, papers, read):
    model = PMvGE.load(paper_model)
    ids, Y = model.ids_["papers"].tolist(), model.embeddings_["papers"].astype(np.float64)
    W = {name: np.zeros((50, 50)) for name in ("cites.csv", "later/held_out.csv")}
    for name, matrix in W.items():
        for row in read(papers / name):
            i, j = ids.index(int(row["citing"])), ids.index(int(row["cited"]))
            matrix[i, j] = matrix[j, i] = 1
    trained, held = W.values()
    g = Y @ Y.T
    off = ~np.eye(50, dtype=bool)
    mu = np.exp(g) / np.exp(g[off]).sum()
    scored = off & (trained == 0)
    expected = by_hand(g, held.sum() * mu, held, scored)
    for count in ("links", "pairs", "observed"):  # both orders of a pair were counted
        expected[count] /= 2
    expected |= score_by_hand(trained.sum() * mu, held, trained, scored)
    results = evaluated(run, paper_model, "--links", papers / "later" / "held_out.csv")
    assert results["overall"] == pytest.approx(expected, rel=1e-4)


# -- which views ------------------------------------------------------------------------------


def test_the_pair_is_found_by_the_columns_or_named_in_either_order(run, model, held_out):
    results = evaluated(run, model, "--links", held_out)
    assert evaluated(run, model, "--links", held_out, "--pair", "users,films") == results
    turned = evaluated(run, model, "--links", held_out, "--pair", "films,users")
    assert list(turned["pairs"]) == ["films,users"]
    (named,), (other,) = results["pairs"].values(), turned["pairs"].values()
    for same in ("links", "roc_auc", "average_precision", "poisson_deviance", "exposure"):
        assert other[same] == pytest.approx(named[same], rel=1e-5)
    assert other["queries"] != named["queries"]


def test_an_ambiguous_table_needs_the_pair(run, model, table, tmp_path, refused):
    rows = [("u00001", "f00001", 3, "western")]
    both = table(tmp_path / "both.csv", ("user_id", "film_id", "stars", "genre"), rows)
    printed = refused("evaluate", model, "--links", both)
    expected = "its columns do not identify the views; pass --pair films,genre or users,films"
    assert printed == f"{both}: {expected}"
    results = evaluated(run, model, "--links", both, "--pair", "films,genre", "--include-known")
    assert set(results["pairs"]) == {"films,genre"}


def test_several_tables_are_scored_by_pair_and_overall(run, model, films, held_out, table):
    genres = films / "film_genres.csv"
    flags = ("--links", held_out, "--links", genres, "--include-known")
    results = evaluated(run, model, *flags)
    assert set(results["pairs"]) == {"users,films", "films,genre"}
    first, second = results["pairs"].values()
    both = results["overall"]
    for count in COUNTS:
        assert both[count] == first[count] + second[count]
    weighted = first["links"] * first["roc_auc"] + second["links"] * second["roc_auc"]
    assert both["roc_auc"] == pytest.approx(weighted / both["links"])


def test_two_tables_of_one_pair_are_merged(run, model, held_out, read, table, tmp_path):
    rows = [tuple(row.values()) for row in read(held_out)]
    columns = ("user_id", "film_id", "stars")
    first = table(tmp_path / "first.csv", columns, rows[:40])
    second = table(tmp_path / "second.csv", columns, rows[30:])  # weights add up
    both = table(tmp_path / "both.csv", columns, rows[:40] + rows[30:])
    results = evaluated(run, model, "--links", first, "--links", second)
    assert results == evaluated(run, model, "--links", both)


@pytest.mark.parametrize(
    ("flags", "error", "says"),
    [
        (("--pair", "users,film"), InputError, "expected films,genre or users,films"),
        (("--pair", "users"), InputError, "no links of 'users' in training"),
        (("--pair", "users,genre"), InputError, "no links of 'users,genre' in training"),
        (
            ("--pair", "users,films", "--pair", "films,genre"),
            ParameterError,
            "at most one for each --links, got 2 for 1",
        ),
        (("--exposure", "0"), InputError, "exposure: expected a positive number"),
    ],
)
def test_invalid_options_are_errors(run, model, held_out, flags, error, says):
    with pytest.raises(error, match=says):
        run("evaluate", model, "--links", held_out, *flags)


# -- rows that cannot be used ------------------------------------------------------------------


def test_rows_with_unknown_ids_are_a_note_or_with_strict_an_error(run, model, table, tmp_path):
    rows = [("u00001", "f00001", 3), ("nobody", "f00001", 2), ("u00002", "f00009", 0)]
    path = table(tmp_path / "some.csv", ("user_id", "film_id", "stars"), rows)
    printed = run("evaluate", model, "--links", path, "--include-known", "--json")
    assert json.loads(printed.out)["overall"]["links"] == 1
    message = "MOST ROWS DROPPED, 2 of 3 rows dropped: 1 with an unknown id, 1 with weight zero"
    assert message in printed.err
    with pytest.raises(InputError, match=r"2 of 3 rows dropped: .*--strict allows none"):
        run("evaluate", model, "--links", path, "--strict")


def test_links_of_the_training_are_left_out_with_a_note(run, model, held_out, held, truth, films):
    both = int(((held > 0) & (truth.W > 0)).sum())
    printed = run("evaluate", model, "--links", held_out)
    assert f"links users,films: {both} of {(held > 0).sum()} were in training" in printed.err
    assert (
        "were in training" not in run("evaluate", model, "--links", held_out, "--include-known").err
    )
    with pytest.raises(InputError, match=r"all .* were in training, .*--include-known"):
        run("evaluate", model, "--links", films / "ratings.csv")


def test_the_columns_are_those_of_the_training(run, paper_model, table, tmp_path):
    path = table(tmp_path / "some.csv", ("citing", "sited"), [(1000, 1007)])
    with pytest.raises(TableError, match=r"no column 'cited'.*'sited'"):
        run("evaluate", paper_model, "--links", path)


def test_the_table_shows_the_numbers(run, model, held_out):
    result = evaluated(run, model, "--links", held_out)["overall"]
    printed = run("evaluate", model, "--links", held_out).out
    (row,) = [line for line in printed.splitlines() if line.startswith("│users - films")]
    assert f"{result['roc_auc']:.3f}" in row
    assert f"{result['recall@10']:.3f}" in row
    assert "recall@10" in printed  # in one piece, on 80 columns
    assert "deviance" in printed
    assert f"users,films: {result['links']} links of {result['queries']} queries" in printed
