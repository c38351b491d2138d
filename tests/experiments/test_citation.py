"""The citation experiment: what settings and fits may see, and what a run leaves on disk."""

from __future__ import annotations

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
from pmvge.experiments import Job, citation, missing_jobs, report, run, write_results
from pmvge.experiments.citation import VIEW, Citation, scaled
from pmvge.experiments.comparison import spread
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
    """The same papers, with wrong labels of some and, with ``links``, other links of those."""
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
def test_what_may_not_be_seen_is_not_seen(setting, links, method, settings):
    """Poisoned test labels, and in (B) links of test papers: settings and vectors stay the same."""
    clean = experiment(planted(), setting)
    test = clean.split(0, "test").judge
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
    # What is judged in the end is poisoned: the test could not fail otherwise.
    ours, theirs = (made.score(entry, settings, 0, "test") for made in (clean, poison))
    assert ours.metrics != theirs.metrics


def test_in_a_links_of_test_papers_are_seen():
    clean = experiment(planted(), "A")
    split = clean.split(0, "test")
    other = experiment(poisoned(planted(), split.judge, links=True), "A")
    settings = {"n_components": 4}
    ours, theirs = (
        one.vectors(clean.recipe.entry("LPP"), dict(settings), split, 0)[0]
        for one in (clean, other)
    )
    assert not np.allclose(ours, theirs)


def test_parts_are_as_large_as_the_paper_says():
    made = experiment(planted(n=2708), "A")
    test, validation = made.split(0, "test"), made.split(0, "validation")
    assert (len(test.learn), len(test.judge)) == (2166, 542)
    assert len(validation.judge) == 433
    assert set(validation.learn) | set(validation.judge) == set(test.learn)
    assert not set(test.learn) & set(test.judge)
    assert not np.array_equal(test.judge, made.split(1, "test").judge)


def test_the_search_keeps_to_its_budget_and_goes_on(tmp_path):
    made = experiment(planted(), "B", tmp_path)
    entry = made.recipe.entry("LPP")
    chosen, tried = made.tune(entry, 0)
    assert len(tried) == 3
    assert tried[0][0] == {"n_components": 2, "shrinkage": 0.1}  # the recipe's own come first
    assert chosen == max(tried, key=lambda pair: pair[1])[0]
    for settings, value in tried:
        scores = made.score(entry, settings, 0, "validation").metrics
        assert value == pytest.approx(np.mean([scores["accuracy"], scores["nmi"]]))
    more = Citation(replace(made.recipe, trials=5), None, tmp_path)
    more.cora = made.cora
    assert more.tune(entry, 0)[1][:3] == tried  # the study was kept
    assert len(more.tune(entry, 0)[1]) == 5
    known = Citation(replace(made.recipe, tuned={"LPP": [{"n_components": 8}]}), None, None)
    assert known.choose(entry, 0) == ({"n_components": 8}, [])


def test_what_diverges_is_said_and_the_others_go_on(tmp_path):
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
    assert 0 < len(tried) < 3  # the recipe's own settings diverged
    assert chosen["n_components"] != 2
    run(made, tmp_path)
    results = read_results(made, tmp_path)
    (table,) = made.summarize(results).tables
    assert table.rows[0][1].endswith("(1 diverged)")
    assert results[Job("raw words", "0")]["diverged"] == "at step 3"
    write_results(made, tmp_path)
    no_nan = {"parse_constant": lambda name: pytest.fail(f"{name} is not JSON")}
    json.loads((tmp_path / "results.json").read_text(), **no_nan)
    # A goal of a method that diverged somewhere is not met, and not forgotten.
    goals = replace(made.recipe, options={"goals": {"raw words": {"accuracy": 0}}})
    (goal,) = Citation(goals, None, None).summarize(results).goals
    assert not goal.met
    assert "1 diverged" in goal.found
    assert spread([float("nan")] * 2) == "2 diverged"
    assert spread([1.0, float("nan"), 3.0]) == "2.0 ± 1.4 (1 diverged)"


