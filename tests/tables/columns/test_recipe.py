"""Recipes: columns chosen by names and patterns, fitted once, applied to other tables."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pmvge.errors import TableError
from pmvge.tables import Feature, LinkTable, ViewTable, graph_from_frames, rows_of
from pmvge.tables.columns.casts import cast
from pmvge.tables.columns.recipe import Recipe, resolve_features

FILMS = pd.DataFrame(
    {
        "id": ["d", "a", "c", "b"],
        "year": [1999, 2004, None, 2010],
        "length": [90.5, 120.0, 100.0, 95.0],
        "kind": ["war", None, "love", "war"],
        "plot": ["love in war", "", None, "the war of love"],
        "seen": pd.to_datetime(["2020-01-01", "2020-01-03", None, "2020-02-01"]),
        "vector": [[1, 2], [3, 4], [5, 6], [7, 9]],
    }
)


def graph_of(frame, features, **options):
    links = {"id": frame["id"], "t": [1] * len(frame["id"])}
    return graph_from_frames(
        {"v": ViewTable(frame, "id", features, **options), "t": None},
        {("v", "t"): LinkTable(links, ("id", "t"))},
    )


def features_of(frame, features, **options):
    return graph_of(frame, features, **options).views["v"]


def test_features_of_every_kind_agree_with_scikit_learn(dense) -> None:
    kinds = ("numeric", "numeric", "category", "text", "date", "vector")
    X = features_of(FILMS, dict(zip(FILMS.columns[1:], kinds, strict=True)))
    films = FILMS.sort_values("id").reset_index(drop=True)
    days = (films.seen - pd.Timestamp(0)).dt.total_seconds() / 86400
    numbers = pd.DataFrame({"year": films.year, "length": films.length, "seen": days})
    wanted = np.hstack(
        [
            StandardScaler().fit_transform(numbers.fillna(numbers.mean())) * [1, 1, 1],
            numbers[["year", "seen"]].isna(),
            OneHotEncoder(sparse_output=False).fit_transform(films.kind.fillna("~").to_frame()),
            TfidfVectorizer(min_df=2).fit_transform(films["plot"].fillna("")).toarray(),
            StandardScaler().fit_transform(np.array(films.vector.tolist())),
        ]
    )
    for column in ("year", "seen"):  # deviations of the values that are present
        at = list(numbers).index(column)
        known = numbers[column].dropna()
        wanted[:, at] = (numbers[column].fillna(known.mean()) - known.mean()) / known.std(ddof=0)
    assert not isinstance(X, np.ndarray)  # there is text
    np.testing.assert_allclose(dense(X), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sparse", [True, False, None])
@pytest.mark.parametrize("standardize", [True, False])
def test_sparse_and_standardize(dense, sparse, standardize) -> None:
    X = features_of(FILMS, {"length": "numeric"}, sparse=sparse, standardize=standardize)
    assert isinstance(X, np.ndarray) == (not sparse)
    lengths = FILMS.sort_values("id")[["length"]].to_numpy()
    wanted = StandardScaler().fit_transform(lengths) if standardize else lengths
    np.testing.assert_allclose(dense(X), wanted, rtol=1e-6)


def test_text_can_be_dense_and_hashed(dense) -> None:
    X = features_of(FILMS, {"plot": {"kind": "text", "hashed": True, "size": 8}}, sparse=False)
    texts = FILMS.sort_values("id")["plot"].fillna("")
    wanted = HashingVectorizer(n_features=8, alternate_sign=False).transform(texts)
    np.testing.assert_allclose(X, wanted.toarray(), rtol=1e-6)


def test_rare_categories_share_a_feature(dense) -> None:
    frame = {"id": range(7), "c": ["x", "x", "x", "y", "y", "z", "w"]}
    X = dense(features_of(frame, {"c": Feature("category", size=2)}))
    assert X.argmax(axis=1).tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert X.shape == (7, 3)


def test_integral_doubles_match_integer_categories() -> None:
    graph = graph_of({"id": [1, 2, 3], "c": ["1", "2", "2"]}, {"c": "category"})
    new = pd.DataFrame({"id": [1, 2, 3], "c": [1.0, None, 2.0]})
    _, X = rows_of(graph.tables, "v", new)
    assert X.tolist() == [[1, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize(
    "vectors",
    [
        [[1, 2], [3, 5]],
        pa.array([[1, 2], [3, 5]], pa.list_(pa.float32(), 2)),
        ["[1, 2]", "[3, 5.0]"],
        [np.array([1, 2]), np.array([3, 5])],
    ],
)
def test_vectors_of_every_type(vectors) -> None:
    X = features_of({"id": [1, 2], "v": vectors}, {"v": "vector"}, standardize=False)
    assert X.tolist() == [[1, 2], [3, 5]]


def test_float_vectors_are_staged_as_floats_with_the_same_bits() -> None:
    rows = np.random.default_rng(0).normal(3, 2, (50, 4)).astype(np.float32)
    found = [
        features_of({"id": range(50), "v": pa.array(list(rows.astype(kind)))}, {"v": "vector"})
        for kind in (np.float32, np.float64)
    ]
    assert found[0].tobytes() == found[1].tobytes()
    for kind, staged in (
        ("FLOAT[]", "FLOAT[]"),
        ("FLOAT[4]", "FLOAT[]"),
        ("DOUBLE[4]", "DOUBLE[]"),
    ):
        assert f'CAST("v" AS {staged})' in cast("v", "vector", {"v": kind})


def test_lists_of_words_are_text(dense) -> None:
    X = features_of({"id": [1, 2], "v": [["red", "blue"], ["red"]]}, {"v": "text"})
    assert dense(X).shape == (2, 1)


@pytest.mark.parametrize(
    "days",
    [
        ["2020-01-01", "2020-01-02 12:00:00"],
        pd.to_datetime(["2020-01-01 00:00", "2020-01-02 12:00"]),
        pd.to_datetime(["2020-01-01 00:00", "2020-01-02 12:00"]).tz_localize("UTC"),
        pd.to_datetime(["2020-01-01 00:00", "2020-01-02 12:00"]).astype("datetime64[ns]"),
    ],
)
def test_dates_are_days(days) -> None:
    frame = pd.DataFrame({"id": [1, 2], "d": days})
    X = features_of(frame, {"d": "date"}, standardize=False)
    assert X.ravel().tolist() == [18262.0, 18263.5]


def test_patterns_of_column_names() -> None:
    columns = dict.fromkeys(["id", "w1", "w10", "word", "x[1]", "wid"], "DOUBLE")
    table = ViewTable("f.csv", "wid", {"w*": "numeric", "word": "text", "x[1]": "vector"})
    chosen = resolve_features("view v", table, columns)
    assert {name: feature.kind for name, feature in chosen.items()} == {
        "w1": "numeric",
        "w10": "numeric",
        "word": "text",
        "x[1]": "vector",
    }
    labelled = ViewTable("f.csv", "wid", {"w*": "numeric"}, labels=("word",))
    assert list(resolve_features("view v", labelled, columns)) == ["w1", "w10"]
    with pytest.raises(TableError, match=r"view v: no column 'y\*'; the columns are 'id', 'w1'"):
        resolve_features("view v", ViewTable("f.csv", "id", {"y*": "numeric"}), columns)


def test_many_columns() -> None:
    values = np.random.default_rng(0).normal(size=(5, 700))
    frame = pd.DataFrame(values, columns=[f"x{at}" for at in range(700)]).assign(id=range(5))
    X = features_of(frame, {"x*": "numeric"})
    np.testing.assert_allclose(X, StandardScaler().fit_transform(values), rtol=1e-4, atol=1e-5)


@given(
    st.lists(
        st.tuples(
            st.none() | st.floats(-1e3, 1e3),
            st.none() | st.sampled_from(["a", "b", "c", "it's"]),
            st.none() | st.text("ab \n", max_size=8),
        ),
        min_size=2,
        max_size=10,
    )
)
def test_recipes_survive_json(rows) -> None:
    frame = pd.DataFrame(rows, columns=["x", "c", "t"]).assign(id=range(len(rows)))
    frame["x"] = frame["x"].astype(float)
    kinds = {"x": "numeric", "c": "category", "t": {"kind": "text", "hashed": True, "size": 8}}
    graph = graph_of(frame, kinds)
    plain = graph.tables["views"]["v"]["recipe"]
    recipe = Recipe.from_dict(json.loads(json.dumps(plain)))
    assert recipe.to_dict() == plain
    columns = {
        "feature x": pa.array(frame["x"], from_pandas=True),
        "feature c": pa.array([c for _, c, _ in rows], pa.string()),
        "feature t": pa.array([t for _, _, t in rows], pa.string()),
    }
    X = recipe.encode(columns, Counter())
    assert X.shape == (len(rows), recipe.width)
    assert X.toarray().tobytes() == graph.views["v"].toarray().tobytes()
