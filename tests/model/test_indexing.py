"""Indexes of a model: exact ones against ``search`` and full sorts, approximate ones, files."""

import json

import numpy as np
import pytest
from pyarrow import parquet
from scipy import sparse

from pmvge import MultiViewGraph, PMvGE, storage
from pmvge.errors import InputError, StorageError

SIMILARITIES = ("inner", "cosine", "shifted", "weighted", "difference", "euclidean", "hyperbolic")
USERS, FILMS = 120, 700


def fitted(similarity="inner", effects="auto", steps=60, seed=0):
    rng = np.random.default_rng(0)
    z, t = rng.normal(size=(USERS, 4)), rng.normal(size=(FILMS, 4))
    W = rng.poisson(0.2 * np.exp(0.6 * z @ t.T).clip(0, 20))
    graph = MultiViewGraph(
        {"users": z + 0.1 * rng.normal(size=z.shape), "films": t},
        {("users", "films"): sparse.csr_array(W)},
        {"users": [f"u{i}" for i in range(USERS)], "films": [f"f{j}" for j in range(FILMS)]},
    )
    return PMvGE(6, similarity=similarity, effects=effects, hidden_sizes=(16,), max_steps=steps,
                 random_state=seed, progress=False).fit(graph)  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def approximate(model):
    return model.index("films", among="users", kind="hnsw")


def recall(found, expected):
    return np.mean([np.isin(b, a).mean() for a, b in zip(found, expected, strict=True)])


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_both_kinds_work_with_every_similarity(similarity):
    model = fitted(similarity)
    mu = model.intensity("users", None, "films", None)
    order = np.argsort(-mu, axis=1, kind="stable")[:, :10]
    ids, weights = model.index("films", among="users").search(k=10)
    np.testing.assert_allclose(weights, np.take_along_axis(mu, order, 1), rtol=1e-3)
    near = model.index("films", among="users", kind="hnsw")
    found, scores = near.search(k=10)
    assert recall(found, ids) >= 0.9
    assert near.recall >= 0.9
    rows = np.arange(USERS)[:, None]
    at = np.searchsorted(np.sort(model.ids_["films"]), found)
    at = np.argsort(model.ids_["films"])[at]
    np.testing.assert_allclose(scores, mu[rows, at], rtol=1e-3)  # rescored exactly


def test_an_index_is_a_search_with_the_views_swapped(model):
    index = model.index("films", among="users")
    assert len(index) == FILMS
    assert (index.view, index.among, index.kind, index.recall) == ("films", "users", "exact", 1.0)
    X = np.random.default_rng(5).normal(size=(3, 4))
    for options in ({"ids": ["u3", "u9"]}, {"X": X}, {}, {"ids": ["u3"], "exclude": "known"}):
        rows = {"X": options["X"]} if "X" in options else {}
        rest = {key: value for key, value in options.items() if key != "X"}
        expected = model.search("users", rows.get("X"), among="films", k=7, **rest)
        for a, b in zip(index.search(k=7, **options), expected, strict=True):
            assert np.array_equal(a, b)
    links = {"films": ([0, 1], ["f1", "f2"])}
    expected = model.search("users", X[:2], links=links, among="films", exclude="known")
    for a, b in zip(index.search(X[:2], links=links, exclude="known"), expected, strict=True):
        assert np.array_equal(a, b)


def test_without_among_similar_entities_are_found(model):
    for kind in ("exact", "hnsw"):
        index = model.index("films", kind=kind)
        assert index.among == "films"
        found, g = index.search(ids=["f5"], k=5, by="similarity", exclude="self")
        Y = model.embed("films", ids=model.ids_["films"]).astype(np.float64)
        at = list(model.ids_["films"]).index("f5")
        scores = Y @ Y[at]
        scores[at] = -np.inf
        np.testing.assert_allclose(g[0], np.sort(scores)[::-1][:5], rtol=1e-3)
        assert "f5" not in found[0]
        with pytest.raises(InputError, match="by='similarity' ranks any pair"):
            index.search(ids=["f5"])


