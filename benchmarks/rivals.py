"""Other libraries that predict links of new entities, as curves of quality against time.

A method is a generator over growing lengths of training. Each time it is resumed, it trains, and
yields a function that embeds the test entities: vectors Y (n, .) and Y' (m, .) whose inner products
are scores. Only the time inside the generator is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from lightfm import LightFM
from numpy.typing import NDArray
from problems import ColdStart
from scipy import sparse
from torch import nn
from torch.nn import functional

from pmvge.baselines import DeepWalk
from pmvge.baselines.graph_network import geometric
from pmvge.evaluation import evaluate_links
from pmvge.experiments.recommender.two_towers import CosineAdam, LinkDraws, Tower, train_towers
from pmvge.graph import hold_out_links

Vectors = tuple[NDArray[Any], NDArray[Any]]
Curve = Iterator[Callable[[], Vectors]]

K, HIDDEN, BATCH = 16, 256, 512
FANOUT = (5, 3)  # GraphSAGE's neighbours of a node in training, and neighbours of those
MANY = (25, 10)  # the same for test nodes that have neighbours
PAIRS = 4_000_000  # most pairs of known entities that are evaluated
# The settings that were compared; the first is the chosen one.
CHOICES: dict[str, list[dict[str, Any]]] = {
    "LightFM logistic": [{"rate": 0.01}, {"rate": 0.05}],
    "LightFM warp": [{"rate": 0.01}, {"rate": 0.05}],
    "LightFM bpr": [{"rate": 0.01}, {"rate": 0.05}],
    "two towers": [{"rate": 5e-3, "decay": 3.0}, {"rate": 1e-3, "decay": 0.0}],
    "GraphSAGE": [
        {"rate": rate, "isolation": isolation} for rate in (3e-3, 1e-2) for isolation in (0.2, 0.5)
    ],
}


def measure(curve: Curve, problem: ColdStart, resumed: bool) -> list[dict[str, float]]:
    """Return seconds and quality of each point; a resumed curve adds up its seconds."""
    points: list[dict[str, float]] = []
    before = 0.0
    while True:
        start = time.process_time()
        embed = next(curve, None)
        seconds = before + time.process_time() - start
        if embed is None:
            return points
        points.append({"seconds": seconds, **problem.quality(*embed())})
        before = seconds if resumed else 0.0


# -- LightFM ----------------------------------------------------------------------------------


def light_fm(problem: ColdStart, seed: int, *, loss: str, rate: float, epochs: list[int]) -> Curve:
    """Train LightFM with features and without identity columns; one run, scored at some epochs.

    Weights of links are sample weights. "logistic" needs pairs without a link: in every epoch as
    many new ones as there are links. The other two losses rank the right entities of a left one, in
    which the bias of the left entity has no effect: it is left out of the score.
    """
    rng = np.random.default_rng(seed)
    W = problem.train.links["left", "right"].matrix().tocoo()
    X, X_other = (sparse.csr_matrix(problem.train.views[view]) for view in ("left", "right"))
    links = (W.row, W.col, np.ones(W.nnz), W.data)
    model = LightFM(K, loss=loss, learning_rate=rate, random_state=seed)

    def embed() -> Vectors:
        bias, Y = model.get_user_representations(sparse.csr_matrix(problem.left))
        bias_other, Y_other = model.get_item_representations(sparse.csr_matrix(problem.right))
        bias = bias if loss == "logistic" else np.zeros_like(bias)
        one, one_other = np.ones_like(bias), np.ones_like(bias_other)
        return np.column_stack([Y, bias, one]), np.column_stack([Y_other, one_other, bias_other])

    for epoch in range(1, max(epochs) + 1):
        rows, cols, values, weights = links
        if loss == "logistic":
            i, j = _not_linked(W, rng)
            rows, cols = np.concatenate([rows, i]), np.concatenate([cols, j])
            values = np.concatenate([values, np.full(len(i), -1.0)])
            weights = np.concatenate([weights, np.ones(len(i))])
        target, sample_weight = (
            sparse.coo_matrix((each.astype(np.float32), (rows, cols)), W.shape)
            for each in (values, weights)
        )
        model.fit_partial(
            target,
            user_features=X,
            item_features=X_other,
            sample_weight=sample_weight,
            num_threads=1,
        )
        if epoch in epochs:
            yield embed


def _not_linked(W: sparse.coo_array, rng: np.random.Generator) -> tuple[Any, Any]:
    """Draw about as many uniform pairs without a link as there are links."""
    n, m = W.shape
    drawn = rng.integers(n * m, size=W.nnz)
    linked = np.isin(drawn, W.row.astype(np.int64) * m + W.col)
    return drawn[~linked] // m, drawn[~linked] % m


# -- two towers -------------------------------------------------------------------------------


def two_towers(
    problem: ColdStart, seed: int, *, rate: float, decay: float, steps: list[int]
) -> Curve:
    """Train the two towers of ``pmvge.experiments.recommender.two_towers``, on features only.

    Every length of training is a separate run with a cosine schedule.
    """
    X = [torch.tensor(problem.train.views[view]) for view in ("left", "right")]
    links = problem.train.links["left", "right"]
    for length in steps:
        torch.manual_seed(seed)
        towers = [Tower(K, columns=x.shape[1], hidden=HIDDEN) for x in X]
        train_towers(
            towers, X, links, rate=rate, decay=decay, steps=length, seed=seed, batch_size=BATCH
        )
        yield lambda towers=towers: (  # type: ignore[misc]
            towers[0].encode(problem.left),
            towers[1].encode(problem.right),
        )


# -- GraphSAGE --------------------------------------------------------------------------------


def graph_sage(
    problem: ColdStart, seed: int, *, rate: float, isolation: float, steps: list[int]
) -> Curve:
    """Train two layers of torch-geometric's ``SAGEConv`` to separate links from uniform pairs.

    Neighbours are drawn in every step, without the other end of the link in question. New nodes
    have no neighbours, so a share ``isolation`` of a step's nodes is treated in the same way. Every
    length of training is a separate run with a cosine schedule.
    """
    graph = problem.train
    links = graph.links["left", "right"]
    sizes = list(graph.sizes.values())
    for length in steps:
        draw = LinkDraws(links, seed)
        torch.manual_seed(seed)
        network = Sage(problem, draw.rng)
        optimizer = CosineAdam([network], rate, 0.0, length)
        linked = torch.cat([torch.ones(BATCH), torch.zeros(BATCH)])
        for _ in range(length):
            uniform = (torch.from_numpy(draw.rng.integers(n, size=BATCH)) for n in sizes)
            i, j = (torch.cat(ends) for ends in zip(draw(BATCH), uniform, strict=True))
            y, y_other = (
                network(side, own, FANOUT, alone=draw.rng.random(len(own)) < isolation, but=but)
                for side, own, but in ((0, i, j.numpy()), (1, j, i.numpy()))
            )
            g = torch.linalg.vecdot(y, y_other)
            optimizer.step(functional.binary_cross_entropy_with_logits(g, linked))

        def embed(network: Sage = network) -> Vectors:
            with torch.no_grad():
                Y_other = network.of_new(1, problem.right).numpy()
                if problem.known_left is None:
                    return network.of_new(0, problem.left).numpy(), Y_other
                known = torch.from_numpy(problem.known_left)
                return network(0, known, MANY).numpy(), Y_other

        yield embed


class Sage(nn.Module):
    """Two layers of SAGEConv; side 0 is left, 1 is right."""

    def __init__(self, problem: ColdStart, rng: np.random.Generator) -> None:
        super().__init__()
        conv = geometric().SAGEConv
        self._X = [torch.tensor(problem.train.views[view]) for view in ("left", "right")]
        W = problem.train.links["left", "right"].matrix()
        self._W, self._rng = (W, W.T.tocsr()), rng
        p = [X.shape[1] for X in self._X]
        self.first = nn.ModuleList(conv((p[1 - side], p[side]), HIDDEN) for side in (0, 1))
        self.second = nn.ModuleList(conv((HIDDEN, HIDDEN), K) for _ in (0, 1))

    def forward(
        self,
        side: int,
        nodes: torch.Tensor,
        fanout: tuple[int, int],
        alone: Any = False,
        but: Any = -1,
    ) -> torch.Tensor:
        """Return vectors of nodes; ``alone``: no neighbours; ``but``: a neighbour to leave out."""
        near, edges = self._neighbours(side, nodes, fanout[0], alone, but)
        far, edges_near = self._neighbours(1 - side, near, fanout[1])
        X, X_other = self._X[side], self._X[1 - side]
        h_near = self.first[1 - side]((X[far], X_other[near]), edges_near).relu()
        h = self.first[side]((X_other[near], X[nodes]), edges).relu()
        y: torch.Tensor = self.second[side]((h_near, h), edges)
        return y

    def of_new(self, side: int, rows: NDArray[Any]) -> torch.Tensor:
        """Return vectors of nodes without links."""
        no_edges = torch.empty((2, 0), dtype=torch.int64)
        no_nodes = self._X[1 - side][:0]
        h = self.first[side]((no_nodes, torch.from_numpy(rows)), no_edges).relu()
        y: torch.Tensor = self.second[side]((h[:0], h), no_edges)
        return y

    def _neighbours(
        self, side: int, nodes: torch.Tensor, n: int, alone: Any = False, but: Any = -1
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw n neighbours of each node with replacement; return them and their edges."""
        W, at = self._W[side], nodes.numpy()
        start, degree = W.indptr[at].astype(np.int64), np.diff(W.indptr)[at]
        drawn = start[:, None] + (self._rng.random((len(at), n)) * degree[:, None]).astype(np.int64)
        near = W.indices[np.minimum(drawn, W.nnz - 1)].astype(np.int64)
        linked = (degree > 0)[:, None] & (near != np.reshape(but, (-1, 1)))
        linked &= ~np.reshape(alone, (-1, 1))
        target, _ = np.nonzero(linked)
        edges = np.stack([np.arange(len(target)), target])
        return torch.from_numpy(near[linked]), torch.from_numpy(edges)


# -- DeepWalk, which cannot embed new nodes ----------------------------------------------------


def known_links(
    problem: ColdStart, seed: int, models: dict[str, Any]
) -> dict[str, dict[str, float]]:
    """Score DeepWalk and other models on a tenth of the training links, held out."""
    kept, held = hold_out_links(problem.train, 0.1, np.random.default_rng(seed))
    (links,), (known,) = held.links.values(), kept.links.values()
    results = {}
    for name, model in ({"DeepWalk": DeepWalk(K, n_walks=5, window=5)} | models).items():
        start = time.process_time()
        Y, Y_other = model.set_params(random_state=seed).fit(kept).embeddings_.values()
        seconds = time.process_time() - start
        found = evaluate_links(Y, Y_other, links, log_alpha=0.0, known=known, max_pairs=PAIRS)
        keys = {"auc": "roc_auc", "ap": "average_precision", "recall": "recall@10"}
        results[name] = {key: found[its] for key, its in keys.items()} | {"seconds": seconds}
    return results
