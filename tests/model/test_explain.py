"""``PMvGE.explain`` against closed forms, finite differences and brute force."""

import json
import math

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError, NotInductive
from pmvge.tables import graph_from_frames

SIMILARITIES = ("inner", "cosine", "shifted", "weighted", "difference", "euclidean", "hyperbolic")
USERS, FILMS = 40, 30


def fitted(views, links, **settings):
    defaults = {"n_components": 5, "hidden_sizes": (16,), "max_steps": 60, "random_state": 0}
    ids = settings.pop("ids", None)
    return PMvGE(**{**defaults, "progress": False, **settings}).fit(
        MultiViewGraph(views, links, ids)
    )


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = 2 + 3 * rng.normal(size=(USERS, 4))
    T = rng.normal(size=(FILMS, 6))
    mu = np.exp(0.3 * (X[:, :3] - 2) @ T[:, :3].T / 3)
    return X, T, sparse.csr_array(rng.poisson(mu))


def value(explanation, kind, side=None):
    return math.fsum(
        part.value for part in explanation.parts if part.kind == kind and side in (None, part.side)
    )


def check_sum(model, explanation, mu):
    """Check that the parts add up to log mu, and that the remainder is small."""
    eta = explanation.log_expected_weight
    assert math.fsum(part.value for part in explanation.parts) == pytest.approx(eta, abs=1e-9)
    assert eta == pytest.approx(math.log(mu), abs=1e-6)
    assert explanation.expected_weight == pytest.approx(mu, rel=1e-6)
    split = value(explanation, "feature") + value(explanation, "effects")
    assert abs(explanation.remainder) <= max(0.01 * abs(split), 1e-4)


def test_linear_encoders_have_the_closed_form(data):
    X, T, W = data
    model = fitted({"a": X, "b": T}, {("a", "b"): W}, encoder="linear", effects="none",
                   similarity="inner")  # fmt: skip
    i, j = 3, 8
    explanation = model.explain("a", X[i], "b", T[j])
    # f(x) = A (x - mean) + f0, so that a column's part is A_c (x - mean)_c (f0' + delta' / 2).
    base_a, base_b = model.embed("a", X.mean(0)[None])[0], model.embed("b", T.mean(0)[None])[0]
    delta_a = model.embed("a", X[i : i + 1])[0] - base_a
    delta_b = model.embed("b", T[j : j + 1])[0] - base_b
    for view, rows, row, own, base, delta in (
        ("a", X, X[i], base_a, base_b, delta_b),
        ("b", T, T[j], base_b, base_a, delta_a),
    ):
        for column in range(rows.shape[1]):
            moved = rows.mean(0)
            moved[column] = row[column]
            change = model.embed(view, moved[None])[0] - own
            (found,) = (
                part.value
                for part in explanation.parts
                if part.view == view and part.name == f"column {column}"
            )
            assert found == pytest.approx(change @ (base + delta / 2), abs=2e-5)
    assert value(explanation, "baseline") == pytest.approx(base_a @ base_b, abs=1e-5)
    assert value(explanation, "alpha") == model.log_alpha_of("a", "b")
    check_sum(model, explanation, model.intensity("a", X[[i]], "b", T[[j]])[0, 0])


