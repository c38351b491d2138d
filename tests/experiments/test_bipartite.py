"""The bipartite experiment: methods against direct solutions, splits, tables and goals."""

from __future__ import annotations

import numpy as np
import pytest

from pmvge.datasets import Bipartite, load_bipartite
from pmvge.errors import InputError, ParameterError
from pmvge.experiments import Job
from pmvge.experiments.bipartite import experiment as bipartite
from pmvge.experiments.bipartite.experiment import PROBLEMS, BipartiteLinks, split
from pmvge.experiments.bipartite.methods import Problem, _laplacian, _nearest, make_predictor
from pmvge.experiments.recipe import parse

RECIPE = """
title = "small"
experiment = "bipartite"
summary = "s."
repetitions = 2
trials = 2
[options]
sets = ["dpi_n", "davis"]
ours = "ridge"
rival = "degrees"
[[methods]]
label = "degrees"
method = "degrees"
[[methods]]
label = "ridge"
method = "Kronecker ridge"
search = { penalty = [1.0, 10.0] }
"""


def planted(n: int = 24, m: int = 30, seed: int = 0) -> Bipartite:
    """Entities of three groups; links and similarities are within groups."""
    rng = np.random.default_rng(seed)
    group, other = rng.integers(3, size=n), rng.integers(3, size=m)

    def similar(labels):
        Z = np.eye(3)[labels] + 0.2 * rng.normal(size=(len(labels), 3))
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        return Z @ Z.T

    chance = np.where(group[:, None] == other, 0.8, 0.05)
    return Bipartite(similar(group), similar(other), (rng.random((n, m)) < chance) * 1.0)


def problem(which: str = "both unseen", seed: int = 0):
    return split(planted(), 3, which, 0.2, np.random.default_rng(seed))


def test_kronecker_ridge_solves_the_full_system():
    data, _, _ = problem()
    K = np.kron(data.rows, data.columns)
    weights = np.linalg.solve(K + 0.7 * np.eye(len(K)), data.links.ravel())
    expected = np.kron(data.new_rows, data.new_columns) @ weights
    found = make_predictor("Kronecker ridge", {"penalty": 0.7}).scores(data, 0)
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-8)


@pytest.mark.parametrize("which", PROBLEMS)
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("Kronecker ridge", {"penalty": 1.0}),
        ("NRLMF", {"n_components": 8, "ridge": 0.5, "neighbour_weight": 0.1, "rate": 0.3}),
        ("PMvGE", {"n_components": 8, "max_steps": 150, "weight_decay": "none"}),
    ],
)
def test_methods_find_planted_groups(method, settings, which):
    data, truth, counts = problem(which)
    scores = make_predictor(method, settings).scores(data, 0)
    assert scores.shape == truth.shape == counts.shape
    assert scores[counts & truth].mean() > scores[counts & ~truth].mean()
    above = scores[counts & truth][:, None] > scores[counts & ~truth]
    assert above.mean() > 0.75


def test_gradient_of_the_factorisation_equals_finite_differences():
    rng = np.random.default_rng(0)
    W, S = (rng.random((6, 5)) < 0.4) * 1.0, np.corrcoef(rng.normal(size=(6, 9)))
    L, U, V = _laplacian(S, 2), rng.normal(size=(6, 3)), rng.normal(size=(5, 3))

    def objective(U):
        eta = U @ V.T
        fit = 5 * W * eta - (1 + 4 * W) * np.logaddexp(0, eta)
        return fit.sum() - 0.15 * (U**2).sum() - 0.05 * np.trace(U.T @ L @ U)

    found = make_predictor("NRLMF", {"ridge": 0.3, "neighbour_weight": 0.1}).gradient(U, V, W, L)
    step = 1e-5 * rng.normal(size=U.shape)
    difference = (objective(U + step) - objective(U - step)) / 2
    assert difference == pytest.approx((found * step).sum(), rel=1e-6)


def test_degrees_of_unseen_entities_are_constant():
    data, _, _ = problem("rows unseen")
    scores = make_predictor("degrees", {}).scores(data, 0)
    assert np.ptp(scores, axis=0).max() == 0
    np.testing.assert_allclose(scores[0], data.links.mean() * len(data.columns) * data.links.sum(0))


def test_nearest_keeps_the_largest():
    S = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 5.0]])
    assert _nearest(S, 2).tolist() == [[3, 0, 2], [0, 5, 5]]
    assert _nearest(S, 1).tolist() == [[3, 0, 0], [0, 5, 0]]


