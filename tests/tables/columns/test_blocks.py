"""Columns become the numbers that scikit-learn makes of them, and keep doing so through JSON."""

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
from pmvge.tables.columns import blocks
from pmvge.tables.columns.blocks import (
    Category,
    HashedWords,
    Numbers,
    Scaling,
    fit_vector,
    fit_words,
)

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


def encode(block, **columns):
    notes = Counter()
    return block.encode({name: pa.array(v) for name, v in columns.items()}, notes), notes


@given(st.lists(st.integers(-(10**6), 10**6).map(lambda n: n / 8), min_size=2, max_size=20))
def test_numbers_are_standardised_as_by_scikit_learn(values) -> None:
    block = Numbers(("x",), ("numeric",), (scaling(values),))
    X, _ = encode(block, x=values)
    column = np.array(values)[:, None]
    wanted = StandardScaler().fit_transform(column)
    np.testing.assert_allclose(X, wanted, rtol=1e-4, atol=1e-4)


def test_missing_numbers_get_the_mean_and_a_mark() -> None:
    values = [1.0, None, 3.0, 8.0]
    block = Numbers(("x", "y"), ("numeric",) * 2, (scaling(values), scaling([1.0, 2.0])))
    X, notes = encode(block, x=values, y=[1.0, 2.0, None, 1.0])
    assert X.shape == (4, block.width) == (4, 3)
    assert X[:, 2].tolist() == [0, 1, 0, 0]  # y was never missing in training: no mark
    assert X[1, 0] == 0
    assert X[2, 1] == 0
    assert notes == {("x", "missing"): 1, ("y", "missing"): 1}


def test_numbers_as_they_are() -> None:
    values = [1.0, None, 3.0]
    block = Numbers(("x",), ("numeric",), (scaling(values, standardize=False),))
    assert encode(block, x=values)[0].tolist() == [[1, 0], [2, 1], [3, 0]]


def test_a_column_without_a_number_is_zeros_and_marks() -> None:
    X, _ = encode(Numbers(("x",), ("numeric",), (scaling([None, None]),)), x=[None, 5.0])
    assert X.tolist() == [[0, 1], [0, 0]]


@given(st.lists(st.sampled_from(["a", "b", "c'", "日"]), min_size=1, max_size=12))
def test_categories_are_those_of_scikit_learn(values) -> None:
    block = Category(("c",), tuple(sorted(set(values))), False, False)
    ours, _ = encode(block, c=values)
    wanted = OneHotEncoder(sparse_output=False).fit_transform(np.array(values)[:, None])
    np.testing.assert_array_equal(ours, wanted)


def test_strange_and_missing_categories() -> None:
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


def test_words_are_those_of_scikit_learn() -> None:
    block = fit_words("t", [pa.array(TEXTS[:3]), pa.array([*TEXTS[3:], None])], None)
    texts = [*TEXTS, ""]
    reference = TfidfVectorizer(min_df=2)
    wanted = reference.fit_transform(texts).toarray()
    assert block.words == tuple(reference.get_feature_names_out())
    X, notes = encode(block, t=[*TEXTS, None])
    np.testing.assert_allclose(X.toarray(), wanted, rtol=1e-6)
    assert notes["t", "missing"] == 1
    later = ["dog dog unheard-of words", "fox"]
    np.testing.assert_allclose(
        encode(block, t=later)[0].toarray(), reference.transform(later).toarray(), rtol=1e-6
    )


def test_the_most_frequent_words_are_kept() -> None:
    rows = Counter(w for text in TEXTS for w in set(TfidfVectorizer().build_analyzer()(text)))
    block = fit_words("t", [pa.array(TEXTS)], 2)
    assert set(block.words) == {w for w, n in rows.items() if n >= sorted(rows.values())[-2]}


def test_words_that_stand_alone_are_kept_if_there_are_no_others() -> None:
    assert fit_words("t", [pa.array(["red house", "blue sky"])], None).words == (
        "blue",
        "house",
        "red",
        "sky",
    )
    with pytest.raises(TableError, match="column 't': there is not one word"):
        fit_words("t", [pa.array(["a b", None])], None)


def test_hashed_words_are_those_of_scikit_learn() -> None:
    X, _ = encode(HashedWords(("t",), 32), t=[*TEXTS, None])
    wanted = HashingVectorizer(n_features=32, alternate_sign=False).transform([*TEXTS, ""])
    np.testing.assert_allclose(X.toarray(), wanted.toarray(), rtol=1e-6)


@pytest.mark.parametrize("standardize", [True, False])
def test_vectors_in_batches_are_scaled_as_one(standardize) -> None:
    rows = np.random.default_rng(0).normal(3, 2, (20, 4))
    parts = [pa.array(rows[:7].tolist()), pa.array(rows[7:8].tolist()), pa.array(rows[8:].tolist())]
    block = fit_vector("v", parts, 4, standardize)
    wanted = StandardScaler().fit_transform(rows) if standardize else rows
    np.testing.assert_allclose(encode(block, v=rows.tolist())[0], wanted, rtol=1e-5, atol=1e-6)


def test_missing_vectors_get_the_mean_and_a_mark() -> None:
    block = fit_vector("v", [pa.array([[1.0, 2.0], None, [3.0, 6.0]])], 2, False)
    X, notes = encode(block, v=[None, [0.0, 1.0]])
    assert X.tolist() == [[2, 4, 1], [0, 1, 0]]
    assert notes["v", "missing"] == 1
    fixed = pa.array([[0.0, 1.0], None], pa.list_(pa.float64(), 2))
    assert block.encode({"v": fixed}, Counter()).tolist() == [[0, 1, 0], [2, 4, 1]]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 2.0], [1.0]], "expected vectors of length 2, got one of 1"),
        ([[1.0, 2.0], []], "expected vectors of length 2, got one of 0"),
        ([[1.0, None]], "a vector has an element that is missing or infinite"),
        ([[float("nan"), 1.0]], "a vector has an element that is missing or infinite"),
        ([[float("inf"), 1.0]], "a vector has an element that is missing or infinite"),
    ],
)
def test_bad_vectors(values, message) -> None:
    block = fit_vector("v", [pa.array([[1.0, 2.0], [2.0, 2.0]])], 2, True)
    with pytest.raises(TableError, match=f"column 'v': {message}"):
        encode(block, v=values)


@pytest.mark.parametrize(
    "block",
    [
        Numbers(("x", "t"), ("numeric", "date"), (scaling([0.1, None]), scaling([1.0, 1 / 3]))),
        fit_vector("x", [pa.array([[1.0, 2.0], None, [1 / 3, 0.1]])], 2, True),
        Category(("x",), ("a", 'q"', "日"), True, False),
        fit_words("x", [pa.array(TEXTS)], None),
        HashedWords(("x",), 16),
    ],
    ids=lambda block: type(block).__name__,
)
def test_blocks_are_plain_data(block) -> None:
    plain = blocks.to_plain(block)
    again = blocks.from_plain(json.loads(json.dumps(plain)))
    assert again == block
    assert (again.width, again.sparse, again.columns) == (block.width, block.sparse, block.columns)
