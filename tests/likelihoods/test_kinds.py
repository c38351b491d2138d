"""Every family of the package: values, sums, fits, fold-in, evaluation and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import optimize, special, stats

from pmvge import MultiViewGraph, PMvGE
from pmvge.errors import GraphError, InputError, ParameterError
from pmvge.likelihoods import (
    FAMILIES,
    BlockObjective,
    FamilyByPair,
    TrainedGraph,
    build_family,
    family_name,
    log_likelihood,
)
from pmvge.report import write_report
from pmvge.sampling import BlockSampler
from pmvge.similarities import build_similarity
from pmvge.simulation import simulate

NAMES = ["poisson", "bernoulli", "logistic", "negative_binomial", "beta"]
LIKELIHOODS = NAMES[:4]
BINARY = ("bernoulli", "logistic")  # families of weights 0 and 1
PAIR = ("a", "b")
names = pytest.mark.parametrize("name", NAMES)
likelihoods = pytest.mark.parametrize("name", LIKELIHOODS)
SIZE = 1.7  # r of the negative binomial


def build(name, pairs=(PAIR, ("a", "a"))):
    family = build_family(name, pairs).double()
    if name == "negative_binomial":
        with torch.no_grad():
            family.theta.fill_(math.log(SIZE) / 10)
    return family


def log_probability(name, w, eta):
    """Return the log-probability; of beta, its terms written out."""
    mu = math.exp(eta)
    if name == "bernoulli":
        return stats.bernoulli.logpmf(w, 1 - math.exp(-mu)) if mu > 1e-8 else w * eta
    if name == "logistic":
        return w * eta - math.log1p(mu)
    if name == "negative_binomial":  # scipy's own is not accurate for small mu
        log_choose = special.gammaln(w + SIZE) - special.gammaln(SIZE) - special.gammaln(w + 1)
        return log_choose - SIZE * math.log1p(mu / SIZE) + w * (eta - math.log(SIZE + mu))
    if name == "beta":
        return 2 * w * mu**0.5 - mu**1.5 / 1.5
    return stats.poisson.logpmf(w, mu)


def weights_of(name):
    return [1.0] if name in BINARY else [1.0, 2.0, 7.0, 300.0]


def means(name, mu):
    """Return the expected weights of a family."""
    return {"bernoulli": 1 - np.exp(-mu), "logistic": mu / (1 + mu)}.get(name, mu)


# -- values -----------------------------------------------------------------------------------


def test_these_are_all_families():
    assert list(FAMILIES) == NAMES


@names
def test_values_are_those_of_the_distribution(name):
    family = build(name)
    for eta in (-30.0, -11.0, -1.0, 0.0, 1.0, 3.0):
        t = torch.tensor([eta], dtype=torch.float64)
        assert float(family.zero(t, PAIR).detach()) == pytest.approx(
            log_probability(name, 0, eta), rel=1e-7, abs=1e-12
        )
        for w in weights_of(name):
            weight = torch.tensor([w], dtype=torch.float64)
            found = family.at_link(weight, t, PAIR) + family.log_constant(weight, PAIR)
            expected = log_probability(name, w, eta)
            assert float(found.detach()) == pytest.approx(expected, rel=1e-6, abs=1e-9)
            excess = family.at_link(weight, t, PAIR) - family.zero(t, PAIR)
            assert float(family.excess(weight, t, PAIR).detach()) == pytest.approx(
                float(excess.detach()), rel=1e-9, abs=1e-9
            )


@names
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_derivatives_are_finite_and_smooth(name, dtype):
    """Also where formulas change, and far beyond; derivatives against finite differences."""
    family = build(name).to(dtype)
    eta = torch.linspace(-60.0, 25.0, 341, dtype=dtype).requires_grad_()
    w = torch.full_like(eta, 1.0)
    for values in (family.zero(eta, PAIR), family.at_link(w, eta, PAIR)):
        assert bool(values.isfinite().all())
        (slope,) = torch.autograd.grad(values.sum(), eta)
        assert bool(slope.isfinite().all())
    if dtype is torch.float64:
        for function in (lambda t: family.zero(t, PAIR), lambda t: family.excess(w, t, PAIR)):
            (slope,) = torch.autograd.grad(function(eta).sum(), eta)
            with torch.no_grad():
                numeric = (function(eta + 1e-5) - function(eta - 1e-5)) / 2e-5
            np.testing.assert_allclose(slope, numeric, rtol=1e-5, atol=1e-8)


@names
def test_concave_families_are_concave(name):
    family = build(name)
    eta = torch.linspace(-8.0, 4.0, 121, dtype=torch.float64)
    with torch.no_grad():
        for w in weights_of(name):
            second = family.at_link(torch.full_like(eta, w), eta, PAIR).diff(n=2)
            if family.concave:
                assert bool((second <= 1e-9 * (1 + w)).all())
    assert family.concave == (name != "beta")


def test_the_information_of_beta_is_the_expected_curvature():
    family = build("beta")
    for mu in (0.1, 1.0, 5.0):
        eta = torch.tensor([math.log(mu)], dtype=torch.float64, requires_grad=True)
        w = torch.tensor([mu], dtype=torch.float64)  # terms are linear in w: its mean is enough
        (slope,) = torch.autograd.grad(family.at_link(w, eta, PAIR).sum(), eta, create_graph=True)
        (second,) = torch.autograd.grad(slope, eta)
        assert float(family.information(eta.detach(), PAIR)) == pytest.approx(-float(second))


# -- sums -------------------------------------------------------------------------------------

SIZES = {"a": 12, "b": 9}


def graph_of(name, pairs=(PAIR, ("a", "a")), seed=0):
    rng = np.random.default_rng(seed)
    links = {}
    for a, b in pairs:
        W = rng.poisson(0.6, (SIZES[a], SIZES[b])).astype(float)
        W = np.minimum(W, 1) if name in BINARY else W * rng.integers(1, 5, W.shape)
        links[a, b] = np.triu(W, 1) if a == b else W
    return MultiViewGraph(SIZES, links)


def vectors(similarity, seed=1):
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        return {
            view: similarity(torch.from_numpy(0.5 * rng.normal(size=(n, 4)))).numpy()
            for view, n in SIZES.items()
        }


def cells(pair):
    a, b = pair
    return [
        (i, j) for i, j in itertools.product(range(SIZES[a]), range(SIZES[b])) if a != b or i < j
    ]


def g_of(similarity, Y, pair):
    a, b = pair
    query, candidate = similarity.query_array(Y[a]), similarity.candidate_array(Y[b])
    return similarity.outer_array(query @ candidate.T)


@names
@pytest.mark.parametrize("kind", ["inner", "euclidean", "hyperbolic"])
def test_the_exact_objective_is_a_double_loop(name, kind):
    graph, similarity = graph_of(name), build_similarity(kind, 4)
    Y, family = vectors(similarity), build(name)
    log_alpha = {PAIR: -0.7, ("a", "a"): -0.2}
    found = log_likelihood(graph, Y, log_alpha, similarity=similarity, family=family)
    for pair, links in graph.links.items():
        W, g = links.matrix().toarray(), g_of(similarity, Y, pair)
        total = 0.0
        for i, j in cells(pair):
            eta = torch.tensor([log_alpha[pair] + g[i, j]], dtype=torch.float64)
            total += log_probability(name, W[i, j], float(eta))
            if W[i, j]:
                w = torch.tensor([W[i, j]], dtype=torch.float64)
                total -= float(family.log_constant(w, pair))
        assert found[pair] == pytest.approx(total, rel=1e-10)


@names
@pytest.mark.parametrize("kind", ["inner", "hyperbolic"])
def test_the_loss_and_its_gradient_are_right_for_a_whole_graph(name, kind):
    """A block of all entities and links is exact; alpha is at its maximum."""
    graph, similarity = graph_of(name), build_similarity(kind, 4)
    Y, family = vectors(similarity), build(name)
    objective = BlockObjective(graph, similarity, family)
    measures = family.measures(graph.links)
    sampler = BlockSampler(
        graph, n_links=500, n_uniform=500, rng=np.random.default_rng(0), measure=measures
    )
    for batch in sampler.each_pair():
        pair, links = batch.pair, graph.links[batch.pair]
        y = [torch.tensor(Y[view][rows], requires_grad=True) for view, rows in batch.inputs]
        loss = objective(batch, y).value
        loss.backward()

        def best(similarities, pair=pair, links=links):
            if name == "beta":
                W = links.matrix().toarray()
                A = sum(W[i, j] * math.exp(0.5 * similarities[i, j]) for i, j in cells(pair))
                B = sum(math.exp(1.5 * similarities[i, j]) for i, j in cells(pair))
                return 3 * math.log(A) - math.log(B)
            W = links.matrix().toarray()
            w = np.array([W[c] for c in cells(pair)])
            at = np.array([similarities[c] for c in cells(pair)])
            total = optimize.minimize_scalar(
                lambda a: -sum(log_probability(name, x, a + e) for x, e in zip(w, at, strict=True)),
                bounds=(-12, 8),
                options={"xatol": 1e-10},
            ).fun
            return -total / (links.total if name == "poisson" else len(links))

        expected = best(np.zeros(links.shape)) - best(g_of(similarity, Y, pair))
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-4, abs=1e-6)
        for at in ((3, 1), (0, 3)):
            values = []
            for sign in (1, -1):
                moved = [t.detach().clone() for t in y]
                moved[0][at] += sign * 1e-3
                values.append(float(objective(batch, moved).value.detach()))
            slope = (values[0] - values[1]) / 2e-3
            assert float(y[0].grad[at]) == pytest.approx(slope, rel=5e-3, abs=2e-5)


@pytest.mark.parametrize("name", ["negative_binomial"])
def test_the_gradient_of_a_parameter_is_that_of_finite_differences(name):
    graph, similarity = graph_of(name, pairs=[PAIR]), build_similarity("inner", 4)
    Y, family = vectors(similarity), build(name, [PAIR])
    sampler = BlockSampler(
        graph, n_links=20, n_uniform=4, rng=np.random.default_rng(0), measure="uniform"
    )
    batch = next(iter(sampler))
    y = [torch.tensor(Y[view][rows]) for view, rows in batch.inputs]
    objective = BlockObjective(graph, similarity, family)
    objective(batch, y).value.backward()
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            family.theta += sign * 1e-4
            values.append(float(objective(batch, y).value))
            family.theta -= sign * 1e-4
    assert float(family.theta.grad) == pytest.approx((values[0] - values[1]) / 2e-4, rel=1e-3)


@names
@pytest.mark.parametrize("pair", [("a", "b"), ("a", "a")])
def test_block_sums_are_unbiased(name, pair):
    """The mean over all possible blocks of two links and one uniform entity a side."""
    sizes = {"a": 5, "b": 4}
    entries = {("a", "b"): ([0, 1, 4], [1, 0, 3]), ("a", "a"): ([0, 1], [2, 3])}[pair]
    w = [1.0] * 3 if name in BINARY else [1.0, 2.0, 4.0]
    graph = MultiViewGraph(sizes, {pair: (*entries, w[: len(entries[0])])})
    links, family, similarity = graph.links[pair], build(name), build_similarity("inner", 4)
    Y = {v: y[: sizes[v]] for v, y in vectors(similarity).items()}
    a, b = pair
    log_alpha = -0.4
    matrix = links.matrix().toarray()
    zeros = at_links = 0.0
    for i, j in itertools.product(range(sizes[a]), range(sizes[b])):
        if a == b and i >= j:
            continue
        eta = log_alpha + float(Y[a][i] @ Y[b][j])
        zeros += log_probability(name, 0, eta)
        if matrix[i, j]:
            t, x = (torch.tensor([v], dtype=torch.float64) for v in (eta, matrix[i, j]))
            at_links += float(family.excess(x, t, pair).detach())
    sampler = BlockSampler(
        graph,
        n_links=2,
        n_uniform=1,
        rng=np.random.default_rng(0),
        measure=family.measures([pair]),
    )._samplers[0]

    class Outcome:
        def __init__(self, uniform, flips):
            self.uniform, self.flips = list(uniform), flips

        def integers(self, n, size):
            return np.array([self.uniform.pop(0)])

        def random(self, size):
            return np.array(self.flips)

    measure = links.weights if family.measure == "weight" else np.ones(len(links))
    p = measure / measure.sum()
    flips = list(itertools.product([0.1, 0.9], repeat=2)) if a == b else [(0.9, 0.9)]
    uniform = list(itertools.product(range(sizes[a]), range(sizes[b])))
    mean_zeros = mean_links = 0.0
    for ends, flip, extra in itertools.product(
        itertools.product(range(len(links)), repeat=2), flips, uniform
    ):
        sampler._draw_links = lambda rng, ends=ends: np.array(ends)
        batch = sampler.draw(Outcome(extra, flip))
        chance = p[ends[0]] * p[ends[1]] / len(uniform) / len(flips)
        masked = set(zip(*(index.tolist() for index in batch.masked), strict=True))
        for s, i in enumerate(batch.left.entities):
            for t, j in enumerate(batch.right.entities):
                if (s, t) in masked:
                    continue
                weight = math.exp(batch.left.log_weight[s] + batch.right.log_weight[t])
                weight *= batch.corner_weight if max(s, t) < batch.corner else 1.0
                eta = log_alpha + float(Y[a][i] @ Y[b][j])
                mean_zeros += chance * batch.factor * weight * log_probability(name, 0, eta)
        for s, t, x, n in zip(
            batch.left.links, batch.right.links, batch.weights, batch.link_counts, strict=True
        ):
            eta = log_alpha + float(
                Y[a][batch.left.entities[s]] @ Y[b][batch.right.entities[t]]
            )  # fmt: skip
            value = family.excess(*(torch.tensor([v], dtype=torch.float64) for v in (x, eta)), pair)
            mean_links += chance * n * float(value.detach())
    assert mean_zeros == pytest.approx(zeros, rel=1e-5)
    assert mean_links * measure.sum() == pytest.approx(at_links, rel=1e-5)


def test_alpha_of_beta_is_its_closed_form_and_sets_the_scale():
    graph, similarity = graph_of("beta"), build_similarity("inner", 4)
    Y, family = vectors(similarity), build("beta")
    trained = TrainedGraph(graph, None, Y, Y, similarity)
    alphas = family.fit_alphas(trained, np.random.default_rng(0))
    for pair, links in graph.links.items():
        W, g = links.matrix().toarray(), g_of(similarity, Y, pair)
        A = sum(W[c] * math.exp(0.5 * g[c]) for c in cells(pair))
        B = sum(math.exp(1.5 * g[c]) for c in cells(pair))
        assert alphas[pair].value == pytest.approx(math.log(A / B))
        mu = A / B * np.exp(g)
        expected = 1.5 * len(links) / sum(W[c] * mu[c] ** 0.5 for c in cells(pair))
        assert float(family.scale[family.pairs.index(pair)]) == pytest.approx(expected)


# -- models -----------------------------------------------------------------------------------

SETTINGS = {
    "n_components": 3,
    "similarity": "inner",
    "hidden_sizes": (6,),
    "max_steps": 60,
    "batch_size": 32,
    "random_state": 0,
    "progress": False,
}


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(40, 4)), rng.normal(size=(25, 5))
    mu = 0.4 * np.exp(0.8 * X[:, :1] * T[:, 0])
    across = rng.poisson(mu * rng.gamma(0.8, 1 / 0.8, mu.shape))
    within = np.triu(rng.poisson(0.1, (40, 40)), 1)
    return X, T, across, within


def model_graph(tables, name):
    X, T, across, within = tables
    if name in BINARY:
        across, within = np.minimum(across, 1), np.minimum(within, 1)
    ids = {"a": [f"a{n}" for n in range(40)], "b": [f"b{n}" for n in range(25)]}
    return MultiViewGraph({"a": X, "b": T}, {("a", "b"): across, ("a", "a"): within}, ids)


@names
@pytest.mark.parametrize("similarity", ["inner", "weighted", "hyperbolic"])
def test_fit_search_evaluate_save_and_report(name, similarity, tables, tmp_path):
    graph = model_graph(tables, name)
    model = PMvGE(**{**SETTINGS, "similarity": similarity}, family=name).fit(graph)
    eta = model.similarity_.outer_array(
        model.vectors("a", among="b").astype(float)
        @ model.vectors("b", among="a", side="candidate").T.astype(float)
    )
    eta = eta + model.log_alpha_["a", "b"]
    mu = means(name, np.exp(eta))
    ids, found = model.search("a", ids=["a1", "a7"], among="b", k=4)
    best = np.argsort(-mu[[1, 7]], axis=1)[:, :4]
    np.testing.assert_array_equal(ids, model.ids_["b"][best])
    np.testing.assert_allclose(found, np.take_along_axis(mu[[1, 7]], best, 1), rtol=1e-3)
    if name in BINARY:
        assert found.max() <= 1
    results = model.evaluate()["overall"]
    assert results["roc_auc"] > 0.4
    assert ("held_out_score" in results) == (name != "beta")
    model.save(tmp_path / "model")
    loaded = PMvGE.load(tmp_path / "model")
    assert type(loaded.family_) is FAMILIES[name]
    for key, value in model.family_.state_dict().items():
        torch.testing.assert_close(loaded.family_.state_dict()[key], value, rtol=0, atol=0)
    np.testing.assert_array_equal(loaded.search("a", ids=["a1", "a7"], among="b", k=4)[1], found)
    page = write_report(tmp_path / "report.html", loaded).read_text()
    assert f"Weights have the distribution {name}" in page
    assert ("dispersion" in loaded.describe()["alpha"]["a,b"]) == (name == "negative_binomial")
    if name == "beta":
        for method in (model.log_likelihood, model.score):
            with pytest.raises(InputError, match="is a divergence, which has no likelihood"):
                method(graph)
    else:
        assert loaded.log_likelihood(graph) == model.log_likelihood(graph)


def test_the_dispersion_is_learned():
    """Counts of known dispersions: 1 / r = 2 across, and none within the view."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    mu = 0.5 * np.exp(0.5 * X @ X.T)
    across = rng.poisson(mu * rng.gamma(0.5, 2.0, mu.shape))
    within = np.triu(rng.poisson(mu), 1)
    graph = MultiViewGraph({"a": X, "b": X}, {("a", "b"): across, ("a", "a"): within})
    settings = {"max_steps": 300, "learning_rate": 0.01, "dropout": 0.0, "patience": None}
    model = PMvGE(**{**SETTINGS, **settings}, family="negative_binomial").fit(graph)
    found = model.family_.dispersions()
    assert found["a", "b"] == pytest.approx(2.0, rel=0.25)
    assert found["a", "a"] < 0.3


