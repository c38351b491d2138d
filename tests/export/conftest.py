"""Small fitted models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pmvge import MultiViewGraph, PMvGE

N, M, T = 30, 12, 5  # users, films, tags


def fitted(users: Any = None, films: Any = None, **settings: Any) -> PMvGE:
    """Return a model of users with features, films with or without, and tags without."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4)).astype(np.float32) * 3 + 1 if users is None else users
    views = {"users": X, "films": M if films is None else films, "tags": T}
    links = {
        ("users", "films"): (rng.random((N, M)) < 0.3).astype(float),
        ("films", "tags"): (rng.random((M, T)) < 0.4).astype(float),
    }
    ids = {"users": [f"u{i}" for i in range(N)], "films": [f"f{j}" for j in range(M)]}
    model = PMvGE(4, **{"max_steps": 20, "random_state": 0, "progress": False, **settings})
    return model.fit(MultiViewGraph(views, links, ids=ids))


@pytest.fixture(scope="session")
def fit() -> Callable[..., PMvGE]:
    return fitted


@pytest.fixture(scope="session")
def model() -> PMvGE:
    """Return a model with names, labels, and effects, so that links have biases."""
    names = {"films": {"title": [f"Film {j}" for j in range(M)]}}
    labels = {"users": {"ID": ["red", "blue", ""] * (N // 3), "x": ["1"] * N}}
    return fitted().label(labels, columns=names, names={"films": "title"})
