"""The recommender experiment: metrics, tuning on other splits, tables and goals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pmvge.datasets import LinkSplit
from pmvge.errors import ParameterError
from pmvge.evaluation import evaluate_links, ndcg_by_query
from pmvge.experiments import Job, missing_jobs, run, write_results
from pmvge.experiments.recipe import parse
from pmvge.experiments.recommender import experiment as recommender
from pmvge.experiments.recommender.experiment import Recommendation
from pmvge.experiments.recommender.methods import make_recommender
from pmvge.experiments.recommender.metrics import evaluate, evaluate_refit
from pmvge.experiments.runs import read_results
from pmvge.graph import MultiViewGraph

PAIR = ("user", "film")
RECIPE = """
title = "small"
experiment = "recommender"
summary = "s."
repetitions = 2
trials = 3
[options]
entities = 0.3
ours = "EASE"
[options.goals.EASE.warm]
auc = 30
ndcg = 101
[[methods]]
label = "popularity"
method = "popularity"
[[methods]]
label = "EASE"
method = "EASE"
search = { penalty = [5, 20, 100] }
"""
LASTFM = """data = "lastfm"
further = ["popularity"]
published = { GAT = { auc = 96.1, ap = 96.2 } }"""
FEATURES = """
[[methods]]
label = "ours"
method = "PMvGE"
[methods.settings]
effects = "vector"
similarity = "inner"
n_components = 3
max_steps = 15
patience = "none"
"""


def planted(seed: int = 0) -> MultiViewGraph:
    """Two groups of users, and films that one of them likes."""
    rng = np.random.default_rng(seed)
    group, kind = rng.integers(2, size=50), rng.integers(2, size=40)
    W = rng.random((50, 40)) < np.where(group[:, None] == kind, 0.7, 0.15)
    X, X_film = (np.eye(2)[each] + rng.normal(size=(len(each), 2)) for each in (group, kind))
    return MultiViewGraph(
        {"user": X, "film": X_film}, {PAIR: W * 1.0}, {"user": range(50), "film": range(40)}
    )


def experiment(text: str = RECIPE, workspace=None, graph: MultiViewGraph | None = None):
    made = Recommendation(parse("small", text), None, workspace)
    made.graph = planted() if graph is None else graph
    return made


# -- metrics ---------------------------------------------------------------------------------------


def brute_force_ndcg(scores, truth, known) -> dict[int, float]:
    """nDCG@10 of scores without ties, query by query."""
    found = {}
    for query in np.flatnonzero(truth.sum(axis=1)):
        order = sorted(range(len(scores[query])), key=lambda j: -scores[query][j])
        ranked = [truth[query][j] for j in order if not known[query][j]][:10]
        ideal = sorted(truth[query], reverse=True)[:10]
        gain, best = (sum(w / np.log2(r + 2) for r, w in enumerate(row)) for row in (ranked, ideal))
        found[int(query)] = gain / best
    return found


def test_ndcg_of_each_query() -> None:
    rng = np.random.default_rng(0)
    Y, Y_other = rng.normal(size=(50, 3)), rng.normal(size=(40, 3))
    split = experiment().split("warm", 0, "test")
    truth, known = (links.matrix().toarray() for links in (split.truth, split.known))
    expected = brute_force_ndcg(Y @ Y_other.T, truth, known)
    queries, values = ndcg_by_query(Y, Y_other, split.truth, known=split.known)
    assert queries.tolist() == list(expected)
    assert np.allclose(values, list(expected.values()))
    overall = evaluate_links(Y, Y_other, split.truth, log_alpha=0.0, known=split.known)
    assert np.isclose(values.mean(), overall["ndcg@10"])


def test_ndcg_of_each_query_within_a_view() -> None:
    rng = np.random.default_rng(1)
    W = np.triu(rng.random((20, 20)) < 0.3, 1) * 1.0
    links = MultiViewGraph({"a": 20}, {("a", "a"): W}).links["a", "a"]
    Y = rng.normal(size=(20, 3))
    _, values = ndcg_by_query(Y, Y, links)
    overall = evaluate_links(Y, Y, links, log_alpha=0.0)
    assert np.isclose(values.mean(), overall["ndcg@10"])


def test_metrics_of_unseen_users() -> None:
    split = experiment().split("users", 0, "test")
    method = make_recommender("EASE", {"penalty": 5.0})
    method.fit(split.train, PAIR, 0)
    metrics, by_query = evaluate(method, split, {"ndcg_1", "ndcg_10"})
    later, known = (links.matrix().toarray() for links in (split.later, split.known))
    for count in (1, 10):
        scores = method.queries(links=split.first[count]) @ method.candidates().T
        expected = brute_force_ndcg(scores, later, known)
        name = f"ndcg_{count}"
        assert np.isclose(metrics[name], np.mean(list(expected.values())))
        assert by_query[name][0] == split.queries[list(expected)].tolist()
        assert np.allclose(by_query[name][1], list(expected.values()), atol=1e-6)
    assert set(metrics) == {"ndcg_1", "ndcg_10"}
    # EASE places a user from its links by the same films: a refit adds a few rows to 35.
    assert abs(evaluate_refit(method, split, 0) - metrics["ndcg_10"]) < 0.1


def test_auc_of_unseen_users_counts_all_their_links() -> None:
    split = experiment().split("users", 0, "test")
    method = make_recommender("popularity", {})
    method.fit(split.train, PAIR, 0)
    metrics, _ = evaluate(method, split, {"auc", "ndcg_0"})
    scores, truth = split.train.links[PAIR].degrees()[1], split.truth.matrix().toarray()
    above = [
        (scores[j] > scores) + (scores[j] == scores) / 2
        for i, j in zip(*truth.nonzero(), strict=True)
    ]
    unlinked = (truth == 0).sum(axis=0)
    assert np.isclose(metrics["auc"], np.sum(above @ unlinked) / (len(above) * unlinked.sum()))


def test_metrics_of_pairs(monkeypatch) -> None:
    films = planted()
    links = films.links[PAIR]
    further = np.triu(np.random.default_rng(2).random((50, 50)) < 0.1, 1) * 1.0
    graph = MultiViewGraph(
        {"user": 50, "artist": 40},
        {("user", "artist"): links.matrix(), ("user", "user"): np.nonzero(further)},
    )
    part = np.random.default_rng(0).integers(3, size=len(links))
    parts = LinkSplit(*(links.select(part == k) for k in range(3)))
    monkeypatch.setattr(recommender, "load_lastfm_split", lambda folder: parts)
    text = RECIPE.replace("entities = 0.3", LASTFM).replace("EASE.warm", "EASE.pairs")
    made = experiment(text.replace("ndcg", "ap"), graph=graph)
    assert [job.row for job in made.jobs()[:2]] == ["popularity", "EASE"]
    split = made.split("pairs", 0, "validation")
    assert (split.truth.cols == parts.validation.cols).all()
    found = made.score(made.recipe.entry("popularity"), {}, 0, "test")
    rows, cols = made.split("pairs", 0, "test").negatives
    left, right = parts.train.degrees()
    positive = (left[parts.test.rows] * right[parts.test.cols])[:, None]
    negative = left[rows] * right[cols]
    expected = np.mean((positive > negative) + np.isclose(positive, negative) / 2)
    assert np.isclose(found.metrics["auc"], expected, atol=1e-3)  # float32 has near ties
    assert 0.5 < found.metrics["ap"] < 1
    # Links of other view pairs are all in training; results of others stand beside them.
    assert made.split("pairs", 0, "test").train.links["user", "user"].total == further.sum()
    results = {job: made.run(job) for job in made.jobs()}
    summary = made.summarize(results)
    assert summary.tables[0].rows[-1] == ["GAT (as published)", "96.1", "96.2", ""]
    (goal,) = [goal for goal in summary.goals if "above that of EASE" in goal.what][:1]
    mean = {
        label: np.mean([r["scores"]["auc"] for job, r in results.items() if job.row == label])
        for label in ("popularity", "EASE")
    }
    assert goal.found == f"{100 * (mean['popularity'] - mean['EASE']):+.2f}"
    assert goal.met == (mean["popularity"] > mean["EASE"])


# -- settings --------------------------------------------------------------------------------------


def test_settings_are_chosen_once_on_splits_that_are_not_reported(monkeypatch, tmp_path) -> None:
    made = experiment(workspace=tmp_path)
    used = []

    def split(problem, number, part):
        used.append((number, part))
        return Recommendation.split(made, problem, number, part)

    monkeypatch.setattr(made, "split", split)
    entry = made.recipe.entry("EASE: warm")
    settings, tried = made.choose(entry, 0)
    assert {number for number, _ in used} == {100, 101}
    assert len(tried) == 3
    used.clear()
    assert made.choose(entry, 1) == (settings, tried)  # from the workspace
    assert not used
    made.score(entry, settings, 1, "test")
    assert used == [(1, "test")]


def test_a_tuning_score_is_the_mean_over_splits() -> None:
    made = experiment()
    entry = made.recipe.entry("EASE: users")
    settings = {"penalty": 5}
    both = made.score(entry, settings, 0, "validation").metrics
    assert set(both) == {"ndcg_1", "ndcg_3", "ndcg_10"}  # a refit is on reported splits only
    parts = [made.score(entry, settings, number, "test").metrics for number in (100, 101)]
    assert "ndcg_refit" in parts[0]
    assert np.isclose(both["ndcg_3"], np.mean([part["ndcg_3"] for part in parts]))


def test_tuned_settings_are_used_for_all_repetitions() -> None:
    made = experiment()
    tuned = {"EASE: warm": [{"penalty": 20}], "EASE: users": [{"penalty": 5}]}
    made.recipe = replace(made.recipe, tuned=tuned)
    entry = made.recipe.entry("EASE: warm")
    assert made.choose(entry, 1) == ({"penalty": 20}, [])
    jobs = [Job("EASE: warm", column) for column in "01"]
    assert len({made.fingerprint(job) for job in jobs}) == 1
    before = made.fingerprint(jobs[1])
    made.recipe = replace(made.recipe, tuned={"EASE: warm": [{"penalty": 5}]})
    assert made.fingerprint(jobs[1]) != before


# -- results ---------------------------------------------------------------------------------------


def test_a_run_writes_tables_settings_and_goals(tmp_path) -> None:
    made = experiment(workspace=tmp_path / "studies")
    rows = ["popularity: warm", "popularity: users", "EASE: warm", "EASE: users"]
    assert [entry.label for entry in made.recipe.methods] == rows  # neither places unseen films
    run(made, tmp_path)
    assert missing_jobs(made, tmp_path) == []
    results = read_results(made, tmp_path)
    table, differences = made.summarize(results).tables
    cells = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert cells["EASE"]["unseen films, AUC"] == cells["EASE"]["unseen users, AUC"] == ""
    assert float(cells["EASE"]["warm, nDCG@10"].split()[0]) > 0
    assert cells["popularity"]["1 link"] == cells["popularity"]["10 links"]
    assert "over 2 splits" in table.caption
    part = {job: result for job, result in results.items() if job.row != "EASE: users"}
    assert "over 0 to 2 splits" in made.summarize(part).tables[0].caption
    assert [row[0] for row in differences.rows] == ["popularity"]
    goals = {goal.what: goal for goal in made.summarize(results).goals}
    assert goals["EASE: warm, AUC"].met
    assert not goals["EASE: warm, nDCG@10"].met
    column = goals["EASE: nDCG@10, 10 links, against the best (popularity)"]
    assert column.found == differences.rows[0][-1]
    assert "EASE: nDCG@10, no links, against the best (popularity)" not in goals
    tuned = made.chosen_settings(results)
    assert {label: len(found) for label, found in tuned.items()} == {
        "EASE: warm": 1,
        "EASE: users": 1,
    }
    write_results(made, tmp_path)
    assert (tmp_path / "tuned.json").is_file()


def test_a_method_with_features_and_fold_in_has_all_columns() -> None:
    made = experiment(RECIPE.replace('ours = "EASE"', 'ours = "ours"') + FEATURES)
    results = {}
    for problem in made.problems:
        job = Job(f"ours: {problem}", "0")
        results[job] = made.run(job)
    (table,) = made.summarize(results).tables
    assert all(cell for cell in table.rows[-1])
    goals = [goal.what for goal in made.summarize(results).goals]
    assert goals == [
        "ours: nDCG@10 after 0, 1, 3, 10 links",
        "ours: nDCG@10 after 10 links, share of a refit's",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('data = "netflix"\n', "unknown data 'netflix'"),
        ("goals = { EASE = { cold = { auc = 1 } } }\n", "goals: EASE: unknown problem 'cold'"),
        ("goals = { EASE = { films = { ap = 1 } } }\n", "goals: EASE: films: unknown metric"),
    ],
)
def test_errors_in_the_options_are_located(text, message) -> None:
    head = RECIPE.partition("[options]")[0]
    with pytest.raises(ParameterError, match=message):
        experiment(f"{head}[options]\n{text}")


def test_settings_of_training_are_searched_together():
    training = {"batch_size": 7, "effects_prior": "none"}
    method = make_recommender("PMvGE", {"max_steps": 3, "batch_size": 5, "training": training})
    expected = {"effects": "auto", "max_steps": 3, "batch_size": 7, "effects_prior": None}
    assert method.settings == expected
