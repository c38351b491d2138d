"""Every similarity of the package, against its definition written out for two vectors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from pmvge import MultiViewGraph, PMvGE
from pmvge.encoders import EncoderSpec, MultiViewEncoder, choose_encoders, schemas_of
from pmvge.errors import ParameterError
from pmvge.evaluation import evaluate_links
from pmvge.likelihoods import BlockObjective, log_likelihood, log_partition, profile_log_likelihood
from pmvge.likelihoods.block_loss import block_cells
from pmvge.report import write_report
from pmvge.sampling import BlockSampler
from pmvge.similarities import SIMILARITIES, WithBiases, build_similarity, check_similarity
from pmvge.similarities.hyperbolic import MAX_RADIUS
from pmvge.similarities.weighted import WEIGHTS_LR_MULTIPLIER

K = 4
NAMES = ["inner", "cosine", "shifted", "weighted", "difference", "euclidean", "hyperbolic"]
BIASED = [name for name in NAMES if name != "hyperbolic"]
names = pytest.mark.parametrize("name", NAMES)


def build(name, seed=0):
    """Return a similarity; weights of the coordinates are of order 1."""
    torch.manual_seed(seed)
    similarity = build_similarity(name, K)
    if name == "weighted":
        with torch.no_grad():
            similarity.theta.copy_(torch.tensor([0.1, -0.07, 0.15, -0.02]))
    return similarity


def g_of(similarity, y, z):
    """Return g of two vectors y as ``embed`` returns them, in plain Python, without biases."""
    y, z = [float(v) for v in y], [float(v) for v in z]
    products = [a * b for a, b in zip(y, z, strict=True)]
    name = type(similarity).__name__
    if name == "Weighted":
        weights = (WEIGHTS_LR_MULTIPLIER * similarity.theta.detach().double()).tolist()
        return sum(w * p for w, p in zip(weights, products, strict=True))
    if name == "Difference":
        half = math.ceil(len(y) / 2)
        return sum(products[:half]) - sum(products[half:])
    distance = math.dist(y, z)
    if name == "Euclidean":
        return -(distance**2) / 2
    if name == "Hyperbolic":
        rest = (1 - math.hypot(*y) ** 2) * (1 - math.hypot(*z) ** 2)
        return -math.acosh(1 + 2 * distance**2 / rest)
    return sum(products)


def vectors_of(similarity, n, seed):
    f = torch.from_numpy(np.random.default_rng(seed).normal(size=(n, K)))
    with torch.no_grad():
        return similarity(f).numpy()


# -- the definition -------------------------------------------------------------------------


def test_these_are_all_similarities():
    assert list(SIMILARITIES) == NAMES


@names
def test_query_and_candidate_give_the_definition(name):
    similarity = build(name)
    Y, Z = vectors_of(similarity, 6, 0), vectors_of(similarity, 5, 1)
    product = similarity.query_array(Y) @ similarity.candidate_array(Z).T
    expected = [[g_of(similarity, y, z) for z in Z] for y in Y]
    np.testing.assert_allclose(similarity.outer_array(product), expected, rtol=1e-6, atol=1e-9)


@names
def test_within_a_view_the_order_does_not_matter(name):
    similarity = build(name)
    Y = vectors_of(similarity, 7, 0)
    product = similarity.query_array(Y) @ similarity.candidate_array(Y).T
    np.testing.assert_allclose(product, product.T, rtol=1e-9)
    check_similarity(similarity, K)


def test_the_initial_weights_are_uniform_within_half_over_K():
    torch.manual_seed(0)
    weights = torch.cat([build_similarity("weighted", 50).weights.detach() for _ in range(40)])
    assert float(weights.abs().max()) <= 0.5 / 50
    assert float(weights.abs().max()) > 0.49 / 50
    assert float(weights.std()) == pytest.approx(1 / 50 / math.sqrt(12), rel=0.05)


def test_hyperbolic_vectors_stay_within_the_radius():
    similarity = build("hyperbolic")
    f = torch.tensor([[0.0] * K, [1e-4, 0, 0, 0], [3.0, 4.0, 0, 0], [1e6] * K])
    y = similarity(f)
    radius = 2 * torch.atanh(y.double().norm(dim=1))
    expected = [0, 1e-4, MAX_RADIUS * math.tanh(5 / MAX_RADIUS), MAX_RADIUS]
    np.testing.assert_allclose(radius, expected, atol=2e-4)


def test_hyperbolic_distances_in_float32_are_accurate():
    """At the largest radius: exact for distant points, below 0.1 for coinciding ones."""
    similarity = build("hyperbolic")
    f = 1e3 * torch.from_numpy(np.random.default_rng(0).normal(size=(40, K)))
    with torch.no_grad():
        exact, single = (
            similarity.outer(similarity.query(y) @ similarity.candidate(y).T).double()
            for y in (similarity(f), similarity(f.float()))
        )
    apart = ~torch.eye(40, dtype=torch.bool)
    np.testing.assert_allclose(single[apart], exact[apart], rtol=1e-3, atol=1e-3)
    assert float(single.diag().abs().max()) < 0.1


# -- gradients ------------------------------------------------------------------------------

POSITIONS = {
    "ordinary": (1.0, 1.0),
    "close": (1.0, 0.02),
    "far out": (30.0, 30.0),
    "near zero": (1e-3, 0.02),
}


def objective(similarity, f, h, scale):
    """A smooth function of all similarities of f and h, which are of order ``scale`` squared."""
    g = similarity.outer(similarity.query(similarity(f)) @ similarity.candidate(similarity(h)).T)
    weight = torch.linspace(0.5, 1.5, g.numel(), dtype=g.dtype).view_as(g)
    return (weight * torch.sin(g / max(1.0, scale**2))).sum()


@names
@pytest.mark.parametrize("position", POSITIONS)
def test_gradients_are_those_of_finite_differences(name, position):
    similarity = build(name).double()
    rng = np.random.default_rng(3)
    scale, step_away = POSITIONS[position]
    f = torch.from_numpy(scale * rng.normal(size=(3, K)))
    h = f + step_away * torch.from_numpy(rng.normal(size=(3, K)))
    f.requires_grad_()
    h.requires_grad_()
    parameters = [p for p in similarity.parameters() if p.requires_grad]
    inputs = [f, h, *parameters]
    gradients = torch.autograd.grad(objective(similarity, f, h, scale), inputs)
    step = 1e-6 * min(1.0, step_away)
    for tensor, gradient in zip(inputs, gradients, strict=True):
        for at in itertools.islice(np.ndindex(*tensor.shape), 8):
            values = []
            for sign in (1, -1):
                with torch.no_grad():
                    tensor[at] += sign * step
                    values.append(float(objective(similarity, f, h, scale)))
                    tensor[at] -= sign * step
            slope = (values[0] - values[1]) / (2 * step)
            assert float(gradient[at]) == pytest.approx(slope, rel=2e-4, abs=1e-5)


@names
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1.0, 50.0])
def test_gradients_of_coinciding_vectors_are_finite(name, dtype, scale):
    similarity = build(name).to(dtype)
    f = (scale * torch.ones(2, K, dtype=dtype)).requires_grad_()
    g = similarity.outer(similarity.query(similarity(f)) @ similarity.candidate(similarity(f)).T)
    g.sum().backward()
    assert bool(g.isfinite().all())
    assert bool(f.grad.isfinite().all())
    if name in ("euclidean", "hyperbolic"):  # both are at their maximum
        assert float(f.grad.abs().max()) < (1e-6 if dtype is torch.float64 else 0.05)


@pytest.mark.parametrize("name", BIASED)
def test_partner_slopes_are_derivatives_of_g(name):
    """In the vector of an entity, which Euclidean similarity takes to be the partners' mean."""
    similarity = build(name).double()
    y = torch.from_numpy(np.random.default_rng(0).normal(size=(5, K)))
    own = y.mean(0, keepdim=True).requires_grad_()
    with torch.no_grad():
        found = similarity.partner_slopes(y)
    for j in range(5):
        g = (similarity.query(own) * similarity.candidate(y[j : j + 1])).sum()
        torch.testing.assert_close(found[j], torch.autograd.grad(g, own)[0][0])


