"""scikit-learn's model selection on graphs: samples are links."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ShuffleSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import GraphError, ParameterError
from pmvge.graph import hold_out_links
from pmvge.tuning import LinkKFold, LinkSamples, link_scorer

QUICK = PMvGE(4, max_steps=30, patience=None, random_state=0, progress=False)


@pytest.fixture(scope="module")
def graph() -> MultiViewGraph:
    """Users and items of four kinds: a user likes items of the same kind."""
    rng = np.random.default_rng(0)
    kinds = {"user": rng.integers(0, 4, 60), "item": rng.integers(0, 4, 40)}
    X = {view: np.eye(4)[k] + 0.1 * rng.normal(size=(len(k), 4)) for view, k in kinds.items()}
    likes = (kinds["user"][:, None] == kinds["item"]) & (rng.random((60, 40)) < 0.5)
    friends = np.triu(kinds["user"][:, None] == kinds["user"], 1) & (rng.random((60, 60)) < 0.2)
    links = {("user", "item"): np.nonzero(likes), ("user", "user"): np.nonzero(friends)}
    return MultiViewGraph(X, links)


@pytest.fixture(scope="module")
def samples(graph) -> LinkSamples:
    return LinkSamples(graph)


def cells(graph) -> set[tuple]:
    return {
        (pair, int(i), int(j))
        for pair, links in graph.links.items()
        for i, j in zip(links.rows, links.cols, strict=True)
    }


def test_samples_are_links(graph, samples) -> None:
    assert isinstance(samples, MultiViewGraph)
    assert samples.shape == (graph.n_links,) == (len(samples),)
    rows = np.array([0, 5, graph.n_links - 1])
    part = samples[rows]
    assert len(part) == 3
    assert cells(part) <= cells(graph)
    assert list(part.links) == list(graph.links)
    assert part.sizes == graph.sizes
    rest = samples[np.setdiff1d(np.arange(len(samples)), rows)]
    assert cells(part) | cells(rest) == cells(graph)
    mask = np.zeros(len(samples), bool)
    mask[rows] = True
    assert cells(samples[mask]) == cells(part)


@pytest.mark.parametrize("n_splits", [2, 3, 7])
def test_folds_divide_the_links_of_each_view_pair_evenly(samples, n_splits) -> None:
    found = []
    for train, test in LinkKFold(n_splits, random_state=0).split(samples):
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(samples)
        part = samples[test]
        for pair, links in samples.links.items():
            assert abs(len(part.links[pair]) - len(links) / n_splits) < 1
        found += test.tolist()
    assert sorted(found) == list(range(len(samples)))
    again = [test.tolist() for _, test in LinkKFold(n_splits, random_state=0).split(samples)]
    assert [k for fold in again for k in fold] == found


@pytest.mark.parametrize("by", ["user", "item"])
def test_entities_of_a_fold_have_no_links_in_training(samples, by) -> None:
    held = set()
    for train, test in LinkKFold(4, by=by, random_state=0).split(samples):
        degrees = [
            sum(
                np.bincount(end, minlength=samples.sizes[by])
                for pair, links in samples[part].links.items()
                for view, end in zip(pair, (links.rows, links.cols), strict=True)
                if view == by
            )
            for part in (train, test)
        ]
        out = np.flatnonzero((degrees[0] == 0) & (degrees[1] > 0))
        # Links of held-out entities are in no other fold, but for those within the view.
        touched = samples[test].links["user", "item"]
        assert {*(touched.rows if by == "user" else touched.cols).tolist()} <= {*out.tolist()}
        held |= {*out.tolist()}
        if by == "item":
            assert len(samples[test].links["user", "user"]) == 0
    linked = samples.links["user", "item"]
    assert held == {*(linked.rows if by == "user" else linked.cols).tolist()}


@pytest.mark.slow
def test_grid_search_finds_the_right_settings(samples) -> None:
    search = GridSearchCV(
        QUICK,
        {"n_components": [1, 4], "encoder": ["linear"], "effects": ["none"], "max_steps": [150]},
        cv=LinkKFold(3, random_state=0),
        scoring=link_scorer("roc_auc", pair=("user", "item")),
    ).fit(samples)
    assert search.best_params_["n_components"] == 4
    assert search.best_score_ > 0.75
    best = search.best_estimator_
    assert sum(map(len, best.links_.training.values())) == len(samples)  # refitted to all links


@pytest.mark.slow
def test_processes_do_not_change_scores(samples) -> None:
    options = {"cv": LinkKFold(2, random_state=0), "scoring": link_scorer("roc_auc")}
    one, two = (cross_val_score(QUICK, samples, n_jobs=n, **options) for n in (1, 2))
    np.testing.assert_allclose(one, two, rtol=1e-6)


@pytest.mark.parametrize(
    "cv",
    [KFold(2, shuffle=True, random_state=0), ShuffleSplit(1, test_size=0.2, random_state=0)],
)
def test_splitters_of_scikit_learn(samples, cv) -> None:
    scores = cross_val_score(QUICK, samples, cv=cv, scoring=link_scorer("ndcg@5"))
    assert (scores > 0.3).all()


def test_the_scorer_is_evaluate(graph, samples) -> None:
    train, held = hold_out_links(graph, 0.2, np.random.default_rng(0))
    model = PMvGE(4, max_steps=20, random_state=0, progress=False).fit(train)
    for metric, k in (("roc_auc", 10), ("average_precision", 10), ("recall@3", 3), ("ndcg@7", 7)):
        assert link_scorer(metric)(model, held) == model.evaluate(held, k=k)["overall"][metric]
    results = cross_validate(
        QUICK, samples, cv=LinkKFold(2, random_state=0), scoring={"auc": link_scorer("roc_auc")}
    )
    assert results["test_auc"].shape == (2,)


def test_the_default_score_is_the_log_likelihood(samples) -> None:
    scores = cross_val_score(QUICK, samples, cv=LinkKFold(2, random_state=0))
    assert np.isfinite(scores).all()


def first_step() -> FunctionTransformer:
    """Return a step that leaves out the links between users."""
    pair = ("user", "item")
    return FunctionTransformer(lambda graph: graph.with_links({pair: graph.links[pair]}))


def test_the_scorer_finds_the_model_in_pipelines_and_searches(samples) -> None:
    score, cv = link_scorer("roc_auc"), LinkKFold(2, random_state=0)
    options = {"cv": cv, "scoring": score, "error_score": "raise"}
    model = clone(QUICK).set_params(max_steps=5)
    plain = cross_val_score(model, samples, **options)
    assert (cross_val_score(make_pipeline(model), samples, **options) == plain).all()
    search = GridSearchCV(make_pipeline(model), {"pmvge__n_components": [4]}, **options)
    assert (cross_val_score(search, samples, **options) == plain).all()
    steps = make_pipeline(first_step(), model)
    by_hand = cross_val_score(model, LinkSamples(first_step().transform(samples)), **options)
    assert (cross_val_score(steps, samples, **options) == by_hand).all()
    with pytest.raises(ParameterError, match=r"^link_scorer: expected a PMvGE, .* got KMeans"):
        score(KMeans(), samples)


@pytest.mark.parametrize("patience", [None, 3])
def test_the_score_of_the_training(samples, patience) -> None:
    search = GridSearchCV(
        clone(QUICK).set_params(patience=patience),
        {"n_components": [4]},
        cv=LinkKFold(2, random_state=0),
        scoring=link_scorer("roc_auc"),
        return_train_score=True,
        error_score="raise",
    ).fit(samples)
    model = search.best_estimator_
    for fold, (train, _) in enumerate(LinkKFold(2, random_state=0).split(samples)):
        again = clone(model).fit(samples[train]).evaluate(samples[train], include_known=True)
        assert search.cv_results_[f"split{fold}_train_score"] == [again["overall"]["roc_auc"]]
    assert (
        search.score(samples) == model.evaluate(samples, include_known=True)["overall"]["roc_auc"]
    )


def test_the_pair_of_the_scorer(samples) -> None:
    train, held = hold_out_links(samples, 0.2, np.random.default_rng(0))
    model = clone(QUICK).fit(train)
    one, other = (link_scorer("roc_auc", pair=p) for p in (("user", "item"), ("item", "user")))
    assert one(model, held) == other(model, held)
    message = r"^link_scorer: pair: expected one of \('user', 'item'\), .* got \('user', 'film'\)"
    with pytest.raises(ParameterError, match=message):
        link_scorer("roc_auc", pair=("user", "film"))(model, held)


def test_a_splitter_shows_its_settings() -> None:
    assert repr(LinkKFold(3, by="item")) == "LinkKFold(3, by='item', random_state=None)"


@pytest.mark.parametrize("metric", ["accuracy", "recall", "roc_auc@10", "ndcg@0", "ndcg@x"])
def test_unknown_metrics(metric) -> None:
    with pytest.raises(ParameterError, match="link_scorer"):
        link_scorer(metric)


def test_bad_splits(samples, graph) -> None:
    with pytest.raises(ParameterError, match="n_splits: expected an integer >= 2"):
        next(LinkKFold(1).split(samples))
    with pytest.raises(GraphError, match=r"expected LinkSamples\(graph\), got list"):
        next(LinkKFold(2).split([1, 2]))
    with pytest.raises(ParameterError, match="LinkKFold: by: unknown view 'film'"):
        next(LinkKFold(2, by="film").split(samples))
    one = MultiViewGraph({"a": 2, "b": 4}, {("a", "b"): ([0] * 4, range(4))})
    with pytest.raises(ParameterError, match="links in and outside of each of 2 folds"):
        list(LinkKFold(2, by="a", random_state=0).split(one))
    with pytest.raises(GraphError, match="expected a MultiViewGraph, got list"):
        LinkSamples([])
    assert LinkKFold(3).get_n_splits() == 3


def test_a_graph_instead_of_samples_names_the_fix(graph) -> None:
    model, cv = PMvGE(2, max_steps=3), LinkKFold(2)
    message = r"^expected an array, got a MultiViewGraph; .*pmvge\.tuning\.LinkSamples\(graph\)"
    with pytest.raises(GraphError, match=message):
        GridSearchCV(model, {"n_components": [1, 2]}, cv=cv).fit(graph)
    with pytest.raises(GraphError, match=message):
        cross_val_score(model, graph, cv=cv)
    with pytest.raises(GraphError, match=message):
        np.asarray(graph)