@names
@pytest.mark.parametrize("exposure", [None, 1.0])
def test_fold_in_maximises_the_posterior(name, exposure, tables):
    """Against scipy, for a row with features and first links."""
    graph = model_graph(tables, name)
    model = PMvGE(**SETTINGS, family=name, effects="vector").fit(graph)
    X = graph.views["a"][:1] + 0.2
    linked = ["b1", "b2", "b9", "b11"]
    weights = np.array([1.0, 1.0, 1.0, 1.0] if name in BINARY else [2.0, 1.0, 5.0, 1.0])
    first = {"b": (np.zeros(4, int), linked, weights)}
    found = model.vectors("a", X, links=first, exposure=exposure, among="b")[0].astype(float)
    start = model.vectors("a", X, among="b")[0].astype(float)
    C = model.vectors("b", among="a", side="candidate").astype(float)
    w = np.zeros(25)
    w[[1, 2, 9, 11]] = weights
    sigma, tau = model._fitted.network.effects_of("a").prior.tolist()
    family, K = model.family_, 3

    def log_posterior(theta, level):
        eta = model.log_alpha_["a", "b"] + C @ (start + np.append(theta, 0.0)) + level
        e, t = torch.from_numpy(eta), torch.from_numpy(w)
        with torch.no_grad():
            values = torch.where(
                t > 0,
                family.at_link(t.clamp_min(1), e, PAIR),
                family.zero(e, PAIR),
            )
        prior = theta[:K] @ theta[:K] / (2 * sigma**2) + theta[K] ** 2 / (2 * tau**2)
        return float(values.sum()) - prior

    def profile(theta):
        if exposure is not None:
            return log_posterior(theta, 0.0)
        grid = optimize.minimize_scalar(
            lambda level: -log_posterior(theta, level), bounds=(-8, 8), options={"xatol": 1e-9}
        )
        return -grid.fun

    theta = (found - start)[: K + 1]
    best = profile(theta)
    assert best > profile(np.zeros(K + 1)) + 1e-3
    for k in range(K + 1 if exposure is not None else K):
        for step in (-0.02, 0.02):
            assert profile(theta + step * np.eye(K + 1)[k]) < best + 1e-6


