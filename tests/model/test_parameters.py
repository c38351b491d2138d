"""Checks of parameters, devices and seeds."""

import re

import numpy as np
import pytest
import torch

from pmvge import PMvGE, PmvgeError
from pmvge.checks import pick_seed
from pmvge.errors import ParameterError
from pmvge.model import check_parameters
from pmvge.model.parameters import CHECKS, pick_device

NAN, INF = float("nan"), float("inf")

INTEGERS = {  # least value
    "n_components": 1,
    "batch_size": 2,
    "max_steps": 1,
    "decay_every": 1,
    "patience": 1,
    "checkpoint_steps": 1,
}
POSITIVE = ["negative_rate", "tau", "max_epochs", "learning_rate", "decay_factor", "clip_norm"]
FROM_ZERO = ["weight_decay", "checkpoint_seconds"]
FLAGS = ["batch_norm", "standardize", "progress"]
NAMES = {
    "similarity": [
        "inner",
        "cosine",
        "shifted",
        "weighted",
        "difference",
        "euclidean",
        "hyperbolic",
    ],
    "family": ["poisson", "bernoulli", "logistic", "negative_binomial", "beta"],
    "scheme": ["block", "paper"],
    "schedule": ["constant", "step", "cosine"],
    "precision": ["float32", "bfloat16"],
}
OPTIONAL = {
    "weight_decay",
    "tau",
    "max_epochs",
    "max_steps",
    "clip_norm",
    "pair_weights",
    "patience",
    "checkpoint_dir",
    "checkpoint_steps",
    "checkpoint_seconds",
}


def refused(name, value) -> str:
    """Return the message for one invalid parameter."""
    with pytest.raises(ParameterError, match=f"^{name}: |unknown {name} ") as caught:
        check_parameters(PMvGE().get_params() | {name: value})
    assert isinstance(caught.value, PmvgeError)
    return str(caught.value)


def accepted(name, value) -> None:
    check_parameters(PMvGE().get_params() | {name: value})


def test_all_checks_are_tested_here() -> None:
    others = {"validation_fraction", "hidden_sizes", "checkpoint_dir", "pair_weights"}
    here = {*INTEGERS, *POSITIVE, *FROM_ZERO, *FLAGS, *NAMES, *others}
    assert here == set(CHECKS)
    assert here <= set(PMvGE().get_params())


def test_the_defaults_pass() -> None:
    check_parameters(PMvGE().get_params())


def test_pair_weights() -> None:
    for value in ("balanced", {}, {("a", "b"): 0.5}, {"a,b": 3}):
        accepted("pair_weights", value)
    for value in ("equal", 2, ["balanced"], np.ones(2), {("a", "b"): 0}, {("a", "b"): NAN}):
        refused("pair_weights", value)


@pytest.mark.parametrize(("name", "least"), INTEGERS.items())
def test_integers(name, least) -> None:
    for value in (least, np.int64(least + 1)):
        accepted(name, value)
    for value in (least - 1, -5, 1.0, 2.5, "3", True, NAN):
        assert refused(name, value) == f"{name}: expected an integer >= {least}, got {value!r}"


@pytest.mark.parametrize(
    ("name", "bounds", "good", "bad"),
    [
        *((name, "(0, inf)", 1e-9, 0) for name in POSITIVE),
        *((name, "[0, inf)", 0, -1e-9) for name in FROM_ZERO),
        ("validation_fraction", "(0, 1)", 0.999, 0),
        ("validation_fraction", "(0, 1)", 0.001, 1),
    ],
)
def test_numbers(name, bounds, good, bad) -> None:
    for value in (good, np.float32(0.5)):
        accepted(name, value)
    for value in (bad, INF, -INF, NAN, "1", True, 1j):
        assert refused(name, value) == f"{name}: expected a number in {bounds}, got {value!r}"


