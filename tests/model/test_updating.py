"""fit(start=) and update: what is copied, what is folded in, and what is refused."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from scipy import sparse

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import CheckpointMismatch, GraphError, InputError, ParameterError
from pmvge.model import NoNewRows
from pmvge.model.fitting.updating import MIN_STEPS

N, M, TAGS = 30, 24, 8
QUICK = {"max_steps": 150, "similarity": "inner", "progress": False, "random_state": 0}


def make(users: int = N, films: int = M, *, seed: int = 0, shuffle: bool = False) -> MultiViewGraph:
    """Return the first users and films of one large graph, with given ids, in any order."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(N + 9, 3)), sparse.random_array((M + 9, 12), density=0.4, rng=rng)
    W = rng.poisson(0.5 * np.exp(0.7 * X[:, :1] @ np.ones((1, M + 9))))
    tags = rng.poisson(0.5, size=(M + 9, TAGS))
    cites = np.triu(rng.poisson(0.3, size=(M + 9, M + 9)), 1)
    i, j = np.arange(users), np.arange(films)
    if shuffle:
        i, j = rng.permutation(i), rng.permutation(j)
    return MultiViewGraph(
        {"user": X[i], "film": sparse.csr_array(Z)[j], "tag": TAGS},
        {
            ("user", "film"): W[np.ix_(i, j)],
            ("film", "tag"): tags[j],
            ("film", "film"): (cites + cites.T)[np.ix_(j, j)],
        },
        ids={"user": [f"u{n}" for n in i], "film": j, "tag": [f"t{n}" for n in range(TAGS)]},
    )


def parts(graph: MultiViewGraph) -> dict:
    """Return the arguments that make a graph."""
    return {
        "views": {v: graph.sizes[v] if X is None else X for v, X in graph.views.items()},
        "links": {pair: part.matrix() for pair, part in graph.links.items()},
        "ids": dict(graph.ids),
    }


def changed(graph: MultiViewGraph, **changes) -> MultiViewGraph:
    """Return a graph with some entries of its parts replaced."""
    return MultiViewGraph(**{k: v | changes.get(k, {}) for k, v in parts(graph).items()})


@pytest.fixture(scope="module", params=["vector", "none", {"film": "bias", "tag": "vector"}])
def today(request) -> PMvGE:
    effects = request.param
    return PMvGE(4, effects=effects, **QUICK).fit(make(), hold_out=0.2)


def state(model: PMvGE) -> dict[str, bytes]:
    weights = {k: v.numpy().tobytes() for k, v in model._fitted.network.state_dict().items()}
    vectors = {view: Y.tobytes() for view, Y in model._fitted.outputs.items()}
    return weights | vectors | {"alpha": repr(model.log_alpha_).encode()}


def one_step(**more) -> PMvGE:
    """Return an estimator that makes one step at a rate of almost 0."""
    settings = QUICK | {"max_steps": 1, "learning_rate": 1e-12, "patience": None}
    return PMvGE(4, **(settings | more))


# -- start ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [False, True])
def test_known_entities_start_from_the_model(today, shuffle):
    graph = make(shuffle=shuffle)
    model = one_step(effects=today.effects).fit(graph, start=today)
    for view in graph.views:
        at = [today.ids_[view].tolist().index(name) for name in model.ids_[view].tolist()]
        before, after = today._fitted.outputs[view][at], model._fitted.outputs[view]
        K = 4
        np.testing.assert_allclose(after[:, :K], before[:, :K], atol=1e-5)
        # Biases are centred over the entities, which are the same.
        np.testing.assert_allclose(after[:, K:], before[:, K:], atol=1e-5)
    assert model.similarity_.state_dict().keys() == today.similarity_.state_dict().keys()


@pytest.fixture
def to_the_end(monkeypatch):
    """Fold in until the maximum is reached."""
    monkeypatch.setattr("pmvge.model.fold_in.fold_in.FIRST_STEPS", 100)


