"""PMvGE.search with left-out candidates, and known links, against a full sort."""

from __future__ import annotations

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError, NotInductive

USERS, FILMS = 20, 12


def make_graph(given: bool = True) -> MultiViewGraph:
    """Return users with features, films without, and links between and within them."""
    rng = np.random.default_rng(3)
    W = rng.poisson(0.4, size=(USERS, FILMS))
    friends = np.triu(rng.random((USERS, USERS)) < 0.15, 1).astype(float)
    ids = {"user": [f"u{i}" for i in range(USERS)], "film": 100 + np.arange(FILMS)}
    return MultiViewGraph(
        {"user": rng.normal(size=(USERS, 4)), "film": FILMS},
        {("user", "film"): W, ("user", "user"): friends},
        ids if given else None,
    )


@pytest.fixture(scope="module")
def graph():
    return make_graph()


@pytest.fixture(scope="module")
def model(graph):
    return PMvGE(6, effects="none", max_steps=30, random_state=0, progress=False).fit(graph)


def best(model, graph, view, row, among, keep):
    """Return ids and expected weights of the candidates to keep, in descending order."""
    Y = {v: vectors.astype(float) for v, vectors in model.embeddings_.items()}
    mu = np.exp(model.log_alpha_of(view, among) + Y[view][row] @ Y[among].T)
    order = [j for j in np.argsort(-mu) if keep[j]]
    return graph.ids[among][order].tolist(), mu[order]


def check(found, expected):
    ids, mu = found
    names, weights = expected
    n = len(names)
    assert ids[:n].tolist() == names
    np.testing.assert_allclose(mu[:n], weights, rtol=1e-5)
    assert np.isnan(mu[n:]).all()
    assert all(name in (-1, "") for name in ids[n:].tolist())


def test_known_entities_are_searched_by_id(model, graph):
    everything = np.ones(FILMS, bool)
    found = model.search("user", ids=["u7", "u2"], among="film", k=FILMS)
    for row, i in enumerate((7, 2)):
        check((found[0][row], found[1][row]), best(model, graph, "user", i, "film", everything))
    by_rows = model.search("user", graph.views["user"][[7, 2]], among="film", k=FILMS)
    np.testing.assert_array_equal(found[0], by_rows[0])


def test_without_entities_all_training_entities_are_searched(model):
    ids, mu = model.search("film", among="user", k=3)
    again, same = model.search("film", ids=model.ids_["film"], among="user", k=3)
    np.testing.assert_array_equal(ids, again)
    np.testing.assert_array_equal(mu, same)


def test_exclude_known_leaves_out_the_links_given_to_fit(model, graph):
    W = graph.links["user", "film"].matrix().toarray()
    names = ["u0", "u5", "u11"]
    found = model.search("user", ids=names, among="film", k=FILMS, exclude="known")
    for row, i in enumerate((0, 5, 11)):
        assert 0 < (W[i] > 0).sum() < FILMS
        expected = best(model, graph, "user", i, "film", W[i] == 0)
        check((found[0][row], found[1][row]), expected)
    ids, mu = model.search("film", ids=[103], among="user", k=USERS, exclude="known")
    check((ids[0], mu[0]), best(model, graph, "film", 3, "user", W[:, 3] == 0))


def test_exclude_known_within_a_view_leaves_out_the_entity_itself(model, graph):
    A = graph.links["user", "user"].matrix().toarray()
    linked = int(np.argmax(A.sum(1)))
    for exclude, keep in (("known", A[linked] == 0), ("self", np.ones(USERS, bool))):
        keep = keep & (np.arange(USERS) != linked)
        ids, mu = model.search("user", ids=[f"u{linked}"], among="user", k=USERS, exclude=exclude)
        check((ids[0], mu[0]), best(model, graph, "user", linked, "user", keep))
    ids, _ = model.search("user", ids=[f"u{linked}"], among="user", k=USERS)
    assert f"u{linked}" in ids


