"""Microbes and metabolites of cystic fibrosis samples: two biom tables of the same study.

The publisher's files ``otus_nt.biom`` (counts of 7,558 sequences of microbes) and ``lcms_nt.biom``
(intensities of 462 metabolites) are read from the folder ``microbes``, also under their names with
the prefix ``examples_cf_``. Both are biom 2 files (HDF5). 172 samples are in both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from pmvge.datasets.downloads import data_folder
from pmvge.errors import InputError
from pmvge.graph import MultiViewGraph
from pmvge.interop import read_biom

SOURCE = "https://github.com/biocore/mmvec/tree/master/examples/cf"
ADDRESS = "https://raw.githubusercontent.com/biocore/mmvec/master/examples/cf/"
FILES = ("otus_nt.biom", "lcms_nt.biom")
VIEWS = ("microbe", "metabolite")
PREFIXES = ("", "examples_cf_")


def load_microbes(folder: str | Path | None = None, *, min_samples: int = 1) -> MultiViewGraph:
    """Return the graph of the samples that are in both tables, with counts and intensities.

    The views "sample", "microbe" and "metabolite" have no features; samples are linked to the
    other two. Microbes and metabolites that occur in fewer than ``min_samples`` of these samples
    are left out. ``folder`` is by default the folder ``microbes`` of the data folder. Raise
    InputError if a file is missing or damaged, or if biom-format is not installed.
    """
    folder = Path(folder) if folder is not None else data_folder() / "microbes"
    tables = [_table(folder, name) for name in FILES]
    names = [np.asarray(table.ids(axis="sample"), dtype=np.str_) for table in tables]
    samples = np.intersect1d(names[0], names[1])
    if not len(samples):
        raise InputError(f"{folder}: expected samples that are in both tables, got none")
    ids, links = {"sample": samples}, {}
    for view, file, table, own in zip(VIEWS, FILES, tables, names, strict=True):
        rows = {name: at for at, name in enumerate(own.tolist())}
        matrix = sparse.csr_array(table.matrix_data.T)[[rows[name] for name in samples.tolist()]]
        if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
            raise InputError(f"{folder}: {file}: expected finite numbers >= 0")
        kept = np.flatnonzero((matrix > 0).sum(axis=0) >= min_samples)
        ids[view] = np.asarray(table.ids(axis="observation"), dtype=np.str_)[kept]
        links["sample", view] = sparse.csr_array(matrix[:, kept], dtype=np.float64)
    return MultiViewGraph({view: len(names) for view, names in ids.items()}, links, ids)


def find_microbes(folder: Path) -> Path | None:
    """Return the folder if it has both tables, else None."""
    return folder if all(_path(folder, name) is not None for name in FILES) else None


def _path(folder: Path, name: str) -> Path | None:
    paths = (folder / f"{prefix}{name}" for prefix in PREFIXES)
    return next((path for path in paths if path.is_file()), None)


def _table(folder: Path, name: str) -> Any:
    """Return a ``biom.Table``; raise InputError if it cannot be read."""
    path = _path(folder, name)
    if path is None:
        raise InputError(
            f"{folder}: microbes not found: expected {' and '.join(FILES)} (from {SOURCE}); run "
            "'pmvge datasets download microbes', or set PMVGE_DATA to the folder that contains "
            "'microbes'"
        )
    return read_biom(path)
