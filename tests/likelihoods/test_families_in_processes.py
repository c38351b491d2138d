"""A family with learned parameters in two processes; each of them runs this file as a script."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import optimize
from torch import nn

from pmvge import MultiViewGraph, PMvGE
from pmvge.likelihoods import Family, register_family

pytestmark = [
    pytest.mark.slow,  # starts torchrun
    pytest.mark.skipif(
        not torch.distributed.is_available(), reason="this torch has no torch.distributed"
    ),
]


class Thinned(Family):
    """Linked with probability 1 - exp(-s mu), with a learned log s for each view pair."""

    def __init__(self, pairs=()):
        super().__init__(pairs)
        self.log_scale = nn.Parameter(torch.zeros(len(self.pairs)))

    def zero(self, eta, pair):
        return -(eta + self.log_scale[self.index[pair]]).exp()

    def at_link(self, w, eta, pair):
        return torch.log(-torch.expm1(self.zero(eta, pair)))


def graph_of(rank: int | None) -> MultiViewGraph:
    """Two view pairs; with a rank, the links of one process of two."""
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(120, 4)), rng.normal(size=(70, 3))
    across = np.column_stack(np.nonzero(rng.random((120, 70)) < 0.1 * np.exp(X[:, :1] * T[:, 0])))
    within = np.column_stack(np.nonzero(np.triu(rng.random((120, 120)) < 0.05, 1)))
    part = slice(rank, None, None if rank is None else 2)
    links = {("a", "b"): across[part].T, ("a", "a"): within[part].T}
    return MultiViewGraph({"a": X, "b": T}, {pair: tuple(ends) for pair, ends in links.items()})


def fit(folder: Path, sharded: bool) -> None:
    register_family("thinned", Thinned)
    rank = int(os.environ["RANK"])
    model = PMvGE(
        3, family="thinned", max_steps=30, batch_size=64, random_state=0, progress=False,
        patience=None, similarity="inner", effects="none",
    )  # fmt: skip
    model.fit(graph_of(rank if sharded else None), sharded=sharded)
    numbers = {
        "log_alpha": {",".join(pair): value for pair, value in model.log_alpha_.items()},
        "log_scale": model.family_.log_scale.tolist(),
        "pairs": model.family_.pairs,
        "vectors": {view: Y.tolist() for view, Y in model.embeddings_.items()},
    }
    (folder / f"{rank}.json").write_text(json.dumps(numbers))


@pytest.mark.parametrize("sharded", [False, True])
def test_two_processes_learn_one_family_and_the_alpha_of_all_links(sharded, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", __file__, str(tmp_path), str(int(sharded))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert run.returncode == 0, run.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first == second
    graph = graph_of(None)
    Y = {view: np.array(rows) for view, rows in first["vectors"].items()}
    for (a, b), log_scale in zip(first["pairs"], first["log_scale"], strict=True):
        cells = np.ones((len(Y[a]), len(Y[b])), bool)
        cells = np.triu(cells, 1) if a == b else cells
        linked = graph.links[a, b].matrix().toarray()[cells] > 0
        g = (Y[a] @ Y[b].T)[cells] + log_scale

        def loss(log_alpha, g=g, linked=linked):
            mu = np.exp(log_alpha + g)
            return mu[~linked].sum() - np.log(-np.expm1(-mu[linked])).sum()

        best = optimize.minimize_scalar(loss, bounds=(-15, 5), options={"xatol": 1e-9}).x
        assert first["log_alpha"][f"{a},{b}"] == pytest.approx(best, abs=1e-5)


if __name__ == "__main__":
    fit(Path(sys.argv[1]), bool(int(sys.argv[2])))