def test_new_entities_with_effects_are_folded_in(today, to_the_end):
    graph = make(N + 3, M + 2, shuffle=True)
    model = one_step(effects=today.effects).fit(graph, start=today)
    W = graph.links["user", "film"].matrix().toarray()
    known = [n for n, film in enumerate(graph.ids["film"].tolist()) if film < M]
    for at in [n for n, name in enumerate(graph.ids["user"]) if int(name[1:]) >= N]:
        row = graph.views["user"][at : at + 1]
        expected = today.embed("user", row)
        if today.describe()["views"]["user"]["effects"]["kind"] == "vector":
            links = [(0, graph.ids["film"][j], W[at, j]) for j in known if W[at, j]]
            columns = tuple(map(list, zip(*links, strict=True)))
            expected = today.fold_in("user", row, links={"film": columns}, exposure=1.0)
            assert np.abs(expected - today.embed("user", row)).max() > 1e-3
        np.testing.assert_allclose(model.embeddings_["user"][at], expected[0], atol=2e-5)


def test_one_newton_step_goes_towards_the_effects_of_fold_in():
    start = PMvGE(4, effects="vector", **QUICK).fit(make())
    graph = make(N + 5)
    model = one_step(effects="vector").fit(graph, start=start)
    films = graph.links["user", "film"].matrix().toarray()[N:]
    i, j = np.nonzero(films)
    links = {"film": (i, graph.ids["film"][j], films[i, j])}
    X = graph.views["user"][N:]
    plain = start.embed("user", X)
    full = start.fold_in("user", X, links=links, exposure=1.0) - plain
    step = model.embeddings_["user"][N:] - plain
    cosine = (full * step).sum(1) / np.linalg.norm(full, axis=1) / np.linalg.norm(step, axis=1)
    assert (cosine > 0.7).all()


def test_new_entities_of_views_without_features(to_the_end):
    def graph(users):
        W = np.random.default_rng(0).poisson(1.0, size=(N + 2, M))[:users]
        return MultiViewGraph(
            {"user": users, "film": M}, {("user", "film"): W}, ids={"user": np.arange(users)}
        )

    for effects in ("vector", "none"):
        start = PMvGE(4, effects=effects, **QUICK).fit(graph(N))
        model = one_step(effects=effects).fit(graph(N + 2), start=start)
        np.testing.assert_allclose(
            model.embeddings_["user"][:N], start.embeddings_["user"], atol=1e-5
        )
        new = model.embeddings_["user"][N:]
        assert np.isfinite(new).all()
        if effects == "vector":
            W = graph(N + 2).links["user", "film"].matrix().toarray()[N:]
            i, j = np.nonzero(W)
            links = {"film": (i, j, W[i, j])}
            expected = start.fold_in("user", links=links, exposure=1.0)
            np.testing.assert_allclose(new, expected, atol=2e-5)
        else:
            assert np.abs(new).max() < 0.1  # small and random


def test_input_scaling_and_priors_are_kept(today):
    graph = make()
    other = changed(graph, views={"user": 100 * graph.views["user"] + 7})
    model = one_step(effects=today.effects).fit(other, start=today)
    before, after = (m._fitted.network.encoder_of("user").input for m in (today, model))
    for name, buffer in before.state_dict().items():
        assert buffer.equal(after.state_dict()[name])
    for view in graph.views:
        before, after = (m.describe()["views"][view]["effects"] for m in (today, model))
        assert before.get("sigma", 0) == pytest.approx(after.get("sigma", 0), rel=0.2)


def test_default_ids_identify_no_entity():
    graph = make()
    plain = MultiViewGraph(
        {"user": graph.views["user"], "film": M},
        {("user", "film"): graph.links["user", "film"].matrix()},
    )
    start = PMvGE(4, effects="vector", **QUICK).fit(plain)
    model = one_step(effects="vector").fit(plain, start=start)
    effects = [m._fitted.network.effects_of("user").weight for m in (start, model)]
    assert not effects[0].allclose(effects[1], atol=1e-4)  # folded in, not copied
    with pytest.raises(InputError, match="view 'user': expected ids that identify its entities"):
        start.update(plain)


