"""Ids of any type, and casts of feature columns."""

import datetime
import math
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmvge.errors import TableError
from pmvge.tables import LinkTable, ViewTable, graph_from_frames, rows_of

KEYS = {
    "integers": [3, 1, 2],
    "negative": [-3, 0, 2],
    "padded": ["007", "7", "10"],
    "words": ["b", "a", "ä "],
    "mixed": ["12", "x12", "012"],
    "huge": [2**63 - 1, 5, -(2**63) + 1],
    "beyond 64 bits": [str(2**64), str(2**64 + 1), "5"],
    "uuids": [str(uuid.UUID(int=n)) for n in (5, 9, 1)],
    "dates": ["2020-01-02", "2019-05-06", "2021-01-01"],
    "fractions": ["1.5", "2.5", "3"],
}


def ids_of(frame, links=None):
    """Return the ids of a view, and the id that each is linked to."""
    other = {"id": frame["id"], "t": [f"t{at}" for at in range(len(frame["id"]))]}
    graph = graph_from_frames(
        {"v": ViewTable(frame, "id", {}), "t": None},
        {("v", "t"): LinkTable(other if links is None else links, ("id", "t"))},
    )
    table = graph.links["v", "t"]
    return graph.ids["v"], dict(
        zip(graph.ids["v"][table.rows].tolist(), graph.ids["t"][table.cols].tolist(), strict=True)
    )


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_ids_keep_their_values(keys) -> None:
    ids, partners = ids_of({"id": keys})
    assert ids.tolist() == sorted(keys)
    assert partners == {key: f"t{at}" for at, key in enumerate(keys)}


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_ids_in_csv_equal_ids_in_data_frames(write, tmp_path, keys) -> None:
    text = pd.DataFrame({"id": keys}).to_csv(index=False)
    path = str(tmp_path / write("ids.csv", text))
    links = {"id": keys, "t": ["t0", "t1", "t2"]}
    graph = graph_from_frames(
        {"v": ViewTable(path, "id", {}), "t": None}, {("v", "t"): LinkTable(links, ("id", "t"))}
    )
    assert graph.ids["v"].tolist() == sorted(keys)
    assert graph.n_links == 3


@pytest.mark.parametrize(
    ("view", "links"),
    [
        ([1, 2, 3], ["1", "2", "3"]),
        (["1", "2", "3"], [1, 2, 3]),
        ([1, 2, 3], [1.0, 2.0, 3.0]),
        ([1, 2, 3], ["1.0", "2.0", "3.0"]),
        ([1.0, 2.0, 3.0], [1, 2, 3]),
        (["x", "2", "3"], [None, 2.0, 3.0]),
        (np.array([1, 2, 3], np.uint64), np.array([1, 2, 3], np.int8)),
        (pd.Categorical(["1", "2", "3"]), [1, 2, 3]),
        ([datetime.date(2020, 1, d) for d in (1, 2, 3)], [f"2020-01-0{d}" for d in (1, 2, 3)]),
        ([uuid.UUID(int=n) for n in (1, 2, 3)], [str(uuid.UUID(int=n)) for n in (1, 2, 3)]),
    ],
)
@pytest.mark.filterwarnings("ignore::pmvge.tables.DroppedRows")
def test_equal_ids_of_two_types_match(view, links) -> None:
    table = pd.DataFrame({"id": links, "t": ["a", "b", "c"]})
    _, partners = ids_of(pd.DataFrame({"id": view}), table)
    expected = ["a", "b", "c"] if links[0] is not None else ["b", "c"]
    assert list(partners.values()) == expected


def test_padded_ids_are_not_numbers() -> None:
    with pytest.raises(TableError, match="has ids like '007', '010', the links have '10', '7'"):
        ids_of({"id": ["007", "010"]}, {"id": [7, 10], "t": ["a", "b"]})


def test_integral_doubles_are_integer_ids_and_nan_is_missing() -> None:
    frame = pa.table({"id": [12.0, 13.0, float("nan")], "t": [1, 2, 3]})
    with pytest.warns(UserWarning, match="1 of 3 rows dropped"):
        graph = graph_from_frames(
            {"v": None, "t": None}, {("v", "t"): LinkTable(frame, ("id", "t"))}
        )
    assert graph.ids["v"].tolist() == [12, 13]


@given(
    st.lists(
        st.one_of(
            st.integers(-(10**17), 10**17).map(str),
            st.text("0123456789ax.-é' ", min_size=1, max_size=6),
        ),
        min_size=1,
        max_size=8,
        unique=True,
    )
)
def test_text_ids_are_never_changed(keys) -> None:
    ids, partners = ids_of({"id": keys})
    assert {str(value) for value in ids.tolist()} == set(keys)
    assert {str(key) for key in partners} == set(keys)
    plain = all(key == str(int(key)) for key in keys if key.removeprefix("-").isdecimal())
    numbers = all(key.removeprefix("-").isdecimal() for key in keys)
    assert (ids.dtype.kind == "i") == (plain and numbers)


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (["1", "2", "x1"], "numeric", "expected numbers, but 1 values are .* such as 'x1'"),
        (
            ["1", "2,5", "3,5"],
            "numeric",
            "expected numbers, but 2 values .* such as '2,5' in row 2; if 2,5 means 2.5, set "
            'decimal = ","',
        ),
        (["1", "2,5", "x"], "numeric", ".*but 2 values .* such as '2,5' in row 2; correct them"),
        (["2020-01-01", "2020-13-01", ""], "date", r"expected dates \(1975.*\), but 2 values"),
        ([1, 2, 3], "date", r"expected dates .*, but 3 values are something else, such as 1"),
        ([1, 2, 3], "vector", "expected lists of finite numbers, .* such as 1"),
        (["[1, 2]", "[1, 3", "[2, 3]"], "vector", r"expected lists of .* such as '\[1, 3'"),
        (
            [[1.0, 2.0], [1.0, math.nan], [3.0, math.inf]],
            "vector",
            r"expected lists of finite numbers, .* 2 values .* such as \[1.0, nan\] in row 2; "
            'correct them, or set on_error = "missing"',
        ),
        ([[1.0, 2.0], [1.0, None], None], "vector", r".*such as \[1.0, None\] in row 2"),
        ([[1.0, 2.0], None, [-math.inf, 1.0]], "vector", r".*such as \[-inf, 1.0\] in row 3"),
    ],
)
def test_values_of_another_kind_are_refused(values, kind, message) -> None:
    frame = {"id": [1, 2, 3], "x": values}
    with pytest.raises(TableError, match=f"view v .dict.: column 'x': {message}"):
        graph_from_frames(
            {"v": ViewTable(frame, "id", {"x": kind}), "t": None},
            {("v", "t"): LinkTable({"id": [1], "t": [1]}, ("id", "t"))},
        )


def test_booleans_are_numbers() -> None:
    frame = pd.DataFrame({"film": ["a", "b"], "new": [True, False]})
    graph = graph_from_frames(
        {"film": ViewTable(frame, "film", {"new": "numeric"}, standardize=False), "user": None},
        {("user", "film"): pd.DataFrame({"user": [1, 2], "film": ["a", "b"]})},
    )
    _, rows = rows_of(
        graph.tables, "film", pd.DataFrame({"film": ["c", "d"], "new": ["True", "false"]})
    )
    assert rows.ravel().tolist() == [1, 0]