def test_columns_and_effects_are_a_riemann_sum_of_differences(data):
    """A tanh network with cosine similarity and effects, by finite differences in float64."""
    X, T, W = data
    model = fitted({"a": X, "b": T}, {("a", "b"): W}, activation="tanh", similarity="cosine",
                   effects="vector")  # fmt: skip
    network = model._fitted.network
    i, j = 5, 2

    def layers(view):
        encoder = network.encoder_of(view)
        arrays = [p.detach().double().numpy() for p in encoder.layers.parameters()]
        scale, shift = (t.double().numpy() for t in (encoder.input.scale, encoder.input.shift))
        effects = network.effects_of(view)
        return arrays, scale, shift, effects.weight.detach().double().numpy()[:, :5]

    radius = math.exp(5 * network.similarity.theta.item())

    def vector(view, x, e):
        (V, v, U, u), scale, shift, _ = layers(view)
        f = (np.tanh((x * scale + shift) @ V + v) @ U + u)[:5]
        f = f / np.linalg.norm(f) + e
        return radius * f / np.linalg.norm(f)

    starts, ends = [], []
    for view, rows, at in (("a", X, i), ("b", T, j)):
        _, scale, shift, e = layers(view)
        starts += [-shift / scale, np.zeros(5)]
        ends += [rows[at], e[at]]
    sizes = np.cumsum([len(z) for z in ends])[:-1]
    z0, z1 = np.concatenate(starts), np.concatenate(ends)

    def similarity(z):
        x, e, x_other, e_other = np.split(z, sizes)
        return vector("a", x, e) @ vector("b", x_other, e_other)

    steps, h, gradient = 200, 1e-5, np.zeros_like(z0)
    for t in (np.arange(steps) + 0.5) / steps:
        z = z0 + t * (z1 - z0)
        for k in range(len(z)):
            up, down = z.copy(), z.copy()
            up[k] += h
            down[k] -= h
            gradient[k] += (similarity(up) - similarity(down)) / (2 * h * steps)
    parts = np.split(gradient * (z1 - z0), sizes)
    explanation = model.explain("a", i, "b", j, X=X[i], X_other=T[j])
    assert value(explanation, "baseline") == pytest.approx(similarity(z0), abs=1e-5)
    for view, columns, effects in (("a", *parts[:2]), ("b", *parts[2:])):
        own = {p.name: p.value for p in explanation.parts if p.view == view}
        found = [own[f"column {c}"] for c in range(len(columns))]
        np.testing.assert_allclose(found, columns, atol=2e-3)
        assert own["effects"] == pytest.approx(effects.sum(), abs=2e-3)
        assert np.abs(effects).max() > 0.01
    check_sum(model, explanation, model.intensity("a", None, "b", None)[i, j])


@pytest.mark.parametrize(
    ("similarity", "effects"),
    [
        (s, e)
        for s in SIMILARITIES
        for e in ("none", "bias", "vector")
        if s != "hyperbolic" or e == "none"
    ],
)
@pytest.mark.parametrize("kind", ["dense", "sparse", "featureless"])
def test_parts_add_up_for_every_similarity(data, similarity, effects, kind):
    X, T, W = data
    other = {"dense": T, "sparse": sparse.csr_array(np.maximum(T, 0)), "featureless": FILMS}[kind]
    model = fitted({"a": X, "b": other}, {("a", "b"): W}, similarity=similarity, effects=effects)
    mu = model.intensity("a", None, "b", None)
    for i, j in ((0, 0), (7, 3)):
        rows = {} if kind == "featureless" else {"X_other": other[[j]]}
        split = model.explain("a", i, "b", j, X=X[i], **rows)
        check_sum(model, split, mu[i, j])
        whole = model.explain("b", j, "a", i)  # the other way round, without features
        check_sum(model, whole, mu[i, j])
        if effects == "vector":
            assert value(whole, "effects", "partner") != 0
        biases = value(split, "bias") + value(split, "bias effect")
        assert (biases != 0) == (effects != "none" or similarity == "shifted")
        if kind != "featureless":
            new = model.explain("a", X[i], "b", other[[j]])
            assert value(new, "bias effect") == value(new, "effects") == 0
            check_sum(model, new, model.intensity("a", X[[i]], "b", other[[j]])[0, 0])


def test_biases_of_features_and_effects_are_apart(data):
    X, T, W = data
    model = fitted({"a": X, "b": T}, {("a", "b"): W}, effects="vector", similarity="inner")
    known, new = (model.vectors("a", X[[4]], ids=None, among="b") for _ in "ab")
    explanation = model.explain("a", 4, "b", 6, X=X[4])
    stored = model.vectors("a", ids=[4], among="b")
    assert value(explanation, "bias", "entity") == pytest.approx(new[0, -2], abs=1e-5)
    both = value(explanation, "bias", "entity") + value(explanation, "bias effect", "entity")
    assert both == pytest.approx(stored[0, -2], abs=1e-5)
    assert known[0, -2] != stored[0, -2]


def test_within_a_view(data):
    X = data[0]
    rng = np.random.default_rng(1)
    W = sparse.csr_array(np.triu(rng.poisson(0.3, size=(USERS, USERS)), 1))
    model = fitted({"a": X}, {("a", "a"): W})
    explanation = model.explain("a", 1, "a", 2, X=X[1], X_other=X[2])
    check_sum(model, explanation, model.intensity("a", None, "a", None)[1, 2])
    assert {part.side for part in explanation.parts} == {"pair", "entity", "partner"}


