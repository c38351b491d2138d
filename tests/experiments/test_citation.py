"""The citation experiment: which data settings and fits use, and what a run writes to disk."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from pmvge.datasets import Cora
from pmvge.errors import DivergedError, InputError
from pmvge.experiments import (
    METHODS,
    SIMULATED,
    ExperimentReport,
    Job,
    missing_jobs,
    run,
    to_markdown,
    write_experiment_reports,
    write_results,
)
from pmvge.experiments.comparison import spread
from pmvge.experiments.paper import citation
from pmvge.experiments.paper.citation import VIEW, Citation, scaled
from pmvge.experiments.recipe import parse
from pmvge.experiments.runs import _thread_limits, read_results
from pmvge.graph import MultiViewGraph, multi_step_weights

CLASSES = ("a", "b", "c")
RECIPE = """
title = "small"
experiment = "citation"
summary = "s."
repetitions = 2
trials = 3
[options]
setting = "{setting}"
[options.goals.LPP]
accuracy = 50
nmi = 101
[[methods]]
label = "raw words"
method = "features"
[[methods]]
label = "LPP"
method = "LPP"
search = {{ n_components = [2, 4, 8], shrinkage = [0.1, 0.9] }}
paper = {{ accuracy = [12.5, 0.5] }}
"""


def planted(seed: int = 0, n: int = 150) -> Cora:
    """Three classes, each with its own words and links."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    words = (rng.random((n, 30)) < np.where(np.arange(30) % 3 == labels[:, None], 0.4, 0.1)) * 1.0
    close = np.where(labels[:, None] == labels, 0.08, 0.01)
    graph = MultiViewGraph(
        {VIEW: words}, {(VIEW, VIEW): np.triu(rng.random((n, n)) < close, 1) * 1.0}
    )
    return Cora(graph, labels, CLASSES)


def experiment(cora: Cora, setting: str, workspace: Path | None = None) -> Citation:
    made = Citation(parse("small", RECIPE.format(setting=setting)), None, workspace)
    made.cora = cora
    return made


def poisoned(cora: Cora, rows: np.ndarray, *, links: bool) -> Cora:
    """Return the papers with wrong labels for some and, with ``links``, other links for them."""
    labels = cora.labels.copy()
    labels[rows] = 2
    if not links:
        return Cora(cora.graph, labels, CLASSES)
    W = cora.graph.links[VIEW, VIEW].matrix().toarray()
    rng = np.random.default_rng(1)
    W[rows] = rng.random((len(rows), len(W))) < 0.5
    W[:, rows] = W[rows].T
    np.fill_diagonal(W, 0)
    W[np.ix_(rows, rows)] = 0
    return Cora(MultiViewGraph({VIEW: cora.graph.views[VIEW]}, {(VIEW, VIEW): W}), labels, CLASSES)


@pytest.mark.parametrize(("setting", "links"), [("A", False), ("B", False), ("B", True)])
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("LPP", {"shrinkage": 0.1}),
        ("PMvGE", {"link_steps": 2, "unit": True, "max_steps": 5, "patience": None}),
    ],
)
def test_hidden_data_change_neither_settings_nor_vectors(setting, links, method, settings):
    """Poison test labels and, in (B), links of test papers."""
    clean = experiment(planted(), setting)
    test = clean.split(0, "test").evaluate
    poison = experiment(poisoned(planted(), test, links=links), setting)
    entry = replace(clean.recipe.entry("LPP"), method=method)
    if method != "LPP":
        entry = replace(entry, settings=settings, search={"n_components": [2, 4, 8]})
    assert clean.tune(entry, 0) == poison.tune(entry, 0)
    settings = {"n_components": 4} | settings
    for part in ("validation", "test"):
        split = clean.split(0, part)
        for ours, theirs in zip(
            clean.vectors(entry, dict(settings), split, 0)[:2],
            poison.vectors(entry, dict(settings), split, 0)[:2],
            strict=True,
        ):
            np.testing.assert_array_equal(ours, theirs)
    ours, theirs = (made.score(entry, settings, 0, "validation") for made in (clean, poison))
    assert ours.metrics == theirs.metrics
    # The test part itself is poisoned, so its scores differ.
    ours, theirs = (made.score(entry, settings, 0, "test") for made in (clean, poison))
    assert ours.metrics != theirs.metrics


