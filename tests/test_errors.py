"""The exception classes, and messages about unknown names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from pmvge import errors
from pmvge.checks import NotFitted
from pmvge.errors import ParameterError, PmvgeError, choose

KNOWN = ("inner", "cosine")


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (errors.GraphError, ValueError),
        (errors.ParameterError, ValueError),
        (errors.InputError, ValueError),
        (errors.NotInductive, errors.InputError),
        (NotFitted, NotFittedError),
        (errors.DivergedError, ArithmeticError),
        (errors.StorageError, Exception),
    ],
)
def test_errors_derive_from_pmvge_error_and_a_builtin_error(error, also):
    assert issubclass(error, PmvgeError)
    assert issubclass(error, also)


@pytest.mark.parametrize("name", KNOWN)
def test_choose_returns_a_known_name(name):
    assert choose("similarity", name, KNOWN) == name


@given(st.text().filter(lambda name: name not in KNOWN))
def test_choose_lists_the_known_names(name):
    with pytest.raises(ParameterError) as caught:
        choose("similarity", name, KNOWN)
    message = str(caught.value)
    assert message.startswith(f"unknown similarity {name!r}: expected one of 'inner', 'cosine'")


@pytest.mark.parametrize("name", [None, 3, True, ["inner"], ("cosine",), b"inner"])
def test_choose_rejects_values_that_are_not_strings(name):
    with pytest.raises(ParameterError, match="unknown similarity"):
        choose("similarity", name, KNOWN)


def test_choose_suggests_the_closest_name():
    with pytest.raises(ParameterError, match=r"did you mean 'cosine'\?$"):
        choose("similarity", "cosin", KNOWN)
    with pytest.raises(ParameterError, match=r"'cosine'$"):
        choose("similarity", "xyzzy", KNOWN)


def test_choose_raises_the_given_error():
    with pytest.raises(
        errors.GraphError, match=r"^ids: unknown view 'c': expected one of 'a', 'b'$"
    ):
        choose("view", "c", ["a", "b"], "ids", error=errors.GraphError)


def test_choose_says_where():
    with pytest.raises(ParameterError, match=r"^view 'tag': encoder: unknown activation 'x'"):
        choose("activation", "x", KNOWN, "view 'tag': encoder")


def test_choose_says_that_there_are_none():
    with pytest.raises(ParameterError, match=r"^unknown layer 'counts': there are none$"):
        choose("layer", "counts", [])
