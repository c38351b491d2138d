"""A real ``pmvge fit``, stopped by signals at random moments, on full and read-only disks.

Each signal is sent 3 times; ``make stress`` sets PMVGE_STRESS, for 50 times.
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

SIGNALS = 50 if "PMVGE_STRESS" in os.environ else 3
OLD, NEW = 3, 5  # components
SETTINGS = (f"n_components={NEW}", "patience=none", "checkpoint_steps=5", "max_steps=400")


def command(films: Path, output: Path, *more: str) -> list[str]:
    fit = [sys.executable, "-m", "pmvge", "fit", str(films / "pmvge.toml"), "-o", str(output)]
    for setting in SETTINGS:
        fit += ["--set", setting]
    return [*fit, "--json", *more]


class Fit:
    """A process that fits a model, and the state of its output folder."""

    def __init__(self, wanted: list[str], output: Path, environ: dict[str, str]) -> None:
        self.output = output
        self.before = self._model(), self._checkpoint(), self._manifest()
        streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(wanted, env=environ, text=True, **streams)

    def _model(self) -> set[str]:
        """Return the names of a model's files, without the probe of check_writable."""
        words = (
            "weights",
            ".weights",
            "embeddings",
            ".embeddings",
            "links",
            ".links",
            ".model.json",
        )
        names = (path.name for path in self.output.iterdir()) if self.output.is_dir() else ()
        return {name for name in names if name.startswith(words)}

    def _checkpoint(self) -> int:
        path = self.output / "checkpoint" / "checkpoint.json"
        return path.stat().st_mtime_ns if path.exists() else 0

    def _manifest(self) -> bytes:
        path = self.output / "model.json"
        return path.read_bytes() if path.exists() else b""

    def has_new_files(self) -> bool:
        """Return whether files of the new model are being written, or were."""
        return self._model() != self.before[0]

    def is_saving(self) -> bool:
        """Return whether there are new files but model.json is still the old one."""
        return self.has_new_files() and self._manifest() == self.before[2]

    def has_checkpoint(self) -> bool:
        """Return whether it has written a checkpoint, or files of the model."""
        return self._checkpoint() != self.before[1] or self.has_new_files()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while self.process.poll() is None and not condition():
            assert time.monotonic() < end, "timed out"
            time.sleep(0.001)

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and the error stream."""
        _, err = self.process.communicate(timeout=120)
        return self.process.returncode, err


@pytest.fixture(scope="module")
def fits(films, tmp_path_factory, environ) -> dict[str, Any]:
    """Two models, with the old and the new settings, and the seconds that training takes."""
    folder = tmp_path_factory.mktemp("fits")
    old, new = folder / "old", folder / "new"
    Fit(command(films, old, "--set", f"n_components={OLD}"), old, environ).end()
    fit = Fit(command(films, new), new, environ)
    fit.wait_until(fit.has_checkpoint)
    began = time.perf_counter()
    assert fit.end()[0] == 0
    return {"old": old, "new": new, "seconds": time.perf_counter() - began}


def assert_consistent(output: Path, fits: dict[str, Any]) -> None:
    """Check that the model is the old or the new one, and that a checkpoint can be read."""
    model = PMvGE.load(output)
    same = PMvGE.load(fits["old" if model.n_components == OLD else "new"])
    for view, Y in same.embeddings_.items():
        np.testing.assert_array_equal(model.embeddings_[view], Y)
    if storage.exists(output / "checkpoint", "checkpoint"):
        assert saved_seed(output / "checkpoint") == 0


def assert_same(output: Path, expected: Path) -> None:
    """Check that embeddings and weights are equal bit for bit."""
    model, other = PMvGE.load(output), PMvGE.load(expected)
    assert model.n_components == NEW
    for view, Y in other.embeddings_.items():
        np.testing.assert_array_equal(model.embeddings_[view], Y)
    files = [{path.name for path in folder.glob("weights-*")} for folder in (output, expected)]
    assert files[0] == files[1]  # the names contain a hash of the content


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name
)
def test_a_fit_that_is_stopped_and_resumed_ends_as_an_uninterrupted_one(
    films, fits, tmp_path, environ, capsys, number
):
    rng = random.Random(int(number))
    output = tmp_path / "model"
    signals, saving, ends = 0, 0, 0
    for _ in range(4 * SIGNALS):  # some fits end before the signal is sent
        if signals == SIGNALS and ends:
            break
        if not output.exists():
            shutil.copytree(fits["old"], output)
        fit = Fit(command(films, output, "--resume"), output, environ)
        if signals < SIGNALS:
            if signals % 4 == 3 and number == signal.SIGKILL:  # while it imports or reads
                time.sleep(rng.uniform(0, 2 * fits["seconds"]))
            else:
                fit.wait_until(fit.has_checkpoint)
            if signals % 3 == 2:
                fit.wait_until(fit.has_new_files)
                time.sleep(rng.uniform(0, 0.03))
            else:  # after a part of the training: a fit needs several attempts
                time.sleep(rng.uniform(0, 0.5) * fits["seconds"])
            was_saving = fit.is_saving()
            fit.process.send_signal(number)
        code, err = fit.end()
        assert_consistent(output, fits)
        if code:
            signals, saving = signals + 1, saving + was_saving
            assert code == -number or (code == 130 and number != signal.SIGKILL), err
            explained = "with --resume to continue" in err or "model is complete" in err
            if number != signal.SIGKILL and not explained:  # the signal came as Python shut down
                assert_same(output, fits["new"])
            assert "Traceback" not in err
        else:
            ends += 1
            assert_same(output, fits["new"])
            left = [path.name for path in output.iterdir() if "partial" in path.name]
            assert not left  # partial files of killed fits are removed
            shutil.rmtree(output)  # start again from the old model
    assert signals == SIGNALS
    with capsys.disabled():
        counts = f"{signals} times {number.name}, {saving} of them while saving; {ends} fits ended"
        sys.stdout.write(f"\n{counts}: ")


def mount(*words: str) -> bool:
    """Return whether a file system could be mounted."""
    if os.geteuid():
        return False
    return subprocess.run(["mount", *words], capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 300 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)):
        pytest.skip("a small file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def read_only(fits, tmp_path):
    """A read-only folder with the old model."""
    folder = shutil.copytree(fits["old"], tmp_path / "model")
    if os.geteuid():
        folder.chmod(0o500)
        yield folder
        folder.chmod(0o700)
        return
    if not mount("--bind", str(folder), str(folder)):
        pytest.skip("root can write to any folder, and no file system can be mounted here")
    assert mount("-o", "remount,ro,bind", str(folder))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_read_only_folder_is_an_error_and_stays_unchanged(films, read_only, environ):
    files = {path.name: path.read_bytes() for path in read_only.iterdir()}
    done = subprocess.run(command(films, read_only), env=environ, capture_output=True, text=True)
    assert done.returncode == 2
    assert str(read_only) in done.stderr
    assert "Traceback" not in done.stderr
    assert {path.name: path.read_bytes() for path in read_only.iterdir()} == files
    assert PMvGE.load(read_only).n_components == OLD


@pytest.mark.slow
def test_a_full_disk_is_an_error_and_the_old_model_stays(films, small_disk, environ):
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
