"""``pmvge reproduce``: an experiment of the paper, our numbers beside the paper's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from pmvge.cli.output import Console
from pmvge.errors import InputError, choose

ALL = "all"


def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment, or 'all'.")] = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The folder to write the results to.")
    ] = Path("results"),
    repetitions: Annotated[
        int | None,
        typer.Option("--repetitions", min=1, help="Number of splits. Default: the recipe's."),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods", help="Methods to run, by their names in the results, separated by commas."
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="Number of jobs to run in parallel.")
    ] = 1,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Search settings on the validation parts instead of using the stored ones.",
        ),
    ] = False,
    data: Annotated[
        Path | None, typer.Option("--data", help="Data folder. Default: $PMVGE_DATA.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Run an experiment of the paper and print the new numbers next to the paper's.

    Without a name the experiments are listed. After an interrupt, the same command continues.

    Example: pmvge reproduce cora-b --repetitions 2
    """
    from pmvge.cli import experiments
    from pmvge.experiments import read_experiment_report, write_experiment_reports, write_results

    if name is None:
        experiments.list_experiments()
        return
    names = experiments.experiment_names()
    if name != ALL:
        names = [choose("experiment", name, [*names, ALL])]
    reports, failed = [], []
    for recipe_name in names:
        experiment = experiments.prepare(recipe_name, repetitions, methods, tune, data, output)
        try:
            experiment.check()
        except InputError as error:
            if name != ALL:
                raise
            Console(stderr=True).print(Text(f"{recipe_name} is left out: {error}"), soft_wrap=True)
            continue
        folder = output / recipe_name
        try:
            experiments.run_with_bar(experiment, folder, processes)
        except Exception as error:
            if name != ALL:
                raise
            Console(stderr=True).print(Text(f"{recipe_name} failed: {error!r}"), soft_wrap=True)
            failed.append(recipe_name)
            continue
        write_results(experiment, folder)
        report = read_experiment_report(experiment, folder)
        write_experiment_reports(folder, [report], report.recipe.title)
        reports.append(report)
        if not as_json:
            experiments.print_experiment_report(report)
    if name == ALL:
        write_experiment_reports(output, reports, "The paper's experiments, reproduced")
    if as_json:
        print(json.dumps([experiments.as_json(report) for report in reports], indent=1))
    else:
        page = (output if name == ALL else output / names[0]) / "index.html"
        Console().print(f"Wrote {page}", markup=False, highlight=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)
