"""``PMvGE.explain`` of new entities with first links, against fold-in, search and closed forms."""

import math

import numpy as np
import pytest
from scipy import sparse

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import InputError

USERS, FILMS = 40, 30
IDS = np.array([f"f{n}" for n in range(FILMS)])
LINKS = {"b": ([0, 0, 0], ["f3", "f8", "f3"], [2.0, 1.0, 1.0])}


def fitted(views, links, **settings):
    defaults = {"n_components": 5, "hidden_sizes": (16,), "max_steps": 60, "random_state": 0}
    graph = MultiViewGraph(views, links, {"b": IDS})
    return PMvGE(**{**defaults, "progress": False, **settings}).fit(graph)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = 2 + 3 * rng.normal(size=(USERS, 4))
    T = rng.normal(size=(FILMS, 6))
    mu = np.exp(0.3 * (X[:, :3] - 2) @ T[:, :3].T / 3)
    return X, T, sparse.csr_array(rng.poisson(mu))


def part_of(explanation, kind):
    (found,) = (part for part in explanation.parts if part.kind == kind and part.side == "entity")
    return found


def check(explanation, mu):
    eta = explanation.log_expected_weight
    assert math.fsum(part.value for part in explanation.parts) == pytest.approx(eta, abs=1e-9)
    assert explanation.expected_weight == pytest.approx(mu, rel=1e-5)
    split = math.fsum(p.value for p in explanation.parts if p.kind in ("feature", "effects"))
    assert abs(explanation.remainder) <= max(0.01 * abs(split), 1e-4)


def weights_of(model, *given, **options):
    """Return the expected weight of each film in a search."""
    ids, mu = model.search(*given, among="b", k=FILMS, **options)
    return dict(zip(ids[0].tolist(), mu[0].tolist(), strict=True))


@pytest.mark.parametrize("exposure", [None, 0.5])
def test_first_links_of_linear_encoders_have_the_closed_form(data, exposure):
    X, T, W = data
    model = fitted({"a": X, "b": T}, {("a", "b"): W}, encoder="linear", similarity="inner")
    x, j = X[[0]] + 1.0, 8
    found = model.explain("a", x, "b", "f8", X_other=T[[j]], links=LINKS, exposure=exposure)
    effect = part_of(found, "effects")
    assert effect.name == "first links: 2 b"
    # The vector moves by e, and the partner's from the baseline to its own: e . (y0' + y') / 2.
    e = model.fold_in("a", x, links=LINKS, exposure=exposure) - model.embed("a", x)
    path = model.embed("b", T.mean(0)[None]) + model.embed("b", ids=["f8"])
    assert effect.value == pytest.approx(float(e[0] @ path[0]) / 2, abs=2e-5)
    assert effect.value != 0
    biases = [part.value for part in found.parts if part.name == "bias of first links"]
    if exposure is None:  # the level is not observed
        assert biases == []
    else:
        options = {"links": LINKS, "exposure": exposure}
        moved = model.vectors("a", x, among="b", **options) - model.vectors("a", x, among="b")
        assert biases == [pytest.approx(moved[0, -2], abs=1e-5)]
    check(found, weights_of(model, "a", x, links=LINKS, exposure=exposure)["f8"])


@pytest.mark.parametrize("similarity", ["cosine", "shifted", "weighted", "difference", "euclidean"])
def test_parts_add_up_to_the_weights_of_search(data, similarity):
    X, T, W = data
    model = fitted({"a": X, "b": T}, {("a", "b"): W}, similarity=similarity)
    x = X[[0]] + 1.0
    found = model.explain("a", x, "b", "f8", links=LINKS)
    check(found, weights_of(model, "a", x, links=LINKS)["f8"])
    assert part_of(found, "effects").value != 0