def test_in_setting_a_fits_use_links_of_test_papers():
    clean = experiment(planted(), "A")
    split = clean.split(0, "test")
    other = experiment(poisoned(planted(), split.evaluate, links=True), "A")
    settings = {"n_components": 4}
    ours, theirs = (
        made.vectors(clean.recipe.entry("LPP"), dict(settings), split, 0)[0]
        for made in (clean, other)
    )
    assert not np.allclose(ours, theirs)


def test_parts_have_the_sizes_of_the_paper():
    made = experiment(planted(n=2708), "A")
    test, validation = made.split(0, "test"), made.split(0, "validation")
    assert (len(test.train), len(test.evaluate)) == (2166, 542)
    assert len(validation.evaluate) == 433
    assert set(validation.train) | set(validation.evaluate) == set(test.train)
    assert not set(test.train) & set(test.evaluate)
    assert not np.array_equal(test.evaluate, made.split(1, "test").evaluate)


def test_a_search_keeps_to_its_number_of_trials_and_resumes(tmp_path):
    made = experiment(planted(), "B", tmp_path)
    entry = made.recipe.entry("LPP")
    chosen, tried = made.tune(entry, 0)
    assert len(tried) == 3
    assert tried[0][0] == {
        "n_components": 2,
        "shrinkage": 0.1,
    }  # the first values of the lists come first
    assert chosen == max(tried, key=lambda pair: pair[1])[0]
    for settings, value in tried:
        scores = made.score(entry, settings, 0, "validation").metrics
        assert value == pytest.approx(np.mean([scores["accuracy"], scores["nmi"]]))
    more = Citation(replace(made.recipe, trials=5), None, tmp_path)
    more.cora = made.cora
    assert more.tune(entry, 0)[1][:3] == tried  # the study was resumed
    assert len(more.tune(entry, 0)[1]) == 5
    every = Citation(replace(made.recipe, trials=99), None, tmp_path)
    every.cora = made.cora
    tried = [settings for settings, _ in every.tune(entry, 0)[1]]
    combinations = itertools.product(*entry.search.values())
    assert sorted(tuple(settings.values()) for settings in tried) == sorted(combinations)
    known = Citation(replace(made.recipe, tuned={"LPP": [{"n_components": 8}]}), None, None)
    assert known.choose(entry, 0) == ({"n_components": 8}, [])


def test_divergence_is_reported_and_other_jobs_continue(tmp_path):
    class Unstable(Citation):
        def score(self, entry, settings, repetition, part):
            if entry.label == "raw words" and repetition == 0:
                raise DivergedError("at step 3")
            if settings.get("n_components") == 2:
                raise DivergedError("at step 4")
            return super().score(entry, settings, repetition, part)

    made = Unstable(parse("small", RECIPE.format(setting="B")), None, None)
    made.cora = planted()
    chosen, tried = made.tune(made.recipe.entry("LPP"), 0)
    assert 0 < len(tried) < 3  # the first settings diverged
    assert chosen["n_components"] != 2
    run(made, tmp_path)
    results = read_results(made, tmp_path)
    (table,) = made.summarize(results).tables
    assert table.rows[0][1].endswith("(1 diverged)")
    assert results[Job("raw words", "0")]["diverged"] == "at step 3"
    write_results(made, tmp_path)
    no_nan = {"parse_constant": lambda name: pytest.fail(f"{name} is not JSON")}
    json.loads((tmp_path / "results.json").read_text(), **no_nan)
    # The goal of a method with a diverged fit is shown as not met.
    goals = replace(made.recipe, options={"goals": {"raw words": {"accuracy": 0}}})
    (goal,) = Citation(goals, None, None).summarize(results).goals
    assert not goal.met
    assert "1 diverged" in goal.found
    assert spread([float("nan")] * 2) == "2 diverged"
    assert spread([1.0, float("nan"), 3.0]) == "2.0 ± 1.4 (1 diverged)"