class Pixels(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 3, 3), nn.Linear(3 * 4 * 3, 5)

    def forward(self, x):
        return self.out(torch.tanh(self.conv(x[:, None])).flatten(1))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 5)

    def forward(self, x):
        return self.words(x).mean(1)


@pytest.mark.parametrize("effects", ["none", "vector"])
def test_user_defined_modules(data, effects):
    rng = np.random.default_rng(2)
    images = rng.normal(size=(USERS, 6, 5)).astype(np.float32)
    words = rng.integers(0, 9, size=(FILMS, 4))
    model = fitted(
        {"image": images, "text": words},
        {("image", "text"): data[2]},
        encoder={"image": Pixels(), "text": Tokens()},
        effects=effects,
    )
    mu = model.intensity("image", None, "text", None)
    explanation = model.explain("image", 2, "text", 5, X=images[2], X_other=words[5], max_parts=4)
    check_sum(model, explanation, mu[2, 5])
    names = [part.name for part in explanation.parts if part.view == "image"]
    assert sum(name.startswith("column (") for name in names) == 4
    assert "26 other parts" in names
    assert [part.name for part in explanation.parts if part.kind == "feature"].count(
        "features"
    ) == 1
    assert any("no gradients" in note for note in explanation.notes)
    every = model.explain("image", 2, "text", 5, X=images[2], max_parts=30)
    (rest,) = (p.value for p in explanation.parts if p.name == "26 other parts")
    pixels = sorted((p.value for p in every.parts if p.name.startswith("column")), key=abs)
    assert rest == pytest.approx(sum(pixels[:26]), abs=1e-4)


def test_bernoulli_terms_add_up_to_eta(data):
    X, T, W = data
    model = fitted({"a": X, "b": T}, {("a", "b"): W.sign()}, family="bernoulli")
    explanation = model.explain("a", 0, "b", 1)
    eta = math.fsum(part.value for part in explanation.parts)
    assert explanation.expected_weight == pytest.approx(-math.expm1(-math.exp(eta)), rel=1e-6)
    mu = model.intensity("a", None, "b", None)[0, 1]
    assert explanation.expected_weight == pytest.approx(mu, rel=1e-6)
    assert not explanation.sums_to_log
    assert f", eta {eta:.4g}" in str(explanation)


def test_calibration_of_new_entities_is_a_part(data):
    X, T, W = data
    model = fitted({"a": X, "b": T}, {("a", "b"): W}, ids={"b": [f"b{j}" for j in range(FILMS)]})
    rng = np.random.default_rng(3)
    later = MultiViewGraph(
        {"a": rng.normal(size=(20, 4)), "b": T},
        {("a", "b"): sparse.csr_array(rng.poisson(2, size=(20, FILMS)))},
        ids={"b": [f"b{j}" for j in range(FILMS)]},
    )
    before = model.explain("a", X[0], "b", "b1")
    assert not any(part.kind == "calibration" for part in before.parts)
    assert any("not calibrated" in note for note in before.notes)
    model.calibrate(later)
    after = model.explain("a", X[0], "b", "b1")
    factor = model.describe()["calibrated"]["a,b"]["new-known"]["factor"]
    assert value(after, "calibration") == pytest.approx(math.log(factor))
    mu = model.intensity("a", X[[0]], "b", None, ids_other=["b1"])[0, 0]
    check_sum(model, after, mu)
    assert not any("not calibrated" in note for note in after.notes)


# -- raw tables --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def raw():
    rng = np.random.default_rng(4)
    n, m = 60, 40
    users = {
        "user": [f"u{i}" for i in range(n)],
        "age": [None if i == 3 else int(a) for i, a in enumerate(rng.integers(18, 70, n))],
        "since": [f"20{y:02d}-0{1 + y % 9}-15" for y in rng.integers(0, 20, n)],
        "job": [["student", "doctor", "other one"][k] for k in rng.integers(0, 3, n)],
    }
    genres = ["drama", "comedy", "horror", "western"]
    films = {
        "film": [f"f{j}" for j in range(m)],
        "genres": [
            "|".join(rng.permutation(genres)[: rng.integers(1, 4)].tolist()) for _ in range(m)
        ],
    }
    seen = {
        "user": [f"u{i}" for i in rng.integers(0, n, 500)],
        "film": [f"f{j}" for j in rng.integers(0, m, 500)],
    }
    graph = graph_from_frames({"users": users, "films": films}, {("users", "films"): seen})
    model = PMvGE(n_components=4, max_steps=60, random_state=0, progress=False).fit(graph)
    return model, users, films, graph


