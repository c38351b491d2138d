"""PMvGE.evaluate against a brute-force evaluation of all pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.metrics import average_precision_score, roc_auc_score

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError, NotInductive
from pmvge.evaluation import Popularity, evaluate_links, ndcg_by_query
from pmvge.graph import hold_out_links, parse_links
from pmvge.model import embedding
from pmvge.model.advice import suggest_changes
from pmvge.training import History, Record

N, M = 30, 14


@pytest.fixture(scope="module")
def world():
    """Return a graph, weights of held-out links, and the weights of the graph."""
    rng = np.random.default_rng(1)
    kinds = rng.choice(3, p=[0.6, 0.3, 0.1], size=(N, M))  # no link, training, held out
    W = rng.uniform(1, 4, size=(N, M))  # no two products of degrees are equal
    ids = {"user": [f"u{i}" for i in range(N)], "film": [f"f{j}" for j in range(M)]}
    graph = MultiViewGraph(
        {"user": rng.normal(size=(N, 4)), "film": M}, {("user", "film"): W * (kinds == 1)}, ids
    )
    return graph, W * (kinds == 2), W * (kinds == 1)


@pytest.fixture(scope="module")
def model(world):
    return PMvGE(4, effects="none", max_steps=20, random_state=0, progress=False).fit(world[0])


def as_table(W):
    i, j = np.nonzero(W)
    return [f"u{n}" for n in i], [f"f{n}" for n in j], W[i, j]


def by_hand(scores, held, known, k):
    """Return AUC, AP and recall over all pairs without a known link."""
    left = known == 0
    recall = []
    for i in np.flatnonzero(held.sum(1)):
        order = [j for j in np.argsort(-scores[i], kind="stable") if left[i, j]][:k]
        recall.append(np.mean([j in order for j in np.flatnonzero(held[i])]))
    return {
        "roc_auc": roc_auc_score((held > 0)[left], scores[left]),
        "average_precision": average_precision_score((held > 0)[left], scores[left]),
        f"recall@{k}": np.mean(recall),
        "expected_over_observed": scores[left].sum() / held.sum(),
    }


def check(found, expected):
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-4), name


def test_results_are_those_of_all_pairs_without_known_links(model, world):
    _, held, known = world
    results = model.evaluate({("user", "film"): as_table(held)}, k=3)
    Y = model.embeddings_
    g = Y["user"].astype(float) @ Y["film"].T.astype(float)
    mu = np.exp(g + model.log_alpha_["user", "film"]) * held.sum() / known.sum()
    check(results["pairs"]["user,film"], by_hand(mu, held, known, 3))
    assert results["overall"]["roc_auc"] == results["pairs"]["user,film"]["roc_auc"]


def test_popularity_is_the_product_of_degrees(model, world):
    _, held, known = world
    mu = np.outer(known.sum(1), known.sum(0)) / known.sum() * held.sum() / known.sum()
    popularity = model.evaluate({("user", "film"): as_table(held)}, k=3)["popularity"]
    check(popularity["pairs"]["user,film"], by_hand(mu, held, known, 3))
    assert "same order for every entity" in popularity["meaning"]


def test_links_can_be_given_in_several_forms(model, world):
    graph, held, _ = world
    expected = model.evaluate({("user", "film"): as_table(held)})
    matrix = {("user", "film"): sparse.csr_array(held)}
    assert model.evaluate(matrix) == expected
    others = MultiViewGraph(graph.views | {"film": M}, matrix, graph.ids)
    assert model.evaluate(others) == expected
    assert model.evaluate(others.links) == expected
    turned = model.evaluate({("film", "user"): as_table(held)[1::-1] + as_table(held)[2:]})
    assert turned["pairs"]["film,user"]["roc_auc"] == pytest.approx(expected["overall"]["roc_auc"])


def test_by_default_the_links_held_out_by_fit_are_evaluated(world):
    graph, held, known = world
    all_links = graph.with_links(
        MultiViewGraph({"user": N, "film": M}, {("user", "film"): held + known}).links
    )
    settings = {"effects": "none", "max_steps": 20, "random_state": 0, "progress": False}
    fitted = PMvGE(4, **settings).fit(all_links, hold_out=0.25)
    links = fitted.links_
    out = links.held_out["user", "film"].matrix().toarray()
    kept = links.training["user", "film"].matrix().toarray()
    np.testing.assert_array_equal(out + kept, held + known)
    Y = fitted.embeddings_
    g = Y["user"].astype(float) @ Y["film"].T.astype(float)
    mu = np.exp(g + fitted.log_alpha_["user", "film"]) * out.sum() / (out + kept).sum()
    check(fitted.evaluate(k=3)["overall"], by_hand(mu, out, kept, 3))
    popular = np.outer(kept.sum(1), kept.sum(0)) / kept.sum() * out.sum() / kept.sum()
    auc = by_hand(popular, out, kept, 3)["roc_auc"]
    assert fitted.evaluate(k=3)["popularity"]["overall"]["roc_auc"] == pytest.approx(auc, rel=1e-4)


def test_links_of_the_training_are_counted_and_left_out(model, world):
    _, held, known = world
    both = held.copy()
    rows, cols = np.nonzero(known)
    both[rows[:5], cols[:5]] = 1
    found = model.evaluate({("user", "film"): sparse.csr_array(both)})["pairs"]["user,film"]
    assert found["in_training"] == 5
    assert found["links"] == np.count_nonzero(held)
    with pytest.raises(InputError, match=r"all 5 were in training.*include_known=True"):
        model.evaluate({("user", "film"): sparse.csr_array(both - held)})
    included = model.evaluate({("user", "film"): sparse.csr_array(both - held)}, include_known=True)
    assert included["overall"]["links"] == 5
    assert included["popularity"]["overall"]["links"] == 5


def test_a_model_without_held_out_links_has_no_results(world):
    fitted = PMvGE(2, max_steps=2, random_state=0, progress=False).fit(world[0], hold_out=0)
    results = fitted.evaluate()
    assert results["pairs"] == results["overall"] == results["popularity"]["pairs"] == {}


def test_invalid_links_are_refused(model):
    with pytest.raises(NotInductive, match=r"'film'.*'x'"):
        model.evaluate({("user", "film"): (["u0"], ["x"])})
    with pytest.raises(InputError, match="'user' and 'user' were not observed"):
        model.evaluate({("user", "user"): (["u0"], ["u1"])})
    with pytest.raises(InputError, match="expected a 30 x 14 matrix"):
        model.evaluate({("user", "film"): sparse.csr_array((3, 3))})
    for weight in (-1.0, np.nan):
        with pytest.raises(InputError, match=r"evaluate: links \('user', 'film'\).*weight"):
            model.evaluate({("user", "film"): (["u0"], ["f0"], [weight])})
    with pytest.raises(InputError, match=r"evaluate: links \('user', 'film'\): expected .*ragged"):
        model.evaluate({("user", "film"): (["u0"], ["f0"], [[1], [1, 2]])})
    with pytest.raises(InputError, match="expected a MultiViewGraph or"):
        model.evaluate([1])
    for key in ("user,film", ("user", "film", "user")):
        with pytest.raises(InputError, match=r"expected a key \(view, view\), got"):
            model.evaluate({key: (["u0"], ["x"])})
    with pytest.raises(InputError, match="exposure: expected a positive number, got 'x'"):
        model.evaluate(exposure="x")


def test_graphs_may_have_new_entities(world):
    """Users without their id are new; known users keep their links out of the ranking."""
    graph, held, known = world
    model = PMvGE(4, max_steps=20, random_state=0, progress=False, effects="vector").fit(graph)
    names = [f"u{i}" if i % 2 else f"new{i}" for i in range(N)]
    ids = {"user": names, "film": graph.ids["film"]}
    links = {("user", "film"): sparse.csr_array(held)}
    other = MultiViewGraph(graph.views | {"film": M}, links, ids)
    seen = np.where(np.arange(N)[:, None] % 2, known, 0)
    found = model.evaluate(other, k=3)
    query = model.vectors("user", graph.views["user"], ids=names, among="film").astype(float)
    candidate = model.vectors("film", among="user", side="candidate").astype(float)
    eta = query @ candidate.T + model.log_alpha_["user", "film"]
    mu = np.exp(eta) * held.sum() / known.sum()
    check(found["overall"], by_hand(mu, held, seen, 3))
    assert np.abs(query - model.vectors("user", among="film")).max() > 0.01  # new ones differ
    degrees = np.where(np.arange(N) % 2, known.sum(1), known[1::2].sum(1).min() / 2)
    popular = np.outer(degrees, known.sum(0)) / known.sum() * held.sum() / known.sum()
    check(found["popularity"]["overall"], by_hand(popular, held, seen, 3))


def test_entities_without_links_are_the_least_popular():
    links = parse_links("links", ([0, 0, 1], [1, 2, 1], [1, 3, 0.5]), (3, 4), False, None)
    Y, Y_other, log_alpha = Popularity.of(links).vectors()
    mu = np.exp(Y @ Y_other.T + log_alpha)
    left, right = np.array([4, 0.5, 0.25]), np.array([0.75, 1.5, 3, 0.75])
    np.testing.assert_allclose(mu, np.outer(left, right) / 4.5, rtol=1e-5)
    within = parse_links("links", ([0, 1], [1, 2], [1, 2]), (3, 3), True, None)
    Y, Y_other, log_alpha = Popularity.of(within).vectors()
    degree = np.array([1, 3, 2])
    np.testing.assert_allclose(
        np.exp(Y @ Y_other.T + log_alpha), np.outer(degree, degree) / 6, rtol=1e-5
    )


# -- beside the model: features only, and the popularity list --------------------------------------


def tastes(strength, *, seed=0, n=80, m=50):
    """Return a graph of popular and unpopular items, whose links depend on tastes by strength."""
    rng = np.random.default_rng(seed)
    z, t = rng.normal(size=(n, 3)), rng.normal(size=(m, 3))
    popular = rng.gamma(1.0, size=m)
    mu = popular * np.exp(strength * z @ t.T)
    W = rng.poisson(mu * 10 * n / mu.sum())
    X = z + 2.0 * rng.normal(size=z.shape)
    ids = {"user": [f"u{i}" for i in range(n)], "item": [f"i{j}" for j in range(m)]}
    return MultiViewGraph({"user": X, "item": m}, {("user", "item"): W}, ids=ids)


def quick(**settings):
    defaults = {"n_components": 3, "max_steps": 300, "similarity": "inner", "random_state": 0}
    return PMvGE(**{**defaults, "progress": False, "effects": "vector", **settings})


@pytest.fixture(scope="module")
def with_effects():
    graph = tastes(0.8)
    return graph, quick().fit(graph, hold_out=0.2)


@pytest.mark.parametrize("loaded", [False, True])
def test_features_only_is_the_model_of_new_entities(with_effects, loaded, tmp_path):
    graph, model = with_effects
    if loaded:
        model.save(tmp_path)
        model = PMvGE.load(tmp_path)
    training, held = (
        part["user", "item"] for part in (model.links_.training, model.links_.held_out)
    )
    # New users are given by their features alone; items have none, and stay as they are.
    left = model.vectors("user", graph.views["user"], among="item")
    right = model.vectors("item", among="user", side="candidate")
    expected = evaluate_links(
        left,
        right,
        held,
        known=training,
        log_alpha=model.log_alpha_of("user", "item"),
        exposure=held.total / model.alpha_weight_["user", "item"],
    )
    results = model.evaluate()
    found = results["features_only"]["pairs"]["user,item"]
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-4), name
    assert abs(found["roc_auc"] - results["pairs"]["user,item"]["roc_auc"]) > 0.01


@pytest.mark.parametrize("calibrated", [False, True])
def test_features_only_of_a_graph_with_known_and_new_entities(with_effects, calibrated, tmp_path):
    graph, model = with_effects
    half = graph.subgraph({"user": np.arange(40)})
    renamed = MultiViewGraph(
        {"user": half.views["user"], "item": half.sizes["item"]},
        {pair: part.matrix() for pair, part in half.links.items()},
        ids={"item": half.ids["item"]},
    )
    if calibrated:
        model.save(tmp_path)
        model = PMvGE.load(tmp_path).calibrate(renamed, exposure=0.5)
    known = model.evaluate(half, include_known=True)
    new = model.evaluate(renamed, include_known=True)
    assert "features_only" not in new  # all of them are new already
    for name in ("roc_auc", "ndcg@10", "poisson_deviance"):
        assert known["features_only"]["overall"][name] == pytest.approx(
            new["overall"][name], rel=1e-5
        )


def test_models_without_features_or_without_effects_have_no_such_row():
    graph = tastes(0.8)
    for effects in ("none", {"item": "vector"}):
        results = quick(effects=effects, max_steps=3).fit(graph, hold_out=0.2).evaluate()
        assert "features_only" not in results


def test_a_model_that_is_ahead_of_popularity_has_no_warning(with_effects):
    _, model = with_effects
    results = model.evaluate()
    own, popular = (part["overall"]["ndcg@10"] for part in (results, results["popularity"]))
    assert own > popular + 0.05
    assert results["warnings"] == []


def test_a_model_that_is_not_ahead_of_popularity_has_a_warning():
    """The links of items depend on popularity only."""
    graph = tastes(0.0, n=200)
    model = quick(effects="none", max_steps=40).fit(graph, hold_out=0.2)
    results = model.evaluate(k=5)
    warning, advice = results["warnings"]
    queries, own = ndcg_by_query(
        model.vectors("user", among="item"),
        model.vectors("item", among="user", side="candidate"),
        model.links_.held_out["user", "item"],
        known=model.links_.training["user", "item"],
        k=5,
    )
    training = model.links_.training["user", "item"]
    degrees = training.degrees()[1]
    smallest = degrees[degrees > 0].min() / 2
    scores = np.log(np.where(degrees > 0, degrees, smallest))[:, None]
    _, popular = ndcg_by_query(
        np.ones((200, 1)), scores, model.links_.held_out["user", "item"], known=training, k=5
    )
    interval = stats.ttest_rel(own, popular).confidence_interval(0.95)
    assert interval.low < 0
    assert f"nDCG@5 {own.mean():.3f} against {popular.mean():.3f}" in warning
    assert f"{interval.low:+.3f} to {interval.high:+.3f}, {len(queries)} queries" in warning
    assert warning.startswith("links user,item: the model is not clearly better than a list of the")
    assert advice.startswith("try effects = 'vector'")


def test_heavy_weights_come_first_in_the_advice():
    rng = np.random.default_rng(0)
    graph = tastes(0.0)
    links = graph.links["user", "item"]
    heavy = (links.rows, links.cols, rng.lognormal(0, 3, len(links)))
    results = (
        quick(max_steps=30)
        .fit(graph.with_links({("user", "item"): heavy}), hold_out=0.2)
        .evaluate()
    )
    assert results["warnings"][-1].startswith(
        "try transform = 'log1p' for the weights of user,item"
    )


def test_the_advice_depends_on_the_model():
    graph = tastes(0.0)
    views = {"user": graph.views["user"], "item": 50, "tag": 5}
    heavy = 300 * graph.links["user", "item"].matrix()
    tags = (np.arange(50), np.arange(50) % 5)
    other = MultiViewGraph(views, {("user", "item"): heavy, ("item", "tag"): tags})
    for settings, says in (
        ({"effects": "none"}, ["pair_weights = 'balanced': user,item", "effects = 'vector'"]),
        ({"effects": "vector"}, ["pair_weights = 'balanced': user,item"]),
        ({"effects": "vector", "pair_weights": "balanced"}, ["more steps"]),
    ):
        model = quick(max_steps=20, **settings).fit(other, hold_out=0.2)
        advice = model.evaluate()["warnings"][-1]
        assert [part for part in says if part in advice] == says
        assert advice.startswith(f"try {says[0]}")


def test_more_steps_are_advised_if_the_validation_was_still_rising_before_the_decay():
    model = quick(max_steps=20).fit(tastes(0.0), hold_out=0.2)
    rising = [Record(10 * k, k, 0.0, 0.1 * k, 0.01, 1.0, "hold") for k in range(1, 9)]
    stalled = [replace(rising[0], validation=1.0), *rising[1:]]
    end = Record(90, 9, 0.0, 2.0, 0.0, 1.0, "decay")  # the best one, as it is after most decays
    for records, advised in ((rising, True), (stalled, False)):
        fitted = replace(model._check_fitted(), history=History([*records, end]))
        assert ("more steps" in suggest_changes(fitted)) == advised


def test_effects_are_no_advice_for_a_similarity_without_biases(world):
    for similarity, advised in (("inner", True), ("hyperbolic", False)):
        model = quick(similarity=similarity, effects="none", max_steps=2).fit(world[0])
        assert ("effects = 'vector'" in suggest_changes(model._check_fitted())) == advised


# -- default ids ----------------------------------------------------------------------------


def numbered(seed, *, users=40, given=()):
    """Return a graph with the default ids 0, 1, ...; those of the views in ``given`` are given."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(users, 3)), rng.normal(size=(25, 3))
    W = rng.poisson(np.exp(X @ Z.T - 1.5))
    ids = {view: np.arange(n) for view, n in (("user", users), ("film", 25)) if view in given}
    return MultiViewGraph({"user": X, "film": Z}, {("user", "film"): W}, ids)


