"""AnnData and MuData become graphs, and vectors go back into their rows."""

import warnings

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pmvge import PMvGE
from pmvge.checks import NotFitted
from pmvge.errors import GraphError, InputError
from pmvge.interop import from_anndata, from_mudata, to_anndata, to_mudata


def counts(n: int, p: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).poisson(0.7, (n, p)).astype(np.float32)


def annotated(X, cells, genes) -> anndata.AnnData:
    """Names are objects: AnnData cannot write pandas' own strings."""
    obs, var = (pd.DataFrame(index=pd.Index(names, dtype=object)) for names in (cells, genes))
    return anndata.AnnData(X, obs=obs, var=var)


CELLS, GENES = [f"cell{k}" for k in range(8)], [f"gene{k}" for k in range(5)]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_counts_are_weights(kind) -> None:
    X = counts(8, 5)
    graph = from_anndata(annotated(kind(X), CELLS, GENES), obs="cell", var="gene")
    assert graph.ids["cell"].tolist() == CELLS
    assert graph.ids["gene"].tolist() == GENES
    np.testing.assert_array_equal(graph.links["cell", "gene"].matrix().toarray(), X)


def test_layers_and_features() -> None:
    X, pca = counts(8, 5), np.random.default_rng(1).normal(size=(8, 3))
    adata = annotated((X - X.mean(0)) / X.std(0), CELLS, GENES)
    adata.layers["counts"] = sparse.csr_matrix(X)
    adata.obsm["X_pca"] = pca
    adata.varm["loadings"] = pd.DataFrame(np.eye(5), index=GENES)
    graph = from_anndata(adata, layer="counts", obs_features="X_pca", var_features="loadings")
    np.testing.assert_array_equal(graph.links["obs", "var"].matrix().toarray(), X)
    np.testing.assert_array_equal(graph.views["obs"], pca)
    np.testing.assert_array_equal(graph.views["var"], np.eye(5))
    with pytest.raises(GraphError, match=r"expected counts, .* pass layer=NAME .*'counts'"):
        from_anndata(adata)
    with pytest.raises(GraphError, match="unknown layer 'count': expected one of 'counts'"):
        from_anndata(adata, layer="count")
    with pytest.raises(GraphError, match="unknown obsm 'pca'"):
        from_anndata(adata, layer="counts", obs_features="pca")


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_a_file_that_stays_on_disk(tmp_path, kind) -> None:
    X = counts(8, 5)
    annotated(kind(X), CELLS, GENES).write_h5ad(tmp_path / "a.h5ad")
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    graph = from_anndata(backed)
    backed.file.close()
    np.testing.assert_array_equal(graph.links["obs", "var"].matrix().toarray(), X)


def test_bad_tables() -> None:
    X = counts(8, 5)
    X[2, 3] = np.nan
    with pytest.raises(GraphError, match=r"from_anndata: var: expected counts, .*such as nan"):
        from_anndata(annotated(X, CELLS, GENES))
    with pytest.warns(UserWarning, match="not unique"):
        twice = annotated(counts(8, 5), ["a"] * 8, GENES)
    message = (
        r"obs - var: expected distinct names of 'obs', got 'a' 8 times; .*obs_names_make_unique"
    )
    with pytest.raises(GraphError, match=message):
        from_anndata(twice)
    with pytest.warns(UserWarning, match="not unique"):
        twice = annotated(counts(8, 5), CELLS, ["x", "x", *GENES[2:]])
    message = (
        r"obs - var: expected distinct names of 'var', got 'x' 2 times; .*var_names_make_unique"
    )
    with pytest.raises(GraphError, match=message):
        from_anndata(twice)
    with pytest.raises(GraphError, match=r"from_anndata: expected anndata\.AnnData, got DataFrame"):
        from_anndata(pd.DataFrame(X))
    with pytest.raises(GraphError, match="expected counts in X, got none; pass layer=NAME"):
        from_anndata(anndata.AnnData(obs=pd.DataFrame(index=CELLS), var=pd.DataFrame(index=GENES)))
    with pytest.raises(GraphError, match="under other names than 'x'"):
        from_anndata(annotated(counts(8, 5), CELLS, GENES), obs="x", var="x")