# -- filters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "hnsw"])
def test_allow_deny_and_known_links(model, approximate, kind):
    index = approximate if kind == "hnsw" else model.index("films", among="users")
    mu = model.intensity("users", None, "films", None)[:20]
    names = model.ids_["films"]
    who = model.ids_["users"][:20]
    known = model.known_links("users", who, among="films").toarray() > 0
    rng = np.random.default_rng(0)
    for size in (3, 40, 600):
        allow = rng.permutation(names)[:size].tolist()
        deny = rng.permutation(names)[:50].tolist()
        found, scores = index.search(ids=who, k=10, allow=allow, deny=deny, exclude="known")
        possible = np.isin(names, allow) & ~np.isin(names, deny)
        for row in range(20):
            left = np.where(possible & ~known[row], mu[row], -1)
            expected = names[np.argsort(-left)[: min(10, int((left >= 0).sum()))]]
            given = found[row][~np.isnan(scores[row])]
            assert len(given) == len(expected)
            assert (found[row][np.isnan(scores[row])] == "").all()
            assert possible[np.isin(names, given)].all()
            assert not known[row][np.isin(names, given)].any()
            if kind == "exact":
                assert given.tolist() == expected.tolist()
    found, scores = index.search(ids=who, k=4, allow=[])
    assert np.isnan(scores).all()


@pytest.mark.parametrize("kind", ["exact", "hnsw"])
def test_min_weight_cuts_the_lists(model, approximate, kind):
    index = approximate if kind == "hnsw" else model.index("films", among="users")
    ids, all_weights = index.search(k=10)
    limit = float(np.median(all_weights))
    found, weights = index.search(k=10, min_weight=limit)
    kept = all_weights >= limit
    assert 0 < kept.sum() < kept.size
    assert np.array_equal(found, np.where(kept, ids, ""))
    assert np.array_equal(weights, np.where(kept, all_weights, np.nan), equal_nan=True)
    assert np.isnan(index.search(k=3, min_weight=np.inf)[1]).all()


def test_filters_of_given_candidates(model):
    T = np.random.default_rng(2).normal(size=(9, 4))
    all_ids, mu = model.search("users", ids=["u1"], among="films", candidates=T, k=9)
    cut = float(mu[0, 4])
    found, weights = model.search("users", ids=["u1"], among="films", candidates=T, k=9,
                                  min_weight=cut)  # fmt: skip
    assert found[0].tolist() == all_ids[0, :5].tolist() + [-1] * 4
    assert weights[0, :5].tolist() == mu[0, :5].tolist()


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allow": ["f1", "nothing"]}, "allow: expected ids of 'films' from training, got 1 unkn"),
        ({"deny": [5]}, "deny: expected ids of 'films' from training, got 1 unknown, such as 5"),
        ({"exclude": "all"}, "exclude: expected None, 'known', 'self' or a list of ids"),
        ({"min_weight": "much"}, "min_weight: expected a number, got 'much'"),
        ({"min_weight": float("nan")}, "min_weight: expected a number, got nan"),
        ({"min_weight": 1.0, "by": "similarity"}, "min_weight: expected by='intensity'"),
        ({"k": 0}, "k: expected a positive integer, got 0"),
        ({"k": 2.5}, "k: expected a positive integer"),
        ({"ids": ["nobody"]}, "got 1 unknown, such as 'nobody'"),
        ({"X": [[np.nan] * 4]}, "users"),
    ],
)
def test_bad_input(model, approximate, options, message):
    for index in (approximate, model.index("films", among="users")):
        with pytest.raises(InputError, match=message):
            index.search(**options)


def test_bad_views_and_kinds(model):
    with pytest.raises(InputError, match=r"unknown view 'film'.*did you mean 'films'"):
        model.index("film")
    with pytest.raises(InputError, match="unknown view 'user'"):
        model.index("films", among="user")
    with pytest.raises(InputError, match=r"unknown index 'flat'.*'exact', 'hnsw'"):
        model.index("films", kind="flat")


