"""Write a fitted model to a folder, and read it back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from functools import cache, partial
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
from pmvge.graph import Ids, Pair, sort_ids
from pmvge.likelihoods import FAMILIES, build_family, family_name
from pmvge.model.fitted import Fitted
from pmvge.model.saving.links_files import Texts, links_from_files, links_to_files
from pmvge.model.saving.manifest import parse_manifest
from pmvge.model.saving.mapped_arrays import Arrays, MappedArrays
from pmvge.model.saving.settings_json import (
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
    folder: Path,
    encoders: Mapping[str, nn.Module],
    parameters: Mapping[str, Any],
    memory_map: Path | None = None,
) -> Fitted:
    """Return the learned state of an estimator, read from a folder.

    ``encoders`` are the user-defined modules, by view, and ``parameters`` the estimator's
    parameters, which the saved ones must name. With ``memory_map``, arrays are mapped from files
    in a subfolder of it, named by the checksum of the model. Raise StorageError if the folder holds
    no model, or a damaged one, and InputError if ``encoders`` has something else than modules.
    """
    for view, module in encoders.items():
        if not isinstance(module, nn.Module):
            raise InputError(
                f"load: encoders: expected a torch.nn.Module for view {view!r}, got "
                f"{type(module).__name__}"
            )

    def load(manifest: dict[str, Any], parts: storage.Parts) -> Fitted:
        saved = parse_manifest(manifest)
        checksum = str(manifest["checksum"])
        arrays = Arrays() if memory_map is None else MappedArrays(memory_map / checksum)
        _check_registered(folder, "similarity", saved.similarity, SIMILARITIES)
        names = [saved.family] if isinstance(saved.family, str) else saved.family.values()
        for name in names:
            _check_registered(folder, "family", name, FAMILIES)
        choices = encoders_from_json(folder, manifest["views"], encoders)
        settings = parameters_from_json(saved.parameters, choices, parameters)
        file = arrays.file(storage.find_part(parts, "weights.safetensors"))
        weights = storage.read_tensors(file)
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
        _load_weights(folder, network, weights, assign=arrays.mapped)
        _check_finite(network, choices, family)
        network.eval()
        sizes = {view: schema.n for view, schema in saved.schemas.items()}
        K = saved.n_components

        @cache
        def vectors(view: str) -> Embeddings:
            return _read_vectors(parts, view, (sizes[view], K))

        @cache
        def tensors(file: str) -> dict[str, NDArray[np.float32]]:
            what, shapes = "biases", _bias_shapes(network, sizes)
            if file == PLAIN:
                what = "outputs without effects"
                shapes = {view: (sizes[view], K + network.n_biases(view)) for view in saved.plain}
            return _read_tensors(parts, file, what, shapes)

        def outputs(view: str) -> NDArray[np.float32]:
            if view not in network.bias_pairs:
                return vectors(view).vectors
            return np.concatenate([vectors(view).vectors, tensors(BIASES)[view]], 1)

        def stored(
            kind: str, make: Callable[[str], NDArray[Any]], views: Iterable[str] = sizes
        ) -> dict[str, NDArray[Any]]:
            return {view: arrays(f"{kind} {view}", partial(make, view)) for view in views}

        ids = stored("ids", lambda view: vectors(view).ids)
        links, texts = links_from_files(saved.background, parts, sizes, arrays)
        given = saved.given_ids
        fitted = Fitted(
            settings=settings,
            network=network,
            choices=choices,
            schemas=saved.schemas,
            n_components=saved.n_components,
            effects=saved.effects,
            outputs=stored("outputs", outputs),
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
            plain=stored("plain", lambda view: tensors(PLAIN)[view], saved.plain),
            orders=stored(
                "order", lambda view: sort_ids(ids[view]), sizes if arrays.mapped else ()
            ),
            checksum=checksum,
            factors=saved.factors,
            full_steps=saved.full_steps,
        )
        return _store_candidates(fitted, arrays) if arrays.mapped else fitted

    return storage.read(folder, "model", load)


def _store_candidates(fitted: Fitted, arrays: Arrays) -> Fitted:
    """Return the model with the vectors of candidates, of observed view pairs and within views.

    They are stored only where they are not the outputs themselves. What similar entities are found
    by is stored, too.
    """
    pairs = {(view, view) for view in fitted.schemas}
    pairs |= {order for a, b in fitted.alpha for order in ((a, b), (b, a))}
    found: dict[Pair, NDArray[np.float32]] = {}
    for a, b in sorted(pairs):
        similarity = fitted.pair_similarity.for_pair(b, a)
        some = fitted.outputs[a][:1]
        if similarity.candidate_array(some) is not some:
            name = f"candidates {a!r} {b!r}"
            found[a, b] = arrays(name, partial(fitted.candidate_vectors, a, b))
    similar = {
        view: arrays(f"similar {view}", partial(fitted.similar_vectors, view))
        for view in fitted.schemas
    }
    return replace(fitted, candidates=found, similar=similar)


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
    folder: Path, network: MultiViewEncoder, weights: Mapping[str, torch.Tensor], *, assign: bool
) -> None:
    """Set the weights; with ``assign`` the tensors are used as they are, and not copied."""
    try:
        network.load_state_dict(weights, assign=assign)
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
