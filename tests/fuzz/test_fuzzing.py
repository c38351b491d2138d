"""The judge is judged: what fails must be seen to fail."""

from __future__ import annotations

import hashlib
import json
import random
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from fuzzing import judge as judging
from fuzzing.judge import judge
from fuzzing.mutation import MUTATIONS, mutate, mutate_json
from fuzzing.target import Case, Target
from fuzzing.targets import TARGETS
from fuzzing.targets.folders import repair
from fuzzing.worker import Worker

from pmvge.errors import InputError, PmvgeError


def outcome_of(read, seed=0):
    target = Target("x", lambda folder: (folder / "a.txt").write_text("1 2 3"), read)
    return judge(Case.of(target, seed))


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


def senseless(folder, output):
    raise AssertionError("NaN")


def write_beside(folder, output):
    (folder / "new.txt").write_text("x")


def change(folder, output):
    time.sleep(0.01)
    (folder / "a.txt").write_text("other")


def write_home(folder, output):
    (Path.home() / "cache").mkdir()


def leave_half(folder, output):
    (output / ".x.partial").write_text("x")


def slow(folder, output):
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            continue


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (traceback, "KeyError: 'seed'"),
        (senseless, "AssertionError: NaN"),
        (refuse(""), "InputError without a message"),
        (refuse("x" * 3000), "a message of 3000 letters"),
        (several_lines, "a message of several lines"),
        (write_beside, "files were written outside the output"),
        (change, "files were written outside the output"),
        (write_home, "files were written outside the output"),
        (leave_half, "files were written outside the output"),
        (slow, "more than 0.2 s"),
    ],
)
def test_what_is_wrong_is_a_failure(read, says, monkeypatch):
    monkeypatch.setattr(judging, "SECONDS", 0.2 if read is slow else 10)
    outcome = outcome_of(read)
    assert outcome.kind == "failed"
    assert says in outcome.message


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="a peak stays for ever here")
def test_an_earlier_peak_hides_nothing():
    judging._forget_peak()
    start = judging._peak()
    large = np.ones(25_000_000)
    assert judging._peak() - start > 150
    del large
    judging._forget_peak()
    assert judging._peak() - start < 50


def test_an_input_that_takes_a_lot_of_memory_is_a_failure(monkeypatch):
    for most, kind in ((600.0, "accepted"), (700.0, "failed")):
        peaks = iter((100.0, most))
        monkeypatch.setattr(judging, "_peak", lambda peaks=peaks: next(peaks))
        outcome = outcome_of(lambda folder, output: None)
        assert outcome.kind == kind
        assert (kind == "failed") == ("it took 600 MB more" in outcome.message)


def test_what_is_right_is_none():
    assert outcome_of(lambda folder, output: (output / "x").write_text("x")).kind == "accepted"
    refused = outcome_of(refuse("a.txt: expected 1"))
    assert (refused.kind, refused.message) == ("refused", "a.txt: expected 1")


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_mutation_changes_something_and_the_same_for_the_same_seed(name):
    data = b'{"a": [1, 2.5], "b": "text"}\nmore, 17\n'
    for text in (data, b"", b"x"):
        found = [MUTATIONS[name](random.Random(k), text, b"other\n") for k in range(20)]
        assert found == [MUTATIONS[name](random.Random(k), text, b"other\n") for k in range(20)]
        assert text != data or sum(one != text for one in found) > 10


def test_some_changes_together():
    changed, names = mutate(random.Random(1), b"1,2\n3,4\n", b"5,6\n")
    assert changed != b"1,2\n3,4\n"
    assert set(names) <= set(MUTATIONS)


def test_json_stays_json():
    text = json.dumps({"a": [1, {"b": None}], "c": {"d": 2.5, "e": []}}).encode()
    found = [mutate_json(random.Random(k), text)[0] for k in range(200)]
    assert sum(json.loads(one) != json.loads(text) for one in found) > 150
    assert len({*found}) > 100


@pytest.mark.parametrize("name", TARGETS)
def test_a_seed_gives_the_same_input(name):
    target = TARGETS[name]
    one, two = Case.of(target, 5), Case.of(target, 5)
    assert one.files == two.files
    assert one.told == two.told
    different = [Case.of(target, seed).files for seed in range(8)]
    assert sum(files != dict(target.valid) for files in different) >= 6


def test_a_repaired_manifest_fits_its_files():
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


def test_a_process_that_dies_is_a_failure_and_the_next_input_gets_another():
    with closing(Worker()) as worker:
        assert worker.run("cora", 0).kind in ("accepted", "refused")
        assert worker.process is not None
        worker.process.kill()
        worker.process.wait()
        assert worker.run("cora", 1).kind == "failed"
        assert worker.run("cora", 1).kind in ("accepted", "refused")