def test_counts_that_are_only_in_raw() -> None:
    adata = annotated(counts(8, 5), CELLS, GENES)
    adata.raw = adata.copy()
    adata.X = adata.X - 1
    with pytest.raises(GraphError, match=r"layers: none.*adata\.raw\.to_adata\(\)"):
        from_anndata(adata)
    total = from_anndata(adata.raw.to_adata()).total_weight
    assert total == adata.raw.X.sum()
    adata.X = None
    with pytest.raises(GraphError, match=r"in X, got none; .*adata\.raw\.to_adata\(\)"):
        from_anndata(adata)
    with pytest.raises(GraphError, match="unknown layer 'counts': there are none"):
        from_anndata(adata, layer="counts")


def test_features_that_are_no_numbers_are_named() -> None:
    adata = annotated(counts(8, 5), CELLS, GENES)
    adata.obsm["about"] = pd.DataFrame({"n": range(8), "batch": list("abababab")}, index=CELLS)
    with pytest.raises(
        GraphError, match=r"obsm\['about'\]: expected numbers, .* in column 'batch'"
    ):
        from_anndata(adata, obs_features="about")
    adata.varm["about"] = np.full((5, 2), np.nan)
    with pytest.raises(GraphError, match=r"from_anndata: varm\['about'\]: .*finite"):
        from_anndata(adata, var_features="about")


def fitted(graph) -> PMvGE:
    return PMvGE(n_components=3, max_steps=5, patience=None, random_state=0).fit(graph)


def test_vectors_are_written_by_name() -> None:
    adata = annotated(counts(8, 5), CELLS, GENES)
    model = fitted(from_anndata(adata, obs="cell", var="gene"))
    other = annotated(counts(3, 6), ["cell7", "new", "cell0"], [*GENES[::-1], "new"])
    result = to_anndata(model, other, obs="cell", var="gene")
    assert result is other
    Y = model.embeddings_["cell"]
    np.testing.assert_array_equal(other.obsm["X_pmvge"], np.stack([Y[7], np.full(3, np.nan), Y[0]]))
    np.testing.assert_array_equal(other.varm["pmvge"][:5], model.embeddings_["gene"][::-1])
    with pytest.raises(InputError, match="unknown view 'obs': expected one of 'cell', 'gene'"):
        to_anndata(model, other)
    with pytest.raises(InputError, match=r"expected ids of view 'cell', such as .*, got 'n"):
        to_anndata(model, annotated(counts(1, 5), ["new"], GENES), obs="cell", var="gene")


def test_results_survive_a_file(tmp_path) -> None:
    adata = annotated(counts(8, 5), CELLS, GENES)
    to_anndata(fitted(from_anndata(adata)), adata)
    adata.write_h5ad(tmp_path / "a.h5ad")
    again = anndata.read_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_array_equal(again.obsm["X_pmvge"], adata.obsm["X_pmvge"])
    np.testing.assert_array_equal(again.varm["pmvge"], adata.varm["pmvge"])