def test_rows_with_known_ids_are_known_and_others_new(model, graph):
    X = graph.views["user"][:2]
    W = graph.links["user", "film"].matrix().toarray()
    ids, mu = model.search("user", X, ids=["u0", "other"], among="film", k=FILMS, exclude="known")
    check((ids[0], mu[0]), best(model, graph, "user", 0, "film", W[0] == 0))
    check((ids[1], mu[1]), best(model, graph, "user", 1, "film", np.ones(FILMS, bool)))
    ids, _ = model.search("user", X, among="film", k=FILMS, exclude="known")  # all rows are new
    assert (ids > 0).all()


def test_default_ids_do_not_identify_rows(model):
    plain = make_graph(given=False)
    fitted = PMvGE(6, effects="none", max_steps=30, random_state=0, progress=False).fit(plain)
    X = plain.views["user"][:3]
    assert fitted.describe()["views"]["user"]["given_ids"] is False
    ids, _ = fitted.search("user", X, ids=[0, 1, 2], among="film", k=FILMS, exclude="known")
    assert (ids >= 0).all()  # new entities have no links
    known, _ = fitted.search("user", ids=[0, 1, 2], among="film", k=FILMS, exclude="known")
    assert (known < 0).any()  # ids alone name training entities
    np.testing.assert_array_equal(fitted.embeddings_["user"], model.embeddings_["user"])


def test_excluded_ids_are_left_out_for_all(model, graph):
    keep = ~np.isin(graph.ids["film"], [100, 105])
    found = model.search("user", ids=["u1", "u2"], among="film", k=FILMS, exclude=[105, 100])
    for row, i in enumerate((1, 2)):
        check((found[0][row], found[1][row]), best(model, graph, "user", i, "film", keep))


def test_candidates_of_a_featureless_view_can_be_excluded(model, graph):
    W = graph.links["user", "film"].matrix().toarray()
    some = [104, 101, 109]
    ids, mu = model.search("user", ids=["u3"], among="film", k=3, candidates=some, exclude="known")
    left = [position for position, film in enumerate(some) if W[3, film - 100] == 0]
    assert sorted(ids[0][~np.isnan(mu[0])].tolist()) == left


def test_validation_links_are_known(graph):
    kept, held = (
        graph.with_links({p: s.select(part) for p, s in graph.links.items()})
        for part in (slice(2, None), slice(0, 2))
    )
    fitted = PMvGE(2, max_steps=3, random_state=0, progress=False).fit(kept, held)
    known = fitted.known_links("user", [f"u{i}" for i in range(USERS)], among="film")
    np.testing.assert_array_equal(known.toarray(), graph.links["user", "film"].matrix().toarray())
    turned = fitted.known_links("film", graph.ids["film"], among="user")
    np.testing.assert_array_equal(turned.toarray(), known.toarray().T)
    assert fitted.known_links("user", ["new"], among="film").nnz == 0


def test_invalid_arguments_are_refused(model):
    with pytest.raises(InputError, match="exclude: expected None, 'known', 'self' or a list"):
        model.search("user", ids=["u1"], among="film", exclude="linked")
    with pytest.raises(InputError, match=r"exclude: expected ids of 'film'.* unknown, such as 999"):
        model.search("user", ids=["u1"], among="film", exclude=[999])
    with pytest.raises(InputError, match="exclude: ids must be all integers or all strings"):
        model.search("user", ids=["u1"], among="film", exclude=True)
    with pytest.raises(NotInductive, match=r"'user'.*'x'"):
        model.search("user", ids=["x"], among="film")
    with pytest.raises(InputError, match=r"unknown view 'films'.*'film'"):
        model.search("user", ids=["u1"], among="films")


def test_a_model_without_links_says_so(model, tmp_path):
    model.save(tmp_path / "model", links=False)
    loaded = PMvGE.load(tmp_path / "model")
    assert loaded.links_ is None
    assert loaded.search("user", ids=["u1"], among="user", k=2, exclude="self")[0].shape == (1, 2)
    for call in (
        lambda: loaded.search("user", ids=["u1"], among="film", exclude="known"),
        lambda: loaded.known_links("user", ["u1"], among="film"),
        lambda: loaded.evaluate(),
    ):
        with pytest.raises(InputError, match=r"no training links.*links=False"):
            call()
