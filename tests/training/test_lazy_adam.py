"""Lazily updated rows are equal to those of Adam on the complete weight."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from pmvge import MultiViewGraph, PMvGE
from pmvge.encoders import Lookup
from pmvge.encoders.layers import Affine
from pmvge.graph import SparseRows
from pmvge.model.fitting import trainer as model_trainer
from pmvge.training.lazy_adam import LazyAdam

N, K, STEPS = 40, 5, 300


def constant(step: int) -> float:
    return 0.01


def falling(step: int) -> float:
    return 0.02 * 0.98**step


def sudden(step: int) -> float:
    return 0.03 if step < 100 else 0.003


@pytest.mark.parametrize("rate", [constant, falling, sudden])
@pytest.mark.parametrize("decay", [0.0, 0.05, 40.0])
def test_lazy_rows_equal_adam(rate, decay):
    """Rows are used twice in a step, in every step, rarely, or never; gradients vary in size."""
    rng, rates = np.random.default_rng(0), [rate(step) for step in range(STEPS)]
    torch.manual_seed(0)
    lazy = Lookup(N, K)
    lazy.weight.data.normal_()
    before = lazy.weight.detach().clone()
    complete = torch.nn.Parameter(before.clone())
    adam = torch.optim.AdamW([complete], lr=1.0, weight_decay=decay)
    ours = LazyAdam(lazy, decay)
    target = torch.from_numpy(rng.normal(size=(N, K))).float()
    for step in range(STEPS):
        # Some rows are used in most steps, others rarely, the last one never.
        index = torch.from_numpy(rng.geometric(0.1, size=8) % (N - 1))
        size = float(rng.exponential())
        adam.param_groups[0]["lr"] = rates[step]
        adam.zero_grad()
        (size * (complete[index] - target[index]) ** 2).sum().backward()
        adam.step()
        first, second = lazy(index[:5]), lazy(index[5:])
        y = torch.cat([first, second])
        (size * (y - target[index]) ** 2).sum().backward()
        ours.step(*ours.gradient(), rates[step])
        if step % 97 == 0:
            ours.catch_up_all()
            torch.testing.assert_close(lazy.weight, complete, rtol=0, atol=5e-5)
    ours.catch_up_all()
    torch.testing.assert_close(lazy.weight, complete, rtol=0, atol=5e-5)
    assert lazy.weight.grad is None  # no gradient of the complete weight was computed
    if decay < 1:
        assert (lazy.weight - target).norm() < 0.9 * (
            before - target
        ).norm()  # the weight approaches the target


def test_a_gradient_has_the_rows_of_its_batch_only():
    """For lookups and for sparse features."""
    lookup = Lookup(1000, K)
    ours = LazyAdam(lookup, 0.0)
    lookup(torch.tensor([7, 7, 3])).sum().backward()
    rows, gradient = ours.gradient()
    assert rows.tolist() == [3, 7]
    torch.testing.assert_close(gradient, torch.tensor([[1.0] * K, [2.0] * K]))
    layer = Affine(1000, K, sparse=True)
    ours = LazyAdam(layer, 0.0)
    x = SparseRows(
        torch.tensor([5, 9, 5]), torch.tensor([0, 2, 3]), torch.tensor([1.0, 2.0, 3.0]), (2, 1000)
    )
    plain = x.to_dense() @ layer.weight + layer.bias
    torch.testing.assert_close(layer(x), plain)
    layer.row_copies.clear()
    layer(x).sum().backward()
    rows, gradient = ours.gradient()
    assert rows.tolist() == [5, 9]
    torch.testing.assert_close(gradient, torch.tensor([[4.0] * K, [2.0] * K]))


# -- fits -----------------------------------------------------------------------------------


def graph_of(kind: str) -> MultiViewGraph:
    rng = np.random.default_rng(1)
    n, p = 300, 400
    X = sparse.random_array((n, p), density=0.02, rng=rng, format="csr", dtype=np.float32)
    views = {"a": X if kind == "sparse" else n, "b": 60}
    return MultiViewGraph(
        views,
        {("a", "b"): rng.poisson(0.2, (n, 60)), ("a", "a"): np.triu(rng.poisson(0.01, (n, n)), 1)},
    )


def fitted(kind: str, lazy: float, monkeypatch, **settings) -> PMvGE:
    monkeypatch.setattr(model_trainer, "LAZY_RATIO", lazy)
    paper = {"effects": "none", "similarity": "cosine", "dropout": 0.3, "weight_decay": 0.0}
    given = {"batch_size": 16, "max_steps": 120, "patience": 2, "random_state": 0}
    given |= {"schedule": "constant", **paper, **settings}
    return PMvGE(4, hidden_sizes=(8,), progress=False, **given)


@pytest.mark.parametrize("kind", ["featureless", "sparse"])
@pytest.mark.parametrize("scheme", ["block", "paper"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"schedule": "cosine", "weight_decay": 0.01},
        {"schedule": "step"},
        {"schedule": "auto", "effects": "vector", "similarity": "inner"},
    ],
)
def test_a_fit_with_lazy_updates_equals_one_without(kind, scheme, more, monkeypatch):
    """Effects have inner products: cosines of equal vectors have gradients of rounding errors.

    Adam scales these gradients to steps of usual size, in the effects of single entities.
    """
    graph = graph_of(kind)
    dense, lazily = (
        fitted(kind, lazy, monkeypatch, scheme=scheme, **more).fit(graph) for lazy in (1e9, 0.0)
    )
    for view, Y in dense.embeddings_.items():
        np.testing.assert_allclose(lazily.embeddings_[view], Y, atol=2e-3)
    assert lazily.log_likelihood(graph) == pytest.approx(dense.log_likelihood(graph), rel=1e-3)


def test_large_weights_are_updated_lazily(monkeypatch):
    seen = []
    made = LazyAdam.__init__

    def spy(self, module, *rest):
        seen.append(len(module.weight))
        made(self, module, *rest)

    monkeypatch.setattr(LazyAdam, "__init__", spy)
    rng = np.random.default_rng(0)
    graph = MultiViewGraph(
        {"a": 5000, "b": 30}, {("a", "b"): (rng.integers(5000, size=90), rng.integers(30, size=90))}
    )
    settings = {"batch_size": 32, "max_steps": 3, "progress": False, "random_state": 0}
    PMvGE(4, **settings).fit(graph)
    assert seen == [5000]


def test_a_resumed_fit_with_lazy_updates_is_bitwise_equal(tmp_path, monkeypatch):
    graph = graph_of("featureless")
    monkeypatch.setattr(model_trainer, "LAZY_RATIO", 0.0)
    settings = {"batch_size": 16, "max_steps": 60, "patience": 5, "random_state": 0}
    expected = PMvGE(4, progress=False, **settings).fit(graph)
    keeping = {"checkpoint_dir": tmp_path, "checkpoint_steps": 7, "progress": False}
    train_step = model_trainer.Trainer.train_step

    def stop(self, batch):
        if self.step == 40:
            raise KeyboardInterrupt
        train_step(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(model_trainer.Trainer, "train_step", stop)
        with pytest.raises(KeyboardInterrupt):
            PMvGE(4, **keeping, **settings).fit(graph)
    resumed = PMvGE(4, **keeping, **settings).fit(graph, resume=True)
    for view, Y in expected.embeddings_.items():
        np.testing.assert_array_equal(resumed.embeddings_[view], Y)