def test_a_run_resumes_and_ignores_damaged_or_other_results(tmp_path):
    made = experiment(planted(), "B")
    done: list[Job] = []

    def stop_after_two(job: Job, seconds: float) -> None:
        done.append(job)
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path, on_job_done=stop_after_two)
    assert len(missing_jobs(made, tmp_path)) == 2
    run(made, tmp_path, on_job_done=lambda job, seconds: done.append(job))
    assert done == made.jobs()
    assert missing_jobs(made, tmp_path) == []
    uninterrupted = tmp_path / "uninterrupted"
    run(made, uninterrupted)
    results, again = read_results(made, tmp_path), read_results(made, uninterrupted)
    for job in made.jobs():
        assert results[job]["scores"] == again[job]["scores"]
    # Results of another recipe are not used, but removing a method changes nothing.
    other = experiment(planted(), "A")
    assert len(missing_jobs(other, tmp_path)) == 4
    fewer = Citation(replace(made.recipe, methods=made.recipe.methods[1:]), None, None)
    fewer.cora = made.cora
    assert missing_jobs(fewer, tmp_path) == []
    job = next(tmp_path.glob("jobs/LPP*"))
    content = json.loads(job.read_text())
    deep = "[" * 100_000
    changes = [{"result": {}}, {"result": None}, {"result": 3}, {"seconds": "?"}, {"seconds": -1}]
    for damaged in ("{", "[]", deep, *(json.dumps(content | change) for change in changes)):
        job.write_text(damaged)
        assert len(missing_jobs(made, tmp_path)) == 1
    # Results of other data are not used.
    shuffled = planted()
    views = {VIEW: shuffled.graph.views[VIEW][::-1].copy()}
    graph = MultiViewGraph(views, {(VIEW, VIEW): shuffled.graph.links[VIEW, VIEW].matrix()})
    assert len(missing_jobs(experiment(replace(shuffled, graph=graph), "B"), tmp_path)) == 4


def test_tables_and_pages_show_the_results(tmp_path):
    made = experiment(planted(), "B")
    run(made, tmp_path)
    write_results(made, tmp_path)
    content = json.loads((tmp_path / "results.json").read_text())
    assert len(content["jobs"]) == 4
    assert all(job["made_with"]["versions"]["pmvge"] for job in content["jobs"])
    results = read_results(made, tmp_path)
    tuned = json.loads((tmp_path / "tuned.json").read_text())["settings"]
    assert tuned == {"LPP": [results[Job("LPP", r)]["settings"] for r in "01"]}
    fixed = Citation(replace(made.recipe, tuned=tuned), None, None)
    fixed.cora = made.cora
    assert fixed.run(Job("LPP", "1"))["scores"] == results[Job("LPP", "1")]["scores"]
    summary = made.summarize(results)
    (table,) = summary.tables
    assert [row[0] for row in table.rows] == ["raw words", "LPP"]
    values = [100 * results[Job("LPP", r)]["scores"]["accuracy"] for r in "01"]
    assert table.rows[1][1] == f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"
    assert table.rows[1][2] == "12.5 ± 0.50"  # the paper's
    assert [goal.met for goal in summary.goals] == [np.mean(values) >= 50, False]
    assert made.summarize({}).goals == []  # no goals before the first job
    report = ExperimentReport(made.recipe, summary, 4, 4, "by hand")
    text = to_markdown(report)
    assert f"| LPP | {table.rows[1][1]} | 12.5 ± 0.50 |" in text
    write_experiment_reports(tmp_path, [report], "<title>")
    page = (tmp_path / "index.html").read_text()
    assert "&lt;title&gt;" in page
    assert table.rows[1][1] in page
    simulated = ExperimentReport(replace(made.recipe, simulated=True), summary, 3, 4, "by hand")
    assert SIMULATED in to_markdown(simulated)
    assert "3 of 4 jobs done" in to_markdown(simulated)
    shown = Citation(replace(made.recipe, simulated=True), None, None).summarize(results).tables[0]
    assert (
        "paper" not in shown.columns
    )  # results of simulated data are not shown beside the paper's


