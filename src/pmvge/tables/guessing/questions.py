"""Questions that ``init`` asks when two readings of a folder are close, and their answers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pmvge.errors import TableError, choose, short


@dataclass(frozen=True)
class Question:
    """A decision that the tables leave open.

    ``key`` names it on the command line, such as ``ratings.csv:uid``; ``choices`` are the possible
    answers, each with what it means.
    """

    key: str
    text: str
    choices: Mapping[str, str]

    def __str__(self) -> str:
        ways = "; or ".join(
            f"{self.option(answer)} ({meaning})" for answer, meaning in self.choices.items()
        )
        return f"{self.text}; choose a reading: {ways}"

    def option(self, answer: str) -> str:
        """Return the option of the command line that gives an answer."""
        return f"--choose {shlex.quote(f'{self.key}={answer}')}"

    @property
    def first(self) -> str:
        """The first of the choices."""
        return next(iter(self.choices))


class UnsureError(TableError):
    """Two readings of the tables are close, and nobody was asked which is right.

    ``questions`` are all that are open; each later one is that after the first choice of those
    before it. ``question`` is the first.
    """

    def __init__(self, question: Question, *others: Question) -> None:
        self.question, self.questions = question, (question, *others)
        message = str(question)
        if others:
            parts = "; ".join(f"({at}) {each}" for at, each in enumerate(self.questions, 1))
            message = (
                f"{len(self.questions)} open questions: {parts}; the first reading of each is "
                f"{self.first_options}"
            )
        super().__init__(message)

    @property
    def first_options(self) -> str:
        """The options of the command line that give the first choice of each question."""
        return " ".join(each.option(each.first) for each in self.questions)


class Answers:
    """Answers that were given in advance, and a function that asks for the others.

    ``ask`` gets a question and returns one of its choices. None: raise UnsureError instead.
    """

    def __init__(
        self,
        given: Mapping[str, str] | None = None,
        ask: Callable[[Question], str] | None = None,
    ) -> None:
        self._given, self._ask = dict(given or {}), ask
        self._decisions: dict[str, None] = {}  # all that could be chosen, in order

    def given(self, key: str, choices: Mapping[str, str] | None = None) -> str | None:
        """Return the answer that was given in advance; None if there is none.

        Raise TableError if it is not one of the choices.
        """
        self._decisions[key] = None
        answer = self._given.get(key)
        if answer is not None and choices is not None:
            choose("answer", answer, choices, f"--choose {key}", error=TableError)
        return answer

    def answer(self, question: Question) -> str:
        """Return the answer to a question; raise UnsureError if there is nobody to ask."""
        found = self.given(question.key, question.choices)
        if found is not None:
            return found
        if self._ask is None:
            raise UnsureError(question)
        return choose(
            "answer", self._ask(question), question.choices, question.key, error=TableError
        )

    def check_used(self) -> None:
        """Raise TableError if an answer was given to something that is not decided here."""
        for key in self._given:
            if key not in self._decisions:
                listed = ", ".join(self._decisions) or "none"
                raise TableError(
                    f"--choose {short(key)}: no such decision in this folder: expected one of "
                    f"{listed}"
                )
