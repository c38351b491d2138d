"""Similarities with biases, against sums over single entities; effects of cosine similarity."""

import numpy as np
import pytest
import torch

from pmvge.similarities import Similarity, WithBiases, build_similarity

K = 3
PAIRS = {"a": [("a", "b"), ("c", "a"), ("a", "a")], "b": [("a", "b")]}  # "c" has no biases
WIDTH = {"a": K + 3, "b": K + 1, "c": K}
COLUMN = {("a", "b"): (0, 0), ("c", "a"): (None, 1), ("a", "a"): (2, 2), ("b", "c"): (None, None)}


class Twisted(Similarity):
    """A similarity whose query, candidate and outer all differ."""

    linear = False

    def query(self, y):
        return torch.cat([y, y.sum(1, keepdim=True)], 1)

    def candidate(self, y):
        return torch.cat([2 * y, y.sum(1, keepdim=True)], 1)

    def outer(self, product):
        return torch.sinh(product)


def outputs(view, n, seed=0):
    return torch.from_numpy(np.random.default_rng([seed, ord(view)]).normal(size=(n, WIDTH[view])))


@pytest.mark.parametrize("similarity", [build_similarity("inner", K), Twisted()])
@pytest.mark.parametrize("pair", COLUMN)
def test_biases_are_added_to_the_inner_product(pair, similarity):
    left, right = outputs(pair[0], 5), outputs(pair[1], 4, seed=1)
    biased = WithBiases(similarity, K, PAIRS).for_pair(*pair)
    found = biased.outer(biased.query(left) @ biased.candidate(right).T)
    columns = COLUMN[pair]
    for i in range(5):
        for j in range(4):
            q, c = similarity.query(left[i : i + 1, :K]), similarity.candidate(right[j : j + 1, :K])
            product = float((q * c).sum())
            product += 0.0 if columns[0] is None else float(left[i, K + columns[0]])
            product += 0.0 if columns[1] is None else float(right[j, K + columns[1]])
            expected = float(similarity.outer(torch.tensor(product, dtype=torch.float64)))
            assert float(found[i, j]) == pytest.approx(expected)


def test_the_other_order_of_a_pair_has_the_same_similarities():
    left, right = outputs("a", 5), outputs("b", 4)
    similarity = WithBiases(build_similarity("inner", K), K, PAIRS)
    there, back = similarity.for_pair("a", "b"), similarity.for_pair("b", "a")
    g = there.query(left) @ there.candidate(right).T
    torch.testing.assert_close(back.query(right) @ back.candidate(left).T, g.T)


def test_within_a_view_biased_similarities_are_symmetric():
    y = outputs("a", 6)
    similarity = WithBiases(build_similarity("inner", K), K, PAIRS).for_pair("a", "a")
    g = similarity.query(y) @ similarity.candidate(y).T
    torch.testing.assert_close(g, g.T)


def test_a_pair_without_biases_has_no_more_coordinates():
    y = outputs("b", 4)
    similarity = WithBiases(build_similarity("inner", K), K, PAIRS).for_pair("b", "c")
    assert torch.equal(similarity.query(y), y[:, :K])
    assert torch.equal(similarity.candidate(y), y[:, :K])


# -- effects --------------------------------------------------------------------------------


def test_effects_are_added_to_the_vectors_of_inner_similarity():
    similarity, f, e = build_similarity("inner", K), torch.randn(4, K), torch.randn(4, K)
    assert torch.equal(similarity(f, e), f + e)
    assert torch.equal(similarity.from_effects(e), e)


def test_effects_of_cosine_similarity_are_relative_to_unit_vectors():
    similarity = build_similarity("cosine", K)
    s = float(torch.exp(10 * similarity.theta.detach()))
    f, e = torch.randn(4, K), torch.randn(4, K)
    found = similarity(f, e).detach().numpy()
    for row, x, effect in zip(found, f.numpy(), e.numpy(), strict=True):
        y = x / np.linalg.norm(x) + effect
        np.testing.assert_allclose(row, np.sqrt(s) * y / np.linalg.norm(y), rtol=1e-5)
    torch.testing.assert_close(similarity(f, torch.zeros(4, K)), similarity(f))
    torch.testing.assert_close(similarity(7 * f, e), similarity(f, e))


def test_gradients_of_cosine_vectors_with_effects_are_those_of_autograd():
    similarity = build_similarity("cosine", 4).double()
    f, e, G = torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    f[0], e[1] = 0.0, 0.0  # no direction of f, and no effects
    given = f.requires_grad_(), e.requires_grad_(), similarity.theta
    z = torch.nn.functional.normalize(f, dim=-1) + e
    plain = torch.exp(5 * similarity.theta) * z / torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    ours = similarity(f, e)
    torch.testing.assert_close(ours, plain)
    for mine, other in zip(
        torch.autograd.grad(ours, given, G), torch.autograd.grad(plain, given, G), strict=True
    ):
        torch.testing.assert_close(mine, other)


def test_effects_alone_give_cosine_vectors_of_bounded_length():
    similarity = build_similarity("cosine", K)
    s = float(torch.exp(10 * similarity.theta.detach()))
    direction = torch.tensor([[0.6, 0.0, -0.8]])
    for length in (0.0, 1e-3, 0.5, 3.0, 1e4):
        y = similarity.from_effects(length * direction).detach()
        expected = length / np.sqrt(1 + length**2 / s)
        np.testing.assert_allclose(y, expected * direction, rtol=1e-5)
    assert float(similarity.from_effects(1e6 * direction).detach().norm()) <= np.sqrt(s) * 1.0001


@pytest.mark.parametrize("featureless", [False, True])
@pytest.mark.parametrize("name", ["inner", "cosine"])
def test_the_scale_of_effects_is_that_of_changes_of_direction(name, featureless):
    """Finite differences across e, where f / |f| and e are orthogonal or f is absent."""
    similarity, K = build_similarity(name, 8), 8
    f = torch.zeros(1, K, dtype=torch.float64)
    f[0, 0] = 2.0
    e, step = torch.zeros_like(f), torch.zeros_like(f)
    e[0, 1], step[0, 2] = 0.7, 1e-4

    def y(effects):
        with torch.no_grad():
            return similarity.from_effects(effects) if featureless else similarity(f, effects)

    derivative = (y(e + step) - y(e - step)) / 2e-4
    found = similarity.effect_scale(e, featureless=featureless)
    assert found == pytest.approx(float(derivative.square().sum()), rel=1e-4)
