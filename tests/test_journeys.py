"""Three real situations, from tables to a report, with the default settings on 100,000 links."""

from __future__ import annotations

import importlib.util
import os
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECONDS = 240  # two minutes on two idle cores; a busy machine may take twice as long

spec = importlib.util.spec_from_file_location("journey", ROOT / "benchmarks" / "journey.py")
journey = importlib.util.module_from_spec(spec)
spec.loader.exec_module(journey)


@pytest.mark.parametrize(("name", "auc"), [("films", 0.65), ("papers", 0.8), ("frames", 0.7)])
def test_from_tables_to_a_report(name, auc, tmp_path):
    results = journey.SITUATIONS[name](tmp_path / name)
    assert sum(results["seconds"].values()) < SECONDS
    assert results["roc_auc"] > auc
    assert results["partners"] == 10
    (report,) = (tmp_path / name).rglob("report.html")
    assert report.stat().st_size < 20e6


def test_cora_itself(tmp_path):
    archive = Path(os.environ.get("PMVGE_DATA", "nowhere")) / "cora" / "cora.zip"
    if not archive.is_file():
        pytest.skip("Cora is not here: PMVGE_DATA should name the folder that has cora/cora.zip")
    with zipfile.ZipFile(archive) as packed:
        for member in packed.namelist():
            if member.endswith((".content", ".cites")):
                path = tmp_path / "cora" / Path(member).name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(packed.read(member))
    journey.turn_into_tables(tmp_path / "cora", tmp_path / "tables")
    results = journey.commands(tmp_path / "tables", "papers,papers", ("papers", "35", "papers"))
    assert results["roc_auc"] > 0.85
    assert sum(results["seconds"].values()) < SECONDS