def without(graph: MultiViewGraph, view: str) -> MultiViewGraph:
    others = {v: X for v, X in parts(graph)["views"].items() if v != view}
    links = {pair: part for pair, part in parts(graph)["links"].items() if view not in pair}
    return MultiViewGraph(others, links, {v: graph.ids[v] for v in others})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda g: without(g, "tag"),
            "expected the views of the model, 'film', 'tag', 'user', got 'film', 'user'",
        ),
        (
            lambda g: g.with_links({("user", "film"): g.links["user", "film"]}),
            "expected links of the model's view pairs, .*'film,tag'.*, got 'user,film'",
        ),
        (
            lambda g: changed(g, views={"user": g.views["user"][:, :2]}),
            "view 'user': expected the features of the model, 3, got 2",
        ),
        (
            lambda g: changed(g, views={"film": g.views["film"].toarray()}),
            "view 'film': expected the features of the model, 12, sparse, got 12",
        ),
        (
            lambda g: changed(g, ids={"film": [str(name) for name in g.ids["film"]]}),
            "view 'film': expected ids of the model's type, integers such as 0, got text such as "
            "'0'",
        ),
    ],
)
def test_other_graphs_are_refused(today, change, message):
    graph, before = change(make()), state(today)
    with pytest.raises(InputError, match="start: " + message):
        one_step(effects=today.effects).fit(graph, start=today)
    with pytest.raises(InputError, match="update: " + message):
        today.update(graph)
    assert state(today) == before


def test_something_else_than_a_graph_is_refused(today):
    with pytest.raises(GraphError, match="expected a MultiViewGraph, got dict"):
        one_step(effects=today.effects).fit({}, start=today)
    with pytest.raises(InputError, match="update: expected a MultiViewGraph, got dict"):
        today.update({})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 5}, "start: n_components: expected the value of the model, 4, got 5"),
        ({"similarity": "cosine"}, "start: similarity: expected .* 'inner', got 'cosine'"),
        ({"effects": "bias"}, "start: effects: expected the value of the model"),
        ({"hidden_sizes": (8,)}, "expected the encoders of the model, but .* has shape"),
        ({"hidden_sizes": ()}, "expected the encoders of the model, but .* has shape"),
    ],
)
def test_other_settings_are_refused(today, settings, message):
    model = one_step(effects=today.effects).set_params(**settings)
    with pytest.raises(ParameterError, match=message):
        model.fit(make(), start=today)


def test_start_must_be_a_fitted_model():
    from pmvge.checks import NotFitted

    with pytest.raises(ParameterError, match="start: expected a fitted PMvGE, got str"):
        one_step().fit(make(), start="model")
    with pytest.raises(NotFitted):
        one_step().fit(make(), start=PMvGE())


def test_view_pairs_may_be_given_in_the_other_order(today):
    graph = make()
    turned = {pair[::-1]: part.transposed() for pair, part in graph.links.items()}
    other = graph.with_links(dict(reversed(turned.items())))
    model = one_step(effects=today.effects).fit(other, start=today)
    assert list(model.log_alpha_) == list(today.log_alpha_)


FAMILIES = [
    {("user", "film"): "negative_binomial", "tag,film": "beta"},
    dict.fromkeys(("film,user", "film,tag", "film,film"), "negative_binomial"),
]


@pytest.mark.parametrize("family", FAMILIES, ids=["several", "one"])
def test_families_by_view_pair_can_be_updated(family, tmp_path):
    settings = QUICK | {"max_steps": 10, "family": family}
    start = PMvGE(4, **settings).fit(make())
    start.save(tmp_path)
    graph = make(N + 3)
    for model in (PMvGE.load(tmp_path), start):
        PMvGE(4, **settings).fit(graph, start=model)
        assert len(model.update(graph).ids_["user"]) == N + 3
    with pytest.raises(ParameterError, match=r"start: family: expected .*, got 'poisson'"):
        PMvGE(4, **settings | {"family": "poisson"}).fit(graph, start=start)


@pytest.mark.parametrize("effects", ["none", {"user": "vector"}])
def test_views_without_effects_can_be_updated_if_the_similarity_has_biases(effects):
    settings = QUICK | {"max_steps": 10, "similarity": "shifted", "effects": effects}
    start = PMvGE(4, **settings).fit(make())
    model = PMvGE(4, **settings).fit(make(N + 3), start=start)
    assert np.isfinite(model.embeddings_["user"]).all()
    assert len(start.update(make(N + 3)).ids_["user"]) == N + 3