@pytest.mark.parametrize("which", PROBLEMS)
def test_no_scored_link_is_in_training(which):
    data = planted()
    made, truth, counts = problem(which)
    n, m = data.links.shape
    sizes = {
        "both unseen": ((n - n // 3, m - m // 3), (n // 3, m // 3)),
        "rows unseen": ((n - n // 3, m), (n // 3, m)),
        "columns unseen": ((n, m - m // 3), (n, m // 3)),
        "known": ((n, m), (n, m)),
    }
    assert (made.links.shape, truth.shape) == sizes[which]
    if which == "known":
        assert not (counts & (made.links > 0)).any()
        assert truth.sum() == round(0.2 * data.links.sum())
        assert (made.links + truth == data.links).all()
    else:
        assert counts.all()


def test_a_constant_method_scores_at_chance(monkeypatch):
    monkeypatch.setattr(bipartite, "_load", lambda name, folder: planted(seed=len(name)))
    made = BipartiteLinks(parse("small", RECIPE), None, None)
    job = Job("degrees: davis: both unseen", "0")
    found = made.run(job)["scores"]
    _, truth, _ = made.split("davis", "both unseen", 0)
    assert found == pytest.approx({"ap": truth.mean(), "auc": 0.5})


def test_tables_and_goals(monkeypatch):
    monkeypatch.setattr(bipartite, "_load", lambda name, folder: planted(seed=len(name)))
    made = BipartiteLinks(parse("small", RECIPE), None, None)
    assert len(made.jobs()) == 2 * 2 * 4 * 2  # methods, sets, problems, repetitions
    results = {job: made.run(job) for job in made.jobs()}
    for job, result in results.items():
        searched = job.row.startswith("ridge")
        assert len(result["trials"]) == 2 * searched
    summary = made.summarize(results)
    ridge = summary.tables[0].rows[1]
    both = [r["scores"]["ap"] for j, r in results.items() if j.row.endswith("both unseen")]
    assert ridge[1] == f"{100 * np.mean(both[1::2]):.1f}"
    assert ridge[3] == "1.0"
    assert [goal.met for goal in summary.goals] == [True] * 5
    assert list(made.chosen_settings(results)) == [j.row for j in results if j.row[0] == "r"][:8]


def test_variants_are_no_rivals(monkeypatch):
    """The best method makes the goals of another one fail, unless it is its variant."""
    monkeypatch.setattr(bipartite, "_load", lambda name, folder: planted(seed=len(name)))
    text = RECIPE.replace('ours = "ridge"', 'ours = "degrees"')
    assert text != RECIPE
    made = BipartiteLinks(parse("small", text), None, None)
    results = {job: made.run(job) for job in made.jobs()}
    assert not any(goal.met for goal in made.summarize(results).goals)
    text = text.replace('ours = "degrees"', 'ours = "degrees"\nvariants = ["ridge"]')
    made = BipartiteLinks(parse("small", text), None, None)
    assert [goal.met for goal in made.summarize(results).goals][:3] == [True] * 3


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(InputError, match=r"expected X1\.npy"):
        load_bipartite("davis", tmp_path)
    with pytest.raises(ParameterError, match="davis"):
        load_bipartite("davs", tmp_path)
    (tmp_path / "davis").mkdir()
    for name, shape in (("X1", (3, 3)), ("X2", (4, 4)), ("y", (3, 5))):
        np.save(tmp_path / "davis" / f"{name}.npy", np.ones(shape))
    with pytest.raises(InputError, match=r"\(3, 3\) and \(4, 4\) of \(3, 5\)"):
        load_bipartite("davis", tmp_path)
    (tmp_path / "davis" / "y.npy").write_bytes(b"no array")
    with pytest.raises(InputError, match="cannot be read"):
        load_bipartite("davis", tmp_path)
    assert Problem(np.eye(2), np.eye(3), np.ones((2, 3))).scored_rows.shape == (2, 2)


def test_a_split_has_links_to_find():
    """Most parts of this set have no links; another part is drawn then."""
    data = planted()
    links = np.zeros_like(data.links)
    links[0, :3], links[5, 7] = 1, 1
    for seed in range(20):
        rng = np.random.default_rng(seed)
        made, truth, _ = split(data._replace(links=links), 3, "both unseen", 0.2, rng)
        assert truth.any()
        assert made.links.sum() + truth.sum() <= links.sum()