def renamed(graph, *views):
    """Return a graph whose entities of some views have new ids."""
    return MultiViewGraph(
        dict(graph.views),
        {pair: links.matrix() for pair, links in graph.links.items()},
        {view: [f"new{n}" for n in range(graph.sizes[view])] for view in views},
    )


@pytest.fixture(scope="module", params=["vector", "none"])
def of_rows(request):
    """Return a model of a graph with default ids, the graph, and held-out links."""
    train, held = hold_out_links(numbered(0), 0.2, np.random.default_rng(0))
    return quick(effects=request.param, max_steps=60).fit(train), train, held


@pytest.mark.parametrize("loaded", [False, True])
def test_rows_of_the_training_with_default_ids_are_known(of_rows, loaded, tmp_path):
    model, train, held = of_rows
    if loaded:
        model.save(tmp_path)
        model = PMvGE.load(tmp_path)
    found = model.evaluate(held)
    assert found["overall"] == model.evaluate(dict(held.links))["overall"]
    assert found["uncalibrated"] == {}
    for view, Y in model.embed_graph(held).items():
        np.testing.assert_array_equal(Y, model.embeddings_[view])
    assert ("features_only" in found) == (model.effects == "vector")
    with pytest.raises(InputError, match="so none is left to evaluate"):
        model.evaluate(train)
    with pytest.raises(InputError, match="have both ends in training"):
        model.calibrate(train)