@pytest.mark.parametrize("name", FLAGS)
def test_flags(name) -> None:
    for value in (True, False, np.True_):
        accepted(name, value)
    for value in (1, 0, "yes", None):
        assert refused(name, value) == f"{name}: expected True or False, got {value!r}"


@pytest.mark.parametrize(("name", "known"), NAMES.items())
def test_unknown_names_are_refused_with_a_suggestion(name, known) -> None:
    for value in known:
        accepted(name, value)
    listed = re.escape(", ".join(map(repr, known)))
    misspelt = known[0][:-1] + "x"
    guess = re.escape(f"; did you mean {known[0]!r}?")
    assert re.fullmatch(f"unknown {name} '{misspelt}': .*{listed}{guess}", refused(name, misspelt))
    for value in ("qqq", None, 3):
        assert re.fullmatch(f"unknown {name} {value!r}: .*{listed}", refused(name, value))


def test_layer_sizes_are_a_sequence_of_positive_integers() -> None:
    for value in ((), (8,), [8, np.int64(4)]):
        accepted("hidden_sizes", value)
    for value in (8, "8", {8}):
        message = f"hidden_sizes: expected a tuple of integers >= 1, got {value!r}"
        assert refused("hidden_sizes", value) == message
    for value in (0, 2.0, True):
        message = f"hidden_sizes: expected an integer >= 1, got {value!r}"
        assert refused("hidden_sizes", (8, value)) == message


def test_checkpoint_dir_is_a_path(tmp_path) -> None:
    for value in ("run", tmp_path):
        accepted("checkpoint_dir", value)
    assert refused("checkpoint_dir", 3) == "checkpoint_dir: expected a path, got 3"


@pytest.mark.parametrize("name", [*CHECKS])
def test_none_is_accepted_only_by_optional_parameters(name) -> None:
    if name in OPTIONAL:
        accepted(name, None)
    else:
        refused(name, None)


# -- device and seed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(True, True, "cuda"), (True, False, "cuda"), (False, True, "mps"), (False, False, "cpu")],
)
def test_auto_takes_the_first_accelerator(cuda, mps, expected, monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert pick_device("auto") == torch.device(expected)


@pytest.mark.parametrize("given", ["cpu", torch.device("cpu")])
def test_a_device_by_name(given) -> None:
    assert pick_device(given) == torch.device("cpu")


@pytest.mark.parametrize("given", ["gpu", "", None, 1.5, ["cpu"]])
def test_an_unavailable_device_is_refused(given) -> None:
    message = f"device: expected 'auto' or an available .* got {re.escape(repr(given))}"
    with pytest.raises(ParameterError, match=message):
        pick_device(given)


@pytest.mark.parametrize("seed", [0, 7, np.int64(7), 2**62])
def test_an_integer_is_its_own_seed(seed) -> None:
    assert pick_seed(seed) == int(seed)
    assert type(pick_seed(seed)) is int


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_gives_a_new_seed_each_time(make) -> None:
    generator = make(5)
    first, second = pick_seed(generator), pick_seed(generator)
    assert first != second
    assert first == pick_seed(make(5))


def test_without_a_seed_the_global_generator_is_not_used() -> None:
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert pick_seed(None) != pick_seed(None)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("seed", [-1, 0.5, "7", True])
def test_other_seeds_are_refused(seed) -> None:
    with pytest.raises(
        ParameterError, match=f"random_state: expected an integer >= 0, got {seed!r}"
    ):
        pick_seed(seed)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_limited_to_31_bits(name):
    with pytest.raises(ParameterError, match=rf"^{name}: expected an integer <= 2147483647, got"):
        check_parameters(PMvGE().get_params() | {name: 10**26})


def test_a_path_with_a_nul_is_refused():
    with pytest.raises(
        ParameterError, match="checkpoint_dir: expected a path without NUL characters"
    ):
        check_parameters(PMvGE().get_params() | {"checkpoint_dir": "a\0b"})
