"""Schedules: factors, phases, stalls, the end, and what a resumed run needs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmvge import MultiViewGraph, PMvGE
from pmvge.training import SCHEDULES, Constant, Decay, make_schedule
from pmvge.training.schedule import WARM_UP, Cosine, StepDecay, WarmupHoldDecay


@given(st.integers(0, 999))
def test_a_constant_schedule(step):
    assert Constant(100).factor(step) == 1


@given(st.integers(0, 999), st.integers(1, 200), st.floats(0.1, 1))
def test_a_step_schedule_multiplies_the_rate_every_decay_every_steps(step, every, factor):
    expected = 1.0
    for _ in range(every, step + 1, every):
        expected *= factor
    made = StepDecay(100, None, decay_every=every, decay_factor=factor)
    assert made.factor(step) == pytest.approx(expected)


@given(st.integers(1, 1000), st.integers(0, 1000))
def test_a_cosine_schedule_falls_from_the_rate_to_zero(max_steps, step):
    made = Cosine(max_steps)
    at = made.factor(min(step, max_steps))
    assert at == pytest.approx(math.cos(math.pi / 2 * min(step, max_steps) / max_steps) ** 2)
    assert made.factor(max_steps) == pytest.approx(0, abs=1e-12)


@given(st.integers(1, 1000))
def test_a_decay_falls_in_equal_steps_to_zero(max_steps):
    made = Decay(max_steps)
    rates = [made.factor(step) for step in range(max_steps)]
    assert all(0 < rate < 1 for rate in rates)
    np.testing.assert_allclose(np.diff([1, *rates, 0]), -1 / (max_steps + 1))
    made.check(max_steps // 2, 100)  # no validation changes it
    assert made.end == max_steps
    assert made.length_is_known
    assert {made.phase(step) for step in range(1, max_steps + 1)} == {"decay"}


# -- warm-up, hold, decay -------------------------------------------------------------------


def factors(schedule):
    return [schedule.factor(step) for step in range(schedule.end)]


@given(st.integers(1, 3000))
def test_without_a_stall_the_decay_ends_at_the_longest_training(max_steps):
    made = WarmupHoldDecay(max_steps, 5)
    rates = factors(made)
    start = made.decay_from
    assert made.end == max_steps
    assert start + made.decay_share * start == pytest.approx(max_steps, abs=1.5)
    assert all(0 < rate <= 1 for rate in rates)
    assert made.factor(max_steps) == 0
    warm = [(step + 1) / (WARM_UP + 1) for step in range(min(WARM_UP, start))]
    assert rates[: len(warm)] == pytest.approx(warm)
    assert rates[len(warm) : start] == [1.0] * (start - len(warm))
    decay = [1.0, *rates[start:], 0.0]  # equal steps from the full rate to 0
    np.testing.assert_allclose(np.diff(decay), -1 / (len(decay) - 1))


@given(st.integers(1, 2000), st.integers(1, 3000))
def test_after_a_stall_the_decay_lasts_half_of_the_steps_made(stall, max_steps):
    made = WarmupHoldDecay(max_steps, 3)
    latest = made.decay_from
    made.check(stall, 2)
    assert made.end == max_steps  # not yet
    made.check(stall, 3)
    if stall >= latest:
        assert (made.decay_from, made.end, made.length_is_known) == (latest, max_steps, False)
        return
    assert made.length_is_known
    assert made.decay_from == stall
    assert made.end == stall + math.ceil(stall / 2) <= max_steps
    made.check(stall + 1, 9)  # a second stall changes nothing
    assert made.decay_from == stall


def test_phases():
    made = WarmupHoldDecay(300, 5)
    assert [made.phase(step) for step in (1, 20, 21, 200, 201, 300)] == [
        "warm-up", "warm-up", "hold", "hold", "decay", "decay",
    ]  # fmt: skip


def test_the_state_holds_a_stall_only():
    made, resumed = WarmupHoldDecay(300, 5), WarmupHoldDecay(300, 5)
    resumed.restore(made.state())
    assert factors(resumed) == factors(made)
    made.check(100, 5)
    resumed.restore(made.state())
    assert factors(resumed) == factors(made)
    assert resumed.end == 150
    assert resumed.length_is_known
    with pytest.raises(ValueError, match="decay"):
        resumed.restore({"decay_from": 9, "end": 3})


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize(("patience", "validated"), [(None, False), (5, False), (5, True)])
def test_auto_is_a_cosine_without_validation(name, patience, validated):
    made = make_schedule(name, 100, patience, validated=validated, decay_every=10, decay_factor=0.5)
    kinds = {"constant": Constant, "step": StepDecay, "cosine": Cosine}
    kind = kinds.get(name, WarmupHoldDecay if validated else Cosine)
    assert type(made) is kind
    assert made.keeps_best == (kind is not WarmupHoldDecay)
    if kind is Cosine:
        assert made.factor(0) == (1 if name == "cosine" else 1 / (WARM_UP + 1))


# -- in a fit -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph():
    """Links by chance: validation stalls at once."""
    rng = np.random.default_rng(0)
    W = rng.poisson(0.3, size=(60, 40))
    views = {"a": rng.normal(size=(60, 4)), "b": rng.normal(size=(40, 3))}
    return MultiViewGraph(views, {("a", "b"): W})


def fit(graph, **settings):
    given = {"n_components": 4, "hidden_sizes": (8,), "batch_size": 32, "max_steps": 600}
    return PMvGE(**given | settings, random_state=0, progress=False).fit(graph)


def test_a_fit_decays_after_a_stall_and_keeps_the_end(graph):
    model = fit(graph, schedule="auto", learning_rate=0.01, patience=2)
    history = model.history_
    best = np.argmax([record.validation for record in history])
    stall = next(k for k, r in enumerate(history) if r.phase == "decay") - 1
    assert stall == best + 2  # checks without improvement
    assert history[-1].step == math.ceil(1.5 * history[stall].step)
    assert history.kept == history[-1]
    assert history[-1].learning_rate < 0.001
    assert [r.learning_rate for r in history][1 : stall + 1] == [0.01] * stall


def test_the_end_of_the_decay_does_not_depend_on_what_was_best(graph, monkeypatch):
    """The weights at the end are kept, and no copy of the best ones is made."""
    from pmvge.training import Trainer

    trainers = []
    run = Trainer.run

    def spy(self):
        trainers.append(self)
        return run(self)

    monkeypatch.setattr(Trainer, "run", spy)
    fit(graph, schedule="auto", patience=2)
    assert trainers[0].best_weights == {}


def test_without_held_out_links_the_rate_is_a_cosine_with_warm_up(graph):
    history = fit(graph, schedule="auto", learning_rate=0.01, patience=None).history_
    assert history[-1].step == 600
    assert {record.phase for record in history} == {""}
    assert history[0].learning_rate > history[-1].learning_rate
    assert history[-1].learning_rate == pytest.approx(
        0.005 * (1 + math.cos(math.pi * 599 / 600)), rel=1e-6
    )