def test_other_rows_with_default_ids_are_new(of_rows):
    model, train, _ = of_rows
    other = numbered(1)  # as many entities as in training
    for graph in (other, numbered(1, given=("user", "film"))):
        found = model.evaluate(graph)
        expected = model.evaluate(renamed(other, "user", "film"))
        check(found["overall"], expected["overall"])
        assert found["uncalibrated"] == expected["uncalibrated"] == {"user,film": ["new-new"]}
        assert model.score(graph) == pytest.approx(model.score(renamed(other, "user", "film")))
    # Each view by itself: new users with films of the training.
    mixed = MultiViewGraph(
        {"user": other.views["user"], "film": train.views["film"]},
        {("user", "film"): other.links["user", "film"].matrix()},
    )
    assert model.evaluate(mixed)["uncalibrated"] == {"user,film": ["new-known"]}
    one_row = np.array(train.views["user"])
    one_row[7] += 1
    changed = MultiViewGraph(
        {"user": one_row, "film": train.views["film"]},
        {("user", "film"): other.links["user", "film"].matrix()},
    )
    assert model.evaluate(changed)["uncalibrated"] == {"user,film": ["new-known"]}


def test_scores_do_not_depend_on_whether_ids_were_given():
    graphs = [numbered(0, given=given) for given in ((), ("user", "film"))]
    models = [quick(max_steps=60).fit(graph) for graph in graphs]
    scores = [model.score(graph) for model in models for graph in graphs]
    assert scores == pytest.approx([scores[-1]] * 4, rel=1e-5)


