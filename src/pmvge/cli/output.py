"""Printed results and notes, and a check of the paths that commands write to."""

from __future__ import annotations

import json
import math
import os
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console as RichConsole
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from pmvge.errors import StorageError

COLUMNS = {
    "roc_auc": "AUC",
    "average_precision": "AP",
    "recall": "recall",
    "ndcg": "nDCG",
    "poisson_deviance": "deviance",
    "deviance": "deviance",
    "expected_over_observed": "E/O",
}

BESIDE = {"features only": "features_only", "popularity": "popularity"}  # rows, and their results


class Console(RichConsole):
    """rich's console, which prints the names of users as they are: ``:star:`` is no emoji."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)


def visible(value: object) -> str:
    r"""Return a text with its control characters escaped: a terminal would execute them.

    >>> visible("film\x1b[2J\n")
    'film\\x1b[2J\\n'
    """
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) == "Cc" else c
        for c in str(value)
    )


def visible_lines(value: object) -> str:
    """Return :func:`visible` of each line; line breaks stay."""
    return "\n".join(map(visible, str(value).split("\n")))


def cell(value: object) -> Text:
    """Return :func:`visible` of a value for a table; brackets in it are not markup."""
    return Text(visible(value))


def bold(path: Path) -> str:
    """Return markup that prints a path in bold; brackets in it are escaped."""
    return f"[bold]{escape(str(path))}[/]"


def shell_quoted(path: Path) -> str:
    """Return markup that prints a path quoted for a shell; brackets in it are escaped."""
    return escape(shlex.quote(str(path)))


def print_notes(notes: Iterable[str], kind: str = "note") -> None:
    """Print notes or warnings on the error stream, apart from the results."""
    errors = Console(stderr=True, highlight=False)
    color = "yellow" if kind == "note" else "red"
    for note in notes:
        errors.print(f"[{color}]{kind}:[/] {escape(visible(note))}", soft_wrap=True)


def print_json(content: Any) -> None:
    """Print JSON; numbers that are not finite become null."""
    from pmvge.pages import finite_json  # imports numpy

    print(json.dumps(finite_json(content), indent=1, ensure_ascii=False))


def check_writable(path: Path, *, folder: bool) -> None:
    """Raise StorageError if a file or a folder cannot be written.

    Commands call this before long work. Missing folders are not created yet: the check writes a
    temporary file to the nearest folder that exists.
    """
    if not folder and path.exists() and not path.is_file():  # a folder, or a device
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise StorageError(f"{path}: cannot be written: it is {kind}")
    nearest = (path if folder else path.parent).absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    try:
        probe = nearest / f".pmvge-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error


def results_table(results: Mapping[str, Any], title: str) -> Table:
    """Return a table of the results of an evaluation, by view pair and overall.

    Below each row are those of the model without effects, if it has any, and of the popularity
    list.
    """
    table = Table(
        title=title,
        caption="AUC: area under the ROC curve; AP: average precision; deviance: mean "
        "deviance of observed from expected weights; E/O: expected over observed total weight",
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
    )
    table.add_column("view pair", overflow="fold")  # long names are folded, numbers never
    rows = dict(results["pairs"])
    beside = {
        name: {**part["pairs"], "overall": part["overall"]}
        for name, key in BESIDE.items()
        if (part := results.get(key))
    }
    if len(rows) > 1:
        rows["overall"] = results["overall"]
    keys = [key for key in next(iter(rows.values()), {}) if key.partition("@")[0] in COLUMNS]
    table.add_column("links", justify="right", no_wrap=True)
    for key in keys:
        name, at, k = key.partition("@")
        header = COLUMNS[name] + at + k
        table.add_column(header, justify="right", no_wrap=True, min_width=len(header))
    for pair, row in rows.items():
        name = cell(pair.replace(",", " - "))
        table.add_row(name, f"{row['links']:,}", *_cells(row, keys))
        for title, other in beside.items():
            if pair in other:
                table.add_row(f" {title}", "", *_cells(other[pair], keys), style="dim")
    return table


def _cells(row: Mapping[str, float], keys: Iterable[str]) -> Iterator[str]:
    values = (row.get(key, math.nan) for key in keys)
    return (f"{value:.4g}" if abs(value) >= 10 else f"{value:.3f}" for value in values)


def describe_factors(calibrated: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each view pair on the factors of expected weights of new entities."""
    for pair, kinds in calibrated.items():
        factors = ", ".join(f"{kind} {_factor(entry)}" for kind, entry in kinds.items())
        yield visible(f"Factors of new entities, {pair.replace(',', ' - ')}: {factors}")


def _factor(entry: Mapping[str, float] | None) -> str:
    if entry is None:
        return "none (no links)"
    return f"{entry['factor']:.3g} ± {entry['relative_error']:.0%}"


def uncalibrated_note(pair: str, kinds: Iterable[str]) -> str:
    """Return a note on expected weights of new entities that are not calibrated."""
    return (
        f"{pair}: expected weights of new entities ({', '.join(kinds)}) are not calibrated and "
        "can be wrong by a factor; fit again with pmvge fit --calibrate (in Python: "
        "PMvGE.calibrate)"
    )


def print_results(console: Console, results: Mapping[str, Any], title: str) -> None:
    """Print the results of an evaluation, what the rows beside it show, and its warnings."""
    console.print(results_table(results, title))
    for key in BESIDE.values():
        if key in results:
            console.print(results[key]["meaning"], markup=False, soft_wrap=True)
    print_notes(results["warnings"], "warning")
