"""Experiments of the paper for ``pmvge reproduce``: preparation, runs with a bar, tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from pmvge.cli.output import Console
from pmvge.errors import choose
from pmvge.experiments import (
    ORDER,
    SIMULATED,
    Experiment,
    ExperimentReport,
    Job,
    Table,
    load_recipe,
    make,
    missing_jobs,
    recipe_names,
    run,
)


def experiment_names() -> list[str]:
    """Return the experiments in the order of the paper; others follow by name."""
    order = {name: position for position, name in enumerate(ORDER)}
    return sorted(recipe_names(), key=lambda name: (order.get(name, len(ORDER)), name))


def list_experiments() -> None:
    """Print the name and the title of each experiment."""
    grid = Grid()
    grid.add_column("experiment", no_wrap=True)
    grid.add_column("what it shows")
    for name in experiment_names():
        grid.add_row(name, Text(load_recipe(name).title))
    Console().print(grid)


def prepare(
    name: str,
    repetitions: int | None,
    methods: str | None,
    tune: bool,
    data: Path | None,
    output: Path,
) -> Experiment:
    """Return the experiment of a recipe, with the options of the command line applied.

    Without ``methods``, those that cannot run in this environment are left out with a message.
    """
    recipe = load_recipe(name)
    if repetitions is not None:
        recipe = replace(recipe, repetitions=repetitions)
    if tune:
        recipe = replace(recipe, tuned={})
    if methods is not None:
        labels = [entry.label for entry in recipe.methods]
        given = [label.strip() for label in methods.split(",")]
        chosen = [choose("method", label, labels, f"recipe {name!r}") for label in given]
        rows = tuple(entry for entry in recipe.methods if entry.label in chosen)
        recipe = replace(recipe, methods=rows)
    experiment = make(recipe, data, output / name / "studies")
    unavailable = experiment.unavailable() if methods is None else {}
    if not unavailable:
        return experiment
    for label, reason in unavailable.items():
        message = f"{name}: {label} is left out: {reason}"
        Console(stderr=True).print(Text(message), soft_wrap=True)
    rows = tuple(entry for entry in recipe.methods if entry.label not in unavailable)
    return make(replace(recipe, methods=rows), data, output / name / "studies")


def run_with_bar(experiment: Experiment, folder: Path, processes: int) -> None:
    """Run the missing jobs of an experiment, with a bar on terminals."""
    missing, jobs = missing_jobs(experiment, folder), experiment.jobs()
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.fields[name]}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[last]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(
            "",
            total=len(jobs),
            completed=len(jobs) - len(missing),
            name=experiment.recipe.name,
            last="",
        )

        def advance(job: Job, seconds: float) -> None:
            bar.update(task, advance=1, last=f"{job.row} x {job.column} ({seconds:.1f} s)")

        try:
            run(experiment, folder, processes=processes, on_job_done=advance)
        except KeyboardInterrupt:
            console.print("interrupted: run the same command to continue")
            raise


def print_experiment_report(report: ExperimentReport) -> None:
    """Print the tables of an experiment and whether its goals are met."""
    console = Console()
    if report.recipe.simulated:
        console.print(Text(SIMULATED, style="bold"))
    for table in report.summary.tables:
        console.print(_grid(table))
    for goal in report.summary.goals:
        mark = "met" if goal.met else "not met"
        console.print(Text(f"goal {mark}: {goal.what}: wanted {goal.wanted}, found {goal.found}"))


def _grid(table: Table) -> Grid:
    grid = Grid(title=Text(table.caption), title_justify="left")
    for k, column in enumerate(table.columns):
        grid.add_column(column, justify="left" if k == 0 else "right")
    for row in table.rows:
        grid.add_row(*map(Text, row))
    return grid


def as_json(report: ExperimentReport) -> dict[str, Any]:
    """Return the tables and goals of an experiment as values that JSON can hold."""
    return {
        "experiment": report.recipe.name,
        "simulated": report.recipe.simulated,
        "tables": [
            {"caption": t.caption, "columns": list(t.columns), "rows": [list(r) for r in t.rows]}
            for t in report.summary.tables
        ],
        "goals": [vars(goal) for goal in report.summary.goals],
    }