def test_a_checkpoint_belongs_to_its_start(tmp_path):
    settings = {"checkpoint_dir": tmp_path, "checkpoint_steps": 1, "max_steps": 4}
    starts = [PMvGE(4, **QUICK | {"random_state": seed}).fit(make()) for seed in (0, 1)]
    model = one_step(**settings).fit(make(), start=starts[0])
    again = one_step(**settings).fit(make(), start=starts[0], resume=True)
    assert state(again) == state(model)
    with pytest.raises(CheckpointMismatch):
        one_step(**settings).fit(make(), start=starts[1], resume=True)


# -- update ---------------------------------------------------------------------------------


def copied(model: PMvGE) -> PMvGE:
    other = copy.copy(model)
    other._set_fitted(model._fitted)
    return other


def test_update_without_new_rows_changes_nothing(today):
    model, before = copied(today), state(today)
    with pytest.warns(NoNewRows, match="no new rows: the model is unchanged"):
        model.update(make(shuffle=True))
    assert state(model) == before
    assert model.history_ is today.history_


def test_changes_counts_rows(today):
    graph = make(N + 3, M)
    smaller = graph.subgraph({"film": np.arange(M - 2)})
    pair = ("user", "film")
    links = smaller.links[pair]
    heavier = np.array(links.weights)
    heavier[:4] += 1
    W = sparse.coo_array((heavier, (links.rows, links.cols)), shape=links.shape)
    other = changed(smaller, links={pair: W})
    found = today.changes(other)
    assert found["views"] == {
        "user": {"new": 3, "gone": 0},
        "film": {"new": 0, "gone": 2},
        "tag": {"new": 0, "gone": 0},
    }
    old = today.known_links("user", today.ids_["user"], among="film").toarray()
    at = other.links[pair].rows
    old_rows = {name: n for n, name in enumerate(today.ids_["user"])}
    is_new = np.array([name not in old_rows for name in other.ids["user"]])
    first_four = at[:4]
    assert found["links"]["user,film"] == {
        "new": int(is_new[at].sum()),
        "changed": int((~is_new[first_four]).sum()),
        "gone": int((old[:, M - 2 :] > 0).sum()),
    }


