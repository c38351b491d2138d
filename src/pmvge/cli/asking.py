"""Questions of ``pmvge init``: asked on a terminal, or answered by ``--choose``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable

from rich.prompt import IntPrompt

from pmvge.cli.output import Console, visible
from pmvge.errors import ParameterError
from pmvge.tables import Question


def parse_answers(given: Iterable[str]) -> dict[str, str]:
    """Return ``{key: answer}`` for texts FILE:WHAT=ANSWER; raise ParameterError for others."""
    answers = {}
    for text in given:
        key, _, answer = text.rpartition("=")
        if not answer or ":" not in key:
            raise ParameterError(f"--choose: expected FILE:WHAT=ANSWER, got {text!r}")
        answers[key] = answer
    return answers


def ask_on_terminal() -> Callable[[Question], str] | None:
    """Return a function that asks on the terminal; None if there is none."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else None


def _ask(question: Question) -> str:
    """Print a question with numbered choices on the error stream; return the chosen one."""
    console = Console(stderr=True, highlight=False)
    console.print(visible(question.text), soft_wrap=True, markup=False)
    answers = list(question.choices)
    for number, answer in enumerate(answers, 1):
        line = f"  {number}  {visible(answer)}: {visible(question.choices[answer])}"
        console.print(line, soft_wrap=True, markup=False)
    numbers = [str(number) for number in range(1, len(answers) + 1)]
    answer = answers[IntPrompt.ask("Number", choices=numbers, console=console) - 1]
    option = shlex.quote(visible(f"{question.key}={answer}"))
    console.print(f"This is --choose {option}", soft_wrap=True, markup=False)
    return answer
