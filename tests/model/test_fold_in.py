"""PMvGE.fold_in, and search and vectors with first links."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError, NotInductive
from pmvge.model.fold_in import fold_in as module

N, M = 60, 40
FILMS = [f"f{n}" for n in range(M)]
SETTINGS = {
    "n_components": 4,
    "similarity": "inner",
    "effects": "vector",
    "max_steps": 150,
    "hidden_sizes": (8,),
    "dropout": 0.0,
    "patience": None,
    "random_state": 0,
    "progress": False,
}
RNG = np.random.default_rng(1)
X = RNG.normal(size=(5, 3)).astype(np.float32)
# Row 0 has no links, row 2 a repeated one.
ROWS = [1, 2, 2, 2, 3, 3, 4, 4, 4, 4]
IDS = ["f1", "f2", "f2", "f7", "f8", "f9", "f3", "f30", "f31", "f39"]
WEIGHTS = [1.0, 1.0, 2.0, 1.0, 4.0, 0.5, 1.0, 1.0, 1.0, 1.0]
LINKS = {"film": (ROWS, IDS, WEIGHTS)}


def make_graph(*, features=True):
    rng = np.random.default_rng(0)
    U, tastes = rng.normal(size=(N, 3)), rng.normal(size=(N, 2))
    topics = rng.normal(size=(M, 2))
    W = rng.poisson(np.exp(0.8 * tastes @ topics.T + 0.3 * U[:, :1] - 1))
    friends = np.nonzero(np.triu(rng.random((N, N)) < 0.15, 1))
    ids = {"user": [f"u{n}" for n in range(N)], "film": FILMS}
    views = {"user": U if features else N, "film": M, "tag": 3}
    tags = (np.arange(M), np.arange(M) % 3)
    links = {("user", "film"): W, ("user", "user"): friends, ("film", "tag"): tags}
    return MultiViewGraph(views, links, ids)


@pytest.fixture(scope="module")
def model():
    return PMvGE(**SETTINGS).fit(make_graph())


@pytest.fixture(scope="module")
def featureless():
    return PMvGE(**SETTINGS).fit(make_graph(features=False))


@pytest.fixture(scope="module")
def without():
    return PMvGE(**{**SETTINGS, "effects": {"film": "vector"}, "max_steps": 5}).fit(make_graph())


def dense(ids, rows=ROWS, weights=WEIGHTS):
    W = np.zeros((len(X), len(FILMS)))
    np.add.at(W, (rows, [FILMS.index(name) for name in ids]), weights)
    return W


def reference(model, f, W, *, exposure=None):
    """Return the best vector and the expected weights of one user's row, by scipy."""
    K = model.n_components
    C = model.vectors("film", among="user", side="candidate").astype(float)  # (y, 1, bias)
    sigma, tau = model._fitted.network.effects_of("user").prior.tolist()
    log_alpha = model.log_alpha_of("user", "film")

    def eta(theta):
        return log_alpha + C @ (f + np.append(theta, 0.0))

    def loss(theta):
        prior = theta[:K] @ theta[:K] / (2 * sigma**2) + theta[K] ** 2 / (2 * tau**2)
        if exposure is None:
            return W.sum() * special.logsumexp(eta(theta)) - W @ eta(theta) + prior
        return exposure * np.exp(eta(theta)).sum() - W @ eta(theta) + prior

    best = optimize.minimize(loss, np.zeros(K + 1), options={"gtol": 1e-7}).x
    return f[:K] + best[:K], np.exp(eta(best))


@pytest.mark.parametrize("exposure", [None, 1.0, 0.2])
def test_vectors_and_expected_weights_are_those_of_scipy(model, exposure):
    found = model.fold_in("user", X, links=LINKS, exposure=exposure)
    ids, mu = model.search("user", X, links=LINKS, exposure=exposure, among="film", k=M)
    F = model.vectors("user", X, among="film").astype(float)
    for row, W in enumerate(dense(IDS)):
        if not W.any():
            continue
        y, expected = reference(model, F[row], W, exposure=exposure)
        np.testing.assert_allclose(found[row], y, atol=1e-3)
        order = [FILMS.index(name) for name in ids[row]]
        np.testing.assert_allclose(mu[row], expected[order], rtol=3e-3)


def test_featureless_entities_are_folded_in_from_links_alone(featureless):
    found = featureless.fold_in("user", links=LINKS)
    F = np.zeros((len(X), featureless.n_components + 2))
    F[:, -1] = 1.0
    for row, W in enumerate(dense(IDS)):
        if W.any():
            y, _ = reference(featureless, F[row], W)
            np.testing.assert_allclose(found[row], y, atol=1e-3)
    assert found.shape == (5, featureless.n_components)
    np.testing.assert_array_equal(found[0], 0)


