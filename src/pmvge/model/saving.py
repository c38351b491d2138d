"""Write a fitted model to a folder, and read it back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from pmvge import storage
from pmvge.encoders import Choice, EncoderSpec, MultiViewEncoder, ViewSchema
from pmvge.errors import InputError, StorageError, choose, one_line
from pmvge.graph import Ids
from pmvge.likelihoods import FAMILIES, build_family, family_name
from pmvge.model.fitted import Fitted
from pmvge.model.links_files import Texts, links_from_files, links_to_files
from pmvge.model.manifest import parse_manifest
from pmvge.model.settings_json import (
    encoder_to_json,
    encoders_from_json,
    parameters_from_json,
    parameters_to_json,
)
from pmvge.search import Embeddings
from pmvge.similarities import SIMILARITIES, similarity_name
from pmvge.storage import DamagedValue
from pmvge.version import __version__

BIASES = "biases.safetensors"  # of the training entities of views with effects
PLAIN = "plain.safetensors"  # outputs without effects, of views with features and effects


def save_model(folder: Path, fitted: Fitted, *, links: bool) -> None:
    """Write ``model.json``, the weights, the vectors of every view, the labels and the links.

    With ``links=False`` the links are left out. Raise StorageError if the folder cannot be written.
    """
    content: dict[str, Any] = {
        "pmvge": __version__,
        "parameters": parameters_to_json(fitted.settings),
        "n_components": fitted.n_components,
        "similarity": similarity_name(fitted.similarity),
        "family": family_name(fitted.family),
        "seed": str(fitted.seed),
        "views": {
            view: {**asdict(schema), "encoder": encoder_to_json(view, fitted.choices)}
            for view, schema in fitted.schemas.items()
        },
        "given_ids": sorted(fitted.given_ids),
        "effects": dict(fitted.effects),
        "feature_shares": {view: dict(shares) for view, shares in fitted.shares.items()},
        "alpha": [
            {
                "pair": pair,
                "log_alpha": entry.log_value if entry.log_value > -math.inf else None,
                "relative_error": entry.relative_error,
                "weight": entry.weight,
                "pair_weight": entry.pair_weight,
            }
            for pair, entry in fitted.alpha.items()
        ],
        "calibration": [
            {
                "pair": pair,
                "kind": kind,
                "log_factor": factor.log_value,
                "relative_error": factor.relative_error,
                "weight": factor.weight,
                "bins": {name: list(values) for name, values in factor.bins.items()},
            }
            for pair, factors in fitted.factors.items()
            for kind, factor in factors.items()
        ],
        "history": fitted.history.to_records(),
        "full_steps": fitted.full_steps,
        "tables": fitted.tables,
    }
    parts = {"weights.safetensors": storage.tensors_writer(fitted.network.state_dict())}
    for view in fitted.schemas:
        vectors = Embeddings(fitted.ids[view], fitted.embeddings[view])
        parts[_embeddings_file(view)] = vectors.save
    if biases := fitted.network.bias_pairs:
        K = fitted.n_components
        parts[BIASES] = storage.tensors_writer(
            {view: torch.from_numpy(fitted.outputs[view][:, K:].copy()) for view in biases}
        )
    content["plain"] = sorted(fitted.plain)
    if fitted.plain:
        tensors = {view: torch.from_numpy(np.array(Y)) for view, Y in fitted.plain.items()}
        parts[PLAIN] = storage.tensors_writer(tensors)
    texts = Texts(fitted.labels, fitted.columns, fitted.names)
    content["background"], files = links_to_files(fitted.links if links else None, texts)
    storage.commit(folder, "model", content, parts | files)


def load_model(
    folder: Path, encoders: Mapping[str, nn.Module], parameters: Mapping[str, Any]
) -> Fitted:
    """Return the learned state of an estimator, read from a folder.

    ``encoders`` are the user-defined modules, by view, and ``parameters`` the estimator's
    parameters, which the saved ones must name. Raise StorageError if the folder holds no model, or
    a damaged one, and InputError if ``encoders`` has something else than modules.
    """
    for view, module in encoders.items():
        if not isinstance(module, nn.Module):
            raise InputError(
                f"load: encoders: expected a torch.nn.Module for view {view!r}, got "
                f"{type(module).__name__}"
            )

    def load(manifest: dict[str, Any], parts: storage.Parts) -> Fitted:
        saved = parse_manifest(manifest)
        _check_registered(folder, "similarity", saved.similarity, SIMILARITIES)
        names = [saved.family] if isinstance(saved.family, str) else saved.family.values()
        for name in names:
            _check_registered(folder, "family", name, FAMILIES)
        choices = encoders_from_json(folder, manifest["views"], encoders)
        settings = parameters_from_json(saved.parameters, choices, parameters)
        weights = storage.read_tensors(storage.find_part(parts, "weights.safetensors"))
        _check_size(choices, saved.schemas, saved.n_components, weights)
        family = build_family(saved.family, [*saved.alpha])
        network = MultiViewEncoder(
            choices,
            saved.schemas,
            saved.n_components,
            saved.similarity,
            family,
            effects=saved.effects,
            pairs=[*saved.alpha],
        )
        _load_weights(folder, network, weights)
        _check_finite(network, choices, family)
        network.eval()
        vectors = {
            view: _read_vectors(parts, view, (schema.n, saved.n_components))
            for view, schema in saved.schemas.items()
        }
        ids = {view: part.ids for view, part in vectors.items()}
        sizes = {view: schema.n for view, schema in saved.schemas.items()}
        biases = _read_tensors(parts, BIASES, "biases", _bias_shapes(network, sizes))
        K = saved.n_components
        widths = {view: (sizes[view], K + network.n_biases(view)) for view in saved.plain}
        plain = _read_tensors(parts, PLAIN, "outputs without effects", widths)
        links, texts = links_from_files(saved.background, parts, sizes)
        given = saved.given_ids
        return Fitted(
            settings=settings,
            network=network,
            choices=choices,
            schemas=saved.schemas,
            n_components=saved.n_components,
            effects=saved.effects,
            outputs={
                view: np.concatenate([part.vectors, biases[view]], 1)
                if view in biases
                else part.vectors
                for view, part in vectors.items()
            },
            ids=ids,
            given_ids=_guess_given(ids, saved.tables) if given is None else given,
            alpha=saved.alpha,
            history=saved.history,
            seed=saved.seed,
            tables=saved.tables,
            links=links,
            labels=texts.labels,
            columns=texts.columns,
            names=texts.names,
            shares=saved.shares,
            plain=plain,
            factors=saved.factors,
            full_steps=saved.full_steps,
        )

    return storage.read(folder, "model", load)


def _check_registered(folder: Path, kind: str, name: str, known: Iterable[str]) -> None:
    choose(kind, name, known, f"{folder}: call register_{kind} before load", error=StorageError)


def _guess_given(ids: Mapping[str, Ids], tables: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the views of a model of format 1 whose ids were given, not numbered from 0."""
    return frozenset(
        view
        for view, names in ids.items()
        if tables is not None
        or names.dtype.kind not in "iu"
        or not np.array_equal(names, np.arange(len(names)))
    )


