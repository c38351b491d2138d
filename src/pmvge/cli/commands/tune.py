"""``pmvge tune``: search better settings on held-out links and write them to the project file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pmvge.cli.options import AsJson, LinkTables, ProjectFile, Settings, Strict, Views
from pmvge.cli.output import (
    Console,
    bold,
    check_writable,
    print_json,
    print_notes,
    shell_quoted,
    visible_lines,
)
from pmvge.errors import InputError, StorageError

if TYPE_CHECKING:
    from pmvge.tuning import Trial

LIMITS = ("max_steps", "max_epochs")


def tune(
    project: ProjectFile = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="The project file to write, with the best settings. Default: the same file.",
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Number of fits, including those of earlier runs.")
    ] = 20,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Start no trial after this many minutes.")
    ] = None,
    study: Annotated[
        Path, typer.Option(help="The file that stores the trials; a later run continues from it.")
    ] = Path("pmvge-tune.log"),
    view: Views = None,
    links: LinkTables = None,
    set_: Settings = None,
    families: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Search the family of weights, too, such as poisson,negative_binomial; trials are "
            "then compared by the held-out score.",
        ),
    ] = None,
    effects: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,KIND", help="Search the effects, too, such as none,bias,vector."
        ),
    ] = None,
    validation: Annotated[
        float | None, typer.Option(help="Share of the links that trials are scored on. [0.1]")
    ] = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Try settings on held-out links and write the best to pmvge.toml.

    Searches dimension, network, dropout, learning rate, similarity and scheme, except those that
    --set fixes. max_steps and max_epochs in --set apply to the trials only. After an interrupt,
    the same command continues the search.

    Example: pmvge tune pmvge.toml --trials 30 --minutes 20
    """
    from pmvge import storage
    from pmvge.checks import pick_seed
    from pmvge.cli.projects import load_project
    from pmvge.cli.settings import parse_settings
    from pmvge.cli.training import check_fraction
    from pmvge.model import split_links
    from pmvge.tables import project_text, read_tables
    from pmvge.tuning import SEARCHED
    from pmvge.tuning import tune as search

    console = Console(quiet=as_json, highlight=False)
    described = load_project(project, view, links)
    flagged = bool(view or links)
    path = output or (Path("pmvge.toml") if flagged else project or Path("pmvge.toml"))
    if flagged and path.exists():
        raise StorageError(f"{path}: the file exists; name another file by -o")
    check_writable(path, folder=False)
    before = parse_settings([], described.model)
    # Settings that are not searched stay, and so do encoders that are chosen by view.
    searched = {*SEARCHED, *(["family"] if families else []), *(["effects"] if effects else [])}
    others = {k: v for k, v in before.items() if k not in searched or isinstance(v, Mapping)}
    fixed = parse_settings(set_ or [], others)
    check_fraction(validation)
    saved = fixed.pop("validation_fraction", 0.1)
    fraction = saved if validation is None else validation
    if fraction == 0 or fixed.get("patience", 1) is None:
        raise InputError(
            "trials are scored on held-out links: --validation must be above 0 and patience must "
            "be set"
        )
    tables = read_tables(described, strict=strict)
    print_notes(tables.notes())
    console.print(visible_lines(tables.graph), markup=False)
    seed = pick_seed(fixed.pop("random_state", 0))
    kept, held = split_links(tables.graph, fraction, seed)
    if held is None:
        raise InputError("there are too few links to hold some out")
    best = -math.inf

    def print_trial(trial: Trial) -> None:
        nonlocal best
        best = best if trial.gain is None else max(best, trial.gain)
        gain = "diverged" if trial.gain is None else f"{trial.gain:.4f}"
        console.print(
            f"trial {trial.number + 1}/{trials}: {gain} (best {best:.4f}) in "
            f"{trial.seconds:.0f} s, {_format(trial.settings)}",
            markup=False,
            soft_wrap=True,
        )

    try:
        tuned = search(
            kept,
            held,
            study=study,
            trials=trials,
            minutes=minutes,
            fixed=fixed,
            families=_names(families),
            effects=_names(effects),
            seed=seed,
            on_trial=print_trial,
            on_note=lambda note: print_notes([note]),
        )
    except KeyboardInterrupt:
        console.print(
            f"\nStopped. The trials are in {study}; run the same command to continue.",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(130) from None
    # Limits on the length of trials are not written, unless the project file had them before.
    lasting = {k: v for k, v in tuned.settings.items() if k not in LIMITS or k in others}
    settings = {**others, **lasting, "random_state": seed}
    source = project_text(tables.project) if flagged else _read(project or Path("pmvge.toml"))
    text = with_settings(source, settings)
    storage.replace_file(path, lambda partial: partial.write_bytes(text.encode()))
    if tuned.gain < 0 and not (families or effects):  # their gain is the held-out score
        print_notes(
            [
                "the best gain is below 0: worse than equal similarities of all pairs, so the "
                "settings have learned nothing that holds for other links (docs/settings.md, "
                "Symptoms)"
            ],
            "warning",
        )
    if as_json:
        print_json(
            {
                "project": str(path),
                "settings": settings,
                "gain": tuned.gain,
                "default_gain": tuned.default_gain,
                "trials": tuned.trials,
            }
        )
        return
    default = "" if tuned.default_gain is None else f" (defaults: {tuned.default_gain:.4f})"
    console.print(
        f"\nBest gain {tuned.gain:.4f}{default}: {_format(settings)}", markup=False, soft_wrap=True
    )
    console.print(
        f"Wrote {bold(path)}. Next: pmvge fit {shell_quoted(path)}",
        soft_wrap=True,
    )


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",")] if text else []


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error


def with_settings(project: str, settings: Mapping[str, Any]) -> str:
    """Return the text of a project file with the ``[model]`` table replaced; the rest stays."""
    import tomlkit  # of the extra "tune", like Optuna

    document = tomlkit.parse(project)
    table = document.setdefault("model", tomlkit.table())
    table.comment("the best that 'pmvge tune' found")
    for key in [key for key in table if key not in settings]:
        del table[key]
    for key, value in settings.items():
        table[key] = "none" if value is None else value  # TOML has no null
    return tomlkit.dumps(document)


def _format(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in settings.items()
    )
