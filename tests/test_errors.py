"""The errors: one family, and messages that list what would have been right."""

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
def test_every_error_is_a_pmvge_error_and_of_the_kind_people_already_catch(error, also):
    assert issubclass(error, PmvgeError)
    assert issubclass(error, also)


@pytest.mark.parametrize("name", KNOWN)
def test_choose_returns_a_known_name(name):
    assert choose("similarity", name, KNOWN) == name


@given(st.text().filter(lambda name: name not in KNOWN))
def test_choose_names_what_came_and_lists_what_is_known(name):
    with pytest.raises(ParameterError) as caught:
        choose("similarity", name, KNOWN)
    message = str(caught.value)
    assert message.startswith(f"unknown similarity {name!r}: expected one of 'inner', 'cosine'")


@pytest.mark.parametrize("name", [None, 3, True, ["inner"], ("cosine",), b"inner"])
def test_choose_refuses_what_is_not_a_string(name):
    with pytest.raises(ParameterError, match="unknown similarity"):
        choose("similarity", name, KNOWN)


def test_choose_guesses_the_name_that_was_meant():
    with pytest.raises(ParameterError, match=r"did you mean 'cosine'\?$"):
        choose("similarity", "cosin", KNOWN)
    with pytest.raises(ParameterError, match=r"'cosine'$"):
        choose("similarity", "xyzzy", KNOWN)


def test_choose_says_where():
    with pytest.raises(ParameterError, match=r"^view 'tag': encoder: unknown activation 'x'"):
        choose("activation", "x", KNOWN, "view 'tag': encoder")
