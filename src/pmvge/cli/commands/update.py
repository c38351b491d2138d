"""``pmvge update``: train a model further on tables that have grown."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from pmvge.cli.options import AsJson, LinkTables, Model, ProjectFile, Strict, Views
from pmvge.cli.output import (
    Console,
    bold,
    check_writable,
    print_json,
    print_notes,
    print_results,
    visible,
)
from pmvge.errors import InputError

Counts = Mapping[str, Mapping[str, Mapping[str, int]]]


def update(
    model: Model,
    project: ProjectFile = None,
    view: Views = None,
    links: LinkTables = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace the model although the update made it worse."),
    ] = False,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Train a model further on tables that have grown, and save it in its folder.

    The tables are those of the fit, with all rows of today, old and new: a project file, or --view
    and --links. Columns are read as in the fit, and so are the files of --view and --links, unless
    they have options. New entities start from their first links; then follows a sixth of the steps
    of the fit. Without new rows the model stays as it is. The folder is replaced atomically: it
    holds the old model or the new one. It stays as it is if the update is clearly worse on the
    links that were held out before, unless --force is given.

    Example: pmvge update model/ pmvge.toml
    """
    from pmvge.cli.projects import load_project
    from pmvge.cli.training import exit_on_interrupt
    from pmvge.likelihoods import advise_families
    from pmvge.model import PMvGE, find_regressions
    from pmvge.tables import as_in_training, read_tables, weight_notes

    console = Console(quiet=as_json, highlight=False)
    loaded = PMvGE.load(model)
    if loaded.tables_ is None:
        raise InputError(
            f"{model}: the model was not fitted to tables; call PMvGE.update with a graph"
        )
    described = load_project(project, view, links)
    if links:  # flags name files only
        described = as_in_training(described, loaded.tables_)
    check_writable(model, folder=True)
    tables = read_tables(described, strict=strict, tables=loaded.tables_)
    print_notes(tables.notes())
    counts = loaded.changes(tables.graph)
    for line in _describe(counts):
        console.print(line, markup=False, soft_wrap=True)
    if not any(row for part in counts.values() for each in part.values() for row in each.values()):
        console.print("No new rows: the model is unchanged.")
        if as_json:
            print_json({"model": str(model), "updated": False, "changes": counts})
        return
    print_notes(advise_families(tables.graph, loaded.family_))
    balanced = loaded.pair_weights is not None
    print_notes(weight_notes(tables.project, tables.graph, balanced=balanced), "warning")
    started = time.perf_counter()
    before = (model / "model.json").read_bytes()
    with exit_on_interrupt(lambda: _describe_model(model, before)):
        former = copy.copy(loaded)  # an update replaces what a model has learned as a whole
        loaded.update(tables.graph)
        loaded.label(tables.labels, columns=tables.columns, names=tables.names)
        worse = find_regressions(former, loaded)
        if worse and not force:
            raise InputError(
                f"{model}: the model is unchanged, because the update made it worse: "
                f"{'; '.join(worse)}. Check the warnings and the new rows; --force replaces the "
                "model anyway"
            )
        print_notes((f"the update made the model worse: {text}" for text in worse), "warning")
        loaded.save(model)
    seconds = time.perf_counter() - started
    results = loaded.evaluate()
    if as_json:
        about = {"model": str(model), "updated": True, "changes": counts, "seconds": seconds}
        print_json({**about, "steps": loaded.history_[-1].step, **results})
        return
    console.print(f"\nUpdated in {seconds:.1f} s. {loaded.history_}", markup=False, soft_wrap=True)
    if results["pairs"]:
        print_results(console, results, "Held-out links")
    console.print(f"Model: {bold(model)}", soft_wrap=True)


def _describe_model(model: Path, before: bytes) -> str:
    """Return which model the folder holds after an interrupt."""
    same = (model / "model.json").read_bytes() == before
    return f"The model in {model} is {'unchanged' if same else 'updated'}."


def _describe(counts: Counts) -> Iterator[str]:
    """Yield a line for each view and each view pair with changes."""
    for part, noun in (("views", "entities"), ("links", "links")):
        for name, row in counts[part].items():
            words = [f"{n:,} {word}" for word, n in row.items() if n]
            if words:
                yield visible(f"{name.replace(',', ' - ')}: {noun}: {', '.join(words)}")