def test_all_links_of_a_training_entity_give_its_vector():
    graph = make_graph()
    model = PMvGE(**{**SETTINGS, "max_steps": 1500, "schedule": "cosine", "batch_size": 2048}).fit(
        graph
    )
    links = graph.links["user", "film"]
    friends = graph.links["user", "user"].matrix().tocoo()
    given = {
        "film": (links.rows, graph.ids["film"][links.cols], links.weights),
        "user": (friends.row, graph.ids["user"][friends.col], friends.data),
    }
    found = model.fold_in("user", graph.views["user"], links=given, exposure=1)
    trained, new = model.embeddings_["user"], model.embed("user", graph.views["user"])
    assert np.abs(trained - new).mean() > 0.1
    assert np.abs(found - trained).mean() < 0.1 * np.abs(trained - new).mean()


@pytest.mark.parametrize("links", [{}, {"film": ([], [])}, {"film": ([1], ["f1"], [0.0])}])
@pytest.mark.parametrize("exposure", [None, 1.0])
def test_without_links_vectors_are_those_of_the_features(model, links, exposure):
    found = model.fold_in("user", X, links=links, exposure=exposure)
    np.testing.assert_array_equal(found, model.embed("user", X))


def test_rows_without_links_keep_their_vector_and_others_change(model):
    found, usual = model.fold_in("user", X, links=LINKS), model.embed("user", X)
    np.testing.assert_array_equal(found[0], usual[0])
    assert (np.abs(found - usual)[1:].max(axis=1) > 1e-3).all()


def test_repeated_links_add_up_and_order_does_not_matter(model):
    rows, ids = [0] * 3 * M, FILMS * 3  # more links than entities
    weights = RNG.random(3 * M)
    order = RNG.permutation(3 * M)
    total = weights.reshape(3, M).sum(axis=0)
    found = [
        model.fold_in("user", X[:1], links={"film": given})
        for given in (
            (rows, ids, weights),
            (rows, np.array(ids)[order], weights[order]),
            (rows[:M], FILMS, total),
        )
    ]
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    np.testing.assert_allclose(found[2], found[0], atol=1e-6)


def test_rows_do_not_depend_on_each_other(model, monkeypatch):
    together = model.fold_in("user", X, links=LINKS)
    monkeypatch.setattr(module, "CELLS", 1)  # one row at a time
    np.testing.assert_allclose(model.fold_in("user", X, links=LINKS), together, atol=1e-6)


def test_links_within_the_view_and_across_add_their_evidence(model):
    links = {"film": ([0], ["f1"]), "user": ([0, 0], ["u1", "u2"])}
    both = model.fold_in("user", X[:1], links=links)
    one = model.fold_in("user", X[:1], links={"film": links["film"]})
    other = model.fold_in("user", X[:1], links={"user": links["user"]})
    assert min(np.abs(both - one).max(), np.abs(both - other).max()) > 1e-3


@pytest.mark.parametrize("saved_links", [True, False])
def test_a_sample_of_the_candidates_estimates_the_sum(model, monkeypatch, tmp_path, saved_links):
    model.save(tmp_path / "m", links=saved_links)
    loaded = PMvGE.load(tmp_path / "m")
    exact = loaded.fold_in("user", X, links=LINKS)
    moved = np.abs(exact - loaded.embed("user", X)).max()
    monkeypatch.setattr(module, "EXACT", M - 1)
    for draws, error in ((99_991, 0.01), (25, 0.5)):  # 25 of 40 candidates: some are missing
        monkeypatch.setattr(module, "SAMPLE", draws)
        sampled = loaded.fold_in("user", X, links=LINKS)
        assert 0 < np.abs(sampled - exact).max() < error * moved
        np.testing.assert_array_equal(loaded.fold_in("user", X, links=LINKS), sampled)


def test_own_partners_are_in_the_sum_whatever_the_sample(model, monkeypatch):
    links = {"film": ([0] * M, FILMS, np.arange(1.0, M + 1))}
    exact = model.fold_in("user", X[:1], links=links)
    monkeypatch.setattr(module, "EXACT", M - 1)
    monkeypatch.setattr(module, "SAMPLE", 3)
    np.testing.assert_allclose(model.fold_in("user", X[:1], links=links), exact, atol=1e-6)


def test_effects_of_biases_need_an_exposure():
    model = PMvGE(**{**SETTINGS, "effects": "bias", "max_steps": 30}).fit(make_graph())
    usual = model.vectors("user", X, among="film")
    np.testing.assert_array_equal(model.vectors("user", X, links=LINKS, among="film"), usual)
    found = model.vectors("user", X, links=LINKS, among="film", exposure=1)
    K = model.n_components
    np.testing.assert_allclose(found[:, :K], usual[:, :K], atol=1e-6)
    _, tau = model._fitted.network.effects_of("user").prior.tolist()
    _, mu = model.search("user", X, links=LINKS, exposure=1, among="film", k=M)
    b = (found - usual)[:, K].astype(float)
    slope = dense(IDS).sum(axis=1) - mu.sum(axis=1) - b / tau**2  # 0 at the maximum
    assert b[0] == 0
    np.testing.assert_allclose(slope[1:], 0, atol=1e-3)


def test_the_model_does_not_change(model, tmp_path):
    model.save(tmp_path / "before")
    model.fold_in("user", X, links=LINKS, exposure=1)
    model.save(tmp_path / "after")
    names = [sorted(p.name for p in (tmp_path / part).iterdir()) for part in ("before", "after")]
    assert names[0] == names[1]  # names have hashes of the contents


