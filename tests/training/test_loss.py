"""The precision of the encoders' products."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pmvge import MultiViewGraph, PMvGE, PmvgeError
from pmvge.training import check_precision

CPU = torch.device("cpu")


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    z, z_other = rng.normal(size=(300, 3)), rng.normal(size=(90, 3))
    W = rng.poisson(0.3 * np.exp(z @ z_other.T))
    return MultiViewGraph({"a": z, "b": z_other}, {("a", "b"): W})


def works_here() -> bool:
    try:
        check_precision("bfloat16", CPU)
    except PmvgeError:
        return False
    return True


@pytest.mark.skipif(not works_here(), reason="products in bfloat16 fail on this machine")
def test_low_precision_learns_what_float32_learns(graph):
    settings = {"hidden_sizes": (32,), "max_steps": 400, "random_state": 0, "progress": False}
    plain = PMvGE(4, **settings).fit(graph)
    low = PMvGE(4, precision="bfloat16", **settings).fit(graph)
    constant = -graph.total_weight / graph.n_terms + np.log(graph.total_weight / graph.n_terms) * (
        graph.total_weight / graph.n_terms
    )
    gained = [model.score(graph) - constant for model in (plain, low)]
    assert gained[0] > 0
    assert gained[1] == pytest.approx(gained[0], rel=0.1)
    assert not np.array_equal(low.embeddings_["a"], plain.embeddings_["a"])  # bfloat16 was used
    assert low.embeddings_["a"].dtype == np.float32
    weights = low._fitted.network.state_dict().values()
    assert {w.dtype for w in weights} == {torch.float32}


def test_a_precision_that_fails_is_refused_before_training(graph, monkeypatch):
    def fails(*_):
        raise RuntimeError("could not create a primitive\nand more")

    monkeypatch.setattr(torch.Tensor, "__matmul__", fails)
    with pytest.raises(PmvgeError, match=r"'bfloat16' does not work .* \(could not create a prim"):
        PMvGE(4, precision="bfloat16", progress=False).fit(graph)


def test_a_precision_with_wrong_products_is_refused(graph, monkeypatch):
    product = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: product(a, b) * 1.5)
    with pytest.raises(PmvgeError, match="its products are wrong"):
        check_precision("bfloat16", CPU)


def test_an_unknown_precision_is_refused(graph):
    with pytest.raises(PmvgeError, match="expected one of 'float32', 'bfloat16'"):
        PMvGE(4, precision="float8").fit(graph)
