"""Numbers that pages repeat are those of the results page and of the stored benchmark results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS, RESULTS = ROOT / "docs", ROOT / "benchmarks" / "results"
NUMBER = re.compile(r"(?<![\w.])[-+]?\d*\.\d+")


def rows_of(page: Path, heading: str) -> dict[str, list[str]]:
    """Return the numbers of table rows of a section by their first cell, without deviations."""
    text = page.read_text()
    section = re.split(r"\n#+ ", text[text.index(heading) :], maxsplit=1)[0]
    rows = {}
    for line in section.splitlines():
        first, _, rest = line.strip("| ").partition("|")
        if line.startswith("|") and rest:
            numbers = NUMBER.findall(re.sub(r" ± [\d.]+", "", rest))
            rows.setdefault(re.sub(r"\*", "", first).strip(), numbers)
    return rows


MOVIELENS = {
    "popularity list": "popularity",
    "pmvge, features only (the paper's model)": "PMvGE (features only)",
    "pmvge, effects only": "PMvGE (effects only)",
    "pmvge, features and effects": "PMvGE (both)",
    "pmvge, defaults, without tuning": "PMvGE (defaults)",
    "LightFM": "LightFM",
    "implicit ALS": "ALS",
    "EASE": "EASE",
}


def is_part(part: list[str], whole: list[str]) -> bool:
    """Return whether numbers occur among others, in the same order."""
    rest = iter(whole)
    return bool(part) and all(number in rest for number in part)


@pytest.mark.parametrize(("row", "method"), MOVIELENS.items())
def test_movielens_in_the_readme(row, method):
    found = rows_of(ROOT / "README.md", "**Known and new entities.**")[row]
    assert is_part(found, rows_of(DOCS / "results.md", "## movielens")[method])


@pytest.mark.parametrize(
    ("row", "method"),
    [("features and effects", "PMvGE (both)"), ("effects only", "PMvGE (effects only)")],
)
def test_first_links_in_the_guide(row, method):
    found = rows_of(DOCS / "guides" / "cold-start.md", "How much do first links help?")[row]
    percent = [f"{100 * float(number):.1f}" for number in found]
    assert is_part(percent, rows_of(DOCS / "results.md", "## movielens")[method])


def test_recommenders_with_defaults():
    found = rows_of(DOCS / "performance.md", "Recommenders with the defaults")
    for recipe in ("movielens", "lastfm"):
        scores = rows_of(DOCS / "results.md", f"## {recipe}:")["PMvGE (defaults)"]
        rows = [numbers for name, numbers in found.items() if name.lower().startswith(recipe)]
        assert rows
        for score, _ in rows:
            assert score in scores


@pytest.mark.parametrize("problem", ["strong", "weak"])
@pytest.mark.parametrize("truth", ["linear", "non-linear"])
def test_time_to_quality(problem, truth):
    stored = json.loads((RESULTS / "time_to_quality.json").read_text())["results"]
    row = stored[f"{problem}, {truth}"]["row"]
    auc = [row["auc"], row["lightfm_auc"], row["towers_auc"]]
    seconds = [row["seconds"], row["lightfm_seconds"], row["towers_seconds"]]
    pairs = list(zip(auc, seconds, strict=True))
    readme = rows_of(ROOT / "README.md", "## How good is it?")[f"{problem} signal, {truth}"]
    assert readme == [s for a, t in pairs for s in (f"{a:.3f}".lstrip("0"), f"{t:.1f}")]
    page = rows_of(DOCS / "performance.md", "## Time to quality")[f"{problem}, {truth}"]
    assert is_part([s for a, t in pairs for s in (f"{a:.4f}".lstrip("0"), f"{t:.1f}")], page)


def test_what_effects_cost():
    times = json.loads((RESULTS / "scale.json").read_text())["results"]["effects"]
    page = (DOCS / "performance.md").read_text()
    section = page[page.index("## What effects cost") :].replace("\n", " ")
    bias, vector, size = re.findall(r"(\d\.\d\d) times", section)[:3]
    plain = times["10^4, none"]
    assert bias == f"{times['10^4, bias'] / plain:.2f}"
    assert vector == f"{times['10^4, vector'] / plain:.2f}"
    assert size == f"{times['10^7'] / times['10^5']:.2f}"
    losses = json.loads((RESULTS / "effects.json").read_text())
    for problem, row in losses.items():
        found = rows_of(DOCS / "performance.md", "## What effects cost")[problem]
        assert found[:2] == [f"{row[kind]:.4f}".lstrip("0") for kind in ("none", "vector")]


def test_families_with_the_exact_objective():
    stored = json.loads((RESULTS / "exact_objective.json").read_text())
    found = rows_of(DOCS / "adr" / "0021-a-logistic-family.md", "## Context")
    for family in ("poisson", "bernoulli", "logistic"):
        exact = [v for key, v in stored["exact"].items() if key.startswith(family)]
        values = [*exact, stored["batches of 512"][f"{family}, 0.3"]]
        assert found[family] == [f"{value:.1f}" for value in values]