def test_a_run_goes_on_where_it_stopped_and_its_results_are_read(tmp_path, monkeypatch):
    made = experiment(planted(), "B")
    done: list[Job] = []

    def stop_after_two(job: Job, seconds: float) -> None:
        done.append(job)
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(made, tmp_path, told=stop_after_two)
    assert len(missing_jobs(made, tmp_path)) == 2
    run(made, tmp_path, told=lambda job, seconds: done.append(job))
    assert done == made.jobs()
    assert missing_jobs(made, tmp_path) == []
    whole = tmp_path / "whole"
    run(made, whole)
    results, again = read_results(made, tmp_path), read_results(made, whole)
    for job in made.jobs():
        assert results[job]["scores"] == again[job]["scores"]
    # Another recipe's results are not used, but a method left out changes nothing.
    other = experiment(planted(), "A")
    assert len(missing_jobs(other, tmp_path)) == 4
    fewer = Citation(replace(made.recipe, methods=made.recipe.methods[1:]), None, None)
    fewer.cora = made.cora
    assert missing_jobs(fewer, tmp_path) == []
    job = next(tmp_path.glob("jobs/LPP*"))
    whole = json.loads(job.read_text())
    deep = "[" * 100_000
    changes = [{"result": {}}, {"result": None}, {"result": 3}, {"seconds": "?"}, {"seconds": -1}]
    for damaged in ("{", "[]", deep, *(json.dumps(whole | change) for change in changes)):
        job.write_text(damaged)
        assert len(missing_jobs(made, tmp_path)) == 1
    # The same papers with other words are other data.
    shuffled = planted()
    views = {VIEW: shuffled.graph.views[VIEW][::-1].copy()}
    graph = MultiViewGraph(views, {(VIEW, VIEW): shuffled.graph.links[VIEW, VIEW].matrix()})
    assert len(missing_jobs(experiment(replace(shuffled, graph=graph), "B"), tmp_path)) == 4


def test_tables_and_pages_show_what_was_found(tmp_path):
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
    assert made.summarize({}).goals == []  # not met before anything was run
    finding = report.Finding(made.recipe, summary, 4, 4, "by hand")
    text = report.markdown(finding)
    assert f"| LPP | {table.rows[1][1]} | 12.5 ± 0.50 |" in text
    report.write_findings(tmp_path, [finding], "<title>")
    page = (tmp_path / "index.html").read_text()
    assert "&lt;title&gt;" in page
    assert table.rows[1][1] in page
    simulated = report.Finding(replace(made.recipe, simulated=True), summary, 3, 4, "by hand")
    assert report.SIMULATED in report.markdown(simulated)
    assert "3 of 4 jobs done" in report.markdown(simulated)
    shown = Citation(replace(made.recipe, simulated=True), None, None).summarize(results).tables[0]
    assert "paper" not in shown.columns  # made-up data never stand beside the paper's


def test_jobs_in_processes_give_the_same(tmp_path):
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
    """What a process of the pool is started with; the caller's own environment stays."""
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    show = [sys.executable, "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"]
    with _thread_limits(3):
        assert os.environ["MKL_NUM_THREADS"] == "3"
        assert subprocess.run(show, capture_output=True, check=True).stdout.strip() == b"3"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_vectors_are_scaled_alike():
    rng = np.random.default_rng(0)
    learn, judge = 7 * rng.normal(size=(50, 4)), 7 * rng.normal(size=(20, 4))
    one, other = scaled(learn, judge, unit=False)
    assert np.mean(one**2) == pytest.approx(1)
    np.testing.assert_allclose(one / learn, other[0, 0] / judge[0, 0])
    assert np.linalg.norm(scaled(learn, judge, unit=True)[1], axis=1) == pytest.approx(1)


def test_multi_step_weights_are_powers_of_the_walk():
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
    assert citation._stepped(planted().graph, None).n_links == planted().graph.n_links
    assert citation._stepped(planted().graph, 3).n_links > planted().graph.n_links


@pytest.mark.parametrize(("setting", "fits", "different"), [("A", 2, 2), ("B", 4, 3)])
def test_in_a_two_fits_of_the_same_settings_serve_all_splits(
    tmp_path, monkeypatch, setting, fits, different
):
    """The validation part has the first of them; ``unit`` needs no fit of its own."""
    seeds = []

    class Spy(citation.METHODS["LPP"]):
        shrinkage, center = 0.1, True

        def __init__(self, n_components=2, random_state=None):
            self.n_components, self.random_state = n_components, random_state

        def _fit(self, graph, seed):
            seeds.append(self.random_state)
            return super()._fit(graph, seed)

    monkeypatch.setitem(citation.METHODS, "LPP", Spy)
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
    # The same numbers as without anything kept.
    alone = experiment(planted(), setting).score(entry, settings | {"unit": True}, 2, "test")
    assert alone.metrics == unit.metrics
