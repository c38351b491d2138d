"""A real ``pmvge fit``, killed at random moments: what is on disk is whole, and goes on.

A few moments here; ``make stress`` sets PMVGE_STRESS, which makes them 50.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pmvge import PMvGE, storage
from pmvge.checkpoints import saved_seed

KILLS = 50 if "PMVGE_STRESS" in os.environ else 3
OLD, NEW = 3, 5  # components


def command(films: Path, output: Path, *more: str) -> list[str]:
    fit = [sys.executable, "-m", "pmvge", "fit", str(films / "pmvge.toml"), "-o", str(output)]
    for setting in (f"n_components={NEW}", "patience=none", "checkpoint_steps=5", "max_steps=150"):
        fit += ["--set", setting]
    return [*fit, "--json", *more]


def run_until(wanted: list[str], environ: dict[str, str], moment: float | None) -> bool:
    """Run a command to its end, or kill it after so many seconds; whether it came to its end."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(wanted, env=environ, stdout=quiet, stderr=subprocess.PIPE)
    try:
        _, told = process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return False
    assert process.returncode == 0, told.decode()
    return True


def assert_whole(output: Path) -> None:
    """The model is the old one or the new one; the checkpoint, if there is one, can be read."""
    model = PMvGE.load(output)
    assert model.n_components in (OLD, NEW)
    assert all(np.isfinite(Y).all() for Y in model.embeddings_.values())
    if storage.exists(output / "checkpoint", "checkpoint"):
        assert saved_seed(output / "checkpoint") == 0


def test_a_fit_that_is_killed_again_and_again_ends_as_the_undisturbed_one(films, tmp_path, environ):
    environ = {**environ, "OMP_NUM_THREADS": "1"}
    old = command(films, tmp_path / "old", "--set", f"n_components={OLD}")
    assert run_until(old, environ, None)
    began = time.perf_counter()
    assert run_until(command(films, tmp_path / "whole"), environ, None)
    seconds = time.perf_counter() - began
    whole = PMvGE.load(tmp_path / "whole")
    rng, kills, ends = random.Random(0), 0, 0
    output = tmp_path / "struck"
    output.mkdir()
    while kills < KILLS or not ends:
        if not (output / "model.json").exists():
            for path in (tmp_path / "old").iterdir():
                (output / path.name).write_bytes(path.read_bytes())
        # From the time when all is loaded to the time when the model is saved.
        moment = rng.uniform(0.3, 1.1) * seconds if kills < KILLS else None
        ended = run_until(command(films, output, "--resume"), environ, moment)
        kills += not ended
        assert_whole(output)
        if ended:
            ends += 1
            model = PMvGE.load(output)
            assert model.n_components == NEW
            for view, Y in whole.embeddings_.items():
                np.testing.assert_array_equal(model.embeddings_[view], Y)
            (output / "model.json").unlink()  # again, from the old one
    names = [path.name for path in output.iterdir() if "partial" in path.name]
    assert not names  # what the killed ones left behind is gone


def test_a_folder_that_cannot_be_written_is_told_and_left_alone(films, tmp_path, environ):
    if os.geteuid() == 0:
        pytest.skip("nothing is read-only for root")
    output = tmp_path / "model"
    output.mkdir(mode=0o500)
    done = subprocess.run(command(films, output), env=environ, capture_output=True, text=True)
    assert done.returncode == 2
    assert str(output) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 300 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
    made = subprocess.run(mount, capture_output=True) if os.geteuid() == 0 else None
    if made is None or made.returncode:
        pytest.skip("a small file system cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_is_told_and_the_old_model_stays(films, small_disk, environ):
    output = small_disk / "model"
    small = ["--set", "encoder=linear", "--set", "max_steps=10"]
    assert run_until(command(films, output, *small, "--set", f"n_components={OLD}"), environ, None)
    files = {path.name for path in output.iterdir()}
    large = command(films, output, "--set", "n_components=2000")
    done = subprocess.run(large, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert PMvGE.load(output).n_components == OLD
    assert {path.name for path in output.iterdir()} - {"checkpoint"} == files
