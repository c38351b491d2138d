"""``pmvge`` itself: help, version, errors, exit codes and interrupts."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import pmvge
from pmvge import PMvGE
from pmvge.errors import StorageError

COMMANDS = ("init", "fit", "tune", "embed", "search", "evaluate", "inspect", "report", "methods",
            "reproduce", "demo")  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_shows_an_example(run, command):
    printed = " ".join(run(command, "--help").out.split())
    assert f"Example: pmvge {command}" in printed


@pytest.mark.parametrize("command", ["list", "download", "describe"])
def test_every_help_of_datasets_shows_an_example(run, command):
    printed = " ".join(run("datasets", command, "--help").out.split())
    assert f"Example: pmvge datasets {command}" in printed


def test_help_lists_every_command(run):
    printed = run("--help").out
    for command in (*COMMANDS, "datasets"):
        assert f" {command} " in printed


def test_the_version_is_that_of_the_package(run):
    assert run("--version").out == f"{pmvge.__version__}\n"


# -- imports ---------------------------------------------------------------------------------------

HEAVY = ("torch", "numpy", "sklearn", "scipy", "duckdb", "pyarrow", "plotly", "pandas")
LIGHT = {  # words -> exit code
    ("--version",): 0,
    ("--help",): 0,
    **{(command, "--help"): 0 for command in (*COMMANDS, "datasets")},
    ("fti",): 2,
    ("fit", "--outptu", "x"): 2,
    ("datasets", "downlaod"): 2,
    ("search", "model"): 2,
}
IMPORTED = """
import json, sys
from pathlib import Path
from pmvge.__main__ import main

results = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["pmvge", *words]
    try:
        main()
    except SystemExit as end:
        results.append((end.code, [name for name in {heavy} if name in sys.modules]))