def test_every_view_of_a_graph_is_encoded_once(of_rows, monkeypatch):
    model, train, held = of_rows
    encoded = []

    def embed_rows(network, view, *args, **kwargs):
        encoded.append(view)
        return original(network, view, *args, **kwargs)

    original = embedding.embed_rows
    monkeypatch.setattr(embedding, "embed_rows", embed_rows)
    other = numbered(1)
    mixed = MultiViewGraph(
        {"user": other.views["user"], "film": train.views["film"]},
        {("user", "film"): other.links["user", "film"].matrix()},
    )
    for graph in (held, other, mixed):  # known, new, and both
        for call in (model.evaluate, model.score, model.embed_graph):
            encoded.clear()
            call(graph)
            assert sorted(encoded) == ["film", "user"]


def test_embed_graph_returns_copies(of_rows):
    model, _, held = of_rows
    for view, Y in model.embed_graph(held).items():
        assert not np.shares_memory(Y, model.embeddings_[view])


def test_view_pair_without_training_links_is_ranked():
    rng = np.random.default_rng(0)
    graph = MultiViewGraph(
        {"user": rng.normal(size=(9, 3)), "film": 5, "tag": 4},
        {("user", "film"): rng.poisson(1.0, size=(9, 5)), ("film", "tag"): np.zeros((5, 4))},
    )
    model = quick(max_steps=5, patience=None).fit(graph)
    found = model.evaluate({("film", "tag"): ([0, 1], [1, 2], [1.0, 1.0])})["pairs"]["film,tag"]
    assert 0 <= found["roc_auc"] <= 1
    assert found["exposure"] == 1
    assert found["expected_over_observed"] == 0  # alpha is 0
