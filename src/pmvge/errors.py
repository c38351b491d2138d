"""The exceptions of pmvge. A message names the place, what was expected and what was found."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PmvgeError(Exception):
    """The base class of all exceptions that pmvge raises. The message is always one line."""

    def __str__(self) -> str:
        return " ".join(super().__str__().splitlines())


class GraphError(PmvgeError, ValueError):
    """A view, its ids or its links are not valid."""


class TableError(GraphError):
    """A table, one of its columns, or the description of a table is not valid."""


class ParameterError(PmvgeError, ValueError):
    """A parameter is unknown, out of range, or does not fit the data."""


class InputError(PmvgeError, ValueError):
    """Data passed to a fitted model does not match what it was fitted to."""


class NotInductive(InputError):
    """An entity was not seen in training and has no features to compute its vector from."""


class DivergedError(PmvgeError, ArithmeticError):
    """Training produced a value that is not finite."""


class StorageError(PmvgeError):
    """A folder holds no model, is damaged, or cannot be written."""


class CheckpointMismatch(StorageError):
    """A checkpoint belongs to other data or other settings than the fit that resumes it."""


def one_line(error: object, max_length: int = 400) -> str:
    """Return the message of any exception as one line of at most ``max_length`` characters."""
    return truncate(" ".join(str(error).split()) or type(error).__name__, max_length)


def short(value: object, max_length: int = 60) -> str:
    """Return the ``repr`` of a value, truncated: a wrong value can be as large as a file."""
    return truncate(repr(value), max_length)


def truncate(text: str, max_length: int = 60) -> str:
    """Return a text of at most ``max_length`` characters; a longer one ends in "..."."""
    return text if len(text) <= max_length else f"{text[: max_length - 3]}..."


def choose(
    kind: str,
    name: object,
    known: Iterable[str],
    where: str = "",
    *,
    error: type[PmvgeError] = ParameterError,
) -> str:
    """Return ``name`` if it is one of ``known``.

    Raise ``error`` otherwise. Its message lists the known names and suggests the closest one.
    """
    options = list(known)
    if isinstance(name, str) and name in options:
        return name
    closest = _closest(name, options) if isinstance(name, str) else []
    suggestion = f"; did you mean {closest[0]!r}?" if closest else ""
    prefix = f"{where}: " if where else ""
    listed = ", ".join(repr(option) for option in options)
    expected = f"expected one of {listed}{suggestion}" if options else "there are none"
    raise error(f"{prefix}unknown {kind} {short(name, 1000)}: {expected}")


def _closest(name: str, options: list[str]) -> list[str]:
    """Return the option with the most similar spelling, ignoring case; no option if none is."""
    lower = {option.lower(): option for option in options}
    matches = get_close_matches(name, options, n=1)
    return matches or [lower[match] for match in get_close_matches(name.lower(), lower, n=1)]