def row_of(table, at):
    return {column: values[at] for column, values in table.items()}


def names_of(explanation, view):
    return {p.name for p in explanation.parts if p.view == view and p.kind == "feature"}


def test_parts_of_raw_tables_have_their_columns_and_values(raw):
    model, users, films, graph = raw
    at = int(np.flatnonzero(graph.ids["users"] == "u7")[0])
    film = int(np.flatnonzero(graph.ids["films"] == "f5")[0])
    row = row_of(films, 5)
    explanation = model.explain("users", row_of(users, 7), "films", row)
    assert explanation.id == "u7"
    assert explanation.partner == "f5"
    check_sum(model, explanation, model.intensity("users", None, "films", None)[at, film])
    kinds = {f"age = {users['age'][7]}", f"since = {users['since'][7]}", f"job = {users['job'][7]}"}
    assert names_of(explanation, "users") == kinds
    named = {f"genres = {g}" for g in films["genres"][5].split("|")}
    assert named <= names_of(explanation, "films")
    assert names_of(explanation, "films") - named == {"genres: not the others"}
    # The same columns from the encoded features: each raw column is the sum of its features.
    columns = graph.views["users"].shape[1]
    encoded = model.explain("users", "u7", "films", row, X=graph.views["users"][at])
    assert encoded.log_expected_weight == pytest.approx(explanation.log_expected_weight, abs=1e-6)
    assert columns > len(kinds)


def test_rows_without_a_known_id_are_new(raw):
    model, users, _, _ = raw
    known = model.explain("users", row_of(users, 7), "films", "f5")
    for values in ({"user": "someone else"}, {}):
        row = {**row_of(users, 7), **values}
        if not values:
            del row["user"]
        new = model.explain("users", row, "films", "f5")
        assert new.id is None
        assert new.evidence == ()
        assert new.linked == 0
        assert value(new, "effects", "entity") == 0
        assert new.log_expected_weight != known.log_expected_weight
    missing = model.explain("users", {"age": None, "job": "astronaut"}, "films", "f5")
    assert {"age = missing", "job = none of the known"} <= names_of(missing, "users")


def test_known_entities_are_split_by_the_columns_that_the_model_keeps(raw):
    model, users, _, graph = raw
    order = [users["user"].index(i) for i in graph.ids["users"]]
    texts = {c: ["" if users[c][i] is None else str(users[c][i]) for i in order]
             for c in ("age", "since", "job")}  # fmt: skip
    plain = model.explain("users", "u7", "films", "f5")
    assert names_of(plain, "users") == {"features"}
    assert len(plain.notes) == 2
    model.label(columns={"users": texts})
    expected = model.explain("users", row_of(users, 7), "films", "f5")
    found = model.explain("users", "u7", "films", "f5")
    assert names_of(found, "users") == names_of(expected, "users")
    for a, b in zip(found.parts, expected.parts, strict=True):
        assert a.name == b.name
        assert a.value == pytest.approx(b.value, abs=1e-4)
    gone = model.explain("users", "u3", "films", "f5")
    assert "age = missing" in names_of(gone, "users")
    model.label(columns={"users": {"age": ["20"] * 60}})  # other values than those of training
    assert names_of(model.explain("users", "u7", "films", "f5"), "users") == {"features"}


@pytest.mark.parametrize("similarity", ["euclidean", "hyperbolic"])
def test_evidence_is_nearest_by_the_distance_of_the_model(data, similarity):
    X, T, W = data
    model = fitted({"a": X, "b": T}, {("a", "b"): W}, similarity=similarity)
    explanation = model.explain("a", 0, "b", 1, k=3)
    ids, scores = model.similar("b", ids=[1], k=len(T))
    linked = set(W[[0]].nonzero()[1].tolist()) - {1}
    near = [(j, score) for j, score in zip(ids[0], scores[0], strict=True) if j in linked][:3]
    assert [entry.id for entry in explanation.evidence] == [j for j, _ in near]
    found = [entry.similarity for entry in explanation.evidence]
    np.testing.assert_allclose(found, [score for _, score in near], rtol=1e-3)


