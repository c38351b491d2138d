"""biom tables become graphs."""

import gzip
import os
from pathlib import Path

import biom
import numpy as np
import pytest

from pmvge.errors import GraphError, InputError
from pmvge.interop import from_biom, read_biom


def counts(n: int, p: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).poisson(0.7, (n, p)).astype(np.float32)


def test_biom_tables(tmp_path) -> None:
    X = counts(5, 4)
    microbes = biom.Table(X, [f"otu{k}" for k in range(5)], list("abcd"))
    metabolites = biom.Table(counts(3, 3, 1), list("xyz"), list("dca"))
    with biom.util.biom_open(str(tmp_path / "t.biom"), "w") as file:
        microbes.to_hdf5(file, "test")
    graph = from_biom(tmp_path / "t.biom", observation="microbe")
    np.testing.assert_array_equal(graph.links["sample", "microbe"].matrix().toarray(), X.T)
    assert graph.ids["microbe"].tolist() == [f"otu{k}" for k in range(5)]
    both = from_biom({"microbe": microbes, "metabolite": metabolites})
    assert both.ids["sample"].tolist() == list("abcd")
    links = both.links["sample", "metabolite"].matrix().toarray()
    frame = metabolites.to_dataframe(dense=True).T.reindex(list("abcd")).fillna(0)
    np.testing.assert_array_equal(links, frame)
    with pytest.raises(GraphError, match="from_biom: expected tables under other names"):
        from_biom(microbes, observation="sample")
    paths = from_biom({"microbe": str(tmp_path / "t.biom"), "metabolite": metabolites})
    np.testing.assert_array_equal(paths.links["sample", "metabolite"].matrix().toarray(), links)


def test_biom_files_of_both_formats_and_damaged_ones(tmp_path) -> None:
    table = biom.Table(counts(5, 4), [f"otu{k}" for k in range(5)], list("abcd"))
    (tmp_path / "one.biom").write_text(table.to_json("test"))
    read = read_biom(tmp_path / "one.biom")
    assert read.ids().tolist() == list("abcd")
    np.testing.assert_array_equal(read.matrix_data.toarray(), table.matrix_data.toarray())
    (tmp_path / "bad.biom").write_bytes(b'{"no": "table"}' * 20)
    with pytest.raises(InputError, match=r"bad\.biom: cannot be read as a biom table"):
        from_biom(tmp_path / "bad.biom")
    packed = gzip.compress((tmp_path / "one.biom").read_bytes())
    tsv = table.to_tsv().encode()
    for data, got in (
        (packed, "gzip; unpack it: gzip -dc OLD > NEW"),
        (tsv, "tab-separated text; convert it: biom convert --to-hdf5"),
        (b"no table" * 20, "another format"),
        (b"", "an empty file"),
    ):
        (tmp_path / "bad.biom").write_bytes(data)
        expected = r"bad\.biom: expected biom 1 \(JSON\) or biom 2 \(HDF5\), got "
        with pytest.raises(InputError, match=expected + got):
            from_biom(tmp_path / "bad.biom")
    with pytest.raises(InputError, match="expected a biom file, got a folder"):
        from_biom(tmp_path)
    with pytest.raises(InputError, match=r"none\.biom: expected a biom file, got no such file"):
        from_biom(str(tmp_path / "none.biom"))
    with pytest.raises(
        GraphError, match=r"from_biom: m: expected biom\.Table, got ndarray; .*path"
    ):
        from_biom({"m": np.eye(2)})


def test_microbes_and_metabolites_of_the_same_samples() -> None:
    """Read the publisher's files, if PMVGE_DATA names the folder with them."""
    folder = Path(os.environ.get("PMVGE_DATA", "nowhere")) / "microbes"
    if not folder.is_dir():
        pytest.skip("PMVGE_DATA has no microbes")
    names = {"microbe": "examples_cf_otus_nt.biom", "metabolite": "examples_cf_lcms_nt.biom"}
    tables = {view: biom.load_table(str(folder / name)) for view, name in names.items()}
    graph = from_biom(tables)
    for view, table in tables.items():
        assert graph.sizes[view] == table.shape[0]
        assert graph.links["sample", view].total == pytest.approx(table.sum())
    assert graph.sizes["sample"] == len({*tables["microbe"].ids(), *tables["metabolite"].ids()})