# -- sums over a graph ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(30, 4)), rng.normal(size=(20, 5))
    across = np.nonzero(rng.random((30, 20)) < 0.25 / (1 + np.exp(-2 * X[:, :1] * T[:, 0])))
    within = np.nonzero(np.triu(rng.random((30, 30)) < 0.1, 1))
    ids = {"a": [f"a{n}" for n in range(30)], "b": [f"b{n}" for n in range(20)]}
    links = {("a", "b"): (*across, 1.0 + np.arange(len(across[0])) % 3), ("a", "a"): within}
    return MultiViewGraph({"a": X, "b": T}, links, ids)


def outputs_of(name, sizes, *, seed=5):
    """Return a similarity of outputs and the outputs, with biases for the shifted one."""
    similarity = build(name)
    Y = {view: vectors_of(similarity, n, seed + k) for k, (view, n) in enumerate(sizes.items())}
    if name != "shifted":
        return similarity, Y
    pairs = {"a": [("a", "b"), ("a", "a")], "b": [("a", "b")]}
    rng = np.random.default_rng(seed)
    Y = {v: np.concatenate([y, rng.normal(size=(len(y), len(pairs[v])))], 1) for v, y in Y.items()}
    return WithBiases(similarity, K, pairs), Y


def pair_similarities(name, similarity, Y, pair):
    """Return g of all entity pairs of a view pair, {(i, j): g}, from the definition."""
    a, b = pair
    base = similarity.similarity if name == "shifted" else similarity
    g = {}
    for i, j in itertools.product(range(len(Y[a])), range(len(Y[b]))):
        if a == b and i >= j:
            continue
        g[i, j] = g_of(base, Y[a][i][:K], Y[b][j][:K])
        if name == "shifted":
            column = K + (1 if a == b else 0)
            g[i, j] += Y[a][i][column] + Y[b][j][column if a == b else K]
    return g


