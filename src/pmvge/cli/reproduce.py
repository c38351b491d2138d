"""``pmvge reproduce``: an experiment of the paper, our numbers beside the paper's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from pmvge.errors import InputError, choose
from pmvge.experiments import (
    ORDER,
    SIMULATED,
    Experiment,
    Finding,
    Job,
    Table,
    load_recipe,
    make,
    missing_jobs,
    read_finding,
    recipe_names,
    run,
    write_findings,
    write_results,
)

ALL = "all"


def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment, or 'all'.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where results go.")] = Path(
        "results"
    ),
    repetitions: Annotated[
        int | None, typer.Option("--repetitions", min=1, help="Splits; the recipe's by default.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option("--methods", help="Rows of the table, separated by commas.")
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="Jobs at the same time, a process each.")
    ] = 1,
    tune: Annotated[
        bool, typer.Option("--tune", help="Search settings anew, on the validation parts.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option("--data", help="Data folder; $PMVGE_DATA by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Run an experiment of the paper and print our numbers beside the paper's.

    Without a name the experiments are listed. A run that was interrupted goes on where it stopped.

    Example: pmvge reproduce cora-b --repetitions 2
    """
    if name is None:
        _list()
        return
    wanted = sorted(recipe_names(), key=_place) if name == ALL else [name]
    if name != ALL:
        choose("experiment", name, [*recipe_names(), ALL])
    findings, failed = [], []
    for one in wanted:
        experiment = _prepare(one, repetitions, methods, tune, data, output)
        try:
            experiment.check()
        except InputError as error:
            if name != ALL:
                raise
            Console(stderr=True).print(Text(f"{one} is left out: {error}"), soft_wrap=True)
            continue
        folder = output / one
        try:
            _run(experiment, folder, processes)
        except Exception as error:
            if name != ALL:
                raise
            Console(stderr=True).print(Text(f"{one} failed: {error!r}"), soft_wrap=True)
            failed.append(one)
            continue
        write_results(experiment, folder)
        finding = read_finding(experiment, folder)
        write_findings(folder, [finding], finding.recipe.title)
        findings.append(finding)
        if not as_json:
            _print(finding)
    if name == ALL:
        write_findings(output, findings, "The paper's experiments, reproduced")
    if as_json:
        print(json.dumps([_plain(finding) for finding in findings], indent=1))
    else:
        page = (output if name == ALL else output / wanted[0]) / "index.html"
        Console().print(f"written: {page}", markup=False, highlight=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _prepare(
    name: str,
    repetitions: int | None,
    methods: str | None,
    tune: bool,
    data: Path | None,
    output: Path,
) -> Experiment:
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
    return make(recipe, data, output / name / "studies")


def _run(experiment: Experiment, folder: Path, processes: int) -> None:
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

        def told(job: Job, seconds: float) -> None:
            bar.update(task, advance=1, last=f"{job.row} x {job.column} ({seconds:.1f} s)")

        try:
            run(experiment, folder, processes=processes, told=told)
        except KeyboardInterrupt:
            console.print("interrupted: the same command goes on where it stopped")
            raise


def _print(finding: Finding) -> None:
    console = Console()
    if finding.recipe.simulated:
        console.print(Text(SIMULATED, style="bold"))
    for table in finding.summary.tables:
        console.print(_grid(table))
    for goal in finding.summary.goals:
        mark = "met" if goal.met else "not met"
        console.print(Text(f"goal {mark}: {goal.what}: wanted {goal.wanted}, found {goal.found}"))


def _grid(table: Table) -> Grid:
    grid = Grid(title=Text(table.caption), title_justify="left")
    for k, column in enumerate(table.columns):
        grid.add_column(column, justify="left" if k == 0 else "right")
    for row in table.rows:
        grid.add_row(*map(Text, row))
    return grid


def _plain(finding: Finding) -> dict[str, Any]:
    return {
        "experiment": finding.recipe.name,
        "simulated": finding.recipe.simulated,
        "tables": [
            {"caption": t.caption, "columns": list(t.columns), "rows": [list(r) for r in t.rows]}
            for t in finding.summary.tables
        ],
        "goals": [vars(goal) for goal in finding.summary.goals],
    }


def _place(name: str) -> tuple[int, str]:
    """Experiments in the order of the paper; others after them, by name."""
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def _list() -> None:
    grid = Grid()
    grid.add_column("experiment", no_wrap=True)
    grid.add_column("what it shows")
    for name in sorted(recipe_names(), key=_place):
        grid.add_row(name, Text(load_recipe(name).title))
    Console().print(grid)
