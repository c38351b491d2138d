"""The training loop: steps, stopping, divergence, interrupts."""

import json
import math
import os
import re
import signal

import numpy as np
import pytest
import torch
from torch import nn

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import DivergedError
from pmvge.likelihoods import Loss
from pmvge.model.fitting import trainer as model_trainer
from pmvge.sampling import BatchStream
from pmvge.training import Checkpoints, Constant, Plan, Trainer
from pmvge.training.schedule import StepDecay

SIMILARITIES = {
    ("a", "c"): lambda: torch.tensor([[4.0, -2.0]]),
    ("a", "b"): lambda: torch.tensor([[3.0, 4.0], [-15.0, 0.0]]),
}


@pytest.fixture(scope="module")
def graph():
    """A graph of 60 links: with 20 links per step, an epoch has 3 steps."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 4)), rng.normal(size=(30, 3))
    order = np.argsort(-(a[:, :1] * b[:, 0] + 0.3 * rng.normal(size=(40, 30))).ravel())[:60]
    links = {("a", "b"): (order // 30, order % 30, rng.integers(1, 4, size=60))}
    return MultiViewGraph({"a": a, "b": b}, links)


def pmvge(**settings):
    defaults = {
        "hidden_sizes": (8,),
        "dropout": 0.0,
        "batch_size": 20,
        "max_steps": 30,
        "learning_rate": 0.01,
        "similarity": "inner",
        "random_state": 0,
        "progress": False,
    }
    return PMvGE(4, **defaults | settings)


def plan(made, **settings):
    defaults = {
        "steps_per_epoch": 10.0,
        "check_every": 25,
        "learning_rate": 0.1,
        "weight_decay": 0.0,
        "clip_norm": None,
    }
    return Plan(made, **defaults | settings)


def trainer(network, loss, validate=None, schedule=None, **settings):
    """A trainer that minimises ``loss()``, which does not depend on the batch."""
    return Trainer(
        network,
        lambda batch: Loss(loss(), SIMILARITIES),
        BatchStream(iter(int, 1), np.random.default_rng(0)),  # an infinite stream of zeros
        plan(schedule or Constant(100), **settings),
        validate=validate,
    )


# -- schedules in a fit ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("constant", [0.01] * 3),
        ("step", [0.01 * 0.5**2, 0.01 * 0.5**4, 0.01 * 0.5**7]),
        ("cosine", [0.005 * (1 + math.cos(math.pi * k / 75)) for k in (24, 49, 74)]),
    ],
)
def test_fit_follows_the_schedule(graph, schedule, rates):
    model = pmvge(schedule=schedule, decay_every=10, decay_factor=0.5, max_steps=75, patience=None)
    history = model.fit(graph).history_
    assert [record.step for record in history] == [25, 50, 75]
    np.testing.assert_allclose([record.learning_rate for record in history], rates)


# -- one step -------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_steps_equal_adam_with_decay_of_matrices_only(decay):
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    x, target = torch.randn(5, 3), torch.randn(5, 2)
    schedule = StepDecay(100, None, decay_every=2, decay_factor=0.5)
    loop = trainer(
        ours, lambda: ((ours(x) - target) ** 2).sum(), schedule=schedule, weight_decay=decay
    )
    adam = torch.optim.Adam(theirs.parameters())
    for rate in (0.1, 0.1, 0.05, 0.05, 0.025):
        loop.train_step(0)
        adam.param_groups[0]["lr"] = rate
        adam.zero_grad()
        ((theirs(x) - target) ** 2).sum().backward()
        theirs.weight.data *= 1 - rate * decay
        adam.step()
    torch.testing.assert_close(ours.weight, theirs.weight)
    torch.testing.assert_close(ours.bias, theirs.bias)
    assert loop.step == 5


@pytest.mark.parametrize(("clip_norm", "norm"), [(None, 50.0), (80.0, 50.0), (2.0, 2.0)])
def test_gradients_are_clipped_by_their_common_norm(clip_norm, norm):
    layer = nn.Linear(1, 1)
    loop = trainer(
        layer, lambda: 30 * layer.weight.sum() + 40 * layer.bias.sum(), clip_norm=clip_norm
    )
    loop.train_step(0)
    gradient = torch.stack([layer.weight.grad.sum(), layer.bias.grad.sum()])
    torch.testing.assert_close(gradient, torch.tensor([30.0, 40.0]) * norm / 50, rtol=1e-4, atol=0)


def test_a_single_row_in_a_batch_uses_running_statistics():
    # Two pairs without a common view, and one link and one uniform pair per batch: often one row.
    rng = np.random.default_rng(0)
    views = {view: rng.normal(size=(10, 3)) for view in "abcd"}
    links = {pair: (np.arange(10), np.arange(10)) for pair in (("a", "b"), ("c", "d"))}
    settings = {"scheme": "paper", "batch_size": 2, "batch_norm": True, "patience": None}
    model = pmvge(**settings).fit(MultiViewGraph(views, links))
    assert all(np.isfinite(Y).all() for Y in model.embeddings_.values())


def test_frozen_parameters_do_not_change(graph):
    module = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 4))
    module[0].requires_grad_(False)
    model = pmvge(encoder={"a": module}, patience=None, effects="none")
    x = torch.from_numpy(graph.views["a"].astype(np.float32))
    with torch.no_grad():
        hidden, before = module[0](x), module(x).numpy()
    after = model.fit(graph).embeddings_["a"]
    # The output is another linear map of the same hidden layer.
    design = np.column_stack([hidden.numpy(), np.ones(40)])
    residual = np.linalg.lstsq(design, after, rcond=None)[0]
    np.testing.assert_allclose(design @ residual, after, atol=1e-4)
    assert not np.allclose(after, before, atol=1e-2)


# -- length of training ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        ({"max_steps": 7, "max_epochs": None}, 7),
        ({"max_steps": None, "max_epochs": 4}, 12),
        ({"max_steps": None, "max_epochs": 1.5}, 5),
        ({"max_steps": None, "max_epochs": 0.01}, 1),
        ({"max_steps": 10, "max_epochs": 4}, 10),
        ({"max_steps": 20, "max_epochs": 4}, 12),
        ({"max_steps": None, "max_epochs": None}, 1000),
        (
            {"max_steps": None, "max_epochs": 4, "batch_size": 500},
            4,
        ),  # at most as many draws as links
        ({"max_steps": None, "max_epochs": 4, "scheme": "paper", "negative_rate": 3}, 48),
    ],
)
def test_max_steps_and_max_epochs(graph, limits, steps):
    history = pmvge(patience=None, **limits).fit(graph).history_
    assert history[-1].step == steps


def test_the_default_length_is_thirty_epochs_within_bounds(graph, monkeypatch):
    monkeypatch.setattr(model_trainer, "DEFAULT_STEPS", (5, 3000))
    assert pmvge(patience=None, max_steps=None).fit(graph).history_[-1].step == 90


@pytest.mark.parametrize(
    ("steps_per_epoch", "steps"),
    [
        (0.5, 1000),  # 30 epochs are 15 steps
        (33, 1000),
        (34, 1020),  # 30 epochs
        (99.99, 3000),
        (100, 3000),
        (500, 3000),  # 6 epochs
        (1000, 3000),
        (1000.5, 3002),  # 3 epochs
        (10_000, 30_000),
    ],
)
def test_the_default_length_by_steps_per_epoch(steps_per_epoch, steps):
    settings = PMvGE().get_params(deep=False)
    plan = model_trainer._plan(settings, steps_per_epoch, validated=False, decay_steps=None)
    assert plan.schedule.end == steps


def test_an_epoch_is_as_many_draws_as_there_are_links(graph):
    history = pmvge(patience=None, max_steps=50).fit(graph).history_
    assert [record.epoch for record in history] == pytest.approx([25 / 3, 50 / 3])


def test_the_loss_of_a_record_is_the_mean_since_the_last(graph):
    layer, values = nn.Linear(1, 1), iter(range(1, 101))
    loop = trainer(layer, lambda: layer.weight.sum() * 0 + next(values), schedule=Constant(60))
    assert [record.loss for record in loop.run()] == [13.0, 38.0, 55.5]


@pytest.mark.parametrize(
    ("validations", "patience", "checks", "best"),
    [
        ([1, 2, 3, 4], 1, 4, 4),
        ([4, 3, 2, 1], 1, 2, 1),
        ([4, 4, 4, 4], 2, 3, 1),  # equal is not better
        ([1, 0, 2, 1, 0, 9], 2, 5, 3),  # each best restarts the patience
        ([1, 0, 2, 1, 3, 2], 2, 6, 5),
        ([-5, -6, -4, -7, -8], 3, 5, 3),
        ([3, 2, 1], None, 3, 1),
    ],
)
def test_patience_counts_checks_without_a_better_validation(validations, patience, checks, best):
    layer, script = nn.Linear(1, 1), iter(validations)
    weights = []

    def validate():
        weights.append(layer.weight.detach().clone())
        return float(next(script))

    schedule = Constant(25 * len(validations), patience)
    loop = trainer(layer, lambda: (layer.weight + 5).square().sum(), validate, schedule)
    history = loop.run()
    assert [record.validation for record in history] == validations[:checks]
    assert history[-1].step == 25 * checks
    assert torch.equal(layer.weight, weights[best - 1])


# -- divergence -----------------------------------------------------------------------------


class Poisoned(nn.Module):
    """A linear map whose output or gradient is not finite at the n-th training call."""

    def __init__(self, at, what):
        super().__init__()
        self.linear, self.calls, self.at, self.what = nn.Linear(4, 4), 0, at, what

    def forward(self, x):
        y = self.linear(x)
        self.calls += self.training
        if self.training and self.calls == self.at:
            if self.what == "output":
                return y * math.nan
            y.register_hook(lambda gradient: gradient * math.inf)
        return y


@pytest.mark.parametrize(
    ("what", "says"), [("output", "loss is nan"), ("gradient", r"gradient is (nan|inf)")]
)
def test_a_loss_or_gradient_that_is_not_finite_stops_training(graph, what, says):
    model = pmvge(encoder={"a": Poisoned(6, what)}, learning_rate=0.025)
    with pytest.raises(DivergedError, match=rf"at step 6 on the links \('a', 'b'\): the {says}"):
        model.fit(graph)


def test_the_divergence_message_has_similarities_and_advice(graph):
    settings = {"effects": "none", "schedule": "constant", "weight_decay": 0.0}
    model = pmvge(scheme="paper", learning_rate=5.0, clip_norm=None, max_steps=500, **settings)
    with pytest.raises(DivergedError) as caught:
        model.fit(graph)
    message = str(caught.value)
    (largest,) = re.findall(r"with similarities up to (\S+) and learning rate 5\. ", message)
    assert not float(largest) < 80  # exp(80) is near the limit of float32
    for advice in ("smaller learning_rate", "scheme='block'", "similarity='cosine'", "standardize"):
        assert advice in message


@pytest.mark.parametrize(("factor", "shift", "value"), [(math.nan, 0, "nan"), (1, math.inf, "inf")])
def test_the_divergence_message_names_the_largest_similarity_and_its_pair(factor, shift, value):
    layer = nn.Linear(1, 1)
    loop = trainer(layer, lambda: layer.weight.sum() * factor + shift)
    before = layer.weight.detach().clone()
    says = rf"on the links \('a', 'b'\): the loss is {value}, with similarities up to 15 and"
    with pytest.raises(DivergedError, match=says):
        loop.train_step(0)
    assert torch.equal(layer.weight, before)  # the weights did not change


def test_the_advised_settings_do_not_diverge_at_the_same_rate(graph):
    pmvge(scheme="block", similarity="cosine", learning_rate=5.0, clip_norm=None).fit(graph)


# -- Ctrl-C ---------------------------------------------------------------------------------


def press_at(monkeypatch, step, times=1):
    """Send Ctrl-C during a step."""
    original = Trainer.train_step

    def train_step(self, batch):
        if self.step + 1 == step:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        original(self, batch)

    monkeypatch.setattr(Trainer, "train_step", train_step)


@pytest.mark.parametrize("step", [1, 13, 25, 30])
@pytest.mark.parametrize("patience", [None, 5])
def test_a_run_resumed_after_ctrl_c_is_bitwise_equal(graph, tmp_path, monkeypatch, step, patience):
    settings = {"dropout": 0.2, "max_steps": 30, "patience": patience}
    expected = pmvge(**settings).fit(graph)
    model = pmvge(**settings, checkpoint_dir=tmp_path, checkpoint_seconds=None)
    with monkeypatch.context() as patch:
        press_at(patch, step)
        with pytest.raises(KeyboardInterrupt):
            model.fit(graph)
    assert (
        json.loads((tmp_path / "checkpoint.json").read_text())["step"] == step
    )  # the step was finished
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    steps = []
    original = Trainer.train_step
    monkeypatch.setattr(
        Trainer, "train_step", lambda self, batch: steps.append(self.step) or original(self, batch)
    )
    model.fit(graph, resume=True)
    assert steps == list(range(step, 30))
    for view, vectors in expected.embeddings_.items():
        assert np.array_equal(model.embeddings_[view], vectors)
    assert [(r.step, r.loss, r.validation) for r in model.history_] == [
        (r.step, r.loss, r.validation) for r in expected.history_
    ]


def test_a_second_ctrl_c_interrupts_at_once(graph, tmp_path, monkeypatch):
    press_at(monkeypatch, 13, times=2)
    with pytest.raises(KeyboardInterrupt):
        pmvge(checkpoint_dir=tmp_path, checkpoint_seconds=None).fit(graph)
    assert not (tmp_path / "checkpoint.json").exists()


def test_without_checkpoints_ctrl_c_interrupts_at_once(graph, monkeypatch):
    made = []
    usual = nn.utils.get_total_norm
    monkeypatch.setattr(nn.utils, "get_total_norm", lambda *given: made.append(1) or usual(*given))
    press_at(monkeypatch, 13)
    with pytest.raises(KeyboardInterrupt):
        pmvge(effects="none").fit(graph)
    assert len(made) == 12


# -- when a checkpoint is due ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("every_steps", "every_seconds", "step", "seconds", "due"),
    [
        (10, None, 20, 0.0, True),
        (10, None, 21, 999.0, False),
        (None, 60.0, 20, 59.0, False),
        (None, 60.0, 21, 60.0, True),
        (10, 60.0, 21, 61.0, True),
        (10, 60.0, 20, 0.0, True),
        (None, None, 20, 1e9, False),
    ],
)
def test_checkpoints_are_due_by_steps_or_by_seconds(
    tmp_path, every_steps, every_seconds, step, seconds, due
):
    checkpoints = Checkpoints(tmp_path, every_steps, every_seconds, "", 0)
    assert (checkpoints.due_by_steps(step) or checkpoints.due_by_seconds(seconds)) == due