@names
def test_exact_sums_are_those_of_a_double_loop(name, graph):
    similarity, Y = outputs_of(name, graph.sizes)
    log_alpha = {("a", "b"): -1.0, ("a", "a"): -2.0}
    found = log_likelihood(graph, Y, log_alpha, similarity=similarity)
    profile = profile_log_likelihood(graph, Y, similarity=similarity)
    for pair, links in graph.links.items():
        a, b = pair
        g = pair_similarities(name, similarity, Y, pair)
        log_Z = math.log(math.fsum(map(math.exp, g.values())))
        compared = similarity.for_pair(a, b)
        other = None if a == b else Y[b]
        exact = log_partition(Y[a], other, similarity=compared, tile=7)
        assert exact == pytest.approx(log_Z, rel=1e-8)
        entries = list(zip(links.rows, links.cols, links.weights, strict=True))
        at_links = math.fsum(w * g[int(i), int(j)] for i, j, w in entries)
        W = links.total
        expected = math.exp(log_alpha[pair] + log_Z)
        assert found[pair] == pytest.approx(at_links + W * log_alpha[pair] - expected, rel=1e-8)
        assert profile[pair] == pytest.approx(at_links + W * (math.log(W) - log_Z - 1), rel=1e-8)


@names
def test_the_loss_of_a_block_and_its_gradient(name, graph):
    similarity, Y = outputs_of(name, graph.sizes)
    similarity = similarity.double()
    sampler = BlockSampler(graph, n_links=1000, n_uniform=1000, rng=np.random.default_rng(0))
    exact = profile_log_likelihood(graph, Y, similarity=similarity)
    objective = BlockObjective(graph, similarity)
    for batch in sampler.each_pair():
        y = [torch.tensor(Y[view][rows], requires_grad=True) for view, rows in batch.inputs]
        loss = objective(batch, y).value
        links = graph.links[batch.pair]
        constant = math.log(links.total / links.n_terms) - 1
        assert float(loss.detach()) == pytest.approx(
            constant - exact[batch.pair] / links.total, rel=1e-5
        )
        loss.backward()
        for at in ((3, 1), (0, 3), (7, 0)):
            values = []
            for sign in (1, -1):
                moved = [t.detach().clone() for t in y]
                moved[0][at] += sign * 1e-5
                values.append(float(objective(batch, moved).value.detach()))
            slope = (values[0] - values[1]) / 2e-5
            assert float(y[0].grad[at]) == pytest.approx(slope, rel=1e-3, abs=1e-6)


