"""``pmvge`` itself: help, versions, and how errors and interruptions end a process."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import pmvge
from pmvge import PMvGE

COMMANDS = ("init", "fit", "tune", "embed", "search", "evaluate", "inspect", "report", "demo")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_shows_an_example(run, command):
    said = " ".join(run(command, "--help").out.split())
    assert f"Example: pmvge {command}" in said


@pytest.mark.parametrize("command", ["list", "download", "describe"])
def test_every_help_of_datasets_shows_an_example(run, command):
    said = " ".join(run("datasets", command, "--help").out.split())
    assert f"Example: pmvge datasets {command}" in said


def test_help_lists_every_command(run):
    said = run("--help").out
    for command in (*COMMANDS, "datasets"):
        assert f" {command} " in said


def test_the_version_is_that_of_the_package(run):
    assert run("--version").out == f"{pmvge.__version__}\n"


# -- errors ----------------------------------------------------------------------------------------


def test_what_a_user_can_mend_is_one_line_and_exit_code_2(shell, tmp_path):
    done = shell("inspect", tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"pmvge: {tmp_path}: not a pmvge model: there is no model.json\n"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_debug_shows_the_traceback_wherever_it_stands(shell, tmp_path, place):
    words = ["inspect", str(tmp_path)]
    done = shell(*words[:place], "--debug", *words[place:])
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "StorageError" in done.stderr


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (MemoryError(), "MemoryError"),
        (pmvge.PmvgeError("two\nlines  of it"), "two lines of it"),
    ],
)
def test_errors_of_the_machine_are_one_line_too(refused, model, monkeypatch, error, line):
    def load(folder):
        raise error

    monkeypatch.setattr(PMvGE, "load", load)
    assert refused("inspect", model) == line


def test_errors_of_ours_are_not_hidden(main, model, monkeypatch):
    def load(folder):
        raise ZeroDivisionError

    monkeypatch.setattr(PMvGE, "load", load)
    with pytest.raises(ZeroDivisionError):
        main("inspect", model)


def test_what_is_not_an_option_is_exit_code_2(main):
    said = main("fit", "--nonsense")
    assert said.code == 2
    assert said.err == "pmvge: No such option: --nonsense\n"


# -- Ctrl-C ----------------------------------------------------------------------------------------


def wait_for(condition, process):
    end = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_fit_says_how_to_go_on_and_goes_on(films, tmp_path, environ, run, number):
    output = tmp_path / "model"
    fit = ["fit", str(films / "pmvge.toml"), "-o", str(output), "--set", "n_components=8"]
    fit += ["--set", "patience=none", "--set", "checkpoint_steps=30"]
    # Scripts start jobs in the background with Ctrl-C ignored; SIGTERM must be heard all the same.
    heard = signal.default_int_handler if number == signal.SIGINT else signal.SIG_IGN
    process = subprocess.Popen(
        [sys.executable, "-m", "pmvge", *fit, "--set", "max_steps=1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        preexec_fn=lambda: signal.signal(signal.SIGINT, heard),
    )
    place = output / "checkpoint"
    wait_for((place / "checkpoint.json").exists, process)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    told = f"Stopped. What was learned so far is in {place}; the same command with --resume goes"
    assert told in err
    assert "Traceback" not in err
    assert not (output / "model.json").exists()
    kept = json.loads((place / "checkpoint.json").read_text())
    assert kept["step"] >= 30

    # Goes on: the records of before are those of the model, wall clock times included.
    until = kept["step"] + 10
    said = run(*fit, "--set", f"max_steps={until}", "--resume", "--json")
    assert json.loads(said.out)["steps"] == until
    assert not place.exists()
    resumed = PMvGE.load(output)
    assert resumed.history_.to_records()[: len(kept["history"])] == kept["history"]
    run(*fit, "-o", tmp_path / "whole", "--set", f"max_steps={until}")
    whole = PMvGE.load(tmp_path / "whole")
    for view, vectors in whole.embeddings_.items():
        np.testing.assert_allclose(resumed.embeddings_[view], vectors, atol=1e-5)


def test_an_interruption_before_the_training_promises_nothing(films, tmp_path, run, monkeypatch):
    def fit(self, *arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(PMvGE, "fit", fit)
    said = run("fit", films / "pmvge.toml", "-o", tmp_path / "model", code=130)
    assert "Stopped. Nothing of it was kept." in said.err


def test_resume_refuses_other_data_or_settings(films, tmp_path, refused, run, monkeypatch):
    from pmvge.training import Trainer

    fit = ("fit", films / "pmvge.toml", "-o", tmp_path, "--set", "max_steps=20")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_seconds", interrupt_after(3))
        run(*fit, "--set", "n_components=8", "--set", "checkpoint_steps=1", code=130)
    said = refused(*fit, "--set", "n_components=9", "--resume")
    assert f"{tmp_path / 'checkpoint'}: the fit that was interrupted had other data or" in said
    assert "without --resume a new one begins" in said
    assert (tmp_path / "checkpoint" / "checkpoint.json").exists()
    run(*fit, "--set", "n_components=9")
    assert PMvGE.load(tmp_path).n_components == 9


def interrupt_after(calls):
    left = iter(range(calls))

    def seconds(self):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return 0.0

    return seconds
