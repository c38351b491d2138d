"""The loader of microbes and metabolites, on tables made here."""

import numpy as np
import pytest

from pmvge.datasets import load_microbes
from pmvge.errors import InputError

biom = pytest.importorskip("biom", reason="needs biom-format, of the extra interop")


def write(path, table, rows, samples):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        biom.Table(np.array(table, float), rows, samples).to_hdf5(file, "test")


@pytest.mark.parametrize("prefix", ["", "examples_cf_"])
def test_samples_of_both_tables_are_kept(tmp_path, prefix):
    write(tmp_path / f"{prefix}otus_nt.biom", [[5, 0, 1], [0, 2, 0]], ["A", "B"], ["x", "y", "z"])
    write(tmp_path / f"{prefix}lcms_nt.biom", [[7.5, 0], [1, 3]], ["m", "n"], ["z", "w"])
    graph = load_microbes(tmp_path)
    assert {view: ids.tolist() for view, ids in graph.ids.items()} == {
        "sample": ["z"],
        "microbe": ["A"],  # B is in y only
        "metabolite": ["m", "n"],
    }
    assert graph.links["sample", "metabolite"].matrix().toarray().tolist() == [[7.5, 1]]
    assert graph.links["sample", "microbe"].matrix().toarray().tolist() == [[1]]


def test_errors_name_the_file(tmp_path):
    with pytest.raises(InputError, match=r"expected otus_nt\.biom \(from .*mmvec"):
        load_microbes(tmp_path)
    write(tmp_path / "otus_nt.biom", [[5]], ["A"], ["x"])
    (tmp_path / "lcms_nt.biom").write_bytes(b"no table")
    with pytest.raises(InputError, match=r"lcms_nt\.biom: cannot be read as biom"):
        load_microbes(tmp_path)
    write(tmp_path / "lcms_nt.biom", [[5]], ["m"], ["y"])
    with pytest.raises(InputError, match="in both tables, got none"):
        load_microbes(tmp_path)