@names
@pytest.mark.parametrize("pair", [("a", "b"), ("a", "a")])
def test_a_block_estimates_the_sum_without_bias(name, pair):
    """The mean over all possible blocks of two links and one uniform entity a side is Z."""
    sizes = {"a": 5, "b": 4}
    links = {("a", "b"): ([0, 1, 4], [1, 0, 3]), ("a", "a"): ([0, 1], [2, 3])}
    graph = MultiViewGraph(sizes, {pair: (*links[pair], [1.0, 2.0, 1.0][: len(links[pair][0])])})
    similarity, Y = outputs_of(name, sizes)
    compared = similarity.for_pair(*pair)
    Z = math.fsum(map(math.exp, pair_similarities(name, similarity, Y, pair).values()))

    class Draws:
        """A generator whose draws are given; it stands for one possible outcome."""

        def __init__(self, ends, uniform, flips):
            self.ends, self.uniform, self.flips = ends, list(uniform), flips

        def integers(self, n, size):
            return np.array([self.uniform.pop(0)])

        def random(self, size):
            return np.array(self.flips)

    part = graph.links[pair]
    total, chance = 0.0, 0.0
    sampler = BlockSampler(graph, n_links=2, n_uniform=1, rng=np.random.default_rng(0))
    one = sampler._samplers[0]
    p = part.weights / part.total
    a, b = pair
    flips = itertools.product([0.1, 0.9], repeat=2) if a == b else [(0.9, 0.9)]
    uniform = list(itertools.product(range(sizes[a]), range(sizes[b])))
    for ends, flip, extra in itertools.product(
        itertools.product(range(len(part)), repeat=2), list(flips), uniform
    ):
        draws = Draws(ends, extra, flip)
        one._draw_links = lambda rng: np.array(rng.ends)
        batch = one.draw(draws)
        left = torch.from_numpy(compared.query_array(Y[a][batch.left.entities]))
        right = torch.from_numpy(compared.candidate_array(Y[b][batch.right.entities]))
        with torch.no_grad():
            g, weight = block_cells(left, right, batch, compared)
        probability = p[ends[0]] * p[ends[1]] / len(uniform) / (4 if a == b else 1)
        total += probability * float((weight * g.exp()).sum())
        chance += probability
    assert chance == pytest.approx(1)
    assert total == pytest.approx(Z, rel=1e-5)


# -- models ---------------------------------------------------------------------------------

SETTINGS = {"hidden_sizes": (6,), "max_steps": 40, "batch_size": 32, "random_state": 0}


def fitted_similarities(model, a, b, outputs=None):
    """Return g (n, m) of training entities from the definition and the stored biases."""
    outputs = model._fitted.outputs if outputs is None else outputs
    similarity = model.similarity_
    K = model.n_components
    g = np.array([[g_of(similarity, y[:K], z[:K]) for z in outputs[b]] for y in outputs[a]])
    pairs = model._fitted.network.bias_pairs
    for view, axis in ((a, 1), (b, 0)):
        at = [n for n, pair in enumerate(pairs.get(view, [])) if set(pair) == {a, b}]
        if at:
            g = g + np.expand_dims(outputs[view][:, K + at[0]], axis)
    return g