def _check_size(
    choices: Mapping[str, Choice],
    schemas: Mapping[str, ViewSchema],
    K: int,
    weights: Mapping[str, torch.Tensor],
) -> None:
    """Raise DamagedValue if the encoders are larger than the weights file, before building them."""
    expected = 0
    for view, choice in choices.items():
        shape, n = schemas[view].row_shape, schemas[view].n
        if not isinstance(choice, EncoderSpec) or choice.shared_with or choice.kind == "identity":
            continue
        if (choice.kind == "lookup") != (shape is None):  # MultiViewEncoder raises
            continue
        widths = [n if shape is None else math.prod(shape), K]
        if choice.kind == "mlp":
            widths[1:1] = choice.hidden_sizes or ()
        expected += sum(a * b for a, b in pairwise(widths))
    if expected > (stored := sum(tensor.numel() for tensor in weights.values())):
        raise DamagedValue(
            f"its encoders need at least {expected:,} weights, its file has {stored:,}"
        )


def _load_weights(
    folder: Path, network: MultiViewEncoder, weights: Mapping[str, torch.Tensor]
) -> None:
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:  # damage, or a user-defined module with other weights
        raise StorageError(
            f"{folder}: the weights do not fit the encoders: {one_line(error)}"
        ) from error


def _check_finite(
    network: MultiViewEncoder, choices: Mapping[str, Choice], family: nn.Module
) -> None:
    """Raise DamagedValue if weights are not finite. User-defined modules are not checked."""
    checked = {
        view: network.encoder_of(view) for view, c in choices.items() if isinstance(c, EncoderSpec)
    }
    others = {"similarity": network.similarity, "family": family, "effects": network.effects}
    others |= {"biases": network.heads}
    for name, module in {**checked, **others}.items():
        if not all(bool(tensor.isfinite().all()) for tensor in module.state_dict().values()):
            raise DamagedValue(f"weights of {name!r} are not finite")


def _read_vectors(parts: storage.Parts, view: str, shape: tuple[int, int]) -> Embeddings:
    """Return the vectors of a view; ``Embeddings.load`` checks that they are finite."""
    saved = Embeddings.load(storage.find_part(parts, _embeddings_file(view)))
    if saved.vectors.shape != shape:
        raise DamagedValue(
            f"vectors of view {view!r}: expected shape {shape}, got {saved.vectors.shape}"
        )
    return saved


def _bias_shapes(network: MultiViewEncoder, sizes: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    return {view: (sizes[view], network.n_biases(view)) for view in network.bias_pairs}


def _read_tensors(
    parts: storage.Parts, file: str, what: str, shapes: Mapping[str, tuple[int, int]]
) -> dict[str, NDArray[np.float32]]:
    """Return numbers of the training entities, by view; raise DamagedValue if they do not fit."""
    if not shapes:
        return {}
    saved = storage.read_tensors(storage.find_part(parts, file))
    found = {}
    for view, shape in shapes.items():
        tensor = saved.get(view, torch.empty(0))
        if tuple(tensor.shape) != shape or tensor.dtype is not torch.float32:
            raise DamagedValue(
                f"{what} of view {view!r}: expected shape {shape}, got {tuple(tensor.shape)}"
            )
        if not bool(tensor.isfinite().all()):
            raise DamagedValue(f"{what} of view {view!r} are not finite")
        found[view] = tensor.numpy()
    return found


def _embeddings_file(view: str) -> str:
    return f"embeddings-{storage.file_name(view)}.parquet"
