"""Callbacks: what is called while a model is trained."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pmvge.errors import ParameterError

if TYPE_CHECKING:
    from pmvge.training.history import Record
    from pmvge.training.schedule import Schedule


class Callback:
    """Functions that the training loop calls; those of this class do nothing.

    Subclass it, override what you need, and pass it as ``fit(graph, callbacks=[...])``. The history
    of a model, the progress bar and :class:`TensorBoard` are callbacks, too. An exception that a
    callback raises ends the training, and ``fit`` raises it: the model stays as it was before. To
    end sooner and keep what was learned, set ``max_steps`` or ``patience``. ``end`` is called in
    any case. Of several processes only the first calls them.

    Examples
    --------
    >>> from pmvge import MultiViewGraph, PMvGE
    >>> from pmvge.training import Callback
    >>> class Steps(Callback):
    ...     def check(self, record, best):
    ...         print(record.step)
    >>> graph = MultiViewGraph({"a": 5, "b": 5}, {("a", "b"): (range(5), range(5))})
    >>> model = PMvGE(2, max_steps=3, patience=None, random_state=0).fit(graph, callbacks=[Steps()])
    3
    """

    def start(self, step: int, schedule: Schedule) -> None:
        """Receive the steps done before this run, and the schedule, whose end may change."""

    def step(self, step: int, seconds: float) -> None:
        """Receive the steps done, and the seconds of this run, after every step."""

    def check(self, record: Record, best: float | None) -> None:
        """Receive a new record of the history, and the best validation so far."""

    def end(self) -> None:
        """Receive that the run has ended, also by an error or an interrupt."""


class Callbacks(Callback):
    """Several callbacks as one. As a context manager it calls ``end`` at exit."""

    def __init__(self, parts: Iterable[Callback] = ()) -> None:
        self._parts = tuple(parts)

    def __enter__(self) -> Callbacks:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, step: int, schedule: Schedule) -> None:
        """Call ``start`` of all parts."""
        for part in self._parts:
            part.start(step, schedule)

    def step(self, step: int, seconds: float) -> None:
        """Call ``step`` of all parts."""
        for part in self._parts:
            part.step(step, seconds)

    def check(self, record: Record, best: float | None) -> None:
        """Call ``check`` of all parts."""
        for part in self._parts:
            part.check(record, best)

    def end(self) -> None:
        """Call ``end`` of all parts, also if one of them raises; raise the last exception."""
        with ExitStack() as stack:
            for part in reversed(self._parts):  # the stack calls the last one first
                stack.callback(part.end)


def check_callbacks(callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
    """Return callbacks as a tuple; raise ParameterError if one is not a :class:`Callback`."""
    expected = "callbacks: expected a list of pmvge.training.Callback objects, got"
    if not isinstance(callbacks, Iterable):
        hint = "; pass [...] with it" if isinstance(callbacks, Callback) else ""
        raise ParameterError(f"{expected} {type(callbacks).__name__}{hint}")
    parts = tuple(callbacks)
    for position, part in enumerate(parts):
        if isinstance(part, Callback):
            continue
        found, hint = type(part).__name__, ""
        if isinstance(part, type) and issubclass(part, Callback):
            found, hint = f"the class {part.__name__}", f"; call it: {part.__name__}()"
        raise ParameterError(f"{expected} {found} in position {position}{hint}")
    return parts