def test_an_update_is_a_short_fit_of_all_entities(today):
    graph = make(N + 3, M + 2, shuffle=True)
    model = copied(today).update(graph)
    assert model.history_[-1].step == max(MIN_STEPS, today.history_[-1].step // 6)
    assert {record.phase for record in model.history_} == {"decay"}
    for view, ids in graph.ids.items():
        np.testing.assert_array_equal(model.ids_[view], ids)
    for pair, links in graph.links.items():
        known = model._fitted.known_links(*pair)
        np.testing.assert_array_equal(known.matrix().toarray(), links.matrix().toarray())
    assert model.get_params() == today.get_params()
    assert model._fitted.settings == today._fitted.settings
    again = copied(today).update(graph)
    assert state(again) == state(model)  # bit for bit


def test_held_out_links_stay_held_out(today):
    graph = make(N + 3, M + 2, shuffle=True)
    model = copied(today).update(graph)
    was = {
        (today.ids_["user"][i], today.ids_["film"][j])
        for i, j in zip(*_ends(today.links_.held_out["user", "film"]), strict=True)
    }
    held = model.links_.held_out["user", "film"]
    names = {
        (model.ids_["user"][i], model.ids_["film"][j]) for i, j in zip(*_ends(held), strict=True)
    }
    assert was <= names
    new = {(u, f) for u, f in names - was if int(u[1:]) >= N or f >= M}
    assert names - was == new  # only new links are added
    assert 0 < len(new) < len(held)
    assert model.evaluate()["pairs"]["user,film"]["links"] == len(held)


def _ends(links):
    return links.rows.tolist(), links.cols.tolist()


def test_without_held_out_links_an_update_holds_out_none():
    model = PMvGE(4, **QUICK).fit(make(), hold_out=0)
    patience = model.patience
    model.update(make(N + 2))
    assert not any(map(len, model.links_.held_out.values()))
    assert model.patience == patience
    assert model._fitted.settings["patience"] is None  # as in the fit


def test_a_second_update_is_as_long_as_the_first(tmp_path):
    settings = QUICK | {"max_steps": 250, "patience": None}
    model = PMvGE(4, **settings).fit(make())
    model.update(make(N + 1)).save(tmp_path / "model")
    model = PMvGE.load(tmp_path / "model")
    model.update(make(N + 2))
    assert model.history_[-1].step == 250 // 6
    assert model.describe()["views"]["user"]["n"] == N + 2


def test_texts_and_factors_stay(today):
    model = copied(today)
    texts = [f"film {n}" for n in today.ids_["film"]]
    model.label({"film": {"title": texts}}, columns={"film": {"long": texts}})
    model.label(names={"film": "long"})
    new = make(N + 2)
    is_new = np.array([int(name[1:]) >= N for name in new.ids["user"]])
    part = new.with_links(
        {("user", "film"): new.links["user", "film"].select(is_new[new.links["user", "film"].rows])}
    )
    factor = model.calibrate(part).describe()["calibrated"]["user,film"]["new-known"]
    model.update(make(N + 3, M + 2, shuffle=True))
    for found in (model.labels_["film"]["title"], model.names_["film"]):
        titles = dict(zip(model.ids_["film"].tolist(), found, strict=True))
        assert titles[3] == "film 3"
        assert titles[M] == ""
    assert model.describe()["calibrated"]["user,film"]["new-known"] == factor


def test_factors_of_view_pairs_and_outputs_without_effects_are_new():
    """With default settings, which depend on the graph, and factors that follow the links."""
    new = make(N + 9, M + 9)
    settings = {"progress": False, "random_state": 0, "pair_weights": "balanced"}
    model = PMvGE(4, max_steps=60, **settings).fit(make(), hold_out=0.2)
    model.update(new)
    kept = model.links_.training
    most = max(map(len, kept.values()))
    for pair, alpha in model._fitted.alpha.items():
        expected = np.sqrt(len(kept[pair]) * most) / kept[pair].total
        assert alpha.pair_weight == pytest.approx(expected)
    for view in ("user", "film"):
        as_new = model.embed(view, new.views[view])
        np.testing.assert_allclose(model._fitted.plain[view][:, :4], as_new, atol=1e-6)
    assert "features_only" in model.evaluate()


def test_a_model_without_links_cannot_be_updated(today, tmp_path):
    today.save(tmp_path / "model", links=False)
    with pytest.raises(InputError, match="update: the model has no training links"):
        PMvGE.load(tmp_path / "model").update(make(N + 1))


def test_a_failed_update_leaves_the_model_as_it_was(today, monkeypatch):
    model, before = copied(today), state(today)

    def fail(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("pmvge.model.fitting.updating.fit", fail)
    with pytest.raises(KeyboardInterrupt):
        model.update(make(N + 1))
    assert state(model) == before


def test_an_update_learns_the_new_links():
    """New users like the other half of the films: an update ranks them as a refit does."""
    rng = np.random.default_rng(0)
    n, m = 80, 40
    kind = rng.integers(2, size=n + 30)
    half = np.arange(m) % 2
    W = rng.poisson(np.where(kind[:, None] == half, 1.0, 0.02))
    X = rng.normal(size=(n + 30, 2))  # says nothing

    def graph(users):
        ids = {"user": np.arange(users), "film": np.arange(m)}
        return MultiViewGraph({"user": X[:users], "film": m}, {("user", "film"): W[:users]}, ids)

    settings = {"effects": "vector", "similarity": "inner", "random_state": 0, "progress": False}
    model = PMvGE(4, max_steps=1000, patience=None, **settings).fit(graph(n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.update(graph(n + 30))
    mu = model.intensity("user", None, "film", None)
    own = np.array([mu[i, half == kind[i]].mean() for i in range(n, n + 30)])
    others = np.array([mu[i, half != kind[i]].mean() for i in range(n, n + 30)])
    assert (own > 3 * others).mean() > 0.9
