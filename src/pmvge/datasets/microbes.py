"""Microbes and metabolites of the sputum of people with cystic fibrosis, in 172 samples.

Two biom tables are read from the folder ``microbes``, by the names of their publisher
(``otus_nt.biom``, ``lcms_nt.biom``, the folder ``examples/cf`` of mmvec), or with the prefix
``examples_cf_``. They have the counts of 7,558 microbes in 636 samples, whose ids are parts of a
gene's sequence, and the intensities of 462 metabolites in 180 samples, whose ids are mass and
retention time.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from pmvge.datasets.downloads import data_folder
from pmvge.errors import InputError, one_line
from pmvge.graph import MultiViewGraph
from pmvge.interop import from_biom

SOURCE = "https://github.com/biocore/mmvec"
FILES = {"microbe": "otus_nt.biom", "metabolite": "lcms_nt.biom"}
PREFIX = "examples_cf_"


def load_microbes(folder: Path | None = None) -> MultiViewGraph:
    """Return a graph of samples, linked to their microbes and metabolites by counts.

    Only samples that both tables have are kept, and the entities of the other views that occur in
    them. ``folder`` is by default the folder ``microbes`` of the data folder. Raise InputError if
    files are missing or damaged, or if the library biom is not installed.
    """
    folder = data_folder() / "microbes" if folder is None else folder
    graph = from_biom({view: _table(folder, name) for view, name in FILES.items()})
    degrees = [graph.links["sample", view].degrees()[0] for view in FILES]
    both = np.flatnonzero((degrees[0] > 0) & (degrees[1] > 0))
    if not len(both):
        raise InputError(f"{folder}: expected samples that are in both tables, got none")
    graph = graph.subgraph({"sample": both})
    present = {view: np.flatnonzero(graph.links["sample", view].degrees()[1] > 0) for view in FILES}
    return graph.subgraph(present)


def _table(folder: Path, name: str) -> Any:
    """Return a biom table."""
    paths = [path for path in (folder / name, folder / (PREFIX + name)) if path.is_file()]
    if not paths:
        raise InputError(
            f"{folder}: microbes not found: expected {name} (from {SOURCE}, examples/cf); set "
            "PMVGE_DATA to the folder that contains 'microbes'"
        )
    try:
        biom = import_module("biom")
    except ImportError as error:
        raise InputError(
            f"{paths[0]}: needs 'biom-format' to be read: install pmvge[interop]"
        ) from error
    try:
        table = biom.load_table(str(paths[0]))
    except Exception as error:  # h5py and biom raise many kinds for damaged files
        raise InputError(f"{paths[0]}: cannot be read as biom: {one_line(error)}") from error
    if 0 in table.shape:  # how biom reads some text files
        raise InputError(f"{paths[0]}: cannot be read as biom: the table is empty")
    return table
