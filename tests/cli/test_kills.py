"""A real ``pmvge fit``, stopped at random moments: what is on disk is whole, and goes on.

A few moments here; ``make stress`` sets PMVGE_STRESS, which makes them 50 of each kind.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pmvge import PMvGE, storage
from pmvge.training import saved_seed

STRIKES = 50 if "PMVGE_STRESS" in os.environ else 3
OLD, NEW = 3, 5  # components
SETTINGS = (f"n_components={NEW}", "patience=none", "checkpoint_steps=5", "max_steps=400")


def command(films: Path, output: Path, *more: str) -> list[str]:
    fit = [sys.executable, "-m", "pmvge", "fit", str(films / "pmvge.toml"), "-o", str(output)]
    for setting in SETTINGS:
        fit += ["--set", setting]
    return [*fit, "--json", *more]


class Fit:
    """A process that fits, and what can be seen of it from outside."""

    def __init__(self, wanted: list[str], output: Path, environ: dict[str, str]) -> None:
        self.output = output
        self.before = self._model(), self._checkpoint(), self._manifest()
        streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(wanted, env=environ, text=True, **streams)

    def _model(self) -> set[str]:
        """Files of a model; not the one that tells whether the folder can be written."""
        words = (
            "weights",
            ".weights",
            "embeddings",
            ".embeddings",
            "links",
            ".links",
            ".model.json",
        )
        place = self.output
        names = (path.name for path in place.iterdir()) if place.is_dir() else ()
        return {name for name in names if name.startswith(words)}

    def _checkpoint(self) -> int:
        path = self.output / "checkpoint" / "checkpoint.json"
        return path.stat().st_mtime_ns if path.exists() else 0

    def _manifest(self) -> bytes:
        path = self.output / "model.json"
        return path.read_bytes() if path.exists() else b""

    def saves(self) -> bool:
        """Whether files of the model are being written, or were."""
        return self._model() != self.before[0]

    def amid_saving(self) -> bool:
        """Whether there are new files, but the model is not yet the new one."""
        return self.saves() and self._manifest() == self.before[2]

    def trains(self) -> bool:
        """Whether it has written a checkpoint of its own, or more."""
        return self._checkpoint() != self.before[1] or self.saves()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while self.process.poll() is None and not condition():
            assert time.monotonic() < end, "nothing happened"
            time.sleep(0.001)

    def end(self) -> tuple[int, str]:
        """The exit code, and what it said."""
        _, told = self.process.communicate(timeout=120)
        return self.process.returncode, told


@pytest.fixture(scope="module")
def fits(films, tmp_path_factory, environ) -> dict[str, Any]:
    """Two models, of the old settings and of the new, and how long the training of one takes."""
    place = tmp_path_factory.mktemp("fits")
    Fit(command(films, place / "old", "--set", f"n_components={OLD}"), place / "old", environ).end()
    whole = Fit(command(films, place / "whole"), place / "whole", environ)
    whole.wait_until(whole.trains)
    began = time.perf_counter()
    assert whole.end()[0] == 0
    return {"old": place / "old", "whole": place / "whole", "seconds": time.perf_counter() - began}


def assert_whole(output: Path, fits: dict[str, Any]) -> None:
    """The model is the old one or the new one; the checkpoint, if there is one, can be read."""
    model = PMvGE.load(output)
    same = PMvGE.load(fits["old" if model.n_components == OLD else "whole"])
    for view, Y in same.embeddings_.items():
        np.testing.assert_array_equal(model.embeddings_[view], Y)
    if storage.exists(output / "checkpoint", "checkpoint"):
        assert saved_seed(output / "checkpoint") == 0


def assert_same(output: Path, whole: Path) -> None:
    """Bit by bit: the embeddings, and the files that hold the weights."""
    model, other = PMvGE.load(output), PMvGE.load(whole)
    assert model.n_components == NEW
    for view, Y in other.embeddings_.items():
        np.testing.assert_array_equal(model.embeddings_[view], Y)
    files = [{path.name for path in place.glob("weights-*")} for place in (output, whole)]
    assert files[0] == files[1]  # they are named after their content


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name
)
def test_a_fit_stopped_again_and_again_ends_as_the_undisturbed_one(
    films, fits, tmp_path, environ, capsys, number
):
    rng = random.Random(int(number))
    output = tmp_path / "struck"
    strikes, saving, ends = 0, 0, 0
    for _ in range(4 * STRIKES):  # some come to their end before they are struck
        if strikes == STRIKES and ends:
            break
        if not output.exists():
            shutil.copytree(fits["old"], output)
        fit = Fit(command(films, output, "--resume"), output, environ)
        if strikes < STRIKES:
            if strikes % 4 == 3 and number == signal.SIGKILL:  # or as it loads, or reads
                time.sleep(rng.uniform(0, 2 * fits["seconds"]))
            else:
                fit.wait_until(fit.trains)
            if strikes % 3 == 2:
                fit.wait_until(fit.saves)
                time.sleep(rng.uniform(0, 0.03))
            else:  # some of the way, so that many are needed
                time.sleep(rng.uniform(0, 0.5) * fits["seconds"])
            amid = fit.amid_saving()
            fit.process.send_signal(number)
        code, told = fit.end()
        assert_whole(output, fits)
        if code:
            strikes, saving = strikes + 1, saving + amid
            assert code == -number or (code == 130 and number != signal.SIGKILL), told
            word = "--resume goes on from there" in told or "model is complete" in told
            if number != signal.SIGKILL and not word:  # after all is done, as Python itself ends
                assert_same(output, fits["whole"])
            assert "Traceback" not in told
        else:
            ends += 1
            assert_same(output, fits["whole"])
            left = [path.name for path in output.iterdir() if "partial" in path.name]
            assert not left  # what the killed ones left behind is gone
            shutil.rmtree(output)  # again, from the old one
    assert strikes == STRIKES
    with capsys.disabled():
        told = f"{strikes} times {number.name}, {saving} of them amid saving; {ends} fits ended"
        sys.stdout.write(f"\n{told}: ")


def mount(*words: str) -> bool:
    """Whether a file system could be mounted."""
    if os.geteuid():
        return False
    return subprocess.run(["mount", *words], capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 300 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)):
        pytest.skip("a small file system cannot be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def read_only(fits, tmp_path):
    """The old model, in a folder where nothing can be written."""
    place = shutil.copytree(fits["old"], tmp_path / "model")
    if os.geteuid():
        place.chmod(0o500)
        yield place
        place.chmod(0o700)
        return
    if not mount("--bind", str(place), str(place)):
        pytest.skip("only a file system is read-only for root, and none can be mounted here")
    assert mount("-o", "remount,ro,bind", str(place))
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_read_only_folder_is_told_and_left_alone(films, read_only, environ):
    files = {path.name: path.read_bytes() for path in read_only.iterdir()}
    done = subprocess.run(command(films, read_only), env=environ, capture_output=True, text=True)
    assert done.returncode == 2
    assert str(read_only) in done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name: path.read_bytes() for path in read_only.iterdir()} == files
    assert PMvGE.load(read_only).n_components == OLD


def test_a_full_disk_is_told_and_the_old_model_stays(films, small_disk, environ):
    output = small_disk / "model"
    small = ["--set", "encoder=linear", "--set", "max_steps=10"]
    old = command(films, output, *small, "--set", f"n_components={OLD}")
    assert subprocess.run(old, env=environ, capture_output=True).returncode == 0
    files = {path.name for path in output.iterdir()}
    large = command(films, output, "--set", "n_components=2000")
    done = subprocess.run(large, env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert PMvGE.load(output).n_components == OLD
    assert {path.name for path in output.iterdir()} - {"checkpoint"} == files
