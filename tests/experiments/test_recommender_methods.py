"""Recommenders: their inner products are the scores of the methods that they name."""

import numpy as np
import pytest
from scipy import sparse

from pmvge.errors import InputError, ParameterError
from pmvge.experiments.recommender import methods
from pmvge.experiments.recommender.identity_rows import IdentityRows
from pmvge.graph import MultiViewGraph

PAIR = ("user", "film")
rng = np.random.default_rng(0)
W = (rng.random((30, 20)) < 0.3) * 1.0
W[W.sum(axis=1) == 0, 0] = 1
X_USER = np.column_stack([rng.integers(18, 70, 30), rng.integers(2, size=30)]).astype(np.float32)
X_FILM = (rng.random((20, 4)) < 0.5).astype(np.float32)
GRAPH = MultiViewGraph(
    {"user": X_USER, "film": X_FILM},
    {PAIR: W},
    {"user": [f"u{k}" for k in range(30)], "film": [f"f{k}" for k in range(20)]},
)
FIRST = sparse.csr_array((rng.random((5, 20)) < 0.2) * 1.0)
FAST = {"n_components": 4, "max_steps": 20, "patience": "none", "similarity": "inner"}


def fitted(method: str, **settings):
    made = methods.make_recommender(method, settings)
    made.fit(GRAPH, PAIR, 0)
    return made


def test_popularity_is_the_product_of_both_degrees() -> None:
    made = fitted("popularity")
    scores = made.queries() @ made.candidates().T
    degrees = np.outer(W.sum(axis=1), W.sum(axis=0))
    assert np.allclose(np.exp(scores), degrees, rtol=1e-5)
    new = made.queries(X_USER[:3]) @ made.candidates().T
    assert np.allclose(np.exp(new), W.sum(axis=0), rtol=1e-5)


def test_ease_is_the_closed_form_over_films() -> None:
    P = np.linalg.inv(W.T @ W + 7.0 * np.eye(20))
    B = -P / np.diag(P)
    np.fill_diagonal(B, 0)
    made = fitted("EASE", penalty=7.0)
    for links, Y in ((W, made.queries()), (FIRST.toarray(), made.queries(links=FIRST))):
        scores = Y @ made.candidates().T
        unlinked = links == 0  # all other pairs are known, and not ranked
        assert np.allclose(scores[unlinked], (links @ B)[unlinked], atol=1e-5)


def test_als_of_implicit() -> None:
    pytest.importorskip("implicit")
    made = fitted("ALS", factors=4, regularization=3.0, alpha=2.0, iterations=5)
    Y_other = made.candidates()
    known = made.queries() @ Y_other.T  # a training row that is folded in ranks like itself
    again = made.queries(links=sparse.csr_array(W)) @ Y_other.T
    assert known.shape == W.shape
    assert np.corrcoef(known.ravel(), again.ravel())[0, 1] > 0.99
    assert made.queries(links=FIRST).shape == (5, 4)


def test_bpr_of_implicit() -> None:
    pytest.importorskip("implicit")
    made = fitted("BPR", factors=4, learning_rate=0.1, regularization=0.01, iterations=200)
    scores = made.queries() @ made.candidates().T
    users, films = (part.ravel() for part in np.indices((30, 20)))
    rows = sparse.csr_matrix(W)
    found, values = made._model.recommend(3, rows[3], N=20, filter_already_liked_items=False)
    assert np.allclose(scores[3][found], values, atol=1e-5)
    linked = W[users, films] > 0
    assert scores.ravel()[linked].mean() > scores.ravel()[~linked].mean()


