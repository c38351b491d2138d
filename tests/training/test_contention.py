"""Spinning is throttled while the machine is busy, and results do not depend on it."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
import torch

from pmvge import MultiViewGraph, PMvGE
from pmvge.training import contention
from pmvge.training.contention import IdleTeams, SpinThrottle, Usage, is_contended


class Machine:
    """A clock and counters that a test moves forward."""

    def __init__(self):
        self.now = Usage(100.0, 0.0, 0)

    def run(self, seconds, *, share, preemptions, threads=2):
        wall, cpu, count = self.now
        self.now = Usage(wall + seconds, cpu + seconds * share * threads, count + preemptions)

    def monotonic(self):
        return self.now.wall


@pytest.fixture
def machine(monkeypatch):
    """A machine with two threads on two cores, whose idle teams are only counted."""
    simulated = Machine()
    monkeypatch.setattr(contention, "usage", lambda: simulated.now)
    monkeypatch.setattr(contention, "time", simulated)
    monkeypatch.setattr(contention, "applies", lambda: True)
    monkeypatch.setattr(contention.torch, "get_num_threads", lambda: 2)
    return simulated


def owners():
    return [t for t in threading.enumerate() if t.name == "pmvge-idle-team"]


@pytest.mark.parametrize(
    ("share", "preemptions", "expected"),
    [(0.99, 60, False), (0.5, 250, True), (0.08, 41, True), (0.5, 10, False), (0.99, 500, False)],
    ids=["quiet", "busy", "starved", "waiting for a disk", "all cores in spite of preemptions"],
)
def test_contention_is_little_cpu_time_and_many_preemptions(share, preemptions, expected):
    before = Usage(5.0, 2.0, 30)
    after = Usage(6.0, 2.0 + 2 * share, 30 + preemptions)
    assert is_contended(before, after, 2) is expected


def test_a_quiet_machine_is_left_alone(machine):
    with SpinThrottle() as throttle:
        for _ in range(20):
            machine.run(0.1, share=0.99, preemptions=2)
            throttle.check()
            assert not throttle.active
    assert not owners()


def test_a_busy_machine_is_throttled_until_it_is_measured_again(machine):
    with SpinThrottle() as throttle:
        machine.run(0.1, share=0.5, preemptions=30)
        throttle.check()
        assert not throttle.active  # too early to measure
        machine.run(0.2, share=0.5, preemptions=60)
        throttle.check()
        assert throttle.active
        assert len(owners()) >= 1
        machine.run(contention.HOLD / 2, share=0.4, preemptions=0)
        throttle.check()
        assert throttle.active
        machine.run(contention.HOLD, share=0.4, preemptions=0)
        throttle.check()
        assert not throttle.active
        assert not owners()
        machine.run(1.0, share=0.5, preemptions=300)
        throttle.check()
        assert throttle.active
    assert not throttle.active
    assert not owners()


def test_an_error_ends_the_throttle(machine):
    def fail():
        with SpinThrottle() as throttle:
            machine.run(1.0, share=0.5, preemptions=300)
            throttle.check()
            assert owners()
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert not owners()


@pytest.mark.parametrize("name", contention.SETTINGS)
def test_settings_of_the_user_are_respected(monkeypatch, name):
    monkeypatch.setattr(contention.torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(contention, "threadpool_info", lambda: [{"prefix": "libgomp"}])
    for other in contention.SETTINGS:
        monkeypatch.delenv(other, raising=False)
    assert contention.applies()
    monkeypatch.setenv(name, "0")
    assert not contention.applies()


@pytest.mark.parametrize(("threads", "prefix"), [(1, "libgomp"), (4, "libomp")])
def test_one_thread_and_other_libraries_need_no_throttle(monkeypatch, threads, prefix):
    monkeypatch.setattr(contention.torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(contention, "threadpool_info", lambda: [{"prefix": prefix}])
    for name in contention.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    assert not contention.applies()


@pytest.mark.parametrize(
    ("threads", "cores", "teams"),
    [(2, 2, 1), (2, 8, 7), (8, 8, 1), (3, 8, 3), (2, 128, 0), (64, 128, 2)],
)
def test_there_are_more_threads_than_cores_but_not_too_many(threads, cores, teams, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)), raising=False)
    assert contention.n_idle_teams(threads) == teams
    if teams:
        assert threads + teams * (threads - 1) > cores


def test_without_affinity_all_cores_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert contention.n_idle_teams(2) == 3


def test_teams_end_when_they_are_closed():
    teams = IdleTeams(3)
    assert len(owners()) == 3
    teams.close()
    assert not owners()


def failing_start(error, after):
    """Return a ``Thread.start`` that fails from the given call on."""
    calls, start = [], threading.Thread.start

    def fail(thread):
        calls.append(thread)
        if len(calls) > after:
            raise error
        start(thread)

    return fail


def test_threads_that_cannot_be_started_are_done_without(monkeypatch):
    error = RuntimeError("can't start new thread")
    monkeypatch.setattr(threading.Thread, "start", failing_start(error, 1))
    teams = IdleTeams(3)
    assert not owners()
    teams.close()


def test_an_interrupt_while_teams_start_leaves_no_thread(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", failing_start(KeyboardInterrupt(), 2))
    with pytest.raises(KeyboardInterrupt):
        IdleTeams(3)
    for owner in owners():
        owner.join()
    assert not owners()


def test_the_real_counters_grow():
    before = contention.usage()
    sum(range(2_000_000))
    after = contention.usage()
    assert after.wall > before.wall
    assert after.cpu > before.cpu
    assert after.preemptions >= before.preemptions


def test_a_throttled_fit_has_the_same_bits(monkeypatch):
    rng = np.random.default_rng(0)
    links = (rng.integers(40, size=100), rng.integers(30, size=100))
    graph = MultiViewGraph({"a": rng.normal(size=(40, 5)), "b": 30}, {("a", "b"): links})

    def fit():
        settings = {"max_steps": 30, "batch_size": 16, "random_state": 0, "progress": False}
        return PMvGE(4, **settings).fit(graph).embeddings_

    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        usual = fit()
        teams = []

        class Counted(IdleTeams):
            def __init__(self, n_teams):
                teams.append(n_teams)
                super().__init__(n_teams)

        monkeypatch.setattr(contention, "IdleTeams", Counted)
        monkeypatch.setattr(contention, "WINDOW", 0.0)
        monkeypatch.setattr(contention, "is_contended", lambda *_: True)
        for name in contention.SETTINGS:
            monkeypatch.delenv(name, raising=False)
        expected = [contention.n_idle_teams(2)] if contention.applies() else []
        throttled = fit()
    finally:
        torch.set_num_threads(threads)
    assert teams == expected
    for view, Y in usual.items():
        np.testing.assert_array_equal(throttled[view], Y)