def test_jobs_in_processes_give_the_same_results(tmp_path):
    folder = tmp_path / "data" / "cora"
    folder.mkdir(parents=True)
    cora = planted(n=60)
    words = cora.graph.views[VIEW].astype(int)
    lines = [
        "\t".join([str(i), *map(str, row), CLASSES[label]])
        for i, (row, label) in enumerate(zip(words, cora.labels, strict=True))
    ]
    (folder / "cora.content").write_text("\n".join(lines) + "\n")
    links = cora.graph.links[VIEW, VIEW]
    pairs = zip(links.rows, links.cols, strict=True)
    (folder / "cora.cites").write_text("".join(f"{i}\t{j}\n" for i, j in pairs))
    recipe = parse("small", RECIPE.format(setting="B").replace("trials = 3", "trials = 1"))
    made = Citation(recipe, tmp_path / "data", None)
    made.check()
    run(made, tmp_path / "one")
    run(made, tmp_path / "two", processes=2)
    one, two = (read_results(made, tmp_path / name) for name in ("one", "two"))
    assert {job: r["scores"] for job, r in one.items()} == {
        job: r["scores"] for job, r in two.items()
    }
    with pytest.raises(InputError, match="cora"):
        Citation(recipe, tmp_path / "nowhere", None).check()


def test_processes_share_the_cores(monkeypatch):
    """Threads are limited in child processes; the caller's environment is restored."""
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    show = [sys.executable, "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"]
    with _thread_limits(3):
        assert os.environ["MKL_NUM_THREADS"] == "3"
        assert subprocess.run(show, capture_output=True, check=True).stdout.strip() == b"3"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_both_parts_are_scaled_alike():
    rng = np.random.default_rng(0)
    train, evaluate = 7 * rng.normal(size=(50, 4)), 7 * rng.normal(size=(20, 4))
    scaled_train, scaled_evaluate = scaled(train, evaluate, unit=False)
    assert np.mean(scaled_train**2) == pytest.approx(1)
    factor = scaled_evaluate[0, 0] / evaluate[0, 0]
    np.testing.assert_allclose(scaled_train / train, factor)
    assert np.linalg.norm(scaled(train, evaluate, unit=True)[1], axis=1) == pytest.approx(1)


def test_multi_step_weights_are_sums_of_powers():
    rng = np.random.default_rng(0)
    W = np.triu(rng.random((8, 8)) < 0.5, 1) * rng.uniform(1, 2, (8, 8))
    W = W + W.T
    W[7] = W[:, 7] = 0  # no links
    S = multi_step_weights(sparse.csr_array(W), 3).toarray()
    P = np.divide(
        W, W.sum(1, keepdims=True), out=np.zeros_like(W), where=W.sum(1, keepdims=True) > 0
    )
    R = P + P @ P + P @ P @ P
    want = (R + R.T) / 2
    np.fill_diagonal(want, 0)
    np.testing.assert_allclose(S, want, atol=1e-12)
    least = multi_step_weights(sparse.csr_array(W), 3, least=0.1).toarray()
    np.testing.assert_allclose(least, np.where(want >= 0.1, want, 0), atol=1e-12)
    assert citation._add_multi_step_links(planted().graph, None).n_links == planted().graph.n_links
    assert citation._add_multi_step_links(planted().graph, 3).n_links > planted().graph.n_links


@pytest.mark.parametrize(("setting", "fits", "different"), [("A", 2, 2), ("B", 4, 3)])
def test_in_setting_a_two_fits_are_shared_by_all_splits(
    tmp_path, monkeypatch, setting, fits, different
):
    """The validation part uses the first of them; ``unit`` needs no other fit."""
    seeds = []

    class Spy(METHODS["LPP"]):
        shrinkage, center = 0.1, True

        def __init__(self, n_components=2, random_state=None):
            self.n_components, self.random_state = n_components, random_state

        def _fit(self, graph, seed):
            seeds.append(self.random_state)
            return super()._fit(graph, seed)

    monkeypatch.setitem(METHODS, "LPP", Spy)
    made = experiment(planted(), setting, tmp_path)
    entry = made.recipe.entry("LPP")
    settings = {"n_components": 2}
    for part, repetition in (("validation", 1), ("test", 0), ("test", 1), ("test", 2)):
        plain, unit = (
            made.score(entry, settings | {"unit": u}, repetition, part) for u in (False, True)
        )
        assert plain.seconds == unit.seconds > 0
    assert len(seeds) == fits
    assert len(set(seeds)) == different
    # The numbers are the same without the cache.
    alone = experiment(planted(), setting).score(entry, settings | {"unit": True}, 2, "test")
    assert alone.metrics == unit.metrics
