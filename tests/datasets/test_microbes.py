"""Microbes and metabolites, from small biom files, and from the published ones if present."""

import os
from pathlib import Path

import numpy as np
import pytest

from pmvge.datasets import load_microbes
from pmvge.errors import InputError

biom = pytest.importorskip("biom", reason="needs pmvge[interop]")
h5py = pytest.importorskip("h5py", reason="needs pmvge[interop]")


def write(path: Path, values: list[list[float]], rows: list[str], samples: list[str]) -> None:
    with h5py.File(path, "w") as stream:
        biom.Table(np.array(values, float), rows, samples).to_hdf5(stream, "test")


@pytest.fixture
def folder(tmp_path) -> Path:
    write(tmp_path / "otus_nt.biom", [[5, 0, 2], [0, 7, 0]], ["AC", "GT"], ["s3", "s1", "s2"])
    write(tmp_path / "lcms_nt.biom", [[0, 9], [8, 1]], ["X1", "X2"], ["s1", "s3"])
    return tmp_path


def table(graph, view: str) -> list[list[float]]:
    return graph.links["sample", view].matrix().toarray().tolist()


def test_both_tables_have_the_shared_samples_in_one_order(folder):
    graph = load_microbes(folder)
    assert graph.ids["sample"].tolist() == ["s1", "s3"]
    assert graph.ids["microbe"].tolist() == ["AC", "GT"]
    assert table(graph, "microbe") == [[0, 7], [5, 0]]
    assert table(graph, "metabolite") == [[0, 8], [9, 1]]


def test_rare_columns_are_left_out(folder):
    write(folder / "otus_nt.biom", [[5, 4], [0, 7]], ["AC", "GT"], ["s3", "s1"])
    graph = load_microbes(folder, min_samples=2)
    assert graph.ids["microbe"].tolist() == ["AC"]
    assert graph.ids["metabolite"].tolist() == ["X2"]
    assert table(graph, "metabolite") == [[8], [1]]


def test_files_may_have_the_prefix_of_their_folder(folder):
    for name in ("otus_nt.biom", "lcms_nt.biom"):
        (folder / name).rename(folder / f"examples_cf_{name}")
    assert load_microbes(folder).ids["sample"].tolist() == ["s1", "s3"]


def test_missing_and_damaged_files_are_errors(folder):
    (folder / "lcms_nt.biom").write_bytes(b"not a biom file" * 50)
    with pytest.raises(InputError, match=r"lcms_nt.biom: expected biom 1 .* got another format"):
        load_microbes(folder)
    (folder / "lcms_nt.biom").unlink()
    with pytest.raises(InputError, match=r"microbes not found: .*github.com/biocore.*PMVGE_DATA"):
        load_microbes(folder)


def test_tables_without_a_common_sample_are_an_error(folder):
    write(folder / "lcms_nt.biom", [[1]], ["X1"], ["other"])
    with pytest.raises(InputError, match="samples that are in both tables"):
        load_microbes(folder)


@pytest.mark.skipif("PMVGE_DATA" not in os.environ, reason="PMVGE_DATA is not set")
def test_the_published_tables():
    assert load_microbes().sizes["microbe"] == 2720  # those that are not empty
    graph = load_microbes(min_samples=0)
    assert dict(graph.sizes) == {"sample": 172, "microbe": 7558, "metabolite": 462}
    # The same numbers, read from the file without this loader.
    path = Path(os.environ["PMVGE_DATA"], "microbes", "examples_cf_lcms_nt.biom")
    lcms = biom.load_table(str(path if path.is_file() else path.with_name("lcms_nt.biom")))
    found = np.array(table(graph, "metabolite"))
    for at in range(0, 172, 40):
        sample = str(graph.ids["sample"][at])
        np.testing.assert_array_equal(found[at], lcms.data(sample, axis="sample", dense=True))