# -- families by view pair --------------------------------------------------------------------


def test_families_may_differ_by_view_pair(tables, tmp_path):
    graph = model_graph(tables, "poisson")
    links = dict(graph.links)
    ones = model_graph(tables, "bernoulli").links["a", "a"]
    graph = graph.with_links({**links, ("a", "a"): ones})
    family = {("b", "a"): "negative_binomial", ("a", "a"): "bernoulli"}
    model = PMvGE(**SETTINGS, family=family, effects="vector").fit(graph)
    assert isinstance(model.family_, FamilyByPair)
    assert family_name(model.family_) == {"a,b": "negative_binomial", "a,a": "bernoulli"}
    own = {pair: model.family_.for_pair(*pair) for pair in graph.links}
    assert type(own["a", "b"]) is FAMILIES["negative_binomial"]
    assert type(model.family_.for_pair("b", "a")) is FAMILIES["negative_binomial"]
    for pair in graph.links:
        Y = model._fitted.outputs
        expected = own[pair].log_likelihood(
            pair,
            graph.links[pair],
            Y[pair[0]],
            Y[pair[1]],
            model.log_alpha_[pair],
            model._fitted.pair_similarity.for_pair(*pair),
        )
        assert model.log_likelihood(graph, by_pair=True)[pair] == pytest.approx(expected)
    assert model.intensity("a", None, "a", None, ids=["a1"], ids_other=["a2"]).max() <= 1
    assert "held_out_score" in model.evaluate()["overall"]
    model.save(tmp_path / "model")
    loaded = PMvGE.load(tmp_path / "model")
    assert loaded.log_likelihood(graph) == model.log_likelihood(graph)
    assert loaded.family == {"b,a": "negative_binomial", "a,a": "bernoulli"}
    assert loaded.describe()["family"] == {"a,b": "negative_binomial", "a,a": "bernoulli"}
    assert "negative_binomial" in write_report(tmp_path / "r.html", loaded).read_text()
    again = PMvGE(**{**SETTINGS, "max_steps": 2}, family=loaded.family).fit(graph)
    assert family_name(again.family_) == family_name(model.family_)


