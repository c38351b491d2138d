"""Notes on unusual weights: the remedy that they name removes them."""

import re
import tomllib
import warnings

import numpy as np
import pytest

from pmvge.tables import Project, WeightWarning, project_text, read_graph, read_project, read_tables
from pmvge.tables import weight_notes as notes_of

PROJECT = """
[views.user]
[views.artist]
[views.tag]
[[links]]
views = ["user", "artist"]
source = "plays.csv"
columns = ["user", "artist"]
weight = "plays"
[[links]]
views = ["artist", "tag"]
source = "tags.csv"
columns = ["artist", "tag"]
"""


@pytest.fixture
def project(tmp_path) -> Project:
    rng = np.random.default_rng(0)
    pairs = rng.permutation(40 * 30)[:400]
    plays = rng.lognormal(5, 2, size=400).round(1)
    rows = [f"u{p // 30},a{p % 30},{w}" for p, w in zip(pairs, plays, strict=True)]
    (tmp_path / "plays.csv").write_text("\n".join(["user,artist,plays", *rows]))
    tags = [f"a{n},t{n % 4}" for n in range(30)]
    (tmp_path / "tags.csv").write_text("\n".join(["artist,tag", *tags]))
    (tmp_path / "pmvge.toml").write_text(PROJECT)
    return read_project(tmp_path / "pmvge.toml")


def test_heavy_weights_and_a_dominant_pair_are_noted(project):
    tables = read_tables(project)
    heavy, dominant = notes_of(project, tables.graph)
    w = np.sort(tables.graph.links["user", "artist"].weights)
    assert heavy.startswith(f"links user,artist: weights are up to {w[-1]:,.6g}, with a median of ")
    assert f"1% of the links have {w[-4:].sum() / w.sum():.0%} of the weight" in heavy
    share = 30 / (30 + w.sum())
    assert dominant.startswith(
        f"links user,artist have {1 - share:.2%} of all weight (others: artist"
    )
    assert 'pair_weights = "balanced" in [model]' in dominant
    assert notes_of(project, tables.graph, balanced=True) == [heavy]


def test_the_remedies_in_the_notes_work(project):
    heavy, dominant = notes_of(project, read_tables(project).graph)
    path = project.folder / "pmvge.toml"
    (line,) = re.findall(r"weight = \{.*?\}", heavy)
    text = PROJECT.replace('weight = "plays"', line)
    (setting,) = re.findall(r'pair_weights = "\w+"', dominant)
    path.write_text(f"{text}[model]\n{setting}\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_graph(path)
    assert tomllib.loads(path.read_text())["model"] == {"pair_weights": "balanced"}
    assert "log1p" in project_text(read_project(path))


def test_reading_a_graph_warns(project):
    with pytest.warns(WeightWarning) as caught:
        read_graph(project.folder / "pmvge.toml")
    first, second = (str(warning.message) for warning in caught)
    assert first.startswith("links user,artist: weights are up to")
    assert second.startswith("links user,artist have")
