"""Write a fitted model to a folder, and read it back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge import storage
from pmvge.encoders import Choice, EncoderSpec, MultiViewEncoder, ViewSchema
from pmvge.errors import StorageError, choose, one_line, short
from pmvge.model.background import Background
from pmvge.model.fitted import Alpha, Fitted
from pmvge.model.settings_json import (
    encoder_to_json,
    encoders_from_json,
    parameters_from_json,
    parameters_to_json,
)
from pmvge.search import Embeddings
from pmvge.similarities import similarity_name
from pmvge.tables import check_saved_tables
from pmvge.training import History
from pmvge.version import __version__

T = TypeVar("T")
READS = 5  # attempts to read a folder that is being saved


def save_model(
    folder: Path, parameters: Mapping[str, Any], fitted: Fitted, background: Background | None
) -> None:
    """Write ``model.json``, the weights, the vectors of every view, and the background.

    Raise StorageError if the folder cannot be written.
    """
    content: dict[str, Any] = {
        "pmvge": __version__,
        "parameters": parameters_to_json(parameters),
        "n_components": fitted.n_components,
        "similarity": similarity_name(fitted.network.similarity),
        "seed": str(fitted.seed),
        "views": {
            view: {**asdict(schema), "encoder": encoder_to_json(view, fitted.choices)}
            for view, schema in fitted.schemas.items()
        },
        "alpha": [
            {
                "pair": pair,
                "log_alpha": entry.log_value if entry.log_value > -math.inf else None,
                "relative_error": entry.relative_error,
                "weight": entry.weight,
            }
            for pair, entry in fitted.alpha.items()
        ],
        "history": fitted.history.to_records(),
        "tables": fitted.tables,
    }
    parts = {"weights.safetensors": storage.tensors_writer(fitted.network.state_dict())}
    for view in fitted.schemas:
        vectors = Embeddings(fitted.ids[view], fitted.embeddings[view])
        parts[_embeddings_file(view)] = vectors.save
    if background is not None:
        content["background"], files = background.parts()
        parts |= files
    storage.commit(folder, "model", content, parts)


def load_model(folder: Path, encoders: Mapping[str, nn.Module]) -> tuple[dict[str, Any], Fitted]:
    """Return the estimator's parameters and its learned state, read from a folder.

    ``encoders`` are the user-defined modules, by view. Raise StorageError if the folder holds no
    model, or a damaged one.
    """
    manifest, parts = storage.read(folder, "model")
    try:
        schemas = {
            view: ViewSchema(
                _size(entry["n"]),
                None if entry["row_shape"] is None else tuple(map(_size, entry["row_shape"])),
                bool(entry["sparse"]),
            )
            for view, entry in manifest["views"].items()
        }
        for view in encoders:
            choose("view", view, schemas, f"{folder}: encoders", error=StorageError)
        choices = encoders_from_json(folder, manifest["views"], encoders)
        K = _size(manifest["n_components"])
        weights = storage.read_tensors(parts["weights.safetensors"])
        _check_size(folder, choices, schemas, K, weights)
        network = MultiViewEncoder(choices, schemas, K, manifest["similarity"])
        _load_weights(folder, network, weights)
        _check_finite(folder, network, choices)
        network.eval()
        saved = {view: Embeddings.load(parts[_embeddings_file(view)]) for view in schemas}
        for view, schema in schemas.items():
            _check_vectors(folder, view, saved[view].vectors, (schema.n, K))
        fitted = Fitted(
            network=network,
            choices=choices,
            schemas=schemas,
            n_components=K,
            embeddings={view: part.vectors for view, part in saved.items()},
            ids={view: part.ids for view, part in saved.items()},
            alpha={
                (str(entry["pair"][0]), str(entry["pair"][1])): Alpha(
                    -math.inf if entry["log_alpha"] is None else _number(entry["log_alpha"]),
                    _number(entry["relative_error"]),
                    _number(entry["weight"]),
                )
                for entry in manifest["alpha"]
            },
            history=History.from_records(manifest["history"]),
            seed=int(manifest["seed"]),
            tables=check_saved_tables(manifest.get("tables")),
        )
        return parameters_from_json(manifest["parameters"], choices), fitted
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise StorageError(f"{folder}: damaged model: {one_line(error)}") from error


def read_consistently(folder: Path, read: Callable[[Path], T]) -> T:
    """Return ``read(folder)``, with all files that ``read`` opens from the same save.

    ``read`` is called again if the model was saved while it ran. Raise StorageError if that
    happens each of ``READS`` times.
    """
    for _ in range(READS):
        before = _manifest(folder)
        try:
            result = read(folder)
        except StorageError:
            if _manifest(folder) == before:
                raise
            continue  # the new save has removed files of the old one
        if _manifest(folder) == before:
            return result
    raise StorageError(
        f"{folder}: the model changed during all {READS} attempts to read it; try again when no "
        "process is saving it"
    )


def _manifest(folder: Path) -> bytes | None:
    path = folder / "model.json"
    try:
        return path.read_bytes() if path.is_file() else None  # reading a pipe would block
    except OSError:
        return None  # ``read`` raises StorageError with the reason


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"expected a positive integer, got {short(value)}")
    return value


def _number(value: Any) -> float:
    if not math.isfinite(number := float(value)):
        raise ValueError(f"expected a finite number, got {value!r}")
    return number


def _check_size(
    folder: Path,
    choices: Mapping[str, Choice],
    schemas: Mapping[str, ViewSchema],
    K: int,
    weights: Mapping[str, torch.Tensor],
) -> None:
    """Raise StorageError if the encoders are larger than the weights file, before building them."""
    expected = 0
    for view, choice in choices.items():
        shape, n = schemas[view].row_shape, schemas[view].n
        if not isinstance(choice, EncoderSpec) or choice.shared_with or choice.kind == "identity":
            continue
        if (choice.kind == "lookup") != (shape is None):  # MultiViewEncoder raises
            continue
        widths = [n if shape is None else math.prod(shape), K]
        if choice.kind == "mlp":
            widths[1:1] = map(_size, choice.hidden_sizes or ())
        expected += sum(a * b for a, b in pairwise(widths))
    if expected > (stored := sum(tensor.numel() for tensor in weights.values())):
        raise StorageError(
            f"{folder}: damaged model: its encoders need at least {expected:,} weights, its file "
            f"has {stored:,}"
        )


def _load_weights(
    folder: Path, network: MultiViewEncoder, weights: Mapping[str, torch.Tensor]
) -> None:
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise StorageError(
            f"{folder}: the weights do not fit the encoders: {one_line(error)}"
        ) from error


def _check_finite(folder: Path, network: MultiViewEncoder, choices: Mapping[str, Choice]) -> None:
    """Raise StorageError if weights are not finite. User-defined modules are not checked."""
    checked = {
        view: network.encoder_of(view) for view, c in choices.items() if isinstance(c, EncoderSpec)
    }
    for name, module in {**checked, "similarity": network.similarity}.items():
        if not all(bool(tensor.isfinite().all()) for tensor in module.state_dict().values()):
            raise StorageError(f"{folder}: damaged model: weights of {name!r} are not finite")


def _check_vectors(
    folder: Path, view: str, vectors: NDArray[np.float32], shape: tuple[int, int]
) -> None:
    if vectors.shape != shape:
        raise StorageError(
            f"{folder}: damaged model: vectors of view {view!r}: expected shape {shape}, got "
            f"{vectors.shape}"
        )
    if not np.isfinite(vectors).all():
        raise StorageError(f"{folder}: damaged model: vectors of view {view!r} are not finite")


def _embeddings_file(view: str) -> str:
    return f"embeddings-{storage.file_name(view)}.parquet"