def test_alphas_by_view_pair_are_those_of_each_family_alone(tables):
    graph = model_graph(tables, "bernoulli")
    rng, similarity = np.random.default_rng(0), build_similarity("inner", 3)
    Y = {"a": rng.normal(size=(40, 3)), "b": rng.normal(size=(25, 3))}
    trained = TrainedGraph(graph, None, Y, Y, similarity)
    pairs = tuple(graph.links)
    mixed = build_family({("a", "a"): "bernoulli", PAIR: "beta"}, pairs)
    found = mixed.fit_alphas(trained, rng)
    for pair, name in ((("a", "a"), "bernoulli"), (PAIR, "beta")):
        alone = build_family(name, pairs).fit_alphas(trained, rng)
        assert found[pair].value == pytest.approx(alone[pair].value)


@pytest.mark.parametrize("name", ["expected_array", "saturated", "measure", "log_likelihood"])
def test_attributes_of_one_family_need_its_view_pair(name):
    mixed = build_family({PAIR: "logistic"}, (PAIR, ("a", "a")))
    with pytest.raises(TypeError, match=rf"^{name}: .* use family.for_pair\(view, view\).{name}$"):
        getattr(mixed, name)
    assert getattr(mixed.for_pair(*PAIR), name) is not None
    assert mixed.measures([PAIR, ("a", "a")]) == {PAIR: "uniform", ("a", "a"): "weight"}


