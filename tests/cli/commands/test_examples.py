"""``pmvge examples``: the list, an example in a folder, and errors in one line."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from pmvge.datasets import DATASETS
from pmvge.errors import InputError, StorageError
from pmvge.examples import EXAMPLES


def test_list(run, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PMVGE_DATA", str(tmp_path))
    rows = json.loads(run("examples", "--json").out)
    assert [row["name"] for row in rows] == list(EXAMPLES)
    here = {row["name"]: row["present"] for row in rows}
    assert here["films"]
    assert here["image-tag"]
    assert not here["papers"]
    printed = run("examples").out
    assert all(name in printed for name in EXAMPLES)


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in EXAMPLES if name != "image-tag"]


@pytest.mark.parametrize("name", ["image-tag", *SLOW])
def test_the_commands_of_the_readme_work(run, tmp_path, monkeypatch, name) -> None:
    data = DATASETS.get(EXAMPLES[name].dataset or "digits")
    if data.archives and ("PMVGE_DATA" not in os.environ or not data.installed_path()):
        pytest.skip(f"{data.name} is not here: set PMVGE_DATA to a folder with {data.name!r}")
    if name == "microbes":
        pytest.importorskip("biom", reason="needs the extra interop")
    monkeypatch.chdir(tmp_path)
    printed = run("examples", name, *(("--size", "1000") if name == "films" else ())).out
    assert f"Next: cd {name}, then: pmvge init && pmvge fit" in printed
    monkeypatch.chdir(tmp_path / name)
    lines = Path("README.txt").read_text().splitlines()
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("    pmvge ")]
    assert [command[0] for command in commands[:2]] == ["init", "fit"]
    for command in commands:
        quick = ("--set", "max_steps=5", "--set", "n_components=4") if command == ["fit"] else ()
        assert run(*command, *quick).out


def test_json_names_the_files(run, tmp_path) -> None:
    found = json.loads(
        run("examples", "films", "-o", tmp_path / "f", "--size", "300", "--json").out
    )
    assert str(tmp_path / "f" / "users.csv") in found["files"]


def test_a_folder_with_files_is_refused(run, tmp_path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(StorageError, match="expected an empty folder"):
        run("examples", "films", "-o", tmp_path)


def test_options_need_a_name(run) -> None:
    with pytest.raises(InputError, match="expected the name of an example"):
        run("examples", "-o", "x")


def test_missing_data_are_downloaded_or_the_error_names_the_address(
    run, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("PMVGE_DATA", str(tmp_path / "data"))
    (archive,) = DATASETS["cora"].archives
    address = "https://127.0.0.1:9/cora.tgz"  # nothing listens there
    there = replace(DATASETS["cora"], archives=(replace(archive, url=address),))
    monkeypatch.setitem(DATASETS, "cora", there)
    with pytest.raises(InputError, match=rf"{address}: .*set PMVGE_DATA to a folder .*'cora'"):
        run("examples", "papers", "-o", tmp_path / "papers")
    assert not list(tmp_path.iterdir())
