r"""A fit with effects maximises the objective, whatever the batch size.

The objective is written down again and minimised by L-BFGS in float64:

.. math:: -\sum_{de} \lambda_{de} \ell_{de} / C
          + \frac 1 C \sum_i \Bigl[ \frac{|e_i|^2}{2 \sigma_d^2} + \frac{b_i^2}{2 \tau_d^2} \Bigr].
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from pmvge import MultiViewGraph, PMvGE

K = 2
PRIORS = {"a": (0.5, 0.7), "b": (0.8, 0.4), "c": (0.3, 0.6)}
SIZES = {"a": 40, "b": 25, "c": 15}
WHOLE, SAMPLED = 5000, 16  # batch sizes: all entities and links, or 32 entities a side


def simulate(pairs, with_features=()):
    """Return features {view: X}, and weights {pair: matrix}, upper triangular within a view."""
    rng = np.random.default_rng(0)
    X = {view: rng.normal(size=(SIZES[view], 3)) for view in with_features}
    y = {view: 0.8 * rng.normal(size=(n, K)) for view, n in SIZES.items()}
    weights = {}
    for a, b in pairs:
        g = y[a] @ y[b].T + 0.6 * rng.normal(size=(SIZES[a], 1)) + 0.6 * rng.normal(size=SIZES[b])
        mu = np.triu(np.exp(g), 1) if a == b else np.exp(g)
        weights[a, b] = rng.poisson(mu * 8 * SIZES[a] / mu.sum()).astype(float)
    return X, weights


def graph_of(X, weights):
    views = {view for pair in weights for view in pair}
    links = {pair: (*np.nonzero(W), W[np.nonzero(W)]) for pair, W in weights.items()}
    return MultiViewGraph({view: X.get(view, SIZES[view]) for view in views}, links)


class Direct:
    """The objective as a function of one vector: encoders' weights, e and b of linked entities."""

    def __init__(self, X, weights, factors=None):
        self.X, self.weights, self.factors = X, weights, factors or dict.fromkeys(weights, 1.0)
        self.views = sorted({view for pair in weights for view in pair})
        self.pairs = {view: [pair for pair in weights if view in pair] for view in self.views}
        self.shapes = {}
        for view in self.views:
            P = len(self.pairs[view])
            self.shapes[view, "effects"] = (SIZES[view], K + P)
            if view in X:
                self.shapes[view, "map"] = (X[view].shape[1] + 1, K + P)
        degree = {view: np.zeros(SIZES[view]) for view in self.views}
        for (a, b), W in weights.items():
            degree[a] += W.sum(1)
            degree[b] += W.sum(0)
        self.linked = {view: torch.tensor(degree[view] > 0)[:, None] for view in self.views}

    def parts(self, x):
        found, start = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            found[name] = x[start : start + size].reshape(shape)
            start += size
        return found

    def pack(self, parts):
        return np.concatenate([np.ravel(parts[name]) for name in self.shapes])

    def __call__(self, x):
        """Return the objective, its penalty, and the similarities."""
        parts = self.parts(x)
        C = sum(self.factors[pair] * W.sum() for pair, W in self.weights.items())
        outputs, penalty = {}, 0.0
        for view in self.views:
            effects = parts[view, "effects"] * self.linked[view]
            outputs[view] = effects
            if view in self.X:
                A = parts[view, "map"]
                outputs[view] = effects + torch.tensor(self.X[view]) @ A[:-1] + A[-1]
            sigma, tau = PRIORS[view]
            penalty = penalty + effects[:, :K].square().sum() / (2 * sigma**2)
            penalty = penalty + effects[:, K:].square().sum() / (2 * tau**2)
        value, similarities = penalty / C, {}
        for (a, b), W in self.weights.items():
            (left, right), w = (outputs[a], outputs[b]), torch.tensor(W)
            left_bias = left[:, K + self.pairs[a].index((a, b))]
            right_bias = right[:, K + self.pairs[b].index((a, b))]
            g = left[:, :K] @ right[:, :K].T + left_bias[:, None] + right_bias
            cells = torch.ones_like(g).triu(1).bool() if a == b else torch.ones_like(g).bool()
            likelihood = (w * g).sum() - w.sum() * torch.logsumexp(g[cells], 0)
            value = value - self.factors[a, b] * likelihood / C
            similarities[a, b] = g[cells].detach().numpy()
        return value, penalty, similarities

    def minimum(self, *starts):
        def with_gradient(x):
            variable = torch.tensor(x, requires_grad=True)
            value = self(variable)[0]
            value.backward()
            return value.item(), variable.grad.numpy()

        options = {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-14, "gtol": 1e-9}
        found = [minimize(with_gradient, x, jac=True, options=options, method="L-BFGS-B")
                 for x in starts]  # fmt: skip
        return min(found, key=lambda result: result.fun)

    def size(self):
        return sum(int(np.prod(shape)) for shape in self.shapes.values())


