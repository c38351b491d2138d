"""Conversion of biom tables (counts of microbes, genes or metabolites in samples) to graphs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pmvge.errors import InputError, one_line
from pmvge.graph import MultiViewGraph
from pmvge.interop.counts import Counts, graph_of_counts
from pmvge.interop.instances import check_instance


def from_biom(
    tables: Any, *, sample: str = "sample", observation: str = "observation"
) -> MultiViewGraph:
    """Return the graph of one or several biom tables: samples linked to observations by counts.

    ``tables`` is a ``biom.Table``, or the path of a biom file, whose observations are the view
    ``observation``, or ``{view: table or path}``, such as ``{"microbe": otus, "metabolite":
    "lcms.biom"}``. Samples are one view, called ``sample``, and have the same id in all tables.
    Raise GraphError if a view is called ``sample``, or if a value is negative or not finite, and
    InputError if a file cannot be read.

    Examples
    --------
    >>> import biom, numpy as np
    >>> from pmvge.interop import from_biom
    >>> table = biom.Table(np.array([[1, 0], [2, 3]]), ["otu1", "otu2"], ["a", "b"])
    >>> from_biom(table, observation="microbe")
    MultiViewGraph: 2 views, 4 entities, 3 links
      microbe               2 entities   featureless
      sample                2 entities   featureless
      sample - microbe      3 links      weight 6, density 0.75
    """
    where = "from_biom"
    given = tables if isinstance(tables, Mapping) else {observation: tables}
    counts = {name: _counts(f"{where}: {name}", table) for name, table in given.items()}
    return graph_of_counts(where, sample, counts)


def read_biom(path: str | os.PathLike[str]) -> Any:
    """Return the ``biom.Table`` of a file of biom 1 (JSON) or 2 (HDF5).

    Raise InputError if the file cannot be read, or if biom-format is not installed.
    """
    path = Path(path)
    try:
        import biom
        import h5py
    except ImportError as error:
        raise InputError(f"{path}: needs biom-format: pip install 'pmvge[interop]'") from error
    if not path.is_file():
        got = "a folder" if path.is_dir() else "no such file"
        raise InputError(f"{path}: expected a biom file, got {got}")
    try:
        if not h5py.is_hdf5(path):
            _check_json(path)
            return biom.Table.from_json(json.loads(path.read_text(encoding="utf-8")))
        with h5py.File(path) as stream:
            return biom.Table.from_hdf5(stream)
    except InputError:
        raise
    except Exception as error:  # h5py and biom raise many kinds for damaged files
        raise InputError(f"{path}: cannot be read as a biom table: {one_line(error)}") from error


def _check_json(path: Path) -> None:
    """Raise InputError if a file does not start as a JSON object, which a file of biom 1 is."""
    with path.open("rb") as stream:
        start = stream.read(64).lstrip()
    if start.startswith(b"{"):
        return
    got, fix = "another format", ""
    if start.startswith(b"\x1f\x8b"):
        got, fix = "gzip", "; unpack it: gzip -dc OLD > NEW"
    elif start.startswith(b"#"):
        got, fix = "tab-separated text", "; convert it: biom convert --to-hdf5 -i OLD -o NEW"
    elif not start:
        got = "an empty file"
    raise InputError(f"{path}: expected biom 1 (JSON) or biom 2 (HDF5), got {got}{fix}")


def _counts(where: str, table: Any) -> Counts:
    if isinstance(table, str | os.PathLike):
        table = read_biom(table)
    check_instance(where, table, "biom", "Table", "; pass a table or the path of a biom file")
    return Counts(
        list(map(str, table.ids(axis="sample"))),
        list(map(str, table.ids(axis="observation"))),
        table.matrix_data.T,
    )
