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


def test_tags_of_lastfm_in_the_concepts():
    text = (DOCS / "concepts.md").read_text().partition("**A view, or features?**")[2]
    scores = rows_of(DOCS / "results.md", "## lastfm:")
    methods = ("PMvGE (tags as features)", "PMvGE (tags)")
    wanted = [scores[method][0] for method in methods]  # AUC
    assert re.findall(r"\b\d+\.\d\b", text.partition("\n\n")[0]) == wanted


def test_als_on_the_page_for_users_of_other_libraries():
    text = (DOCS / "coming-from.md").read_text().partition("**Speed and quality.**")[2]
    scores = rows_of(DOCS / "results.md", "## movielens")
    methods = ("ALS", "PMvGE (both)", "PMvGE (defaults)")
    wanted = [scores[method][1] for method in methods]  # nDCG, after AUC
    assert re.findall(r"\b\d+\.\d\b", text.partition("\n## ")[0]) == wanted


@pytest.mark.parametrize(
    ("row", "method"),
    [
        ("features and effects", "PMvGE (both)"),
        ("effects only", "PMvGE (effects only)"),
        ("defaults, without tuning", "PMvGE (defaults)"),
        ("popularity list", "popularity"),
    ],
)
def test_first_links_in_the_guide(row, method):
    found = rows_of(DOCS / "guides" / "cold-start.md", "How much do first links help?")[row]
    percent = [f"{100 * float(number):.1f}" for number in found]
    assert is_part(percent, rows_of(DOCS / "results.md", "## movielens")[method])


def test_features_alone_against_popularity_in_the_guide():
    text = " ".join((DOCS / "guides" / "cold-start.md").read_text().split())
    section = (DOCS / "results.md").read_text().partition("PMvGE (both) minus others")[2]
    row = next(line for line in section.splitlines() if line.startswith("| popularity"))
    unseen = row.split("|")[4]  # without links, in percentage points
    mean, low, high = (
        f"{float(n) / 100:+.3f}".replace("0.", ".") for n in re.findall(r"[-+][\d.]+", unseen)
    )
    assert f"is {mean}, with a 95 % interval from {low} to {high}" in text


def test_share_of_matrix_products():
    profile = json.loads((RESULTS / "step_profile.json").read_text())
    shares = [f"{100 * row['matrix products']:.0f}" for row in profile.values()]
    steps = json.loads((RESULTS / "step.json").read_text())["results"]
    large = sorted(f"{100 / row['ratio']:.0f}" for row in steps if row["what"] == "step")
    answer = f"[{' to '.join(shares)} % of a default step, {' to '.join(large)} % with larger"
    assert answer in (DOCS / "performance.md").read_text()


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
    row, curves = (stored[f"{problem}, {truth}"][key] for key in ("row", "curves"))
    auc = [row["auc"], row["lightfm_auc"], row["towers_auc"]]
    seconds = [row["seconds"], row["lightfm_seconds"], row["towers_seconds"]]
    pairs = list(zip(auc, seconds, strict=True))
    losses = [curve for name, curve in curves.items() if name.startswith("LightFM")]
    best = max((point["auc"], point["seconds"]) for curve in losses for point in curve)
    readme = rows_of(ROOT / "README.md", "## How good is it?")[f"{problem} signal, {truth}"]
    shown = [pairs[0], best, pairs[2]]
    assert readme == [s for a, t in shown for s in (f"{a:.3f}".lstrip("0"), f"{t:.1f}")]
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


def test_wide_tables():
    stored = json.loads((RESULTS / "wide.json").read_text())["results"]
    found = rows_of(DOCS / "performance.md", "## Tables with thousands of columns")
    names = {
        "init": "`pmvge init` (`sketch_project`)",
        "read_tables": "`read_tables`, into a graph",
    }
    for kind, name in names.items():
        assert found[name] == [f"{stored[kind]['ratio']:.1f}"]
