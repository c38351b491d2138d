"""What an experiment is: jobs that can be run apart, and a summary of what they found.

A job is a pure function of the recipe and its own name: it may run in any process, at any time, in
any order, and gives the same numbers. What jobs return is plain data, kept as JSON; the summary
makes tables and figures of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from plotly.graph_objects import Figure

from pmvge.errors import choose
from pmvge.experiments.recipe import Recipe
from pmvge.version import __version__

Result = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One piece of work: which row it belongs to, and which repetition or point it is."""

    row: str  # a method, or a setting of the experiment
    column: str  # a repetition, a size, a dimension

    @property
    def key(self) -> str:
        """A name that is unique in the experiment."""
        return f"{self.row}/{self.column}"


@dataclass(frozen=True)
class Table:
    """Rows of text under a caption."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Drawing:
    """A figure and what it shows."""

    caption: str
    figure: Figure


@dataclass(frozen=True)
class Goal:
    """What was hoped for, what came, and whether that is enough."""

    what: str
    wanted: str
    found: str
    met: bool


@dataclass(frozen=True)
class Summary:
    """What all jobs together say."""

    tables: Sequence[Table] = ()
    drawings: Sequence[Drawing] = ()
    goals: Sequence[Goal] = ()
    remarks: Sequence[str] = field(default_factory=tuple)


class Experiment(ABC):
    """An experiment with the settings of a recipe."""

    options: ClassVar[Mapping[str, Any]] = {}  # what ``[options]`` may hold, and its defaults
    judging: ClassVar[tuple[str, ...]] = ()  # those that say what to think of results

    def __init__(
        self, recipe: Recipe, data: Path | None = None, workspace: Path | None = None
    ) -> None:
        for key in recipe.options:
            choose("option", key, self.options, f"recipe {recipe.name!r}")
        self.recipe = recipe
        self.data = data  # the data folder; None: the default one
        self.workspace = workspace  # where a job may keep what it needs to go on; None: nowhere
        self.settings: dict[str, Any] = {**self.options, **recipe.options}

    @abstractmethod
    def jobs(self) -> list[Job]:
        """All jobs, in the order in which they should be run."""

    def fingerprint(self, job: Job) -> str:
        """Of all that the result of a job depends on: one with another is not used again."""
        return self.recipe.fingerprint(*self.identity)

    @cached_property
    def identity(self) -> list[Any]:
        """What all jobs depend on, beside the recipe: options, data, and the package."""
        used = {name: value for name, value in self.settings.items() if name not in self.judging}
        return [used, self.data_digest(), __version__]

    def data_digest(self) -> str:
        """A name for the content of data that are read from disk; "" if none are."""
        return ""

    def is_result(self, result: Any) -> bool:
        """Whether this is what ``run`` returns, and not something damaged."""
        return isinstance(result, dict) and bool(result)

    def check(self) -> None:  # noqa: B027  (most need nothing)
        """Raise InputError if data that it needs are not there."""

    @abstractmethod
    def run(self, job: Job) -> Result:
        """The result of one job."""

    @abstractmethod
    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Tables and figures of what has been found; some jobs may not have been run yet."""
