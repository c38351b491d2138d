"""The errors people see. Each message says what was expected, what came, and where."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PmvgeError(Exception):
    """Any error that pmvge raises on purpose. Its message is one line, whatever names are in it."""

    def __str__(self) -> str:
        return " ".join(super().__str__().splitlines())


class GraphError(PmvgeError, ValueError):
    """A view, a link table or an id list is not usable."""


class TableError(GraphError):
    """A table, a column of it, or the description of one is not usable."""


class ParameterError(PmvgeError, ValueError):
    """A setting is unknown, out of range, or does not fit the data."""


class InputError(PmvgeError, ValueError):
    """Data handed to a fitted model does not fit it."""


class NotInductive(InputError):
    """An entity was not seen in training, and there are no features to embed it from."""


class DivergedError(PmvgeError, ArithmeticError):
    """Training produced a number that is not finite."""


class StorageError(PmvgeError):
    """A folder is not a model, is damaged, or cannot be written."""


def one_line(error: object, most: int = 400) -> str:
    """What another library says of an error, in one line that ends."""
    return cut(" ".join(str(error).split()) or type(error).__name__, most)


def short(value: object, most: int = 60) -> str:
    """A value as code shows it, or the beginning of it: what came may be a whole file."""
    return cut(repr(value), most)


def cut(text: str, most: int = 60) -> str:
    """A text, or the beginning of it."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def choose(kind: str, name: object, known: Iterable[str], where: str = "") -> str:
    """Return ``name`` if it is one of ``known``; else raise, listing them and the closest."""
    options = list(known)
    if isinstance(name, str) and name in options:
        return name
    hint = _closest(name, options) if isinstance(name, str) else []
    guess = f"; did you mean {hint[0]!r}?" if hint else ""
    place = f"{where}: " if where else ""
    listed = ", ".join(repr(option) for option in options)
    raise ParameterError(
        f"{place}unknown {kind} {short(name, 1000)}: expected one of {listed}{guess}"
    )


def _closest(name: str, options: list[str]) -> list[str]:
    """The option that is spelt most alike, capital letters or not; none if none is."""
    lower = {option.lower(): option for option in options}
    found = get_close_matches(name, options, n=1)
    return found or [lower[match] for match in get_close_matches(name.lower(), lower, n=1)]