def test_k_larger_than_the_view(model, approximate):
    for index in (approximate, model.index("films", among="users")):
        found, weights = index.search(ids=["u1"], k=5000)
        assert found.shape == weights.shape == (1, FILMS)
        assert len(np.unique(found)) == FILMS


# -- files -------------------------------------------------------------------------------------


def test_a_saved_index_answers_as_before(model, approximate, tmp_path):
    model.save(tmp_path)
    approximate.save(tmp_path)
    model.index("users", among="films", kind="hnsw").save(tmp_path)
    loaded = PMvGE.load(tmp_path)
    again = loaded.load_index(tmp_path, "films", "users")
    assert again.recall == approximate.recall
    assert repr(again) == repr(approximate)
    for a, b in zip(again.search(k=10), approximate.search(k=10), strict=True):
        assert np.array_equal(a, b)
    assert len(loaded.load_index(tmp_path, "users", "films")) == USERS
    approximate.save(tmp_path)  # replaced, and the other one stays
    assert len([*tmp_path.glob("*.hnsw")]) == 2
    loaded.load_index(tmp_path, "users", "films")
    model.save(tmp_path)  # saving the same model keeps them
    loaded.load_index(tmp_path, "films", "users")


def test_a_stale_index_is_refused(approximate, tmp_path):
    approximate.save(tmp_path)
    other = fitted(seed=1)
    other.save(tmp_path)
    message = r"index of 'films' for 'users' is stale.*build it again: pmvge index, or model\.index"
    with pytest.raises(StorageError, match=message):
        other.load_index(tmp_path, "films", "users")


def test_missing_and_damaged_files(model, approximate, tmp_path):
    with pytest.raises(StorageError, match=r"no saved index of 'films' for 'users'; build it"):
        model.load_index(tmp_path, "films", "users")
    with pytest.raises(InputError, match="exact index needs no file"):
        model.index("films").save(tmp_path)
    approximate.save(tmp_path)
    (graph,) = tmp_path.glob("*.hnsw")
    (manifest,) = tmp_path.glob("*.json")
    content, raw = json.loads(manifest.read_text()), graph.read_bytes()
    graph.write_bytes(raw[:-9] + b"123456789")
    with pytest.raises(StorageError, match="do not match its checksum"):
        model.load_index(tmp_path, "films", "users")
    graph.write_bytes(raw)
    for key, value in (("effort", "much"), ("vectors", None), ("recall", "high")):
        wrong = {**content, key: value}
        wrong["checksum"] = storage._checksum(wrong)
        manifest.write_text(json.dumps(wrong))
        with pytest.raises(StorageError, match="damaged"):
            model.load_index(tmp_path, "films", "users")


def test_views_whose_names_look_like_those_of_others(tmp_path):
    names = ("a", "a-b", "b-c", "c", "a.b", "a+b", "x/y")
    views = dict.fromkeys(names, 4)
    graph = MultiViewGraph(views, {("a", "a-b"): ([0, 1], [1, 2])})
    model = PMvGE(2, max_steps=2, random_state=0, progress=False).fit(graph, hold_out=0)
    for view, among in (("a", "b-c"), ("a-b", "c"), ("a.b", "a+b"), ("x/y", "a")):
        model.index(view, among=among, kind="hnsw").save(tmp_path)
    assert len([*tmp_path.glob("*.hnsw")]) == 4
    for view, among in (("a", "b-c"), ("a-b", "c"), ("a.b", "a+b"), ("x/y", "a")):
        assert model.load_index(tmp_path, view, among).view == view


# -- batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["exact", "hnsw"])
def test_search_to_writes_the_lists_of_search(model, approximate, tmp_path, monkeypatch, kind):
    monkeypatch.setattr("pmvge.model.searching.indexes.BATCH", 50)
    index = approximate if kind == "hnsw" else model.index("films", among="users")
    path = tmp_path / "best.parquet"
    n = index.search_to(path, k=4, exclude="known", min_weight=0.5)
    ids, weights = index.search(k=4, exclude="known", min_weight=0.5)
    rows = parquet.read_table(path).to_pylist()
    assert n == len(rows) == int((~np.isnan(weights)).sum())
    expected = [
        {"id": user, "partner": ids[i, j], "rank": j + 1,
         "expected_weight": pytest.approx(weights[i, j], rel=1e-5)}
        for i, user in enumerate(model.ids_["users"]) for j in range(4)
        if not np.isnan(weights[i, j])
    ]  # fmt: skip
    assert rows == expected
    assert not [*tmp_path.glob(".*")]


