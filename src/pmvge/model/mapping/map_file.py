"""A map of the entities of all views in two dimensions, and its file beside the model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pmvge import storage
from pmvge.errors import StorageError, short
from pmvge.model.estimator import PMvGE
from pmvge.model.saving.json_values import get, number, strings
from pmvge.version import __version__

KIND = "map"  # the manifest is map.json


@dataclass(frozen=True, eq=False)
class Map:
    """Coordinates of the entities of all views on one map.

    :func:`compute_map` makes one, :func:`saved_map` keeps it beside the model.

    Attributes
    ----------
    xy
        ``{view: (n, 2) float32}``, in the order of ``model.ids_``.
    method
        How it was made, one sentence.
    partner_share
        The share of an entity's nearest points of a linked view that are among its top partners,
        see :func:`compute_map`. None if it was not computed, or if no two views are linked.
    plain_share
        The same for t-SNE of the vectors alone; None if it was not computed.
    checksum
        SHA-256 of the vectors and biases that it was computed from.
    chance_share
        The same as ``partner_share`` for points at random places.
    """

    xy: dict[str, NDArray[np.float32]]
    method: str
    partner_share: float | None
    plain_share: float | None
    checksum: str
    chance_share: float | None = None

    def save(self, folder: str | Path) -> Path:
        """Write the map to a folder, such as that of the model, atomically; return its manifest.

        Raise StorageError if the folder cannot be written.
        """
        content = {
            "pmvge": __version__,
            "views": list(self.xy),
            "method": self.method,
            "partner_share": self.partner_share,
            "plain_share": self.plain_share,
            "chance_share": self.chance_share,
            "vectors": self.checksum,
        }
        tensors = {str(k): torch.from_numpy(xy) for k, xy in enumerate(self.xy.values())}
        parts = {f"{KIND}.safetensors": storage.tensors_writer(tensors)}
        storage.commit(Path(folder), KIND, content, parts)
        return Path(folder) / f"{KIND}.json"

    @classmethod
    def load(cls, folder: str | Path, model: PMvGE) -> Map:
        """Return the map that :meth:`save` wrote for this model.

        Raise StorageError if there is none, if it is damaged, or if it is stale: computed from
        other vectors than those of the model.
        """
        folder = Path(folder)
        command = "compute_map(model).save(folder)"
        if not storage.exists(folder, KIND):
            raise StorageError(f"{folder}: there is no saved map; compute it: {command}")
        expected = vectors_checksum(model)

        def read(manifest: dict[str, Any], parts: storage.Parts) -> Map:
            checksum = get(manifest, "vectors", str)
            if checksum != expected:
                raise StorageError(
                    f"{folder}: the saved map is stale: it was computed from other vectors than "
                    f"those of the model; compute it again: {command}"
                )
            return cls(
                _coordinates(model, manifest, parts),
                get(manifest, "method", str),
                _share(manifest, "partner_share"),
                _share(manifest, "plain_share"),
                checksum,
                _share(manifest, "chance_share"),
            )

        return storage.read(folder, KIND, read)


def vectors_checksum(model: PMvGE) -> str:
    """Return the SHA-256 of the vectors and biases of all views, with their names and shapes."""
    digest = hashlib.sha256()
    for view, Y in model._check_fitted().outputs.items():
        digest.update(f"{view}\0{Y.shape}\0".encode())
        digest.update(np.ascontiguousarray(Y, np.float32).data)
    return digest.hexdigest()


def _coordinates(
    model: PMvGE, manifest: dict[str, Any], parts: storage.Parts
) -> dict[str, NDArray[np.float32]]:
    """Return the coordinates of each view; raise DamagedValue if they are not valid."""
    views = strings("views", get(manifest, "views"))
    tensors = storage.read_tensors(storage.find_part(parts, f"{KIND}.safetensors"))
    found = {view: tensors.get(str(place)) for place, view in enumerate(views)}
    xy = {view: tensor.float().numpy() for view, tensor in found.items() if tensor is not None}
    shapes = {view: rows.shape for view, rows in xy.items()}
    wanted = {view: (len(ids), 2) for view, ids in model.ids_.items()}
    if shapes != wanted:
        raise storage.DamagedValue(f"coordinates: expected shapes {wanted}, got {shapes}")
    if not all(np.isfinite(rows).all() for rows in xy.values()):
        raise storage.DamagedValue("coordinates: expected finite numbers, got others")
    return {view: xy[view] for view in model.view_names_}


def _share(manifest: dict[str, Any], name: str) -> float | None:
    """Return a share of the manifest, or None; raise DamagedValue if it is neither."""
    value = get(manifest, name, int, float, type(None))
    if value is None:
        return None
    if not 0 <= number(name, value) <= 1:
        raise storage.DamagedValue(f"{name}: expected a number from 0 to 1, got {short(value)}")
    return float(value)
