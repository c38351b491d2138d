"""What commands share: consoles, JSON, models and their backgrounds, settings and results."""

from __future__ import annotations

import json
import math
import os
import shlex
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from pmvge.errors import InputError, ParameterError, StorageError, choose
from pmvge.model import Background, PMvGE, check_parameters, load_background, of_one_save

AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON, nothing else.")]
Model = Annotated[Path, typer.Argument(help="The folder of a fitted model.", show_default=False)]
COLUMNS = {
    "roc_auc": "AUC",
    "average_precision": "AP",
    "recall": "recall",
    "ndcg": "nDCG",
    "poisson_deviance": "deviance",
    "expected_over_observed": "E/O",
}


def visible(value: object) -> str:
    r"""What a table says, on a terminal: control characters would steer it, so they are spelt out.

    >>> visible("film\x1b[2J\n")
    'film\\x1b[2J\\n'
    """
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) == "Cc" else c
        for c in str(value)
    )


def visible_lines(value: object) -> str:
    """The same of what has several lines."""
    return "\n".join(map(visible, str(value).split("\n")))


def cell(value: object) -> Text:
    """The same in a table: brackets in it are no markup."""
    return Text(visible(value))


def tell(notes: Iterable[str]) -> None:
    """Say something on the error stream, where it disturbs no results."""
    console = Console(stderr=True, highlight=False)
    for note in notes:
        console.print(f"[yellow]note:[/] {escape(visible(note))}", soft_wrap=True)


def bold(path: Path) -> str:
    """A path to be printed in bold; brackets in it are no markup."""
    return f"[bold]{escape(str(path))}[/]"


def as_typed(path: Path) -> str:
    """A path as a shell takes it, to be printed; brackets in it are no markup."""
    return escape(shlex.quote(str(path)))


def print_json(content: Any) -> None:
    """Print JSON; what is not a finite number is null."""
    print(json.dumps(_finite(content), indent=1, ensure_ascii=False))


def _finite(content: Any) -> Any:
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {key: _finite(value) for key, value in content.items()}
    return [_finite(value) for value in content] if isinstance(content, list | tuple) else content


def plain_id(value: Any) -> Any:
    """An id as Python's int or str."""
    return value.item() if hasattr(value, "item") else value


def load(folder: Path) -> tuple[PMvGE, Background | None]:
    """A model and, if it was kept, what it was trained on, both of one save."""
    return of_one_save(folder, lambda place: (PMvGE.load(place), load_background(place)))


def background_of(folder: Path, background: Background | None) -> Background:
    """The background, or an error that says how to have one."""
    if background is None:
        raise InputError(
            f"{folder}: the model was saved without its links, which this needs: fit it by "
            "'pmvge fit', or save it with background=Background.of(graph)"
        )
    return background


def writable(path: Path, *, folder: bool) -> Path:
    """The path, if it can be written to; better to know before the work than after it."""
    if not folder and path.exists() and not path.is_file():  # a folder, or a device
        what = "a folder" if path.is_dir() else "no ordinary file"
        raise StorageError(f"{path}: cannot be written: it is {what}")
    place = (path if folder else path.parent).absolute()
    while not place.exists() and place != place.parent:
        place = place.parent  # folders are made later, when there is something to put into them
    try:
        probe = place / f".pmvge-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error
    return path


def parse_settings(given: Iterable[str], base: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of PMvGE from a project file and ``key=value`` flags, which win."""
    settings = {key: None if value == "none" else value for key, value in base.items()}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals:
            raise ParameterError(f"--set: expected key=value, got {item!r}")
        settings[key.strip()] = _value(value.strip())
    known = PMvGE().get_params(deep=False)
    for key in settings:
        choose("setting", key, known)
    check_parameters({**known, **settings})
    return settings


def _value(text: str) -> Any:
    """A TOML value, ``none``, or else a text."""
    if text.lower() in ("none", "null"):
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return {"True": True, "False": False}.get(text, text)


def results_table(results: Mapping[str, Any], title: str) -> Table:
    """Results of an evaluation, by view pair and overall."""
    table = Table(
        title=title,
        caption="AUC: area under the ROC curve; AP: average precision; deviance: mean Poisson "
        "deviance; E/O: expected over observed weight",
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
    )
    table.add_column("view pair", overflow="fold")  # names give way, numbers do not
    rows = dict(results["pairs"])
    if len(rows) > 1:
        rows["overall"] = results["overall"]
    keys = [key for key in next(iter(rows.values()), {}) if key.partition("@")[0] in COLUMNS]
    table.add_column("links", justify="right", no_wrap=True)
    for key in keys:
        name, at, k = key.partition("@")
        header = COLUMNS[name] + at + k
        table.add_column(header, justify="right", no_wrap=True, min_width=len(header))
    for pair, row in rows.items():
        values = (row.get(key, math.nan) for key in keys)
        table.add_row(
            cell(pair.replace(",", " - ")),
            f"{row['links']:,}",
            *(f"{value:.4g}" if abs(value) >= 10 else f"{value:.3f}" for value in values),
        )
    return table