def test_search_to_adds_names_and_takes_ids(model, tmp_path):
    model.label(columns={"users": {"called": [f"name of {i}" for i in model.ids_["users"]]},
                         "films": {"title": [f"title of {i}" for i in model.ids_["films"]]}},
                names={"users": "called", "films": "title"})  # fmt: skip
    path = tmp_path / "best.parquet"
    index = model.index("films", among="users")
    assert index.search_to(path, ids=["u8", "u2"], k=3, by="similarity") == 6
    rows = parquet.read_table(path).to_pylist()
    assert [row["id"] for row in rows] == ["u8"] * 3 + ["u2"] * 3
    for row in rows:
        assert row["name"] == f"name of {row['id']}"
        assert row["partner_name"] == f"title of {row['partner']}"
        assert "similarity" in row


def test_a_failed_batch_keeps_the_old_file(model, tmp_path, monkeypatch):
    path = tmp_path / "best.parquet"
    index = model.index("films", among="users")
    index.search_to(path, k=2)
    before = path.read_bytes()
    monkeypatch.setattr("pmvge.model.searching.indexes.BATCH", 50)
    usual, calls = type(index)._table, []

    def failing(self, *arguments):
        calls.append(1)
        if len(calls) == 2:
            raise InputError("stopped")
        return usual(self, *arguments)

    monkeypatch.setattr(type(index), "_table", failing)
    with pytest.raises(InputError, match="stopped"):
        index.search_to(path, k=2)
    assert path.read_bytes() == before
    assert len([*tmp_path.iterdir()]) == 1
    with pytest.raises(InputError, match="unknown"):
        index.search_to(path, ids=["nobody"])


def test_lists_that_are_empty_make_an_empty_file(model, tmp_path):
    index = model.index("films", among="users")
    assert index.search_to(tmp_path / "none.parquet", k=2, min_weight=np.inf) == 0
    assert parquet.read_table(tmp_path / "none.parquet").column_names[:3] == [
        "id", "partner", "rank",
    ]  # fmt: skip


def test_search_to_sorts_the_ids_of_a_view_once(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    ids = {"users": [f"u{i}" for i in rng.permutation(200)], "films": [f"f{i}" for i in range(40)]}
    links = {("users", "films"): (rng.integers(200, size=300), rng.integers(40, size=300))}
    graph = MultiViewGraph({"users": 200, "films": 40}, links, ids)
    model = PMvGE(2, max_steps=2, random_state=0, progress=False).fit(graph, hold_out=0)
    model.label(columns={"films": {"title": ids["films"]}}, names={"films": "title"})
    sizes = []

    def sort_ids(ids):
        sizes.append(len(ids))
        return np.argsort(ids, kind="stable")

    monkeypatch.setattr("pmvge.model.searching.indexes.BATCH", 20)
    for module in ("pmvge.graph.ids", "pmvge.model.fitted"):
        monkeypatch.setattr(f"{module}.sort_ids", sort_ids)
    index = model.index("films", among="users")
    index.search_to(tmp_path / "best.parquet", k=3, deny=ids["films"][:20])
    assert sorted(sizes) == [40, 200]
    partners, weights = index.search(k=3, deny=ids["films"][:20])
    rows = parquet.read_table(tmp_path / "best.parquet").to_pylist()
    assert [row["id"] for row in rows] == [i for i in model.ids_["users"] for _ in range(3)]
    assert [row["partner"] for row in rows] == partners.ravel().tolist()
    assert [row["partner_name"] for row in rows] == partners.ravel().tolist()
    assert [row["expected_weight"] for row in rows] == weights.ravel().tolist()
