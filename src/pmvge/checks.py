"""Checks of settings, and of whether an estimator is fitted."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from pmvge.errors import ParameterError, PmvgeError, choose


class NotFitted(PmvgeError, NotFittedError):
    """The model was asked for something that only a fitted model knows."""


Check = Callable[[str, Any], None]
LARGEST = 2**31 - 1  # of any number of things: beyond, arrays have no room for them


def whole(least: int, most: float = LARGEST) -> Check:
    """An integer from ``least`` to ``most``."""

    def check(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
            raise ParameterError(f"{name}: expected an integer >= {least}, got {value!r}")
        if int(value) > most:
            raise ParameterError(f"{name}: expected an integer <= {most:.0f}, got {value!r}")

    return check


def real(
    low: float, high: float = np.inf, *, open_low: bool = False, closed_high: bool = False
) -> Check:
    """A number in [low, high); without ``low`` and with ``high`` if so wanted."""

    def check(name: str, value: Any) -> None:
        number = isinstance(value, Real) and not isinstance(value, bool)
        above = number and (low < value if open_low else low <= value)
        below = number and (value <= high if closed_high else value < high)
        if not above or not below:
            bounds = f"{'(' if open_low else '['}{low:g}, {high:g}{']' if closed_high else ')'}"
            raise ParameterError(f"{name}: expected a number in {bounds}, got {value!r}")

    return check


def one_of(*known: str) -> Check:
    """One of the names."""

    def check(name: str, value: Any) -> None:
        choose(name, value, known)

    return check


def flag(name: str, value: Any) -> None:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"{name}: expected True or False, got {value!r}")


def optional(check: Check) -> Check:
    """None, or what ``check`` takes."""
    return lambda name, value: None if value is None else check(name, value)


def sizes(name: str, value: Any) -> None:
    """A sequence of positive integers."""
    if not isinstance(value, list | tuple):
        raise ParameterError(f"{name}: expected a tuple of integers >= 1, got {value!r}")
    for size in value:
        whole(1)(name, size)


def path(name: str, value: Any) -> None:
    """The name of a folder."""
    if not isinstance(value, str | PathLike):
        raise ParameterError(f"{name}: expected a path, got {value!r}")
    if "\0" in str(value):
        raise ParameterError(f"{name}: no path has a NUL in it, got {value!r}")


def pick_seed(random_state: Any) -> int:
    """One integer from a seed, a generator, or fresh entropy."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    whole(0, np.inf)("random_state", random_state)
    real(0, 2**63)("random_state", random_state)
    return int(random_state)