def test_evidence_are_the_nearest_known_partners(raw):
    model = raw[0]
    model.label(columns={"films": {"title": [f"Title {i}" for i in model.ids_["films"]]}},
                names={"films": "title"})  # fmt: skip
    linked = model.known_links("users", ["u7"], among="films").toarray()[0]
    Y = model.embed("films", ids=model.ids_["films"])
    Y = Y / np.linalg.norm(Y, axis=1, keepdims=True)
    candidate = int(np.flatnonzero(linked)[0])  # a known partner is no evidence for itself
    cosine = np.where(linked > 0, Y @ Y[candidate], -np.inf)
    cosine[candidate] = -np.inf
    best = np.argsort(-cosine)[:3]
    explanation = model.explain("users", "u7", "films", model.ids_["films"][candidate], k=3)
    assert explanation.linked == linked[candidate]
    assert [entry.id for entry in explanation.evidence] == model.ids_["films"][best].tolist()
    assert [entry.weight for entry in explanation.evidence] == linked[best].tolist()
    found = [entry.similarity for entry in explanation.evidence]
    np.testing.assert_allclose(found, cosine[best], atol=1e-6)
    assert explanation.evidence[0].name == f"Title {explanation.evidence[0].id}"
    assert explanation.partner_name == f"Title {explanation.partner}"


def test_a_model_without_links_has_no_evidence(raw, tmp_path):
    model = raw[0]
    model.save(tmp_path, links=False)
    explanation = PMvGE.load(tmp_path).explain("users", "u7", "films", "f5")
    assert explanation.evidence is None
    assert explanation.linked is None
    assert any("without its training links" in note for note in explanation.notes)
    before = model.explain("users", "u7", "films", "f5")
    assert [p.value for p in before.parts] == pytest.approx([p.value for p in explanation.parts])


def test_plain_data_and_text(raw):
    model = raw[0]
    explanation = model.explain("users", "u7", "films", "f5")
    plain = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert plain["log_expected_weight"] == explanation.log_expected_weight
    assert sum(part["value"] for part in plain["parts"]) == pytest.approx(
        explanation.log_expected_weight
    )
    assert plain["evidence"][0]["id"] == explanation.evidence[0].id
    text = str(explanation)
    assert f", log {explanation.log_expected_weight:.4g}\n" in text
    assert "log alpha" in text
    assert "users u7" in text
    for part in explanation.parts:
        assert part.name in text


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("user", "u7", "films", "f5"), {}, "unknown view 'user'.*did you mean 'users'"),
        (("users", "u7", "films", "f5000"), {}, "got 1 unknown, such as 'f5000'"),
        (("users", 7, "films", "f5"), {}, "unknown, such as 7"),
        (("users", "u7", "users", "u8"), {}, "not observed in training"),
        (("users", {"agee": 3}, "films", "f5"), {}, "unknown column 'agee'.*did you mean 'age'"),
        (("users", {"age": math.nan}, "films", "f5"), {}, "'age'.*expected a value or None"),
        (("users", {"age": "old"}, "films", "f5"), {}, "age"),
        (("users", {"age": {}}, "films", "f5"), {}, "age|struct"),
        (("users", {}, "films", "f5"), {}, "users"),
        (("users", [1.0, 2.0], "films", "f5"), {}, "expected rows of shape"),
        (("users", np.full(6, np.nan), "films", "f5"), {}, "users"),
        (("users", "u7", "films", "f5"), {"X": [[math.nan] * 6]}, "users"),
        (("users", np.zeros(6), "films", "f5"), {"X": np.zeros(6)}, "got a row of features and X"),
        (("users", {"age": 3}, "films", "f5"), {"X": np.zeros(6)}, "or X, got both"),
        (("users", "u7", "films", "f5"), {"k": -1}, "k: expected an integer"),
        (("users", "u7", "films", "f5"), {"max_parts": 0}, "max_parts: expected an integer"),
    ],
)
def test_bad_input(raw, arguments, options, message):
    with pytest.raises(InputError, match=message):
        raw[0].explain(*arguments, **options)


def test_bad_input_of_arrays(data):
    X, _, W = data
    model = fitted({"a": X, "b": FILMS}, {("a", "b"): W})
    with pytest.raises(InputError, match="was not fitted to tables"):
        model.explain("a", {"age": 3}, "b", 0)
    with pytest.raises(InputError, match="has no features: expected an id"):
        model.explain("a", 0, "b", [1.0, 2.0])
    with pytest.raises(InputError, match="expected one row of features, got 2"):
        model.explain("a", X[:2], "b", 0)
    with pytest.raises(NotInductive):
        model.explain("a", USERS, "b", 0, X=X[0])