@pytest.fixture
def two() -> mudata.MuData:
    """RNA of all cells, and peaks of six of them, in another order."""
    rna = annotated(counts(8, 5), CELLS, GENES)
    peaks = annotated(counts(6, 4, 1), CELLS[7:1:-1], [f"peak{k}" for k in range(4)])
    with mudata.set_options(pull_on_update=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MuData uses arguments that pandas has deprecated
        return mudata.MuData({"rna": rna, "atac": peaks})


def test_modalities_are_views(two) -> None:
    graph = from_mudata(two, obs="cell")
    assert {*graph.view_names} == {"cell", "rna", "atac"}
    assert {*graph.ids["cell"].tolist()} == {*CELLS}
    for name, adata in two.mod.items():
        links = graph.links["cell", name].matrix().toarray()
        frame = pd.DataFrame(links, index=graph.ids["cell"], columns=graph.ids[name])
        wanted = adata.to_df().reindex(graph.ids["cell"]).fillna(0)
        np.testing.assert_array_equal(frame[wanted.columns], wanted)
    with pytest.raises(GraphError, match="under other names than 'rna'"):
        from_mudata(two, obs="rna")


def test_layers_of_modalities(two) -> None:
    for adata in two.mod.values():
        adata.layers["counts"] = adata.X.copy()
        adata.X = adata.X - 1
    for layers in ("counts", {"rna": "counts", "atac": "counts"}):
        graph = from_mudata(two, layers=layers)
        assert graph.links["obs", "rna"].total == two["rna"].layers["counts"].sum()
    with pytest.raises(GraphError, match=r"atac: .*pass layers=\{'atac': NAME\} .*'counts'"):
        from_mudata(two, layers={"rna": "counts"})
    with pytest.raises(GraphError, match=r"layers: unknown modality 'atax': .*mean 'atac'"):
        from_mudata(two, layers={"atax": "counts"})
    with pytest.raises(GraphError, match=r"from_mudata: expected mudata\.MuData, got AnnData"):
        from_mudata(two.mod["rna"])


def test_vectors_of_modalities(two) -> None:
    model = fitted(from_mudata(two, obs="cell"))
    assert to_mudata(model, two, obs="cell") is two
    at = [model.ids_["cell"].tolist().index(name) for name in two.obs_names]
    np.testing.assert_array_equal(two.obsm["X_pmvge"], model.embeddings_["cell"][at])
    for name, adata in two.mod.items():
        np.testing.assert_array_equal(adata.varm["pmvge"], model.embeddings_[name])


def test_results_need_a_fitted_model_and_the_object_of_the_library() -> None:
    adata = annotated(counts(8, 5), CELLS, GENES)
    with pytest.raises(NotFitted, match=r"^to_anndata: this PMvGE is not fitted: call fit"):
        to_anndata(PMvGE(2), adata)
    model = PMvGE(2, max_steps=2, random_state=0, progress=False).fit(from_anndata(adata))
    with pytest.raises(GraphError, match=r"^to_anndata: expected anndata.AnnData, got str"):
        to_anndata(model, "cells.h5ad")
    with pytest.raises(GraphError, match=r"^to_mudata: expected mudata.MuData, got AnnData"):
        to_mudata(model, adata)
    other = annotated(counts(8, 5), CELLS, [f"x{k}" for k in range(5)])
    with pytest.raises(InputError, match=r"view 'var', such as 'gene0', got 'x0', 'x1', 'x2'"):
        to_anndata(model, other)
    assert not other.obsm


def test_frames_with_nullable_numbers_are_features() -> None:
    adata = annotated(counts(8, 5), CELLS, GENES)
    values = pd.array([1, 2, 3, 4, 5, 6, 7, 8], dtype="Int64")
    adata.obsm["clinic"] = pd.DataFrame({"age": values, "dose": np.ones(8)}, index=CELLS)
    X = from_anndata(adata, obs_features="clinic").views["obs"]
    np.testing.assert_array_equal(X, np.column_stack([np.arange(1, 9), np.ones(8)]))
    adata.obsm["clinic"].loc["cell2", "age"] = pd.NA
    with pytest.raises(GraphError, match=r"obsm\['clinic'\]: .*1 that are NaN"):
        from_anndata(adata, obs_features="clinic")


def test_modalities_of_the_same_variables_are_no_views() -> None:
    """Cells of two data sets have the same names; they are not the same cells."""
    parts = {
        name: annotated(counts(4, 5, seed), CELLS[:4], GENES) for seed, name in enumerate("ab")
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mdata = mudata.MuData(parts, axis=1)
    with pytest.raises(GraphError, match=r"\(axis=0\), got .*\(axis=1\); .*anndata\.concat"):
        from_mudata(mdata)
    joined = from_anndata(anndata.concat(mdata.mod, index_unique="-"))
    assert joined.sizes == {"obs": 8, "var": 5}