@names
@pytest.mark.parametrize("scheme", ["block", "paper"])
def test_fit_search_evaluate_save_load_and_report(name, scheme, graph, tmp_path):
    model = PMvGE(3, similarity=name, scheme=scheme, progress=False, effects="none", **SETTINGS)
    check_model(model.fit(graph), graph, tmp_path, name)


@pytest.mark.parametrize("name", BIASED)
@pytest.mark.parametrize("effects", ["bias", "vector"])
def test_every_similarity_that_takes_biases_takes_effects(name, effects, graph, tmp_path):
    model = PMvGE(3, similarity=name, progress=False, effects=effects, **SETTINGS).fit(graph)
    check_model(model, graph, tmp_path, name)
    first = {"b": (np.zeros(3, int), ["b1", "b2", "b3"], [2.0, 1.0, 1.0])}
    y = model.fold_in("a", graph.views["a"][:1], links=first)
    assert y.shape == (1, 3)
    changed = not np.array_equal(y, model.embed("a", graph.views["a"][:1]))
    assert changed == (effects == "vector")


def check_model(model, graph, folder, name):
    """Compare everything a model returns with brute force over the definition."""
    for a, b in graph.links:
        g = fitted_similarities(model, a, b)
        mu = np.exp(g + model.log_alpha_[a, b])
        total = np.triu(mu, 1).sum() if a == b else mu.sum()
        assert total == pytest.approx(graph.links[a, b].total, rel=1e-4)  # alpha is exact
        ids_a, ids_b = (model.ids_[view] for view in (a, b))
        found = model.intensity(a, None, b, None, ids=ids_a, ids_other=ids_b)
        apart = ~np.eye(len(mu), dtype=bool) if a == b else slice(None)
        np.testing.assert_allclose(found[apart], mu[apart], rtol=2e-3)
        query = model.vectors(a, among=b)
        candidate = model.vectors(b, among=a, side="candidate")
        product = query.astype(float) @ candidate.T.astype(float)
        outer = model.similarity_.outer_array(product)
        np.testing.assert_allclose(outer[apart], g[apart], rtol=1e-3, atol=1e-4)
        ids, scores = model.search(a, ids=ids_a[:5], among=b, k=4, by="similarity", exclude="self")
        left_out = np.where(np.eye(*g.shape, dtype=bool), -np.inf, g) if a == b else g
        best = np.sort(left_out[:5], axis=1)[:, ::-1][:, :4]
        np.testing.assert_allclose(scores, best, rtol=1e-3, atol=1e-4)
        at = np.array([[ids_b.tolist().index(name) for name in row] for row in ids.tolist()])
        np.testing.assert_allclose(np.take_along_axis(g[:5], at, 1), best, rtol=1e-3, atol=1e-4)
        results = evaluate_links(
            model._fitted.outputs[a],
            model._fitted.outputs[b],
            graph.links[a, b],
            log_alpha=model.log_alpha_[a, b],
            similarity=model._fitted.pair_similarity.for_pair(a, b),
        )
        assert results["expected_over_observed"] == pytest.approx(1, rel=1e-3)
        assert results["roc_auc"] == pytest.approx(brute_force_auc(g, graph.links[a, b]), abs=1e-3)
    new = model.embed("a", graph.views["a"][:2] + 0.1)
    assert new.shape == (2, 3)
    assert np.isfinite(new).all()
    model.save(folder / "model")
    loaded = PMvGE.load(folder / "model")
    assert type(loaded.similarity_) is SIMILARITIES[name]
    np.testing.assert_array_equal(loaded.vectors("a", among="b"), model.vectors("a", among="b"))
    np.testing.assert_array_equal(loaded.embed("a", graph.views["a"][:2] + 0.1), new)
    assert loaded.log_likelihood(graph) == model.log_likelihood(graph)
    assert loaded.describe()["similarity"] == name
    page = write_report(folder / "report.html", loaded)
    assert page.stat().st_size > 100_000


