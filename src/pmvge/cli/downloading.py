"""Download a data set with a progress bar, for ``pmvge datasets`` and ``pmvge examples``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from pmvge.cli.output import Console
from pmvge.errors import InputError

if TYPE_CHECKING:
    from pmvge.datasets import Archive, Dataset


def install(
    dataset: Dataset, folder: Path | None = None, *, force: bool = False, quiet: bool = False
) -> None:
    """Download the archives of a data set that are not there, verify and unpack them.

    ``quiet`` prints to the error stream. Raise InputError if a download fails.
    """
    console = Console(stderr=quiet)
    archives = dataset.archive_paths(folder)
    for path, archive in archives.items():
        if force or not _is_valid(archive, path, console):
            _download(archive, path)
        print_plain(f"{dataset.name}: {path} ({path.stat().st_size:,} bytes, verified)", console)
    result = next(iter(archives))
    if dataset.unpack is not None:
        result = dataset.unpack(list(archives), dataset.folder(folder))
        print_plain(f"{dataset.name}: unpacked in {result}; the archives may be removed", console)
    # Files that are read as they are may be found as their folder.
    new = {result} if dataset.unpack is not None else {result, *result.parents}
    if (found := dataset.installed_path(folder)) not in new:
        print_plain(f"note: {found} is read first; remove it to use the new files", console)


def print_plain(text: str, console: Console | None = None) -> None:
    """Print a line without wrapping; brackets in paths are not markup."""
    (console or Console()).print(text, markup=False, highlight=False, soft_wrap=True)


def _is_valid(archive: Archive, path: Path, console: Console) -> bool:
    """Return whether the archive is at ``path`` and passes verification."""
    if not path.is_file():
        return False
    try:
        archive.verify(path)
    except InputError as error:
        print_plain(f"{path} is not the expected file: {error}; downloading it again", console)
        return False
    return True


def _download(archive: Archive, path: Path) -> None:
    from pmvge.datasets import download

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(archive.name, total=None)
        download(
            archive.url,
            path,
            archive.verify,
            lambda done, total: bar.update(task, completed=done, total=total),
            max_bytes=archive.max_bytes,
        )
