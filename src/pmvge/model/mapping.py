"""Compute the map of the entities of all views."""

from __future__ import annotations

import warnings
from pathlib import Path

from pmvge.errors import StorageError
from pmvge.maps import layout
from pmvge.model.estimator import PMvGE
from pmvge.model.map_file import Map, vectors_checksum
from pmvge.progress import OnProgress, progress_bar


def compute_map(
    model: PMvGE, *, seed: int = 0, progress: bool = True, on_progress: OnProgress | None = None
) -> Map:
    """Return coordinates of the entities of all views on one map.

    The same seed gives the same map. ``progress`` shows a bar on terminals, and ``on_progress`` is
    called with the amount done and the total.
    """
    checksum = vectors_checksum(model)
    with progress_bar("drawing the map", progress) as bar:
        report = on_progress or bar
        xy = layout(model.embeddings_, seed=seed)
        if report is not None:
            report(1, 1)
    return Map(xy, "t-SNE of the vectors.", None, None, checksum)


def saved_map(
    model: PMvGE,
    folder: str | Path,
    *,
    seed: int = 0,
    progress: bool = True,
    on_progress: OnProgress | None = None,
) -> Map:
    """Return the map that was saved in a folder; else compute one and save it there.

    A map that is damaged or stale is replaced. Warn if it cannot be saved.
    """
    try:
        return Map.load(folder, model)
    except StorageError:
        drawn = compute_map(model, seed=seed, progress=progress, on_progress=on_progress)
    try:
        drawn.save(folder)
    except StorageError as error:
        warnings.warn(f"the map is computed each time: {error}", stacklevel=2)
    return drawn
