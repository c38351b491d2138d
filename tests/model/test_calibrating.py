"""Calibration of the expected weights of new entities, against sums by hand."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import GraphError, InputError, ParameterError, StorageError
from pmvge.graph import hold_out_links, parse_links
from pmvge.likelihoods import kind_blocks

N, M, P = 40, 30, 12  # users, films, papers


def draw(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "user": rng.normal(size=(N, 3)),
        "film": rng.normal(size=(M, 4)),
        "W": rng.poisson(0.4, size=(N, M)).astype(float),
        "cites": np.triu(rng.poisson(0.4, size=(M, M)), 1).astype(float),
    }


def as_graph(data, users, films) -> MultiViewGraph:
    """Return the graph of some users and films, with given ids."""
    return MultiViewGraph(
        {"user": data["user"][users], "film": data["film"][films]},
        {
            ("user", "film"): data["W"][np.ix_(users, films)],
            ("film", "film"): data["cites"][np.ix_(films, films)],
        },
        ids={"user": [f"u{i}" for i in users], "film": [f"f{j}" for j in films]},
    )


def only(graph: MultiViewGraph, keep) -> MultiViewGraph:
    """Return the graph with the links that ``keep(pair, rows, cols)`` selects."""
    return graph.with_links(
        {
            pair: links.select(keep(pair, links.rows, links.cols))
            for pair, links in graph.links.items()
        }
    )


KNOWN_USERS, KNOWN_FILMS = 28, 20  # the first ones are in training


@pytest.fixture(scope="module")
def data():
    return draw()


@pytest.fixture(params=["none", "vector"], scope="module")
def fitted(request, data):
    graph = as_graph(data, np.arange(KNOWN_USERS), np.arange(KNOWN_FILMS))
    settings = {"effects": request.param, "similarity": "inner", "max_steps": 60, "progress": False}
    return PMvGE(4, random_state=0, patience=None, **settings).fit(graph)


@pytest.fixture
def model(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    return PMvGE.load(tmp_path / "model")


@pytest.fixture(scope="module")
def everything(data):
    return as_graph(data, np.arange(N), np.arange(M))


@pytest.fixture(scope="module")
def with_new(everything):
    """Return all entities with the links that have a new end."""
    known = {"user": KNOWN_USERS, "film": KNOWN_FILMS}
    return only(everything, lambda pair, i, j: (i >= known[pair[0]]) | (j >= known[pair[1]]))


def masks(new: bool, other: bool, pair) -> np.ndarray:
    """Return which cells (n, m) of a view pair have these kinds of entities, each pair once."""
    known = {"user": KNOWN_USERS, "film": KNOWN_FILMS}
    n, m = {"user": N, "film": M}[pair[0]], M
    rows, cols = np.arange(n) >= known[pair[0]], np.arange(m) >= known[pair[1]]
    if pair[0] != pair[1]:
        return (rows == new)[:, None] & (cols == other)
    half = np.triu(np.ones((m, m), bool), 1)
    if new == other:
        return half & (rows == new)[:, None] & (cols == new)
    return half & (rows[:, None] != cols)


def mu_of(model, data, pair, ids=True) -> np.ndarray:
    """Return the expected weights of all entities, known ones by their ids."""
    X = {"user": data["user"], "film": data["film"]}
    names = {"user": [f"u{i}" for i in range(N)], "film": [f"f{j}" for j in range(M)]}
    a, b = pair
    return model.intensity(a, X[a], b, X[b], ids=names[a], ids_other=names[b])


CASES = [
    (("user", "film"), "new-known", (True, False)),
    (("user", "film"), "known-new", (False, True)),
    (("user", "film"), "new-new", (True, True)),
    (("film", "film"), "new-known", (True, False)),
    (("film", "film"), "new-new", (True, True)),
]


def truth(data, pair):
    return data["W"] if pair[0] == "user" else data["cites"]


@pytest.mark.parametrize(("pair", "kind", "sides"), CASES)
def test_a_factor_is_the_observed_over_the_expected_weight(
    model, data, with_new, pair, kind, sides
):
    before = mu_of(model, data, pair)
    model.calibrate(with_new)
    cells = masks(*sides, pair)
    factor = truth(data, pair)[cells].sum() / before[cells].sum()
    found = model.describe()["calibrated"][",".join(pair)][kind]
    assert found["factor"] == pytest.approx(factor, rel=1e-5)
    assert found["weight"] == truth(data, pair)[cells].sum()
    squares = (truth(data, pair)[cells] ** 2).sum()
    assert found["relative_error"] == pytest.approx(np.sqrt(squares) / found["weight"])
    after = mu_of(model, data, pair)
    np.testing.assert_allclose(after[cells], factor * before[cells], rtol=1e-5)
    known = masks(False, False, pair)
    np.testing.assert_array_equal(after[known], before[known])
    bins = found["bins"]
    assert sum(bins["pairs"]) == cells.sum()
    assert np.dot(bins["pairs"], bins["observed"]) == pytest.approx(truth(data, pair)[cells].sum())
    assert np.dot(bins["pairs"], bins["expected"]) == pytest.approx(
        truth(data, pair)[cells].sum(), rel=1e-5
    )


BY_PAIR = [
    {("user", "film"): "logistic"},
    {("film", "film"): "logistic"},
    {("user", "film"): "logistic", ("film", "film"): "negative_binomial"},
]


@pytest.mark.parametrize("family", BY_PAIR, ids=["one pair", "within a view", "two pairs"])
def test_families_by_view_pair_are_calibrated(data, family):
    logistic = [pair for pair, name in family.items() if name == "logistic"]
    binary = data | {"W": np.minimum(data["W"], 1), "cites": np.minimum(data["cites"], 1)}
    everything = as_graph(binary, np.arange(N), np.arange(M))
    known = {"user": KNOWN_USERS, "film": KNOWN_FILMS}
    training = everything.subgraph({view: np.arange(n) for view, n in known.items()})
    settings = {"similarity": "inner", "max_steps": 40, "progress": False, "patience": None}
    model = PMvGE(4, random_state=0, family=family, **settings).fit(training)
    model.calibrate(only(everything, lambda p, i, j: (i >= known[p[0]]) | (j >= known[p[1]])))
    for pair, kind, sides in CASES:
        bins = model.describe()["calibrated"][",".join(pair)][kind]["bins"]
        cells = masks(*sides, pair)
        if pair in logistic:
            total = np.dot(bins["pairs"], bins["expected"])
            assert total == pytest.approx(truth(binary, pair)[cells].sum(), rel=1e-5)
            assert total == pytest.approx(mu_of(model, data, pair)[cells].sum(), rel=1e-5)


def test_calibrating_keeps_the_parameters_of_the_family(data, with_new):
    graph = as_graph(data, np.arange(KNOWN_USERS), np.arange(KNOWN_FILMS))
    settings = {"family": "beta", "similarity": "inner", "max_steps": 20, "progress": False}
    model = PMvGE(4, random_state=0, **settings).fit(graph)
    before = model.family_.scale.clone()
    model.calibrate(with_new)
    assert model.family_.scale.equal(before)


def test_the_log_likelihood_uses_the_factors(model, data, everything, with_new):
    uncalibrated = model.log_likelihood(everything, by_pair=True)
    model.calibrate(with_new)
    for pair, value in model.log_likelihood(everything, by_pair=True).items():
        mu, w = mu_of(model, data, pair), truth(data, pair)
        cells = masks(False, False, pair) | masks(True, True, pair)
        cells |= masks(True, False, pair) | masks(False, True, pair)
        total = (w * np.log(mu) - mu)[cells].sum()
        assert value == pytest.approx(total, rel=1e-5)
        assert value > uncalibrated[pair]  # each factor maximises its part


def test_evaluate_uses_the_factors_and_keeps_the_ranks(model, data, everything, with_new):
    before = model.evaluate(everything, exposure=1.0)
    model.calibrate(with_new)
    after = model.evaluate(everything, exposure=1.0)
    known = masks(False, False, ("user", "film")) & (data["W"] > 0)  # training links
    cells = ~known
    mu, w = mu_of(model, data, ("user", "film"))[cells], data["W"][cells]
    found = after["pairs"]["user,film"]
    assert found["expected_over_observed"] == pytest.approx(mu.sum() / w.sum(), rel=1e-4)
    deviance = 2 * (np.where(w > 0, w * np.log(np.maximum(w, 1e-9) / mu), 0) - w + mu)
    assert found["poisson_deviance"] == pytest.approx(deviance.mean(), rel=1e-4)
    for name in ("roc_auc", "average_precision", "recall@10", "ndcg@10"):
        assert found[name] == before["pairs"]["user,film"][name]


def test_search_uses_the_factors_and_keeps_the_order(model, data, with_new):
    X, new_films = data["user"], data["film"][KNOWN_FILMS:]
    ids = [f"u{i}" for i in range(N)]
    pools = {"known-new": new_films, "": None}
    before = {
        k: model.search("user", X, ids=ids, among="film", k=5, candidates=c)
        for k, c in pools.items()
    }
    model.calibrate(with_new)
    factors = {
        name: entry["factor"] for name, entry in model.describe()["calibrated"]["user,film"].items()
    }
    for name, pool in pools.items():
        found, scores = model.search("user", X, ids=ids, among="film", k=5, candidates=pool)
        assert found.tolist() == before[name][0].tolist()
        ratio = scores / before[name][1]
        known, new = (
            (factors["known-new"], factors["new-new"]) if name else (1, factors["new-known"])
        )
        np.testing.assert_allclose(ratio[:KNOWN_USERS], known, rtol=1e-5)
        np.testing.assert_allclose(ratio[KNOWN_USERS:], new, rtol=1e-5)


def test_kinds_without_a_factor_are_listed(model, everything, with_new):
    kinds = ["known-new", "new-known", "new-new"]
    assert sorted(model.uncalibrated("user", "film")) == kinds
    assert model.uncalibrated("film", "film") == ("new-known", "new-new")
    assert sorted(model.evaluate(everything)["uncalibrated"]["user,film"]) == kinds
    assert model.describe()["calibrated"]["user,film"] == dict.fromkeys(kinds)
    new_users = only(
        with_new, lambda pair, i, j: (i >= KNOWN_USERS) & (j < KNOWN_FILMS) & (pair[0] == "user")
    )
    model.calibrate(new_users)
    assert model.uncalibrated("user", "film") == ("known-new", "new-new")
    assert model.uncalibrated("film", "user") == ("new-known", "new-new")
    assert "new-known" not in model.evaluate(everything)["uncalibrated"]["user,film"]
    first = model.describe()["calibrated"]["user,film"]["new-known"]
    model.calibrate(only(with_new, lambda pair, i, j: (j >= KNOWN_FILMS) & (pair[0] == "user")))
    assert model.uncalibrated("user", "film") == ()
    assert model.describe()["calibrated"]["user,film"]["new-known"] == first
    assert model.evaluate(everything)["uncalibrated"].keys() == {"film,film"}


def test_the_order_of_views_does_not_matter(model, data, with_new):
    turned = with_new.with_links({("film", "user"): with_new.links["user", "film"].transposed()})
    model.calibrate(turned)
    flipped = model.describe()["calibrated"]["user,film"]
    mu = mu_of(model, data, ("film", "user"))
    model.calibrate(with_new)
    for kind, entry in model.describe()["calibrated"]["user,film"].items():
        assert flipped[kind]["factor"] == pytest.approx(entry["factor"])
    np.testing.assert_allclose(mu.T, mu_of(model, data, ("user", "film")), rtol=1e-5)


def test_exposure_scales_the_factor(model, with_new):
    model.calibrate(with_new)
    whole = model.describe()["calibrated"]["user,film"]["new-new"]["factor"]
    model.calibrate(with_new, exposure=0.5)
    half = model.describe()["calibrated"]["user,film"]["new-new"]
    assert half["factor"] == pytest.approx(2 * whole)
    assert np.dot(half["bins"]["pairs"], half["bins"]["expected"]) == pytest.approx(half["weight"])


def test_entities_folded_in_with_their_level_get_no_factor(model, data, with_new):
    if model.effects == "none":
        pytest.skip("no effects")
    row = data["user"][-1:]
    links = {"film": ([0, 0], ["f1", "f2"])}
    query = {"links": links, "among": "film", "k": 3}
    before = [model.search("user", row, exposure=s, **query)[1] for s in (1.0, None)]
    model.calibrate(with_new)
    after = [model.search("user", row, exposure=s, **query)[1] for s in (1.0, None)]
    factor = model.describe()["calibrated"]["user,film"]["new-known"]["factor"]
    np.testing.assert_allclose(after[0], before[0])
    np.testing.assert_allclose(after[1], factor * before[1], rtol=1e-5)


def test_factors_are_saved(model, with_new, data, tmp_path):
    model.calibrate(with_new).save(tmp_path / "calibrated")
    loaded = PMvGE.load(tmp_path / "calibrated")
    assert loaded.describe()["calibrated"] == model.describe()["calibrated"]
    pair = ("user", "film")
    np.testing.assert_array_equal(mu_of(loaded, data, pair), mu_of(model, data, pair))


@pytest.mark.parametrize(
    "damage",
    [
        {"pair": ["user", "nobody"]},
        {"pair": "user"},
        {"kind": "old-new"},
        {"log_factor": "1"},
        {"log_factor": 1e999},
        {"weight": None},
        {"bins": []},
        {"bins": {"expected": [1.0], "observed": [], "error": [], "pairs": []}},
    ],
)
def test_damaged_factors_are_refused(model, with_new, tmp_path, damage):
    model.calibrate(with_new).save(tmp_path / "calibrated")
    path = tmp_path / "calibrated" / "model.json"
    manifest = json.loads(path.read_text())
    manifest["calibration"][0] |= damage
    del manifest["checksum"]
    text = json.dumps(manifest, sort_keys=True)
    manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest))
    with pytest.raises(StorageError):
        PMvGE.load(tmp_path / "calibrated")


def test_a_model_without_factors_in_its_folder_loads(model, tmp_path):
    model.save(tmp_path / "old")
    path = tmp_path / "old" / "model.json"
    manifest = json.loads(path.read_text())
    for key in ("calibration", "full_steps", "checksum"):  # as earlier versions wrote it
        del manifest[key]
    text = json.dumps(manifest, sort_keys=True)
    manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest))
    assert len(PMvGE.load(tmp_path / "old").uncalibrated("user", "film")) == 3


def test_links_between_training_entities_are_refused(model, everything):
    with pytest.raises(
        InputError,
        match=r"links film,film: expected links of entities that were not in training, but 47 of "
        r"132 links have both ends in training, such as 'f0' - 'f1'; leave these links out",
    ):
        model.calibrate(everything)


@pytest.mark.parametrize("exposure", [0, -1, None, "x", float("nan")])
def test_a_wrong_exposure_is_refused(model, with_new, exposure):
    with pytest.raises(InputError, match="exposure: expected a positive number"):
        model.calibrate(with_new, exposure=exposure)


def test_a_graph_without_links_of_new_entities_is_refused(model, with_new):
    nothing = only(with_new, lambda pair, i, j: np.zeros(len(i), bool))
    with pytest.raises(
        InputError, match="expected links of entities that were not in training, got none"
    ):
        model.calibrate(nothing)
    with pytest.raises(InputError, match="expected a MultiViewGraph, got dict"):
        model.calibrate({})


def test_other_view_pairs_are_refused(model, data):
    graph = MultiViewGraph({"user": data["user"]}, {("user", "user"): ([0], [1])})
    with pytest.raises(InputError, match="were not observed in training"):
        model.calibrate(graph)


@pytest.mark.parametrize("within", [False, True])
def test_blocks_cover_every_entity_pair_once(within):
    rng = np.random.default_rng(0)
    n, m = 9, 9 if within else 7
    W = rng.poisson(0.7, size=(n, m)).astype(float)
    W = np.triu(W, 1) if within else W
    links = parse_links("links", W, (n, m), within, None)
    left = rng.random(n) < 0.4
    right = left if within else rng.random(m) < 0.4
    seen, terms = np.zeros((n, m)), 0
    for block in kind_blocks(links, left, right):
        assert (left[block.rows] == block.kind[0]).all()
        assert (right[block.columns] == block.kind[1]).all()
        part = np.zeros((n, m))
        part[block.rows[block.links.rows], block.columns[block.links.cols]] = block.links.weights
        seen += np.triu(part + part.T) if within else part
        terms += block.links.n_terms
    np.testing.assert_array_equal(seen, W)
    assert terms == links.n_terms


def test_fit_calibrates_with_held_out_entities(data, everything):
    settings = {"similarity": "inner", "max_steps": 60, "progress": False, "patience": None}
    model = PMvGE(4, random_state=0, **settings).fit(everything, calibrate=0.2)
    assert model.uncalibrated("user", "film") == model.uncalibrated("film", "film") == ()
    plain = PMvGE(4, random_state=0, **settings).fit(everything)
    for view in ("user", "film"):
        np.testing.assert_array_equal(model.embeddings_[view], plain.embeddings_[view])
    # By hand: fit without the same entities, then calibrate with them by their ids.
    rng = np.random.default_rng([0, 8])
    out = {
        view: np.sort(rng.permutation(everything.sizes[view])[: everything.sizes[view] // 5])
        for view in everything.views
    }
    kept = {v: np.setdiff1d(np.arange(everything.sizes[v]), out[v]) for v in out}
    first = PMvGE(4, random_state=0, **settings).fit(everything.subgraph(kept))
    rest = only(everything, lambda p, i, j: np.isin(i, out[p[0]]) | np.isin(j, out[p[1]]))
    expected = first.calibrate(rest).describe()["calibrated"]
    for pair, kinds in model.describe()["calibrated"].items():
        for kind, entry in kinds.items():
            assert entry["factor"] == pytest.approx(expected[pair][kind]["factor"], rel=1e-5)


def test_fit_calibrates_graphs_without_given_ids(data):
    views = {"user": data["user"], "film": data["film"]}
    graph = MultiViewGraph(views, {("user", "film"): data["W"]})
    model = PMvGE(4, random_state=0, max_steps=20, progress=False).fit(graph, calibrate=0.2)
    assert model.uncalibrated("user", "film") == ()


@pytest.mark.parametrize("share", [0, 1, -0.1, "x", True, float("nan")])
def test_a_wrong_share_is_refused(everything, share):
    with pytest.raises(ParameterError, match=r"calibrate: expected a share .* in \(0, 1\)"):
        PMvGE(4, max_steps=1).fit(everything, calibrate=share)


@pytest.mark.parametrize("calibrate", [None, 0.2])
def test_something_else_than_a_graph_is_refused(everything, calibrate):
    model = PMvGE(4, max_steps=1, progress=False)
    with pytest.raises(GraphError, match="fit: expected a MultiViewGraph, got str"):
        model.fit("x", calibrate=calibrate)
    with pytest.raises(GraphError, match="validation: expected a MultiViewGraph, got str"):
        model.fit(everything, "x", calibrate=calibrate)
    part = everything.subgraph({"user": np.arange(5)})
    with pytest.raises(GraphError, match="expected held-out links on the same views and ids"):
        model.fit(everything, part, calibrate=calibrate)


def test_fit_calibrates_with_validation_links_in_either_order(data, everything):
    settings = {"similarity": "inner", "max_steps": 20, "progress": False, "patience": None}
    train, held = hold_out_links(everything, 0.3, np.random.default_rng(0))
    turned = held.with_links({(b, a): links.transposed() for (a, b), links in held.links.items()})
    weights = [
        PMvGE(4, random_state=0, **settings)
        .fit(train, validation, calibrate=0.2)
        .describe()["calibrated"]["user,film"]["new-new"]["weight"]
        for validation in (held, turned)
    ]
    assert weights[0] == weights[1]


def test_fit_refuses_to_calibrate_what_it_cannot(everything):
    graph = MultiViewGraph({"a": 5, "b": 4}, {("a", "b"): ([0], [1])})
    with pytest.raises(ParameterError, match="expected a view with features and links, got none"):
        PMvGE(4, max_steps=1).fit(graph, calibrate=0.2)
    tiny = MultiViewGraph({"a": np.eye(1), "b": 4}, {("a", "b"): ([0], [1])})
    with pytest.raises(ParameterError, match="view 'a': expected more entities than are held out"):
        PMvGE(4, max_steps=1).fit(tiny, calibrate=0.2)
    with pytest.raises(ParameterError, match="expected calibrate or sharded, got both"):
        PMvGE(4, max_steps=1).fit(everything, calibrate=0.2, sharded=True)
