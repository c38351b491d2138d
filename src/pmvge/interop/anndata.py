"""Conversion of AnnData objects (cells by genes) to graphs, and of results back into them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmvge.errors import GraphError, choose
from pmvge.graph import MultiViewGraph, check_features
from pmvge.interop.counts import Counts, FittedModel, graph_of_counts, vectors_of
from pmvge.interop.instances import check_instance

OBSM, VARM = "X_pmvge", "pmvge"  # keys of the results


def from_anndata(
    adata: Any,
    *,
    obs: str = "obs",
    var: str = "var",
    layer: str | None = None,
    obs_features: str | None = None,
    var_features: str | None = None,
) -> MultiViewGraph:
    """Return the graph of an AnnData object: observations linked to variables by counts.

    Parameters
    ----------
    adata
        An ``anndata.AnnData``, in memory or backed by a file.
    obs, var
        Names of the two views, for example "cell" and "gene". Ids are ``obs_names`` and
        ``var_names``.
    layer
        The layer with the counts. None: ``X``. Logarithms of counts are accepted, values below 0
        (scaled data) are not.
    obs_features, var_features
        Keys of ``obsm`` and ``varm`` with features of the two views. None: a view without features.

    Raises
    ------
    GraphError
        If a key is unknown, names repeat, or a value is negative or not finite.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> from pmvge.interop import from_anndata
    >>> cells = anndata.AnnData(np.array([[1.0, 0.0], [2.0, 3.0]], dtype="float32"))
    >>> from_anndata(cells, obs="cell", var="gene")
    MultiViewGraph: 2 views, 4 entities, 3 links
      cell             2 entities   featureless
      gene             2 entities   featureless
      cell - gene      3 links      weight 6, density 0.75
    """
    where = "from_anndata"
    table = counts_of(where, adata, layer, var_features)
    features = _features(where, "obsm", adata.obsm, obs_features)
    return graph_of_counts(where, obs, {var: table}, features)


def counts_of(
    where: str,
    adata: Any,
    layer: str | None,
    var_features: str | None = None,
    option: str = "layer=NAME",
) -> Counts:
    """Return the counts of an AnnData object; raise GraphError if a key is unknown.

    ``option`` is the argument that chooses another layer, for messages.
    """
    reading = "; read a file with anndata.read_h5ad(path)"
    check_instance(where, adata, "anndata", "AnnData", reading)
    layers = ", ".join(map(repr, adata.layers)) or "none"
    hint = f"; pass {option} with counts (layers: {layers})"
    if adata.raw is not None:
        hint += ", or adata.raw.to_adata() instead of adata if its values are counts"
    if layer is not None:
        choose("layer", layer, adata.layers, where, error=GraphError)
    matrix = adata.X if layer is None else adata.layers[layer]
    if matrix is None:
        raise GraphError(f"{where}: expected counts in X, got none{hint}")
    if adata.isbacked and layer is None:
        matrix = matrix.to_memory() if hasattr(matrix, "to_memory") else matrix[:]
    features = _features(where, "varm", adata.varm, var_features)
    return Counts(list(adata.obs_names), list(adata.var_names), matrix, features, hint)


def _features(where: str, what: str, arrays: Any, key: str | None) -> Any:
    """Return the features under a key of ``obsm`` or ``varm``, None without a key.

    Raise GraphError, which names the key, if it is unknown or its values are not finite numbers.
    """
    if key is None:
        return None
    found = arrays[choose(what, key, arrays, where, error=GraphError)]
    where = f"{where}: {what}[{key!r}]"
    if hasattr(found, "dtypes"):  # a data frame
        for column, dtype in found.dtypes.items():
            if dtype.kind not in "fiub":
                raise GraphError(f"{where}: expected numbers, got {dtype} in column {column!r}")
        # Columns such as Int64 would become objects; their missing values are NaN, an error below.
        found = found.to_numpy(dtype=np.float64, na_value=np.nan)
    return check_features(where, found)


def to_anndata(model: FittedModel, adata: Any, *, obs: str = "obs", var: str = "var") -> Any:
    """Write the vectors of a model into an AnnData object, and return it.

    ``obsm["X_pmvge"]`` gets the vectors of the observations, as scanpy expects embeddings, and
    ``varm["pmvge"]`` those of the variables, found by their names. Rows that the model does not
    know are NaN. Raise GraphError if ``adata`` is no AnnData, InputError if the model has no such
    view or knows none of the names, and NotFitted before ``fit``.
    """
    where = "to_anndata"
    check_instance(where, adata, "anndata", "AnnData")
    obsm = vectors_of(where, model, obs, adata.obs_names)
    adata.varm[VARM] = vectors_of(where, model, var, adata.var_names)
    adata.obsm[OBSM] = obsm
    return adata