def brute_force_auc(g, links):
    linked = links.matrix().toarray() > 0
    cells = np.triu(np.ones_like(linked), 1) > 0 if links.within else np.ones_like(linked)
    up, down = g[linked & cells], g[~linked & cells]
    return float(((up[:, None] > down).mean() + (up[:, None] >= down).mean()) / 2)


# -- shifts and biases ------------------------------------------------------------------------


def network_of(views, pairs, encoder, similarity="shifted", effects=None):
    rng = np.random.default_rng(0)
    features = {v: n if isinstance(n, int) else rng.normal(size=n) for v, n in views.items()}
    graph = MultiViewGraph(features, {pair: ([0, 1], [1, 2]) for pair in pairs})
    spec = EncoderSpec("mlp", (6,), "relu", "identity", False, 0.0, 0.0, False)
    schemas = schemas_of(graph)
    choices = choose_encoders(encoder, spec, schemas)
    return MultiViewEncoder(
        choices, schemas, 3, similarity, effects=effects or {}, pairs=tuple(graph.links)
    )


def test_shifts_exist_without_effects_for_every_encoder():
    pairs = [("a", "b"), ("a", "a"), ("b", "c")]
    encoder = {"a": "mlp", "b": "identity", "c": "lookup", "d": "linear"}
    views = {"a": (5, 4), "b": (5, 3), "c": 5, "d": (5, 2)}
    network = network_of(views, pairs, encoder)
    assert {view: network.n_biases(view) for view in views} == {"a": 2, "b": 2, "c": 1, "d": 0}
    assert all(network.effects_of(view) is None for view in views)
    for view, x in (("a", torch.ones(2, 4)), ("b", torch.ones(2, 3)), ("c", torch.tensor([0, 3]))):
        y = network(view, x)
        assert y.shape == (2, 3 + network.n_biases(view))
        assert not y[:, 3:].any()  # they start at 0
        y[:, 3:].sum().backward()
        touched = [p for m in network.modules_of(view) for p in m.parameters()]
        assert any(p.grad is not None and bool(p.grad.any()) for p in touched)
    assert network("d", torch.ones(2, 2)).shape == (2, 3)


def test_shifts_of_a_featureless_view_are_free_numbers():
    """Without features each entity has a shift; at the maximum, expected weights add up."""
    rng = np.random.default_rng(0)
    degree = np.exp(rng.normal(size=40))
    W = rng.poisson(0.2 * np.outer(degree, degree[:20]))
    graph = MultiViewGraph({"a": 40, "b": 20}, {("a", "b"): W})
    settings = {"max_steps": 300, "learning_rate": 0.05, "patience": None, "random_state": 0}
    settings |= {"effects": "none", "weight_decay": 0.0, "schedule": "constant", "progress": False}
    model = PMvGE(1, similarity="shifted", **settings).fit(graph)
    g, u = fitted_similarities(model, "a", "b"), model._fitted.outputs["b"][:, 1]
    mu = np.exp(g + model.log_alpha_["a", "b"])
    np.testing.assert_allclose(mu.sum(0), W.sum(0), rtol=0.05, atol=0.5)
    np.testing.assert_allclose(mu.sum(1), W.sum(1), rtol=0.05, atol=0.5)
    assert float(u.std()) > 0.3
    assert abs(float(u.mean())) < 1e-5  # centred


def test_hyperbolic_similarity_takes_no_effects(graph):
    message = (
        "similarity 'hyperbolic': expected no effects, because it takes no biases, got 'bias' "
        "for view 'b'; use effects='none' or another similarity"
    )
    with pytest.raises(ParameterError, match=message):
        PMvGE(similarity="hyperbolic", effects={"b": "bias"}, progress=False).fit(graph)
    model = PMvGE(3, similarity="hyperbolic", progress=False, **SETTINGS)  # effects="auto"
    assert model.fit(graph)._fitted.effects == {"a": "none", "b": "none"}
