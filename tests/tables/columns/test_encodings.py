"""Encodings agree with scikit-learn, and survive a round trip through JSON."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from pmvge.errors import TableError
from pmvge.tables.columns import encodings
from pmvge.tables.columns.category_encodings import Category
from pmvge.tables.columns.fitting import fit_vector, fit_words
from pmvge.tables.columns.number_encodings import Numbers, Scaling
from pmvge.tables.columns.word_encodings import HashedWords

TEXTS = [
    "The quick brown fox, the lazy dog",
    "the dog",
    "",
    "Çà et là: the fox",
    "a b c",
    "lazy lazy dog 2020",
]


def scaling(values, standardize=True):
    known = [v for v in values if v is not None]
    mean, deviation = (np.mean(known), np.std(known)) if known else (None, None)
    return Scaling.of(mean, deviation, len(known) < len(values), standardize)


def encode(encoding, **columns):
    notes = Counter()
    return encoding.encode({name: pa.array(v) for name, v in columns.items()}, notes), notes


@given(st.lists(st.integers(-(10**6), 10**6).map(lambda n: n / 8), min_size=2, max_size=20))
def test_numbers_are_standardised_as_by_scikit_learn(values) -> None:
    encoding = Numbers(("x",), ("numeric",), (scaling(values),))
    X, _ = encode(encoding, x=values)
    column = np.array(values)[:, None]
    wanted = StandardScaler().fit_transform(column)
    np.testing.assert_allclose(X, wanted, rtol=1e-4, atol=1e-4)


def test_missing_numbers_get_the_mean_and_an_indicator() -> None:
    values = [1.0, None, 3.0, 8.0]
    encoding = Numbers(("x", "y"), ("numeric",) * 2, (scaling(values), scaling([1.0, 2.0])))
    X, notes = encode(encoding, x=values, y=[1.0, 2.0, None, 1.0])
    assert X.shape == (4, encoding.width) == (4, 3)
    assert X[:, 2].tolist() == [0, 1, 0, 0]  # y was never missing in training: no indicator
    assert X[1, 0] == 0
    assert X[2, 1] == 0
    assert notes == {("x", "missing"): 1, ("y", "missing"): 1}


def test_numbers_without_standardization() -> None:
    values = [1.0, None, 3.0]
    encoding = Numbers(("x",), ("numeric",), (scaling(values, standardize=False),))
    assert encode(encoding, x=values)[0].tolist() == [[1, 0], [2, 1], [3, 0]]


def test_a_column_without_numbers_is_zeros_and_indicators() -> None:
    X, _ = encode(Numbers(("x",), ("numeric",), (scaling([None, None]),)), x=[None, 5.0])
    assert X.tolist() == [[0, 1], [0, 0]]


@given(st.lists(st.sampled_from(["a", "b", "c'", "日"]), min_size=1, max_size=12))
def test_categories_agree_with_scikit_learn(values) -> None:
    encoding = Category(("c",), tuple(sorted(set(values))), False, False)
    X, _ = encode(encoding, c=values)
    wanted = OneHotEncoder(sparse_output=False).fit_transform(np.array(values)[:, None])
    np.testing.assert_array_equal(X, wanted)


def test_unseen_and_missing_categories() -> None:
    values = ["a", "b", "new", None]
    plain = Category(("c",), ("a", "b"), False, False)
    X, notes = encode(plain, c=values)
    assert X.tolist() == [[1, 0], [0, 1], [0, 0], [0, 0]]
    assert notes == {("c", "missing"): 1, ("c", "unseen"): 1}
    full = Category(("c",), ("a", "b"), True, True)
    X, notes = encode(full, c=values)
    assert X.argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert notes["c", "unseen"] == 0


def test_many_categories_are_sparse() -> None:
    values = [f"v{at:03}" for at in range(300)]
    X, _ = encode(Category(("c",), tuple(values), False, False), c=values)
    assert X.nnz == 300
    assert (np.eye(300) != X).sum() == 0


def test_words_agree_with_scikit_learn() -> None:
    encoding = fit_words("t", [pa.array(TEXTS[:3]), pa.array([*TEXTS[3:], None])], None)
    texts = [*TEXTS, ""]
    reference = TfidfVectorizer(min_df=2)
    wanted = reference.fit_transform(texts).toarray()
    assert encoding.words == tuple(reference.get_feature_names_out())
    X, notes = encode(encoding, t=[*TEXTS, None])
    np.testing.assert_allclose(X.toarray(), wanted, rtol=1e-6)
    assert notes["t", "missing"] == 1
    new = ["dog dog unheard-of words", "fox"]
    np.testing.assert_allclose(
        encode(encoding, t=new)[0].toarray(), reference.transform(new).toarray(), rtol=1e-6
    )


def test_the_most_frequent_words_are_kept() -> None:
    rows = Counter(w for text in TEXTS for w in set(TfidfVectorizer().build_analyzer()(text)))
    encoding = fit_words("t", [pa.array(TEXTS)], 2)
    assert set(encoding.words) == {w for w, n in rows.items() if n >= sorted(rows.values())[-2]}


def test_words_of_single_rows_are_kept_if_there_are_no_others() -> None:
    assert fit_words("t", [pa.array(["red house", "blue sky"])], None).words == (
        "blue",
        "house",
        "red",
        "sky",
    )
    with pytest.raises(TableError, match="column 't': expected words of two letters"):
        fit_words("t", [pa.array(["a b", None])], None)


def test_hashed_words_agree_with_scikit_learn() -> None:
    X, _ = encode(HashedWords(("t",), 32), t=[*TEXTS, None])
    wanted = HashingVectorizer(n_features=32, alternate_sign=False).transform([*TEXTS, ""])
    np.testing.assert_allclose(X.toarray(), wanted.toarray(), rtol=1e-6)


@pytest.mark.parametrize("standardize", [True, False])
def test_scaling_of_vectors_does_not_depend_on_batches(standardize) -> None:
    rows = np.random.default_rng(0).normal(3, 2, (20, 4))
    parts = [pa.array(rows[:7].tolist()), pa.array(rows[7:8].tolist()), pa.array(rows[8:].tolist())]
    encoding = fit_vector("v", parts, 4, standardize)
    wanted = StandardScaler().fit_transform(rows) if standardize else rows
    np.testing.assert_allclose(encode(encoding, v=rows.tolist())[0], wanted, rtol=1e-5, atol=1e-6)


def test_missing_vectors_get_the_mean_and_an_indicator() -> None:
    encoding = fit_vector("v", [pa.array([[1.0, 2.0], None, [3.0, 6.0]])], 2, False)
    X, notes = encode(encoding, v=[None, [0.0, 1.0]])
    assert X.tolist() == [[2, 4, 1], [0, 1, 0]]
    assert notes["v", "missing"] == 1
    fixed = pa.array([[0.0, 1.0], None], pa.list_(pa.float64(), 2))
    assert encoding.encode({"v": fixed}, Counter()).tolist() == [[0, 1, 0], [2, 4, 1]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 2.0], [1.0]], "expected vectors of length 2, got one of 1"),
        ([[1.0, 2.0], []], "expected vectors of length 2, got one of 0"),
    ],
)
def test_bad_vectors(values, message) -> None:
    encoding = fit_vector("v", [pa.array([[1.0, 2.0], [2.0, 2.0]])], 2, True)
    with pytest.raises(TableError, match=f"column 'v': {message}"):
        encode(encoding, v=values)


@pytest.mark.parametrize(
    "encoding",
    [
        Numbers(("x", "t"), ("numeric", "date"), (scaling([0.1, None]), scaling([1.0, 1 / 3]))),
        fit_vector("x", [pa.array([[1.0, 2.0], None, [1 / 3, 0.1]])], 2, True),
        Category(("x",), ("a", 'q"', "日"), True, False),
        fit_words("x", [pa.array(TEXTS)], None),
        HashedWords(("x",), 16),
    ],
    ids=lambda encoding: type(encoding).__name__,
)
def test_encodings_survive_json(encoding) -> None:
    plain = encodings.to_dict(encoding)
    again = encodings.from_dict(json.loads(json.dumps(plain)))
    assert again == encoding
    assert (again.width, again.sparse, again.columns) == (
        encoding.width,
        encoding.sparse,
        encoding.columns,
    )
