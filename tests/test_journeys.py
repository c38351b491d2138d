"""From tables to a report in three situations, with few links and steps.

`benchmarks/journey.py` times the same situations with 100,000 links and the default settings.
"""

from __future__ import annotations

import importlib.util
import os
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pmvge.cli.app import app

ROOT = Path(__file__).parents[1]
LINKS, STEPS = 4000, 200
pytestmark = pytest.mark.slow

spec = importlib.util.spec_from_file_location("journey", ROOT / "benchmarks" / "journey.py")
journey = importlib.util.module_from_spec(spec)
spec.loader.exec_module(journey)


@pytest.fixture(autouse=True)
def commands_in_this_process(monkeypatch):
    """Run commands in this process: importing torch takes longer than most of them."""

    def pmvge(folder: Path, *words: str) -> str:
        with monkeypatch.context() as patch:
            patch.chdir(folder)
            done = CliRunner().invoke(app, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    monkeypatch.setattr(journey, "pmvge", pmvge)


@pytest.mark.parametrize(("name", "auc"), [("films", 0.6), ("papers", 0.75), ("frames", 0.65)])
def test_from_tables_to_a_report(name, auc, tmp_path):
    results = journey.SITUATIONS[name](tmp_path / name, LINKS, STEPS)
    assert results["roc_auc"] > auc
    assert results["partners"] == 10
    (report,) = (tmp_path / name).rglob("report.html")
    assert report.stat().st_size < 20e6


def test_cora_from_its_own_files(tmp_path):
    archive = Path(os.environ.get("PMVGE_DATA", "nowhere")) / "cora" / "cora.zip"
    if not archive.is_file():
        pytest.skip("no Cora: set PMVGE_DATA to the folder with cora/cora.zip")
    with zipfile.ZipFile(archive) as packed:
        for member in packed.namelist():
            if member.endswith((".content", ".cites")):
                path = tmp_path / "cora" / Path(member).name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(packed.read(member))
    journey.turn_into_tables(tmp_path / "cora", tmp_path / "tables")
    query = ("papers", "35", "papers")
    results = journey.commands(tmp_path / "tables", "papers,papers", query, STEPS)
    assert results["roc_auc"] > 0.85
    assert (tmp_path / "tables" / "report.html").is_file()
