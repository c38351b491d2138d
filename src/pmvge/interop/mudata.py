"""Conversion of MuData objects (several modalities of the same cells) to graphs, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pmvge.errors import GraphError, choose
from pmvge.graph import MultiViewGraph
from pmvge.interop.anndata import OBSM, VARM, counts_of
from pmvge.interop.counts import FittedModel, graph_of_counts, vectors_of
from pmvge.interop.instances import check_instance


def from_mudata(
    mdata: Any, *, obs: str = "obs", layers: str | Mapping[str, str] | None = None
) -> MultiViewGraph:
    """Return the graph of a MuData object: observations linked to the variables of each modality.

    ``obs`` is the name of the observations' view; each modality is a view of its own, with its
    name. ``layers`` is the layer with the counts, of all modalities or ``{modality: layer}``; the
    others use ``X``. Observations that a modality does not have are not linked in it. Raise
    GraphError as :func:`from_anndata` does, if a modality is called ``obs``, if ``layers`` names
    an unknown modality, or if modalities share variables instead of observations (``axis=1``).
    """
    where = "from_mudata"
    check_instance(where, mdata, "mudata", "MuData", "; read a file with mudata.read_h5mu(path)")
    if mdata.axis == 1:
        raise GraphError(
            f"{where}: expected modalities of the same observations (axis=0), got those of the "
            "same variables (axis=1); join them for from_anndata: anndata.concat(mdata.mod, "
            "index_unique='-')"
        )
    chosen = dict.fromkeys(mdata.mod, layers) if isinstance(layers, str) else dict(layers or {})
    for name in chosen:
        choose("modality", name, mdata.mod, f"{where}: layers", error=GraphError)
    tables = {
        name: counts_of(
            f"{where}: {name}", adata, chosen.get(name), option=f"layers={{{name!r}: NAME}}"
        )
        for name, adata in mdata.mod.items()
    }
    return graph_of_counts(where, obs, tables)


def to_mudata(model: FittedModel, mdata: Any, *, obs: str = "obs") -> Any:
    """Write the vectors of a model into a MuData object, and return it.

    ``mdata.obsm["X_pmvge"]`` gets the vectors of the observations, ``varm["pmvge"]`` of each
    modality those of its variables. Rows that the model does not know are NaN. Raise GraphError if
    ``mdata`` is no MuData, InputError if the model has no such view or knows none of the names, and
    NotFitted before ``fit``.
    """
    where = "to_mudata"
    check_instance(where, mdata, "mudata", "MuData")
    found = {
        name: vectors_of(where, model, name, adata.var_names) for name, adata in mdata.mod.items()
    }
    mdata.obsm[OBSM] = vectors_of(where, model, obs, mdata.obs_names)
    for name, vectors in found.items():
        mdata.mod[name].varm[VARM] = vectors
    return mdata