def test_two_towers_learn_links_and_place_new_entities() -> None:
    made = fitted("two towers", n_components=8, rate=0.02, decay=0.0, steps=150)
    scores = made.queries() @ made.candidates().T
    assert scores[W > 0].mean() > scores[W == 0].mean() + 1
    known, new = made.queries()[:3], made.queries(X_USER[:3])
    tower = made._towers[0]
    identities = tower.identities.weight.detach().numpy()[:3]
    assert np.allclose(known - new, identities, atol=1e-5)  # a new user has no identity
    assert made.candidates(X_FILM[:2]).shape == (2, 8)
    graph = MultiViewGraph({"user": 30, "film": 20}, {PAIR: W})
    made = methods.make_recommender("two towers", made.settings)
    made.fit(graph, PAIR, 0)  # without features
    scores = made.queries() @ made.candidates().T
    assert scores[W > 0].mean() > scores[W == 0].mean() + 1


def test_further_links_are_used_only_if_named() -> None:
    genre = (np.random.default_rng(1).random((20, 3)) < 0.5) * 1.0
    friends = ([0, 1], [1, 2], [1.0, 1.0])
    graph = MultiViewGraph(
        {"user": 30, "film": 20, "genre": 3},
        {PAIR: W, ("film", "genre"): genre, ("user", "user"): friends},
    )
    used = {}
    for further in ([], ["film,genre"], ["user,user", "film,genre"]):
        made = methods.make_recommender("PMvGE", {"further": further, **FAST})
        made.fit(graph, PAIR, 0)
        used[len(further)] = set(made._model.log_alpha_)
        assert made.queries().shape[0] == 30
    assert used[0] == {PAIR}
    assert used[1] == {PAIR, ("film", "genre")}
    assert used[2] == {PAIR, ("film", "genre"), ("user", "user")}


@pytest.mark.parametrize("loss", ["warp", "logistic"])
def test_lightfm_scores_are_its_predictions(loss) -> None:
    pytest.importorskip("lightfm")
    made = fitted("LightFM", no_components=3, loss=loss, epochs=3)
    users, films = (part.ravel() for part in np.indices((30, 20)))
    predicted = made._model.predict(
        users, films, item_features=made._rows[1], user_features=made._rows[0]
    ).reshape(30, 20)
    scores = made.queries() @ made.candidates().T
    if loss == "warp":  # the level of a user has no effect on its ranking
        predicted = predicted - predicted[:, :1]
        scores = scores - scores[:, :1]
    assert np.allclose(scores, predicted, atol=1e-5)
    assert made.queries(X_USER[:2]).shape == (2, 5)
    assert made.candidates(X_FILM[:2]).shape == (2, 5)


def test_columns_of_lightfm() -> None:
    columns = IdentityRows(X_USER, 30)
    known, new = columns.known().toarray(), columns.new(X_USER[:4]).toarray()
    assert known.shape[1] == new.shape[1] == 30 + 1 + 5  # identities, a flag, five bins
    assert np.allclose(known.sum(axis=1), 1)
    assert np.allclose(np.diag(known), 1 / (2 + X_USER[:, 1]))
    assert (new[:, :30] == 0).all()
    assert np.allclose(new[:, 30:], known[:4, 30:] * (2 + X_USER[:4, 1:]) / (1 + X_USER[:4, 1:]))
    assert IdentityRows(None, 3).known().toarray().tolist() == np.eye(3).tolist()


def test_pmvge_takes_further_links_as_features() -> None:
    genre = (np.random.default_rng(1).random((20, 3)) < 0.5) * 1.0
    genre[0] = 0
    graph = MultiViewGraph(
        {"user": 30, "film": 20, "genre": 3}, {PAIR: W, ("film", "genre"): genre}
    )
    made = methods.make_recommender("PMvGE", {"linked_features": ["film,genre"], **FAST})
    made.fit(graph, PAIR, 0)
    assert not made.new_queries
    assert not made.new_candidates
    model = made._model
    assert set(model.log_alpha_) == {PAIR}
    X = genre / np.maximum(np.linalg.norm(genre, axis=1, keepdims=True), 1)
    rows = sparse.csr_array(X.astype(np.float32))
    assert np.allclose(model.embed("film", rows, ids=np.arange(20)), model.embeddings_["film"])