Path({path!r}).write_text(json.dumps(results))
"""


def test_help_version_and_typing_errors_import_no_heavy_library(environ, tmp_path):
    path = tmp_path / "imported.json"
    script = IMPORTED.format(heavy=HEAVY, path=str(path))
    words = json.dumps(list(LIGHT))
    done = subprocess.run(
        [sys.executable, "-c", script, words], env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "No such command 'fti'" in done.stderr
    assert "No such option: --outptu" in done.stderr
    assert json.loads(path.read_text()) == [[code, []] for code in LIGHT.values()]


# -- errors ----------------------------------------------------------------------------------------


def test_a_user_error_is_one_line_and_exit_code_2(shell, tmp_path):
    done = shell("search", tmp_path, "--view", "a", "--among", "b")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "pmvge: pass exactly one of --id, --rows and --all\n"


@pytest.mark.parametrize("position", [0, 1, 2])
def test_debug_raises_the_error_at_any_position(main, tmp_path, position):
    words = ["inspect", str(tmp_path)]
    with pytest.raises(StorageError, match="not a pmvge model"):
        main(*words[:position], "--debug", *words[position:])


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (MemoryError(), "MemoryError"),
        (torch.OutOfMemoryError("CUDA out of memory."), "CUDA out of memory."),
        (pmvge.PmvgeError("two\nlines  of it"), "two lines of it"),
    ],
)
def test_system_errors_are_one_line(refused, model, monkeypatch, error, line):
    def load(folder):
        raise error

    monkeypatch.setattr(PMvGE, "load", load)
    assert refused("inspect", model) == line


@pytest.mark.parametrize("message", ["can't allocate memory", "a bug"])
def test_runtime_errors_are_raised_with_a_note_on_memory(main, model, monkeypatch, message):
    """The message decides nothing: torch raises the same class for both."""

    def load(folder):
        raise RuntimeError(message)

    monkeypatch.setattr(PMvGE, "load", load)
    with pytest.raises(RuntimeError, match=message) as caught:
        main("inspect", model)
    assert [note[:33] for note in caught.value.__notes__] == ["If memory could not be allocated,"]


def test_programming_errors_are_raised(main, model, monkeypatch):
    def load(folder):
        raise ZeroDivisionError

    monkeypatch.setattr(PMvGE, "load", load)
    with pytest.raises(ZeroDivisionError):
        main("inspect", model)


def test_an_unknown_option_is_exit_code_2(main):
    printed = main("fit", "--nonsense")
    assert printed.code == 2
    assert printed.err == "pmvge: No such option: --nonsense\n"


# -- interrupts ------------------------------------------------------------------------------------


def wait_for(condition, process):
    end = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_fit_says_how_to_resume_and_resumes(films, tmp_path, environ, run, number):
    output = tmp_path / "model"
    fit = ["fit", str(films / "pmvge.toml"), "-o", str(output), "--set", "n_components=8"]
    # The rate must not depend on max_steps, which changes below.
    fit += ["--set", "patience=none", "--set", "checkpoint_steps=30", "--set", "schedule=constant"]
    # Shells start background jobs with SIGINT ignored; SIGTERM must work nevertheless.
    sigint = signal.default_int_handler if number == signal.SIGINT else signal.SIG_IGN
    process = subprocess.Popen(
        [sys.executable, "-m", "pmvge", *fit, "--set", "max_steps=1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        preexec_fn=lambda: signal.signal(signal.SIGINT, sigint),
    )
    checkpoint = output / "checkpoint"
    wait_for((checkpoint / "checkpoint.json").exists, process)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    kept = json.loads((checkpoint / "checkpoint.json").read_text())
    message = f"The checkpoint is in {checkpoint}; run the same command with --resume to continue"
    assert f"Stopped. There is no model of this fit yet. {message}, or with --resume" in err
    assert f"--set max_steps={kept['step'] + 1} to make a model of what was learned" in err
    assert "Traceback" not in err
    assert not (output / "model.json").exists()
    assert kept["step"] >= 30

    # The resumed fit starts with the records of the checkpoint, wall-clock times included.
    until = kept["step"] + 10
    printed = run(*fit, "--set", f"max_steps={until}", "--resume", "--json")
    assert json.loads(printed.out)["steps"] == until
    assert not checkpoint.exists()
    resumed = PMvGE.load(output)
    assert resumed.history_.to_records()[: len(kept["history"])] == kept["history"]
    run(*fit, "-o", tmp_path / "uninterrupted", "--set", f"max_steps={until}")
    uninterrupted = PMvGE.load(tmp_path / "uninterrupted")
    for view, vectors in uninterrupted.embeddings_.items():
        np.testing.assert_allclose(resumed.embeddings_[view], vectors, atol=1e-5)


def test_an_interrupt_before_the_first_checkpoint_says_so(
    films, tmp_path, own_model, run, monkeypatch
):
    def fit(self, *arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(PMvGE, "fit", fit)
    printed = run("fit", films / "pmvge.toml", "-o", tmp_path / "new", code=130)
    assert "Stopped. No checkpoint was written. There is no model of this fit." in printed.err
    assert "earlier fit" not in printed.err
    printed = run("fit", films / "pmvge.toml", "-o", own_model, code=130)
    assert f"{own_model} has the model of an earlier fit." in printed.err


def test_resume_refuses_other_data_or_settings(films, tmp_path, refused, run, monkeypatch):
    from pmvge.training import Trainer

    fit = ("fit", films / "pmvge.toml", "-o", tmp_path, "--set", "max_steps=20")
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_step", interrupt_after(3, Trainer.train_step))
        run(*fit, "--set", "n_components=8", "--set", "checkpoint_steps=1", code=130)
    message = refused(*fit, "--set", "n_components=9", "--resume")
    assert f"{tmp_path / 'checkpoint'}: the interrupted fit had other data or" in message
    assert "run without --resume to start a new fit" in message
    assert (tmp_path / "checkpoint" / "checkpoint.json").exists()
    run(*fit, "--set", "n_components=9")
    assert PMvGE.load(tmp_path).n_components == 9


def interrupt_after(calls, usual):
    left = iter(range(calls))

    def step(self, batch):
        if next(left, None) is None:
            raise KeyboardInterrupt
        usual(self, batch)

    return step
