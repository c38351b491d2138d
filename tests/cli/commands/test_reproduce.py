"""``pmvge reproduce``: experiments are listed, run and resumed; output as text, files and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pmvge.cli.app import app
from pmvge.errors import InputError, ParameterError
from pmvge.experiments import recipe as recipes
from pmvge.experiments.paper.citation import Citation

RECIPE = """
title = "Small"
experiment = "citation"
summary = "Two methods on a few papers."
repetitions = 2
notes = ["Chosen by hand."]
[options]
setting = "B"
[options.goals.LPP]
accuracy = 1
[[methods]]
label = "raw words"
method = "features"
[[methods]]
label = "LPP"
method = "LPP"
settings = { n_components = 2 }
paper = { accuracy = [54.8, 2.43] }
"""


LACKING = """
title = "Lacking"
experiment = "attributes"
summary = "Images that are not there."
[options]
settings = ["A"]
[[methods]]
label = "SGE"
method = "SGE"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data in Cora's layout and two recipes, one without its data."""
    data = tmp_path / "data" / "cora"
    data.mkdir(parents=True)
    words = "\n".join(
        "\t".join([str(i), *("1" if (i + k) % 3 == 0 or k == i % 5 else "0" for k in range(8))])
        + f"\tfield {i % 3}"
        for i in range(40)
    )
    (data / "cora.content").write_text(words + "\n")
    (data / "cora.cites").write_text("".join(f"{i}\t{(i + 3) % 40}\n" for i in range(40)))
    home = tmp_path / "recipes"
    home.mkdir()
    (home / "small.toml").write_text(RECIPE)
    (home / "lacking.toml").write_text(LACKING)
    monkeypatch.setattr(recipes, "HOME", home)
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    words = ["reproduce", *arguments]
    if arguments:
        words += ["-o", str(folder / "results"), "--data", str(folder / "data")]
    result = CliRunner().invoke(app, words, env={"COLUMNS": "120"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_experiments_are_listed(folder):
    assert "small" in run(folder)


def test_a_run_prints_our_numbers_beside_the_papers_and_writes_pages(folder):
    printed = run(folder, "small")
    assert "54.8 ± 2.43" in printed
    assert "goal met: LPP, task 1, accuracy: wanted >= 1" in printed
    results = folder / "results" / "small"
    content = json.loads((results / "results.json").read_text())
    assert len(content["jobs"]) == 4
    table = (results / "table.md").read_text()
    assert "| LPP |" in table
    assert "- Chosen by hand." in table
    assert "54.8 ± 2.43" in (results / "index.html").read_text()
    before = {path: path.stat().st_mtime_ns for path in results.glob("jobs/*")}
    (tables,) = json.loads(run(folder, "small", "--json"))
    assert {path: path.stat().st_mtime_ns for path in results.glob("jobs/*")} == before
    assert tables["tables"][0]["columns"][0] == "method"
    assert tables["goals"][0]["met"] is True


def test_rows_and_repetitions_may_be_chosen(folder):
    run(folder, "small", "--methods", "LPP", "--repetitions", "1")
    results = folder / "results" / "small"
    assert [path.name for path in results.glob("jobs/*")] == ["LPP-0.json"]
    with pytest.raises(ParameterError, match=r"unknown method 'LLP'.*did you mean 'LPP'"):
        run(folder, "small", "--methods", "LLP")


def test_methods_without_their_environment_are_left_out(folder, monkeypatch):
    monkeypatch.setattr(Citation, "unavailable", lambda self: {"LPP": "it needs a thing"})
    printed = run(folder, "small", "--repetitions", "1")
    assert "small: LPP is left out: it needs a thing" in printed
    jobs = folder / "results" / "small" / "jobs"
    assert [path.name for path in jobs.iterdir()] == ["raw-words-0.json"]
    assert "is left out" not in run(folder, "small", "--repetitions", "1", "--methods", "LPP")
    assert len(list(jobs.iterdir())) == 2


def test_all_writes_one_page_and_leaves_out_experiments_without_data(folder):
    printed = run(folder, "all")
    assert "lacking is left out" in printed
    page = (folder / "results" / "index.html").read_text()
    assert "Small" in page
    assert "Two methods on a few papers." in page
    assert "Images that are not there." not in page
    for file in (folder / "data" / "cora").iterdir():
        file.unlink()
    with pytest.raises(InputError, match="cora"):
        run(folder, "small")


def test_a_failing_experiment_does_not_stop_the_others(folder, monkeypatch):
    (folder / "recipes" / "broken.toml").write_text(RECIPE.replace("Small", "Broken"))
    usual = Citation.run

    def run_job(self, job):
        if self.recipe.title == "Broken":
            raise ZeroDivisionError("by nothing")
        return usual(self, job)

    monkeypatch.setattr(Citation, "run", run_job)
    words = ["reproduce", "all", "-o", str(folder / "results"), "--data", str(folder / "data")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert "broken failed: ZeroDivisionError('by nothing')" in result.output
    assert "Small" in (folder / "results" / "index.html").read_text()


def test_an_unknown_experiment_lists_the_known_ones(folder):
    with pytest.raises(ParameterError, match=r"unknown experiment 'smal'.*did you mean 'small'"):
        run(folder, "smal")
