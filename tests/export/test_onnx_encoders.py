"""ONNX graphs against torch, and what cannot be exported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from pmvge import PMvGE
from pmvge.errors import InputError
from pmvge.export import export_onnx

pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")

rng = np.random.default_rng(1)
ROWS = rng.normal(size=(7, 4)).astype(np.float32) * 3


def run(folder: Path, view: str, x: Any) -> dict[str, Any]:
    """Return the outputs of the graph of a view, with the names that the recipe gives them."""
    entry = json.loads((folder / "recipe.json").read_text())["views"][view]
    session = runtime.InferenceSession(folder / entry["encoder"])
    outputs = entry["outputs"]
    names = {"vector": outputs["vector"]}
    for side in ("query", "candidate"):
        names |= {(side, other): name for other, name in outputs[side].items()}
    return dict(zip(names, session.run(list(names.values()), {"x": x}), strict=True))


def check(model: PMvGE, folder: Path, view: str, X: Any, x: Any) -> None:
    """Compare a graph with ``embed`` and ``vectors`` of the same rows."""
    found = run(folder, view, x)
    np.testing.assert_allclose(found.pop("vector"), model.embed(view, X), atol=1e-5)
    assert found
    for (side, other), vectors in found.items():
        expected = model.vectors(view, X, among=other, side=side)
        np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"similarity": "inner"},
        {"similarity": "cosine", "hidden_sizes": (6, 5), "activation": "gelu", "batch_norm": True},
        {"similarity": "inner", "encoder": "linear", "effects": "none"},
        {"similarity": "shifted", "effects": "none"},
        {"similarity": "weighted", "effects": "bias", "standardize": False},
        {"similarity": "difference", "activation": "tanh"},
        {"similarity": "euclidean", "output_activation": "sigmoid"},
        {"similarity": "hyperbolic"},
    ],
    ids=lambda settings: settings["similarity"],
)
def test_onnxruntime_equals_torch(
    fit: Callable[..., PMvGE], tmp_path: Path, settings: dict[str, Any]
) -> None:
    model = fit(**settings)
    paths = export_onnx(model, tmp_path)
    assert [path.name for path in paths] == ["users.onnx", "recipe.json"]
    check(model, tmp_path, "users", ROWS, ROWS)
    assert b".py" not in paths[0].read_bytes()  # no stack traces


@pytest.mark.slow
def test_images_sparse_rows_and_several_views(fit: Callable[..., PMvGE], tmp_path: Path) -> None:
    images = rng.normal(size=(12, 3, 4, 5)).astype(np.float32)
    words = sparse.random_array((30, 50), density=0.1, rng=0, dtype=np.float32).tocsr()
    model = fit(words, images)
    export_onnx(model, tmp_path)
    check(model, tmp_path, "users", words[:9], words[:9].toarray())
    check(model, tmp_path, "films", images[:3], images[:3])
    recipe = json.loads((tmp_path / "recipe.json").read_text())
    assert recipe["views"]["films"]["input"] == {
        "name": "x", "type": "float32", "shape": [3, 4, 5],
    }  # fmt: skip
    assert recipe["views"]["tags"] is None
    for entry in recipe["pairs"]:
        assert entry["log_alpha"] == model.log_alpha_of(*entry["pair"])
    # The recipe's numbers give the expected weight.
    users = run(tmp_path, "users", words[:9].toarray())["query", "films"]
    films = run(tmp_path, "films", images)["candidate", "users"]
    (pair,) = (entry for entry in recipe["pairs"] if {*entry["pair"]} == {"users", "films"})
    mu = np.exp(pair["log_alpha"] + users.astype(float) @ films.T.astype(float))
    expected = model.intensity("users", words[:9], "films", images)
    np.testing.assert_allclose(mu, expected, rtol=1e-4)


class Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(1, 4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x[:, None]).mean(-1)


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(9, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.words.weight[x].mean(1)


class InNumpy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tensor(np.sort(x.numpy(), axis=1)) * self.scale


class Noisy(nn.Linear):
    def __init__(self) -> None:
        super().__init__(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x + torch.randn_like(x))


@pytest.mark.slow
def test_a_user_defined_module_is_exported(fit: Callable[..., PMvGE], tmp_path: Path) -> None:
    tokens = rng.integers(0, 9, size=(12, 6))
    model = fit(films=tokens, encoder={"users": Convolution(), "films": Tokens()})
    export_onnx(model, tmp_path)
    check(model, tmp_path, "users", ROWS, ROWS)
    check(model, tmp_path, "films", tokens[:4], tokens[:4])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "message"),
    [
        (InNumpy(), "view 'users': export to ONNX: torch cannot export its encoder"),
        (Noisy(), "draw random numbers"),
    ],
    ids=["numpy", "random"],
)
def test_a_module_that_cannot_be_exported_is_an_error(
    fit: Callable[..., PMvGE], tmp_path: Path, module: nn.Module, message: str
) -> None:
    model = fit(encoder={"users": module})
    with pytest.raises(InputError, match=message):
        export_onnx(model, tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_model_without_features_has_no_encoder(fit: Callable[..., PMvGE], tmp_path: Path) -> None:
    model = fit(users=30)
    with pytest.raises(InputError, match="expected a view with features"):
        export_onnx(model, tmp_path / "x")
    with pytest.raises(InputError, match="'users' has no features"):
        model.encoder_module("users")
    assert not (tmp_path / "x").exists()


def test_a_missing_library_is_named(
    fit: Callable[..., PMvGE], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(InputError, match=r"needs onnxruntime: pip install 'pmvge\[export\]'"):
        export_onnx(fit(), tmp_path)
