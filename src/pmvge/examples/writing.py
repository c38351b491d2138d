"""Write an example with its data into a folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pmvge.datasets import DATASETS
from pmvge.errors import InputError, StorageError, choose
from pmvge.examples.registry import EXAMPLES, Example

README, SCRIPT = "README.txt", "example.py"


def write_example(name: str, folder: str | Path, *, size: int | None = None) -> list[Path]:
    """Write the data of an example, its script and a README.txt, and return their paths.

    ``size`` is the number of rows of a simulated example. Files appear in the folder when all of
    them are written. Raise StorageError if the folder is not empty or cannot be written, and
    InputError if the name is unknown, the example has no size, or its data are missing or damaged.
    """
    example = EXAMPLES[choose("example", name, EXAMPLES, error=InputError)]
    if size is not None and not example.has_size:
        raise InputError(f"{name}: expected no size, since its data are not simulated, got {size}")
    folder = Path(folder)
    check_empty(folder)
    sizes = () if size is None else (size,)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".pmvge-", dir=folder.parent) as staged:
            example.write(Path(staged), *sizes)
            if example.script is not None:
                shutil.copyfile(example.script, Path(staged, SCRIPT))
            later = Path(staged, "later").is_dir()
            Path(staged, README).write_text(readme(example, later=later), encoding="utf-8")
            folder.mkdir(exist_ok=True)
            for path in sorted(Path(staged).iterdir()):
                path.rename(folder / path.name)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return sorted(path for path in folder.rglob("*") if path.is_file())


def check_empty(folder: Path) -> None:
    """Raise StorageError unless the folder is empty or does not exist."""
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder}: expected a folder, got a file; choose another with -o")
    if folder.is_dir() and (found := next(folder.iterdir(), None)):
        raise StorageError(
            f"{folder}: expected an empty folder or a new one, found {found.name} in it; choose "
            "another with -o, or move its files away"
        )


def readme(example: Example, *, later: bool) -> str:
    """Return the text of README.txt: what is in the folder, and what to run next.

    ``later``: the folder has files in ``later/``.
    """
    lines = [f"{example.name}: {example.summary}", ""]
    if example.dataset is None:
        lines += ["The tables are simulated."]
    else:
        data = DATASETS[example.dataset]
        lines += [f"Data: {data.source}", f"Licence: {data.licence}", f"To cite: {data.note}"]
    lines += ["", "From the command line, in this folder:", ""]
    commands = ("pmvge init", "pmvge fit", *example.commands, "pmvge report model -o report.html")
    lines += [f"    {command}" for command in commands]
    if example.script is not None:
        lines += ["", "From Python:", "", f"    python {SCRIPT}"]
    if later:
        lines += ["", "Files in later/ are not for the fit: they show what happens with new data."]
    return "\n".join([*lines, ""])
