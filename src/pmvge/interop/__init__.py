"""Conversion of graphs to and from other libraries, one file each."""

from pmvge.interop.anndata import from_anndata, to_anndata
from pmvge.interop.biom import from_biom, read_biom
from pmvge.interop.mudata import from_mudata, to_mudata
from pmvge.interop.networkx import from_networkx, to_networkx
from pmvge.interop.pyg import from_pyg, to_pyg

__all__ = [
    "from_anndata",
    "from_biom",
    "from_mudata",
    "from_networkx",
    "from_pyg",
    "read_biom",
    "to_anndata",
    "to_mudata",
    "to_networkx",
    "to_pyg",
]
