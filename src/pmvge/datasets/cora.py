"""Cora: 2,708 papers with their words, fields and citations.

The files have the publisher's format: ``cora.content`` with ``<paper id> <0/1 x 1433> <class>`` and
``cora.cites`` with ``<cited id> <citing id>``, in a folder ``cora`` or an archive of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.datasets.downloads import data_folder
from pmvge.datasets.unpacking import read_files
from pmvge.errors import InputError, one_line
from pmvge.graph import MultiViewGraph, find_ids

_FILES = ("cora.content", "cora.cites")
MAX_BYTES = 100_000_000  # limit for an archive when unpacked; the files have 8 million
SOURCE = "https://linqs-data.soe.ucsc.edu/public/lbc/cora.tgz"


@dataclass(frozen=True, eq=False)
class Cora:
    """The citation graph, with one view "paper" of sparse binary words, and each paper's field."""

    graph: MultiViewGraph
    labels: NDArray[np.int64]  # (n,) positions in ``classes``
    classes: tuple[str, ...]


def load_cora(folder: str | Path | None = None) -> Cora:
    """Read Cora from ``folder``, by default ``cora`` in ``$PMVGE_DATA`` or the user's data folder.

    The folder contains the two files, ``cora.zip`` or ``cora.tgz``. Citations become undirected
    links of weight 1, also if they are listed several times. Raise InputError if the files are
    missing or invalid.
    """
    folder = Path(folder) if folder is not None else data_folder() / "cora"
    content, cites = _read(folder)
    rows = [line.split("\t") for line in content.splitlines() if line.strip()]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or min(widths) < 3:
        raise InputError(
            f"{folder}: cora.content: expected lines of the same length: id, words, class; "
            f"got {len(rows)} lines of {len(widths)} lengths"
        )
    try:
        words = np.array([row[1:-1] for row in rows], dtype=np.float32)
        papers = np.array([row[0] for row in rows], dtype=np.int64)
        citations = np.array([line.split() for line in cites.splitlines()], dtype=np.int64)
        left, right = find_ids(papers, citations[:, 0]), find_ids(papers, citations[:, 1])
    except (ValueError, IndexError, OverflowError) as error:
        raise InputError(f"{folder}: expected files in Cora's format: {one_line(error)}") from error
    classes, labels = np.unique([row[-1] for row in rows], return_inverse=True)
    listed = (left >= 0) & (right >= 0) & (left != right)
    pairs = np.unique(np.sort(np.stack([left[listed], right[listed]]), axis=0), axis=1)
    graph = MultiViewGraph(
        {"paper": sparse.csr_array(words)},
        {("paper", "paper"): (pairs[0], pairs[1])},
        {"paper": papers},
    )
    return Cora(graph, labels.astype(np.int64), tuple(classes.tolist()))


def find_cora(folder: Path) -> Path | None:
    """Return what ``load_cora`` reads: the folder if it has both files, else an archive in it."""
    if all((folder / name).is_file() for name in _FILES):
        return folder
    archives = (folder / "cora.zip", folder / "cora.tgz")
    return next((archive for archive in archives if archive.is_file()), None)


def _read(folder: Path) -> tuple[str, str]:
    """Return the text of both files, from the folder or an archive in it, without unpacking it."""
    try:
        if location := find_cora(folder):
            if location == folder:
                files = {name: (folder / name).read_bytes() for name in _FILES}
            else:
                files = dict(read_files(location, _FILES, max_bytes=MAX_BYTES))
            return files[_FILES[0]].decode(), files[_FILES[1]].decode()
    except (InputError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{folder}: cannot read Cora: {error}") from error
    raise InputError(
        f"{folder}: Cora not found: expected {' and '.join(_FILES)}, or cora.zip, or cora.tgz "
        f"(from {SOURCE}); run 'pmvge datasets download cora', or set PMVGE_DATA to the folder "
        "that contains 'cora'"
    )
