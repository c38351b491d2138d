"""``pmvge tune``: better settings, found on held-out links, written to the project file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from pmvge import storage
from pmvge.checks import pick_seed
from pmvge.cli.common import (
    AsJson,
    as_typed,
    bold,
    parse_settings,
    print_json,
    tell,
    visible_lines,
    writable,
)
from pmvge.cli.fit import encoders_for, pick_fraction, split_links
from pmvge.cli.flags import LinkFlags, Settings, Strict, Views, project_from
from pmvge.errors import InputError, StorageError
from pmvge.tables import project_text, read_tables
from pmvge.tuning import SEARCHED, Trial
from pmvge.tuning import tune as search

LIMITS = ("max_steps", "max_epochs")


def tune(
    project: Annotated[
        Path | None, typer.Argument(help="A project file. Default: pmvge.toml.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Where to write it with the best settings. Default: the project file itself.",
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="How many fits in all.")] = 20,
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop after so long.")] = None,
    study: Annotated[
        Path, typer.Option(help="The file that keeps the trials; the search goes on from it.")
    ] = Path("pmvge-tune.log"),
    view: Views = None,
    links: LinkFlags = None,
    set_: Settings = None,
    validation: Annotated[
        float | None, typer.Option(help="Share of the links that trials are judged on. [0.1]")
    ] = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """Try settings on held-out links and write the best to pmvge.toml.

    Dimension, network, dropout, learning rate, similarity and scheme are searched; what --set
    names is not; max_steps and max_epochs named there are for the trials only. Interrupted, the
    same command goes on.

    Example: pmvge tune pmvge.toml --trials 30 --minutes 20
    """
    console = Console(quiet=as_json, highlight=False)
    described = project_from(project, view, links)
    flagged = bool(view or links)
    place = output or (Path("pmvge.toml") if flagged else project or Path("pmvge.toml"))
    if flagged and place.exists():
        raise StorageError(f"{place}: is there already; name another file by -o")
    writable(place, folder=False)
    before = parse_settings([], described.model)
    # Settings that are not searched stay; so do encoders that were chosen view by view.
    others = {k: v for k, v in before.items() if k not in SEARCHED or isinstance(v, Mapping)}
    fixed = parse_settings(set_ or [], others)
    fraction = pick_fraction(fixed, validation)
    if fraction == 0:
        raise InputError(
            "trials are judged on held-out links, so --validation and patience must be some"
        )
    tables = read_tables(described, strict=strict)
    tell(tables.notes())
    console.print(visible_lines(tables.graph), markup=False)
    seed = pick_seed(fixed.pop("random_state", 0))
    kept, held = split_links(tables.graph, fraction, seed)
    if held is None:
        raise InputError("there are too few links to hold some out")
    best = -np.inf

    def told(trial: Trial) -> None:
        nonlocal best
        best = best if trial.gain is None else max(best, trial.gain)
        gain = "diverged" if trial.gain is None else f"{trial.gain:.4f}"
        console.print(
            f"trial {trial.number + 1}/{trials}: {gain} (best {best:.4f}) in "
            f"{trial.seconds:.0f} s, {_words(trial.settings)}",
            markup=False,
            soft_wrap=True,
        )

    def prepare(settings: dict[str, Any]) -> dict[str, Any]:
        chosen = encoders_for(tables.project, tables.graph, settings.get("encoder", "mlp"))
        return {**settings, "encoder": chosen}

    try:
        tuned = search(
            kept,
            held,
            study=study,
            trials=trials,
            minutes=minutes,
            fixed=fixed,
            seed=seed,
            prepare=prepare,
            told=told,
            noted=lambda note: tell([note]),
        )
    except KeyboardInterrupt:
        console.print(
            f"\nStopped. The trials are in {study}; the same command goes on.",
            markup=False,
            soft_wrap=True,
        )
        raise typer.Exit(130) from None
    # How long trials may take is no setting of the model to come, unless it was one before.
    lasting = {k: v for k, v in tuned.settings.items() if k not in LIMITS or k in others}
    settings = {**others, **lasting, "random_state": seed}
    source = project_text(tables.project) if flagged else _read(project or Path("pmvge.toml"))
    text = with_settings(source, settings)
    storage.replace_file(place, lambda path: path.write_bytes(text.encode()))
    if as_json:
        print_json(
            {
                "project": str(place),
                "settings": settings,
                "gain": tuned.gain,
                "default_gain": tuned.default_gain,
                "trials": tuned.trials,
            }
        )
        return
    usual = "" if tuned.default_gain is None else f" (defaults: {tuned.default_gain:.4f})"
    console.print(
        f"\nBest gain {tuned.gain:.4f}{usual}: {_words(settings)}", markup=False, soft_wrap=True
    )
    console.print(
        f"Written to {bold(place)}. Next: pmvge fit {as_typed(place)}",
        soft_wrap=True,
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error


def with_settings(project: str, settings: Mapping[str, Any]) -> str:
    """The text of a project file with other settings of the model; all else stays as it is."""
    import tomlkit  # of the extra "tune", like Optuna

    document = tomlkit.parse(project)
    table = document.setdefault("model", tomlkit.table())
    table.comment("the best that 'pmvge tune' found")
    for key in [key for key in table if key not in settings]:
        del table[key]
    for key, value in settings.items():
        table[key] = "none" if value is None else value  # TOML has no word for it
    return tomlkit.dumps(document)


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in settings.items()
    )