@pytest.mark.parametrize("entity", [None, "a new id"])
def test_a_view_without_features(data, entity):
    _, T, W = data
    model = fitted({"a": USERS, "b": T}, {("a", "b"): W}, similarity="inner")
    found = model.explain("a", entity, "b", "f8", links=LINKS)
    assert found.id is None
    vector = model.fold_in("a", links=LINKS)
    path = model.embed("b", T.mean(0)[None]) + model.embed("b", ids=["f8"])
    assert part_of(found, "effects").value == pytest.approx(
        float(vector[0] @ path[0]) / 2, abs=2e-5
    )
    check(found, weights_of(model, "a", links=LINKS)["f8"])


def test_first_links_are_the_evidence(data, tmp_path):
    X, T, W = data
    model = fitted({"a": X, "b": T}, {("a", "b"): W})
    model.save(tmp_path / "model", links=False)
    for one in (model, PMvGE.load(tmp_path / "model")):
        found = one.explain("a", X[0], "b", "f5", links=LINKS)
        y = one.embed("b", ids=["f3", "f8", "f5"]).astype(float)
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        wanted = sorted(
            [("f3", 3.0, y[0] @ y[2]), ("f8", 1.0, y[1] @ y[2])], key=lambda entry: -entry[2]
        )
        listed = [(entry.id, entry.weight, entry.similarity) for entry in found.evidence]
        assert [entry[:2] for entry in listed] == [entry[:2] for entry in wanted]
        assert [entry[2] for entry in listed] == pytest.approx([entry[2] for entry in wanted])
        assert found.linked == 0
        assert found.notes[:1] != ("no known partners",)
        among = one.explain("a", X[0], "b", "f3", links=LINKS)
        assert among.linked == 3
        assert [entry.id for entry in among.evidence] == ["f8"]


def test_links_that_change_nothing_have_a_note(data):
    X, T, W = data
    model = fitted({"a": X, "b": T}, {("a", "b"): W}, effects="bias")
    plain = model.explain("a", X[0], "b", "f8")
    found = model.explain("a", X[0], "b", "f8", links=LINKS)
    assert found.parts == plain.parts
    assert any("the first links change nothing" in note for note in found.notes)
    with_level = model.explain("a", X[0], "b", "f8", links=LINKS, exposure=1.0)
    assert part_of(with_level, "bias effect").name == "bias of first links"
    assert not any("change nothing" in note for note in with_level.notes)


def test_bad_links(data):
    X, T, W = data
    model = fitted({"a": X, "b": T, "c": 4}, {("a", "b"): W, ("a", "c"): ([0], [0])})

    def refused(message, entity=X[0], **options):
        with pytest.raises(InputError, match=message):
            model.explain("a", entity, "b", "f8", **options)

    refused("expected links, too", exposure=1.0)
    refused("expected a positive number", links=LINKS, exposure=-1)
    refused("unknown: 'f99'", links={"b": ([0], ["f99"])})
    refused("expected row numbers below 1, got 1", links={"b": ([1], ["f3"])})
    refused("unknown view 'films'", links={"films": ([0], ["f3"])})
    refused("expected X, got none", entity=None, links=LINKS)
    refused("expected finite numbers >= 0", links={"b": ([0], ["f3"], [math.nan])})
    none = fitted({"a": X, "b": T}, {("a", "b"): W}, effects="none")
    with pytest.raises(InputError, match="has no effects, so links cannot change"):
        none.explain("a", X[0], "b", "f8", links=LINKS)
    featureless = fitted({"a": USERS, "b": T}, {("a", "b"): W})
    with pytest.raises(InputError, match="expected links of row 0"):
        featureless.explain("a", None, "b", "f8", links={"b": ([0, 1], ["f3", "f3"])})
    with pytest.raises(InputError, match="expected links of new entities"):
        graph_model(X, T, W).explain("a", "u1", "b", "f8", X=X[1], links=LINKS)


def graph_model(X, T, W):
    ids = {"a": [f"u{n}" for n in range(USERS)], "b": IDS}
    graph = MultiViewGraph({"a": X, "b": T}, {("a", "b"): W}, ids)
    return PMvGE(n_components=3, max_steps=5, random_state=0, progress=False).fit(graph)