def test_unknown_view_pairs_and_names_are_errors(tables):
    graph = model_graph(tables, "poisson")
    with pytest.raises(ParameterError, match=r"expected view pairs among .* got \('a', 'c'\)"):
        PMvGE(**SETTINGS, family={("a", "c"): "beta"}).fit(graph)
    with pytest.raises(ParameterError, match="unknown family 'gamma'"):
        PMvGE(**SETTINGS, family={("a", "b"): "gamma"}).fit(graph)
    same = build_family({"a,b": "beta", ("a", "a"): "beta"}, tuple(graph.links))
    assert type(same) is FAMILIES["beta"]


# -- weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "weight", "message"),
    [
        ("bernoulli", 3.0, "expected weights of 1, got 1 others, such as 3; set all weights to 1"),
        ("logistic", 3.0, "expected weights of 1, got 1 others, such as 3; set all weights to 1"),
        ("negative_binomial", 2.5, "expected whole numbers, got 1 others, such as 2.5; round the"),
    ],
)
def test_a_weight_that_a_family_cannot_have_is_an_error(name, weight, message):
    graph = MultiViewGraph({"a": 3, "b": 3}, {PAIR: ([0, 1, 2], [0, 1, 1], [1.0, weight, 1.0])})
    where = rf"links \('a', 'b'\): family '{name}': {message}"
    with pytest.raises(GraphError, match=where):
        PMvGE(**SETTINGS, family=name).fit(graph)
    with pytest.raises(GraphError, match=where):
        PMvGE(**SETTINGS, family={PAIR: name}).fit(graph)
    for other in ("poisson", "beta"):
        PMvGE(**{**SETTINGS, "max_steps": 2}, family=other).fit(graph)


