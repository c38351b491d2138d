"""Base class of experiments: independent jobs, and a summary of their results.

A job is a pure function of the recipe and its own name. Jobs give the same numbers in any process
and in any order. They return JSON values; the summary turns these into tables and figures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """A unit of work: one row of the results, and one repetition or point of it."""

    row: str  # a method, or a variant of the experiment
    column: str  # a repetition, a size or a dimension

    @property
    def key(self) -> str:
        """A name that is unique within the experiment."""
        return f"{self.row}/{self.column}"


@dataclass(frozen=True)
class Table:
    """A table of results: rows of text under a caption."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Plot:
    """A figure with its caption."""

    caption: str
    figure: Figure


@dataclass(frozen=True)
class Goal:
    """A target, the result, and whether the result meets the target."""

    what: str
    wanted: str
    found: str
    met: bool


@dataclass(frozen=True)
class Summary:
    """Tables, figures and goals of all results."""

    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    goals: Sequence[Goal] = ()


class Experiment(ABC):
    """An experiment with the settings of a recipe."""

    options: ClassVar[Mapping[str, Any]] = {}  # keys of ``[options]``, with defaults
    # Options that change the summary only: results do not depend on them.
    summary_options: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, recipe: Recipe, data: Path | None = None, workspace: Path | None = None
    ) -> None:
        for key in recipe.options:
            choose("option", key, self.options, f"recipe {recipe.name!r}")
        self.recipe = recipe
        self.data = data  # the data folder; None: the default folder
        # The folder for unfinished searches and cached fits; None: they are not stored.
        self.workspace = workspace
        self.settings: dict[str, Any] = {**self.options, **recipe.options}

    @abstractmethod
    def jobs(self) -> list[Job]:
        """Return all jobs in the order in which to run them."""

    def fingerprint(self, job: Job) -> str:
        """Return a hash of everything that the result of a job depends on.

        A stored result with another fingerprint is not used.
        """
        return self.recipe.fingerprint(*self.identity)

    @cached_property
    def identity(self) -> list[Any]:
        """Return the inputs of all jobs besides the recipe: options, data, and package version."""
        used = {
            name: value for name, value in self.settings.items() if name not in self.summary_options
        }
        return [used, self.data_digest(), __version__]

    def data_digest(self) -> str:
        """Return a hash of the data that are read from disk; "" if there are none."""
        return ""

    def is_result(self, result: Any) -> bool:
        """Return whether a stored result has the form of what ``run`` returns."""
        return isinstance(result, dict) and bool(result)

    def check(self) -> None:  # noqa: B027  (most need no data)
        """Raise InputError if data are missing."""

    def unavailable(self) -> dict[str, str]:
        """Return the labels of methods that cannot run in this environment, with the reasons.

        They are left out, unless they are asked for: then ``check`` raises.
        """
        return {}

    @abstractmethod
    def run(self, job: Job) -> Result:
        """Run one job and return its result."""

    @abstractmethod
    def summarize(self, results: Mapping[Job, Result]) -> Summary:
        """Return tables, figures and goals of the results; jobs may be missing."""
