"""Checks of parameters and of registered classes, and the exception before ``fit``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from pmvge.errors import ParameterError, PmvgeError, choose


class NotFitted(PmvgeError, NotFittedError):
    """A method was called that needs a fitted model; call ``fit`` first."""


Check = Callable[[str, Any], None]  # called with a parameter's name and value
MAX_COUNT = 2**31 - 1  # sizes and counts beyond this exceed what arrays can index


def integer(low: int, high: float = MAX_COUNT) -> Check:
    """Return a check that raises ParameterError unless a value is an integer in [low, high]."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < low:
            raise ParameterError(f"{name}: expected an integer >= {low}, got {value!r}")
        if int(value) > high:
            raise ParameterError(f"{name}: expected an integer <= {high:.0f}, got {value!r}")

    return check


def real(
    low: float, high: float = np.inf, *, open_low: bool = False, closed_high: bool = False
) -> Check:
    """Return a check that raises ParameterError unless a value is a number in [low, high).

    ``open_low`` excludes ``low``, ``closed_high`` includes ``high``.
    """

    def check(name: str, value: Any) -> None:
        number = isinstance(value, Real) and not isinstance(value, bool)
        above = number and (low < value if open_low else low <= value)
        below = number and (value <= high if closed_high else value < high)
        if not above or not below:
            bounds = f"{'(' if open_low else '['}{low:g}, {high:g}{']' if closed_high else ')'}"
            raise ParameterError(f"{name}: expected a number in {bounds}, got {value!r}")

    return check


def one_of(*known: str) -> Check:
    """Return a check that raises ParameterError unless a value is one of the known names."""

    def check(name: str, value: Any) -> None:
        choose(name, value, known)

    return check


def flag(name: str, value: Any) -> None:
    """Raise ParameterError unless a value is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name}: expected True or False, got {value!r}")


def optional(check: Check) -> Check:
    """Return a check that also accepts None."""
    return lambda name, value: None if value is None else check(name, value)


def sizes(name: str, value: Any) -> None:
    """Raise ParameterError unless a value is a list or tuple of positive integers."""
    if not isinstance(value, list | tuple):
        raise ParameterError(f"{name}: expected a tuple of integers >= 1, got {value!r}")
    for size in value:
        integer(1)(name, size)


def path(name: str, value: Any) -> None:
    """Raise ParameterError unless a value is a path."""
    if not isinstance(value, str | PathLike):
        raise ParameterError(f"{name}: expected a path, got {value!r}")
    if "\0" in str(value):
        raise ParameterError(f"{name}: expected a path without NUL characters, got {value!r}")


def pick_seed(random_state: Any) -> int:
    """Return an integer seed from a seed, from a generator, or (for None) from fresh entropy.

    Raise ParameterError for anything else.
    """
    if random_state is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    integer(0, np.inf)("random_state", random_state)
    real(0, 2**63)("random_state", random_state)
    return int(random_state)


def register(kind: str, registry: dict[str, type], name: Any, item: Any, base: type) -> None:
    """Add a class to a registry of subclasses of ``base``, by name.

    Raise ParameterError if the name is empty or taken by another class, or if the class is not a
    subclass. ``kind`` begins the messages.
    """
    if not (isinstance(name, str) and name):
        raise ParameterError(f"{kind}: expected a name that is not empty, got {name!r}")
    if not (isinstance(item, type) and issubclass(item, base)):
        raise ParameterError(f"{kind} {name!r}: expected a subclass of {base.__name__}")
    if registry.setdefault(name, item) is not item:
        raise ParameterError(
            f"{kind} {name!r}: the name is taken by {registry[name].__name__}; expected a new name"
        )


def registered_name(kind: str, registry: Mapping[str, type], item: object) -> str:
    """Return the name of an object's class in a registry; raise ParameterError if it has none."""
    for name, registered in registry.items():
        if type(item) is registered:
            return name
    raise ParameterError(
        f"{kind} {type(item).__name__}: expected a registered one; call "
        f"register_{kind}(name, class) first"
    )