# -- the held-out score and simulation ----------------------------------------------------------


@likelihoods
def test_the_held_out_score_is_a_double_loop(name, tables):
    graph = model_graph(tables, name)
    model = PMvGE(**SETTINGS, family=name, effects="none").fit(graph)
    family, held = model.family_, model.links_.held_out
    found = model.evaluate()["pairs"]
    r = None
    for pair in graph.links:
        if name == "negative_binomial":
            r = 1 / family.dispersions()[pair]
        known = model.links_.training[pair].matrix().toarray()
        W = held[pair].matrix().toarray()
        s = len(held[pair]) / len(graph.links[pair])
        Y = model.embeddings_
        g = Y[pair[0]].astype(float) @ Y[pair[1]].T.astype(float)
        total = 0.0
        for i, j in itertools.product(*map(range, W.shape)):
            if known[i, j] or (pair[0] == pair[1] and i >= j):
                continue
            mu = math.exp(model.log_alpha_[pair] + g[i, j])
            dist = {
                "poisson": lambda w, mu=mu: stats.poisson.pmf(w, mu),
                "bernoulli": lambda w, mu=mu: stats.bernoulli.pmf(w, 1 - math.exp(-mu)),
                "logistic": lambda w, mu=mu: stats.bernoulli.pmf(w, mu / (1 + mu)),
                "negative_binomial": lambda w, mu=mu, r=r: stats.nbinom.pmf(w, r, r / (r + mu)),
            }[name]
            w = W[i, j]
            total += math.log(s * dist(w)) if w else math.log(1 - s * (1 - dist(0)))
        score = found[",".join(pair)]["held_out_score"]
        assert score == pytest.approx(total / len(held[pair]), rel=1e-4)


