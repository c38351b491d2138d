"""Damaged files of every kind are accepted, or refused with a message.

``make fuzz`` reads twenty times as many, with other seeds.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from itertools import islice

import pytest
from fuzzing.plan import inputs
from fuzzing.target import Case
from fuzzing.targets import TARGETS
from fuzzing.worker import Worker

pytestmark = pytest.mark.slow  # hundreds of damaged files

INPUTS = 500
SEEDS = defaultdict(list)
for name, seed in islice(inputs([*TARGETS], 0), INPUTS):
    SEEDS[name].append(seed)


@pytest.fixture(scope="module")
def worker():
    """A child process, so that a crash does not end the tests."""
    with closing(Worker()) as worker:
        yield worker


@pytest.mark.parametrize("name", TARGETS)
def test_the_valid_input_is_accepted(name, worker):
    outcome = worker.run(name, None)
    assert outcome.kind == "accepted", outcome.message


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_are_accepted_or_refused(name, worker):
    for seed in SEEDS[name]:
        outcome = worker.run(name, seed)
        assert outcome.kind in ("accepted", "refused"), (
            f"python tests/fuzz/run.py --target {name!r} --seed {seed}\n"
            f"{Case.of(TARGETS[name], seed).changes}\n{outcome.message}"
        )


def test_every_target_gets_inputs():
    assert sum(map(len, SEEDS.values())) == INPUTS
    assert min(map(len, SEEDS.values())) >= 3