# -- search ------------------------------------------------------------------------------------


def test_search_ranks_by_the_vectors_with_links(model):
    query = model.vectors("user", X, links=LINKS, among="film").astype(float)
    candidate = model.vectors("film", among="user", side="candidate").astype(float)
    g = query @ candidate.T
    ids, scores = model.search("user", X, links=LINKS, among="film", k=3, by="similarity")
    for row in range(len(X)):
        order = np.argsort(-g[row])[:3]
        assert ids[row].tolist() == [FILMS[j] for j in order]
        np.testing.assert_allclose(scores[row], g[row, order], rtol=1e-5)


def test_known_partners_include_first_links(model):
    ids, _ = model.search("user", X, links=LINKS, among="film", k=M, exclude="known")
    for row, W in enumerate(dense(IDS)):
        left = {name for name in ids[row] if name}
        assert left == {name for name, w in zip(FILMS, W, strict=True) if w == 0}


def test_known_rows_keep_their_effects(model, featureless):
    names = ["u5", "new", "other", "x", "y"]
    found = model.vectors("user", X, ids=names, links=LINKS, among="film")
    new = model.vectors("user", X, links=LINKS, among="film")
    known = model.vectors("user", X, ids=names, among="film")
    for row, given in ((0, known), (1, new), (2, new)):
        np.testing.assert_array_equal(found[row], given[row])
    found = featureless.vectors("user", ids=names, links=LINKS, among="film")
    np.testing.assert_array_equal(
        found[0], featureless.vectors("user", ids=["u5"], among="film")[0]
    )
    np.testing.assert_allclose(
        found[1:, : featureless.n_components],
        featureless.fold_in("user", links=LINKS)[1:],
        atol=1e-6,
    )


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("links", "says"),
    [
        ([("film", 1)], r"expected a dict \{view: \(rows, ids, weights\)\}, got list"),
        ({"film": 3}, r"expected \(rows, ids\) or \(rows, ids, weights\), got int"),
        ({"films": ([0], ["f1"])}, "unknown view 'films'.*did you mean 'film'"),
        ({"tag": ([0], [1])}, "'user' and 'tag' were not observed in training"),
        ({"film": ([0, 1], ["f1"])}, "rows, ids and weights of one length, got 2, 1 and"),
        ({"film": ([0], ["f1"], [1, 2])}, "of one length, got 1, 1 and shape"),
        ({"film": ([0.5], ["f1"])}, r"expected a list of row numbers, got \[0.5\]"),
        ({"film": ([-1], ["f1"])}, "row numbers from 0 on, got -1"),
        ({"film": ([5], ["f1"])}, "expected row numbers below 5, got 5"),
        (
            {"film": ([0, 0, 1], ["g1", "f1", "g2"])},
            "ids of known entities of 'film', got 2 unknown: 'g1', 'g2'",
        ),
        ({"film": ([0], [1])}, "got 1 unknown: 1"),
        ({"film": ([0] * 9, [f"g{n}" for n in range(9)])}, r"'g4', \.\.\."),
        (
            {"film": ([0, 0], ["f1", "f2"], [1, -2])},
            "finite numbers >= 0, got 1 others, such as -2",
        ),
        ({"film": ([0], ["f1"], [np.nan])}, "such as nan of link 0"),
        ({"film": ([0], ["f1"], [np.inf])}, "such as inf of link 0"),
        ({"film": ([0], ["f1"], ["x"])}, r"weights: expected numbers, got \['x'\]"),
    ],
)
def test_invalid_links_are_errors(model, links, says):
    with pytest.raises(InputError, match=says):
        model.fold_in("user", X, links=links)


@pytest.mark.parametrize("exposure", [0, -1, np.nan, np.inf, "1", True])
def test_the_exposure_is_a_positive_number(model, exposure):
    with pytest.raises(InputError, match="exposure: expected a positive number or None"):
        model.fold_in("user", X, links=LINKS, exposure=exposure)


def test_other_invalid_calls_are_errors(model, featureless, without):
    with pytest.raises(InputError, match=r"view 'user' has no effects.*fit the model with effe"):
        without.fold_in("user", X, links=LINKS)
    with pytest.raises(InputError, match="view 'user' has features: expected X, got none"):
        model.fold_in("user", links=LINKS)
    with pytest.raises(InputError, match="unknown view 'users'"):
        model.fold_in("users", X, links=LINKS)
    with pytest.raises(InputError, match="exposure: expected links, too"):
        model.search("user", X, exposure=1, among="film")
    with pytest.raises(InputError, match="1 rows have ids of the training, such as row 1"):
        model.search("user", X, ids=["a", "u1", "b", "c", "d"], links=LINKS, among="film")
    with pytest.raises(InputError, match="expected ids alone, got X and ids"):
        featureless.search("user", ["a"], ids=["a"], links=LINKS, among="film")
    biases = PMvGE(**{**SETTINGS, "effects": "bias", "max_steps": 5}).fit(
        make_graph(features=False)
    )
    with pytest.raises(NotInductive, match="neither features nor vectors as effects"):
        biases.fold_in("user", links=LINKS)