def fit(graph, batch_size, steps, **settings):
    model = PMvGE(
        K,
        encoder="linear",
        standardize=False,
        similarity="inner",
        effects="vector",
        effects_prior={view: PRIORS[view] for view in graph.view_names},
        batch_size=batch_size,
        max_steps=steps,
        learning_rate=0.01,
        schedule="cosine",
        patience=None,
        clip_norm=None,
        weight_decay=0.0,
        input_dropout=0.0,
        random_state=0,
        progress=False,
        **settings,
    )
    return model.fit(graph)


def learned(model, direct):
    """Return the model's weights in the form of the direct objective."""
    network, parts = model._fitted.network, {}
    for view in direct.views:
        columns = [*range(K), *(K + network.bias_pairs[view].index(p) for p in direct.pairs[view])]
        parts[view, "effects"] = network.effects_of(view).weight.detach()[:, columns].numpy()
        if view in direct.X:
            (layer,) = network.encoder_of(view).layers
            state = {name: p.detach().numpy() for name, p in layer.named_parameters()}
            matrix = state["weight"]
            matrix = matrix if matrix.shape[0] == direct.X[view].shape[1] else matrix.T
            parts[view, "map"] = np.vstack([matrix, state["bias"]])[:, columns]
    return torch.tensor(direct.pack(parts), dtype=torch.float64)


CASES = {
    "no features": ([("a", "b")], (), None),
    "features": ([("a", "b")], ("a",), None),
    "within a view": ([("a", "a")], (), None),
    "several view pairs": ([("a", "b"), ("b", "c")], ("a",), None),
    "pair weights": ([("a", "b"), ("b", "c")], ("a",), {("a", "b"): 3.0, ("b", "c"): 0.5}),
}


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [WHOLE, SAMPLED], ids=["whole", "sampled"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_fit_reaches_the_optimum_of_the_objective(case, batch_size):
    pairs, with_features, factors = case
    X, weights = simulate(pairs, with_features)
    direct = Direct(X, weights, factors)
    steps = 1500 if batch_size == WHOLE else 4000
    model = fit(graph_of(X, weights), batch_size, steps, pair_weights=factors)
    own = learned(model, direct)
    rng = np.random.default_rng(1)
    starts = [0.1 * rng.normal(size=direct.size()) for _ in range(2)]
    best = direct.minimum(*starts, own.numpy())
    value, penalty, similarities = direct(own)
    _, best_penalty, best_similarities = direct(torch.tensor(best.x))
    exact = batch_size == WHOLE and len(weights) == 1  # no randomness at all
    start = direct(torch.zeros(direct.size(), dtype=torch.float64))[0]
    gain = float(start - best.fun)
    assert float(value) - best.fun < (1e-4 if exact else 0.01) * gain
    assert float(penalty) == pytest.approx(float(best_penalty), rel=0.01 if exact else 0.08)
    for pair, g in similarities.items():
        limit = 0.999 if exact else 0.97
        assert np.corrcoef(g, best_similarities[pair])[0, 1] > limit


@pytest.mark.slow
def test_a_fit_with_the_papers_scheme_has_the_same_prior():
    """Its loss is divided by the number of links, its prior too: with weights 1 nothing changes."""
    X, weights = simulate([("a", "b")])
    weights = {pair: np.minimum(W, 1) for pair, W in weights.items()}
    direct = Direct(X, weights)
    model = fit(graph_of(X, weights), 256, 3000, scheme="paper")
    own = learned(model, direct)
    best = direct.minimum(own.numpy())
    value, penalty, _ = direct(own)
    _, best_penalty, _ = direct(torch.tensor(best.x))
    assert float(value) - best.fun < 0.01
    assert float(penalty) == pytest.approx(float(best_penalty), rel=0.1)
