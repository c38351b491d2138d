"""``pmvge fit``: tables to a model folder."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from pmvge.cli.options import AsJson, LinkTables, ProjectFile, Settings, Spill, Strict, Views
from pmvge.cli.output import (
    Console,
    bold,
    check_writable,
    describe_factors,
    print_json,
    print_notes,
    print_results,
    shell_quoted,
    visible_lines,
)

CALIBRATION_SHARE = 0.1  # of the entities of each view with features


def fit(
    project: ProjectFile = None,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The model folder to write.")
    ] = Path("model"),
    view: Views = None,
    links: LinkTables = None,
    set_: Settings = None,
    family: Annotated[
        str | None,
        typer.Option(help="The distribution of weights, as --set family=NAME. [poisson]"),
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(help="Share of the links held out for early stopping, 0 for none. [0.1]"),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Also fit a model without a tenth of the entities, to calibrate the expected "
            "weights of new ones.",
        ),
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted fit.")] = False,
    spill: Spill = None,
    sharded: Annotated[
        bool,
        typer.Option(
            "--sharded", help="With torchrun: each process reads its share of the link files."
        ),
    ] = False,
    tensorboard: Annotated[
        Path | None,
        typer.Option(
            "--tensorboard", help="Write loss and validation to this folder, for TensorBoard."
        ),
    ] = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Fit a model to tables and write it to a folder.

    Example: pmvge fit pmvge.toml -o model/ --set n_components=32

    Without a project file: pmvge fit --view films=films.csv --view users=users.parquet
    --links users,films=ratings.csv:weight=stars -o model/
    """
    from pmvge import storage
    from pmvge.cli.projects import describe_project, load_project
    from pmvge.cli.settings import parse_settings
    from pmvge.cli.training import (
        check_fraction,
        checkpoint_folder,
        describe_checkpoint,
        exit_on_interrupt,
        read_checkpoint_manifest,
        train,
    )
    from pmvge.distributed import is_first, rank_and_size
    from pmvge.likelihoods import advise_families, build_family
    from pmvge.tables import read_tables, share_links, weight_notes
    from pmvge.training import TensorBoard

    first = is_first()  # of several processes, only the first prints and saves
    console = Console(quiet=as_json or not first, highlight=False)
    described = load_project(project, view, links)
    flags = [*(set_ or []), *([f"family={family}"] if family else [])]
    settings = parse_settings(flags, described.model)
    check_fraction(validation)
    if sharded:
        described = share_links(described, *rank_and_size())
    check_writable(output, folder=True)
    with Console(stderr=True).status("Reading the tables") if spill and first else nullcontext():
        tables = read_tables(described, strict=strict, spill=spill)
    if view or links:
        for line in describe_project(tables.project):
            console.print(line, soft_wrap=True, markup=False)
    if first:
        chosen = build_family(settings.get("family", "poisson"), tuple(tables.graph.links))
        print_notes([*tables.notes(), *advise_families(tables.graph, chosen)])
        balanced = settings.get("pair_weights") is not None
        print_notes(weight_notes(tables.project, tables.graph, balanced=balanced), "warning")
    console.print(visible_lines(tables.graph), markup=False)
    started = time.perf_counter()
    settings = {"random_state": 0, "checkpoint_dir": output / "checkpoint", **settings}
    checkpoint = checkpoint_folder(settings)
    # Without --resume, a checkpoint that is there already belongs to another fit.
    before = None if resume else read_checkpoint_manifest(checkpoint)
    with exit_on_interrupt(lambda: describe_checkpoint(checkpoint, before, output)):
        model = train(
            tables,
            settings,
            hold_out=validation,
            calibrate=CALIBRATION_SHARE if calibrate else None,
            resume=resume,
            sharded=sharded,
            callbacks=[] if tensorboard is None else [TensorBoard(tensorboard)],
        )
        if not first:
            return
        model.save(output)
    seconds = time.perf_counter() - started
    with exit_on_interrupt(lambda: f"The model is complete, in {output}."):
        if checkpoint == output / "checkpoint":  # the default; a folder named by --set stays
            storage.remove(checkpoint, "checkpoint")
        results = {} if model.links_ is None else model.evaluate()
    if as_json:
        steps = model.history_[-1].step if len(model.history_) else 0
        print_json({"model": str(output), "seconds": seconds, "steps": steps, **results})
        return
    console.print(f"\nFitted in {seconds:.1f} s. {model.history_}", markup=False, soft_wrap=True)
    for line in describe_factors(model.describe()["calibrated"]) if calibrate else ():
        console.print(line, markup=False, soft_wrap=True)
    if results.get("pairs"):
        early = "" if model.patience is None else " (used for early stopping)"
        print_results(console, results, f"Held-out links{early}")
    name = shell_quoted(output)
    console.print(
        f"Model: {bold(output)}. Next: pmvge report {name}, pmvge search {name} --help",
        soft_wrap=True,
    )
