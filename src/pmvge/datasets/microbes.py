"""Microbes and metabolites of cystic fibrosis samples: two biom tables of the same study.

The publisher's files ``otus_nt.biom`` (counts of 7,558 sequences of microbes) and ``lcms_nt.biom``
(intensities of 462 metabolites) are read from the folder ``microbes``, also under their names with
the prefix ``examples_cf_``. Both are biom 2 files (HDF5). 172 samples are in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.datasets.downloads import data_folder
from pmvge.errors import InputError, one_line
from pmvge.graph import MultiViewGraph

SOURCE = "https://github.com/biocore/mmvec/tree/master/examples/cf"
ADDRESS = "https://raw.githubusercontent.com/biocore/mmvec/master/examples/cf/"
FILES = ("otus_nt.biom", "lcms_nt.biom")
PREFIXES = ("", "examples_cf_")


@dataclass(frozen=True, eq=False)
class Microbes:
    """Two tables of the same samples: row i of ``counts`` and of ``intensities`` is sample i."""

    samples: NDArray[np.str_]  # (n,) sorted
    microbes: NDArray[np.str_]  # (m,) sequences
    metabolites: NDArray[np.str_]  # (p,) names made of mass and retention time
    counts: sparse.csr_array  # (n, m) numbers of reads
    intensities: sparse.csr_array  # (n, p) of the mass spectrometer

    def graph(self) -> MultiViewGraph:
        """Return samples linked to microbes and to metabolites, by percent of the sample's total.

        A microbe with a fifth of the reads of a sample has a link of weight 20 to it, and a
        metabolite likewise by its intensity. Both totals depend on the instrument, not on the
        sample.
        """
        links = {
            ("sample", view): matrix.multiply(100 / matrix.sum(axis=1)[:, None])
            for view, matrix in (("microbe", self.counts), ("metabolite", self.intensities))
        }
        ids = {"sample": self.samples, "microbe": self.microbes, "metabolite": self.metabolites}
        return MultiViewGraph({view: len(names) for view, names in ids.items()}, links, ids)


def load_microbes(folder: str | Path | None = None, *, min_samples: int = 1) -> Microbes:
    """Return the samples that are in both tables, with their microbes and metabolites.

    Microbes and metabolites that occur in fewer than ``min_samples`` of these samples are left out.
    ``folder`` is by default the folder ``microbes`` of the data folder. Raise InputError if a file
    is missing or damaged, or if biom-format is not installed.
    """
    folder = Path(folder) if folder is not None else data_folder() / "microbes"
    tables = [_table(folder, name) for name in FILES]
    names = [np.asarray(table.ids(axis="sample"), dtype=np.str_) for table in tables]
    samples = np.intersect1d(names[0], names[1])
    if not len(samples):
        raise InputError(f"{folder}: expected samples that are in both tables, got none")
    columns, matrices = [], []
    for file, table, own in zip(FILES, tables, names, strict=True):
        rows = {name: at for at, name in enumerate(own.tolist())}
        matrix = sparse.csr_array(table.matrix_data.T)[[rows[name] for name in samples.tolist()]]
        if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
            raise InputError(f"{folder}: {file}: expected finite numbers >= 0")
        kept = np.flatnonzero((matrix > 0).sum(axis=0) >= min_samples)
        columns.append(np.asarray(table.ids(axis="observation"), dtype=np.str_)[kept])
        matrices.append(sparse.csr_array(matrix[:, kept], dtype=np.float64))
    return Microbes(samples, *columns, *matrices)


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
    try:
        import biom
        import h5py
    except ImportError as error:
        raise InputError("microbes need biom-format: pip install 'pmvge[interop]'") from error
    try:
        with h5py.File(path) as stream:
            return biom.Table.from_hdf5(stream)
    except Exception as error:  # h5py and biom raise many kinds for damaged files
        raise InputError(f"{path}: cannot be read as a biom table: {one_line(error)}") from error
