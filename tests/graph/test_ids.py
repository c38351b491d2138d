"""Validation and look-up of entity ids."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pmvge.errors import GraphError, InputError, NotInductive
from pmvge.graph import as_ids, check_ids, find_ids, known_positions

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_characters="\0"), max_size=4)


@pytest.mark.parametrize(
    "given",
    [
        [3, 1, 2],
        (3, 1, 2),
        range(3, 0, -1),
        np.array([3, 1, 2], np.uint8),
        np.array([3, 1, 2], np.uint64),
        np.array([3, np.int8(1), 2], object),
        pd.Series([3, 1, 2], index=[7, 8, 9]),
        pd.Index([3, 1, 2]),
        torch.tensor([3, 1, 2]),
        (i for i in [3, 1, 2]),
    ],
    ids=lambda given: type(given).__name__,
)
def test_any_list_of_integers_becomes_int64(given) -> None:
    ids = as_ids("here", given)
    assert ids.dtype == np.int64
    assert ids.tolist() in ([3, 1, 2], [3, 2, 1])


@pytest.mark.parametrize(
    "given",
    [
        ["b", "a", "ç€"],
        np.array(["b", "a", "ç€"]),
        np.array(["b", "a", "ç€"], object),
        list(np.array(["b", "a", "ç€"])),
        np.array(["b", "a", "ç€"], np.dtypes.StringDType()),
        pd.Series(["b", "a", "ç€"], index=[7, 8, 9]),
        pd.Series(["b", "a", "ç€"], dtype=object),
    ],
)
def test_any_list_of_strings_becomes_unicode(given) -> None:
    ids = as_ids("here", given)
    assert ids.dtype.kind == "U"
    assert ids.tolist() == ["b", "a", "ç€"]


def test_default_ids_are_positions() -> None:
    ids = check_ids("here", None, 3)
    assert ids.dtype == np.int64
    assert ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("given", [None, [5, 6, 7], ["a", "b", "c"]])
def test_ids_are_read_only(given) -> None:
    with pytest.raises(ValueError, match="read-only"):
        check_ids("here", given, 3)[0] = 1


@pytest.mark.parametrize("given", [np.array([5, 6]), np.array(["a", "b"])])
def test_the_callers_array_is_copied_and_stays_writable(given) -> None:
    ids = check_ids("here", given, 2)
    before = ids.tolist()
    given[:] = given[::-1].copy()
    assert ids.tolist() == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, "1"], "all integers or all strings, got int, str"),
        (np.array([1, "1"], object), "all integers or all strings, got int, str"),
        ([2, True], "all integers or all strings, got bool, int"),
        ([2, np.True_], "all integers or all strings, got bool"),
        (np.array([2, True], object), "all integers or all strings, got bool, int"),
        (["a", None], "all integers or all strings, got NoneType, str"),
        (pd.Series(["a", None]), "all integers or all strings, got float, str"),
        ([1.0, 2.0], "integers or strings, got float64"),
        (np.array([True, False]), "integers or strings, got bool"),
        ([b"a", b"b"], "integers or strings, got |S1"),
        ([2**64, 1], "must fit in 64 signed bits"),
        (np.array([2**63, 1], np.uint64), "must fit in 64 signed bits"),
        ([[1, 2]], r"1-d list of ids, got shape \(1, 2\)"),
        ([["a"], ["b"]], r"1-d list of ids, got shape \(2, 1\)"),
        ([[1], [1, 2]], "a list of ids, got list"),
        (7, "a list of ids, got int"),
    ],
)
def test_invalid_lists_of_ids_are_rejected(given, message) -> None:
    with pytest.raises(GraphError, match=f"^view 'a': ids: .*{message}"):
        as_ids("view 'a': ids", given)


@pytest.mark.parametrize("n_given", [2, 4])
def test_one_id_per_row(n_given) -> None:
    with pytest.raises(GraphError, match=f"^here: expected 3 ids, one per row, got {n_given}$"):
        check_ids("here", range(n_given), 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([4, 3, 9, 4], "got 1 repeats, such as 4"),
        ([3, 4, 4, 4], "got 2 repeats, such as 4"),
        (["y", "x", "y", "y"], "got 2 repeats, such as 'y'"),
        (["y" * 9999, "x", "z", "y" * 9999], "got 1 repeats, such as 'y{56}\\.\\.\\."),
    ],
)
def test_repeated_ids_are_rejected(given, message) -> None:
    with pytest.raises(GraphError, match=f"^here: expected distinct ids, {message}$"):
        check_ids("here", given, 4)


@pytest.mark.parametrize("given", [[], [2**63 - 1], [-(2**63)], [0, 2**63 - 1]])
def test_the_full_range_of_int64_is_accepted(given) -> None:
    for ids in (given, np.array(given, np.int64), np.array(given, object)):
        assert as_ids("here", ids).tolist() == given
    if not any(value < 0 for value in given):
        assert as_ids("here", np.array(given, np.uint64)).tolist() == given


@given(
    st.one_of(
        st.tuples(st.lists(INT64, unique=True), st.lists(INT64)),
        st.tuples(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9))),
        st.tuples(st.lists(TEXT, unique=True), st.lists(TEXT)),
    )
)
def test_find_ids_agrees_with_a_dictionary(lists) -> None:
    known, wanted = lists
    wanted = wanted + known[::2]
    positions = {value: i for i, value in enumerate(known)}
    found = find_ids(as_ids("known", known), as_ids("wanted", wanted))
    assert found.dtype == np.int64
    assert found.tolist() == [positions.get(value, -1) for value in wanted]


def test_integers_are_not_found_among_strings() -> None:
    assert find_ids(np.array(["1", "2"]), np.array([1, 2])).tolist() == [-1, -1]


def test_find_ids_in_an_empty_list() -> None:
    assert find_ids(np.array([], np.int64), np.array([1, 2])).tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("wanted", "positions"), [("b", [1]), (["c", "a", "c"], [2, 0, 2]), (np.array(["b"]), [1])]
)
def test_positions_of_one_id_or_several(wanted, positions) -> None:
    assert known_positions("tag", np.array(["a", "b", "c"]), wanted).tolist() == positions


def test_unknown_and_invalid_ids_have_no_position() -> None:
    ids = np.array([5, 6])
    with pytest.raises(NotInductive, match=r"^view 'tag': only ids .* got 2 unknown, such as 7$"):
        known_positions("tag", ids, [5, 7, 8])
    with pytest.raises(InputError, match=r"^view 'tag': ids: .* got float64"):
        known_positions("tag", ids, 5.0)
