"""A fitted model to and from its folder."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
import torch
from torch import nn

from pmvge import storage
from pmvge.encoders import Choice, EncoderSpec, MultiViewEncoder, ViewSchema
from pmvge.errors import StorageError, one_line, short
from pmvge.model.background import Background
from pmvge.model.fitting import Alpha, Fitted
from pmvge.model.plain import plain_choice, plain_parameters, read_choices, read_parameters
from pmvge.search import Embeddings
from pmvge.tables import check_learned
from pmvge.training import History
from pmvge.version import __version__

T = TypeVar("T")
READS = 5  # of a folder that is saved meanwhile


def save_model(
    folder: Path, parameters: Mapping[str, Any], fitted: Fitted, background: Background | None
) -> None:
    """Write ``model.json``, the weights, the embeddings of every view, and the background."""
    content: dict[str, Any] = {
        "pmvge": __version__,
        "parameters": plain_parameters(parameters),
        "n_components": fitted.n_components,
        "similarity": type(fitted.network.similarity).__name__.lower(),
        "seed": str(fitted.seed),
        "views": {
            view: {**asdict(schema), "encoder": plain_choice(view, fitted.choices)}
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
        rows = Embeddings(fitted.ids[view], fitted.embeddings[view])
        parts[_embeddings_file(view)] = rows.save
    if background is not None:
        content["background"], files = background.parts()
        parts |= files
    storage.commit(folder, "model", content, parts)


def load_model(folder: Path, encoders: Mapping[str, nn.Module]) -> tuple[dict[str, Any], Fitted]:
    """The estimator's parameters and what it had learned."""
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
            if view not in schemas:
                raise StorageError(f"{folder}: encoders: the model has no view {view!r}")
        choices = read_choices(folder, manifest["views"], encoders)
        K = _size(manifest["n_components"])
        weights = storage.read_tensors(parts["weights.safetensors"])
        _check_size(folder, choices, schemas, K, weights)
        network = MultiViewEncoder(choices, schemas, K, manifest["similarity"])
        _load_weights(folder, network, weights)
        _check_finite(folder, network, choices)
        network.eval()
        rows = {view: Embeddings.load(parts[_embeddings_file(view)]) for view in schemas}
        for view, schema in schemas.items():
            if rows[view].vectors.shape != (schema.n, K):
                raise StorageError(
                    f"{folder}: damaged model: view {view!r} should have {schema.n} x {K} "
                    f"embeddings, but has {rows[view].vectors.shape}"
                )
            if not np.isfinite(rows[view].vectors).all():
                raise StorageError(
                    f"{folder}: damaged model: embeddings of {view!r} are not finite"
                )
        fitted = Fitted(
            network=network,
            choices=choices,
            schemas=schemas,
            n_components=K,
            embeddings={view: part.vectors for view, part in rows.items()},
            ids={view: part.ids for view, part in rows.items()},
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
            tables=check_learned(manifest.get("tables")),
        )
        return read_parameters(manifest["parameters"], choices), fitted
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise StorageError(f"{folder}: damaged model: {one_line(error)}") from error


def of_one_save(folder: Path, read: Callable[[Path], T]) -> T:
    """What ``read`` finds in a model's folder, in however many steps, all of it from one save."""
    for _ in range(READS):
        before = _manifest(folder)
        try:
            found = read(folder)
        except StorageError:
            if _manifest(folder) == before:
                raise
            continue  # files of the older save may be gone
        if _manifest(folder) == before:
            return found
    raise StorageError(
        f"{folder}: was saved anew each of the {READS} times that it was read: try again when "
        "nobody writes to it"
    )


def _manifest(folder: Path) -> bytes | None:
    path = folder / "model.json"
    try:
        return path.read_bytes() if path.is_file() else None  # a pipe would never end
    except OSError:
        return None  # what is wrong is said by those who need it


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
    """Encoders have the numbers that the file has: what is larger is not even built."""
    expected = 0
    for view, choice in choices.items():
        shape, n = schemas[view].row_shape, schemas[view].n
        if not isinstance(choice, EncoderSpec) or choice.shared_with or choice.kind == "identity":
            continue
        if (choice.kind == "lookup") != (shape is None):  # is refused when it is built
            continue
        widths = [n if shape is None else math.prod(shape), K]
        if choice.kind == "mlp":
            widths[1:1] = map(_size, choice.hidden_sizes or ())
        expected += sum(a * b for a, b in pairwise(widths))
    if expected > (found := sum(tensor.numel() for tensor in weights.values())):
        raise StorageError(
            f"{folder}: damaged model: its encoders have {expected:,} weights or more, its file "
            f"has {found:,}"
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
    """All weights but those of modules of the user's, which may hold what they like."""
    ours = {view: network.of(view) for view, c in choices.items() if isinstance(c, EncoderSpec)}
    for name, module in {**ours, "similarity": network.similarity}.items():
        if not all(bool(tensor.isfinite().all()) for tensor in module.state_dict().values()):
            raise StorageError(f"{folder}: damaged model: weights of {name!r} are not finite")


def _embeddings_file(view: str) -> str:
    name = quote(view, safe="")
    if len(name) > 80:  # file systems have limits, and names must stay distinct
        name = f"{name[:60]}-{hashlib.sha256(view.encode()).hexdigest()[:16]}"
    return f"embeddings-{name}.parquet"