def test_lightfm_takes_further_links_as_columns() -> None:
    pytest.importorskip("lightfm")
    genre = (np.random.default_rng(1).random((3, 20)) < 0.5) * 1.0
    friends = ([0, 1], [1, 2], [1.0, 1.0])
    graph = MultiViewGraph(
        {"user": X_USER, "film": 20, "genre": 3},
        {PAIR: W, ("genre", "film"): genre, ("user", "user"): friends},
    )
    settings = {"no_components": 3, "epochs": 1, "linked_features": ["genre,film", "user,user"]}
    made = methods.make_recommender("LightFM", settings)
    made.fit(graph, PAIR, 0)
    users, films = (rows.toarray() for rows in made._rows)
    assert films.shape == (20, 23)
    assert np.allclose(films[:, 20:], genre.T / (1 + genre.sum(axis=0)[:, None]))
    assert users.shape == (30, 30 + 30 + 6)
    assert np.argwhere(users[:, 30:60]).tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert not made._columns[0].new(X_USER[:2])[:, :60].nnz  # unseen users have features only


def test_pmvge_ranks_by_its_expected_weights() -> None:
    made = fitted("PMvGE", effects="vector", **FAST)
    model = made._model
    scores = made.queries(X_USER[:6]) @ made.candidates(X_FILM).T
    mu = model.intensity("user", X_USER[:6], "film", X_FILM)
    assert np.allclose(scores, np.log(mu) - model.log_alpha_of(*PAIR), atol=1e-4)
    known = made.queries() @ made.candidates().T
    assert not np.allclose(known[:6], scores, atol=1e-3)  # training entities have effects


@pytest.mark.parametrize("features", [True, False])
def test_pmvge_folds_in_first_links(features) -> None:
    made = fitted("PMvGE", effects="vector", features=features, **FAST)
    assert (made._model._fitted.schema_of("user").row_shape is not None) == features
    assert made.new_queries == made.new_candidates == features
    links = sparse.csr_array(np.vstack([FIRST.toarray(), np.zeros((2, 20))]))  # no links at the end
    scores = made.queries(X_USER[:7], links) @ made.candidates().T
    rows, cols = links.nonzero()
    first = {"film": (rows, made._model.ids_["film"][cols])}
    given = {"X": X_USER[:5]} if features else {}
    best, _ = made._model.search("user", among="film", k=1, links=first, exclude="known", **given)
    expected = np.where(links.toarray()[:5] > 0, -np.inf, scores[:5]).argmax(axis=1)
    assert best.ravel().tolist() == made._model.ids_["film"][expected].tolist()


def test_what_methods_can_do() -> None:
    can = {
        name: (made.new_queries, made.new_candidates, made.first_links)
        for name, made in {
            "popularity": methods.make_recommender("popularity", {}),
            "EASE": methods.make_recommender("EASE", {}),
            "ALS": methods.make_recommender("ALS", {}),
            "BPR": methods.make_recommender("BPR", {}),
            "LightFM": methods.make_recommender("LightFM", {}),
            "two towers": methods.make_recommender("two towers", {}),
            "none": methods.make_recommender("PMvGE", {"effects": None}),  # "none" in a recipe
        }.items()
    }
    assert can == {
        "popularity": (True, False, True),
        "EASE": (False, False, True),
        "ALS": (False, False, True),
        "BPR": (False, False, False),
        "LightFM": (True, True, False),
        "two towers": (True, True, False),
        "none": (True, True, False),
    }
    with pytest.raises(ParameterError, match="unknown method 'SVD'"):
        methods.make_recommender("SVD", {})


def test_a_missing_library_names_the_extra(monkeypatch) -> None:
    monkeypatch.setattr(methods.ALS, "libraries", ("no_such_library",))
    methods.check_libraries(["EASE"])
    with pytest.raises(InputError, match=r"ALS needs 'no_such_library': install pmvge\[bench\]"):
        methods.check_libraries(["EASE", "ALS"])
