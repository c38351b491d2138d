"""The fuzzing framework itself: failures are detected, inputs are reproducible."""

from __future__ import annotations

import hashlib
import json
import random
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from fuzzing import outcome as outcomes
from fuzzing.mutation import MUTATIONS, mutate, mutate_json
from fuzzing.outcome import run_case
from fuzzing.target import Case, Target
from fuzzing.targets import TARGETS
from fuzzing.targets.folders import repair
from fuzzing.worker import Worker

from pmvge.errors import InputError, PmvgeError

pytestmark = pytest.mark.slow  # starts worker processes


def outcome_of(read, seed=0):
    target = Target("x", lambda folder: (folder / "a.txt").write_text("1 2 3"), read)
    return run_case(Case.of(target, seed))


def refuse(message):
    def read(folder, output):
        raise InputError(message)

    return read


class Lines(PmvgeError):
    def __str__(self):
        return "one\ntwo"


def several_lines(folder, output):
    raise Lines


def traceback(folder, output):
    raise KeyError("seed")


def wrong_result(folder, output):
    raise AssertionError("NaN")


def write_to_input(folder, output):
    (folder / "new.txt").write_text("x")


def change_input(folder, output):
    time.sleep(0.01)
    (folder / "a.txt").write_text("other")


def write_home(folder, output):
    (Path.home() / "cache").mkdir()


def leave_partial_file(folder, output):
    (output / ".x.partial").write_text("x")


def slow(folder, output):
    while True:
        try:
            sum(range(1000))
        except Exception:
            continue


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (traceback, "KeyError: 'seed'"),
        (wrong_result, "AssertionError: NaN"),
        (refuse(""), "InputError without a message"),
        (refuse("x" * 3000), "a message of 3000 characters"),
        (several_lines, "a message of several lines"),
        (write_to_input, "files were written outside the output"),
        (change_input, "files were written outside the output"),
        (write_home, "files were written outside the output"),
        (leave_partial_file, "files were written outside the output"),
        (slow, "more than 0.2 s"),
    ],
)
def test_forbidden_behaviour_is_a_failure(read, says, monkeypatch):
    monkeypatch.setattr(outcomes, "MAX_SECONDS", 0.2 if read is slow else 10)
    outcome = outcome_of(read)
    assert outcome.kind == "failed"
    assert says in outcome.message


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak cannot be reset")
def test_the_memory_peak_can_be_reset():
    outcomes._reset_peak()
    start = outcomes._peak()
    large = np.ones(25_000_000)
    assert outcomes._peak() - start > 150
    del large
    outcomes._reset_peak()
    assert outcomes._peak() - start < 50


def test_too_much_memory_is_a_failure(monkeypatch):
    for most, kind in ((600.0, "accepted"), (700.0, "failed")):
        peaks = iter((100.0, most))
        monkeypatch.setattr(outcomes, "_peak", lambda peaks=peaks: next(peaks))
        outcome = outcome_of(lambda folder, output: None)
        assert outcome.kind == kind
        assert (kind == "failed") == ("it took 600 MB more" in outcome.message)


def test_accepted_and_refused_inputs_are_no_failures():
    assert outcome_of(lambda folder, output: (output / "x").write_text("x")).kind == "accepted"
    refused = outcome_of(refuse("a.txt: expected 1"))
    assert (refused.kind, refused.message) == ("refused", "a.txt: expected 1")


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_change_bytes_and_are_reproducible(name):
    data = b'{"a": [1, 2.5], "b": "text"}\nmore, 17\n'
    for text in (data, b"", b"x"):
        found = [MUTATIONS[name](random.Random(k), text, b"other\n") for k in range(20)]
        assert found == [MUTATIONS[name](random.Random(k), text, b"other\n") for k in range(20)]
        assert text != data or sum(changed != text for changed in found) > 10


def test_mutations_are_combined():
    changed, names = mutate(random.Random(1), b"1,2\n3,4\n", b"5,6\n")
    assert changed != b"1,2\n3,4\n"
    assert set(names) <= set(MUTATIONS)


def test_mutated_json_is_valid_json():
    text = json.dumps({"a": [1, {"b": None}], "c": {"d": 2.5, "e": []}}).encode()
    found = [mutate_json(random.Random(k), text)[0] for k in range(200)]
    assert sum(json.loads(changed) != json.loads(text) for changed in found) > 150
    assert len({*found}) > 100


@pytest.mark.parametrize("name", TARGETS)
def test_a_seed_gives_the_same_input(name):
    target = TARGETS[name]
    first, second = Case.of(target, 5), Case.of(target, 5)
    assert first.files == second.files
    assert first.changes == second.changes
    different = [Case.of(target, seed).files for seed in range(8)]
    assert sum(files != dict(target.valid) for files in different) >= 6


def test_a_repaired_manifest_has_valid_checksums():
    files = dict(TARGETS["model.json"].valid)
    name = next(name for name in files if name.startswith("weights"))
    files[name] += b"more"
    repair("model")(files)
    manifest = json.loads(files["model.json"])
    entry = manifest["files"]["weights.safetensors"]
    assert entry["sha256"] == hashlib.sha256(files[name]).hexdigest()
    assert entry["bytes"] == len(files[name])
    checksum = manifest.pop("checksum")
    text = json.dumps(manifest, sort_keys=True)
    assert checksum == hashlib.sha256(text.encode()).hexdigest()


def test_a_crash_is_a_failure_and_the_process_is_restarted():
    with closing(Worker()) as worker:
        assert worker.run("cora", 0).kind in ("accepted", "refused")
        assert worker.process is not None
        worker.process.kill()
        worker.process.wait()
        assert worker.run("cora", 1).kind == "failed"
        assert worker.run("cora", 1).kind in ("accepted", "refused")