@likelihoods
@pytest.mark.parametrize("kind", ["inner", "euclidean"])
def test_simulated_weights_have_the_moments_of_the_family(name, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 2))
    family, similarity = build(name, [PAIR]), build_similarity(kind, 2)
    draws = np.stack(
        [
            simulate(
                {"a": X, "b": X[:5]},
                {"a": torch.nn.Identity(), "b": torch.nn.Identity()},
                {PAIR: 0.5},
                rng,
                family=family,
                similarity=similarity,
            )
            .links[PAIR]
            .matrix()
            .toarray()
            for _ in range(3000)
        ]
    )
    Y = X.astype(np.float32).astype(float)
    g = Y @ Y[:5].T
    if kind == "euclidean":
        g = g - 0.5 * (Y**2).sum(1)[:, None] - 0.5 * (Y[:5] ** 2).sum(1)
    mu = 0.5 * np.exp(g)
    mean = means(name, mu)
    variance = {"negative_binomial": mu + mu**2 / SIZE, "poisson": mu}.get(name, mean * (1 - mean))
    np.testing.assert_allclose(draws.mean(0), mean, atol=5 * np.sqrt(variance.max() / 3000))
    np.testing.assert_allclose(draws.var(0).sum(), variance.sum(), rtol=0.15)


def test_divergences_and_links_of_other_families_cannot_be_simulated():
    rng, X = np.random.default_rng(0), np.ones((3, 2))
    encoders = {"a": torch.nn.Identity(), "b": torch.nn.Identity()}

    def draw(name, **options):
        simulate({"a": X, "b": X}, encoders, {PAIR: 1.0}, rng, family=build(name), **options)

    with pytest.raises(ParameterError, match="expected a distribution, got the divergence Beta"):
        draw("beta")
    with pytest.raises(ParameterError, match="draw='links': expected the Poisson family, got Bern"):
        draw("bernoulli", draw="links")
