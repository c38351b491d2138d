"""Data of section 6.2: real or simulated images, attributes, and the links between them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from pmvge.datasets import PARTS, data_folder, load_attributes, load_images, load_vectors
from pmvge.datasets import Attributes as ClassLevel
from pmvge.errors import InputError, choose
from pmvge.graph import MultiViewGraph

Array = NDArray[Any]
Index = NDArray[np.int64]
IMAGE, ATTRIBUTE = "image", "attribute"
SEED = 2018  # of the simulated images
# Path in the data folder, and how to get the file: without a checksum it is not downloaded.
VECTORS = {
    "word2vec": ("awa/attribute_word2vec_300d.txt", "write it with lines 'attribute v1 ... v300'"),
    "glove": (
        "glove/glove.6B.300d.txt",
        "get glove.6B.zip from https://nlp.stanford.edu/projects/glove/, unpack it",
    ),
}


@dataclass(frozen=True, eq=False)
class Animals:
    """Images and attributes, and which classes have which attributes."""

    images: NDArray[np.float32]  # (n, p)
    labels: Index  # (n,) classes
    has: NDArray[np.bool_]  # (classes, attributes)
    vectors: NDArray[np.float32]  # (attributes, 300)
    chances: NDArray[np.float64] | None = None  # (n, classes), of simulated images

    def graph(self, rows: Index, images: Array) -> MultiViewGraph:
        """Return the graph of some images, with these features, and all attributes."""
        W = sparse.csr_array(self.has[self.labels[rows]].astype(np.float64))
        views = {IMAGE: images, ATTRIBUTE: self.vectors}
        return MultiViewGraph(views, {(IMAGE, ATTRIBUTE): W}, {IMAGE: rows})


def load_animals(
    data: Path | None, *, images: str, vectors: str, per_class: int, noise: float | None, seed: int
) -> Animals:
    """Return real images ("awa1" or "awa2"), or simulated ones if there is a noise level.

    Raise InputError if a file is missing.
    """
    root = data_folder() if data is None else Path(data)
    return _load(root, images, vectors, per_class, noise, seed)


@lru_cache(maxsize=3)  # read or drawn once per process
def _load(
    root: Path, images: str, vectors: str, per_class: int, noise: float | None, seed: int
) -> Animals:
    level = load_attributes(root)
    file, instructions = VECTORS[choose("vectors", vectors, VECTORS)]
    if not (root / file).is_file():
        raise InputError(f"{file} is not in {root}: {instructions}, and put it at {root / file}")
    V = load_vectors(root / file, level.attributes, PARTS)
    has = level.binary > 0
    if noise is not None:
        X, labels, chances = simulate_images(level, noise, per_class)
        return Animals(X, labels, has, V, chances)
    loaded = load_images(images, level.classes, root, per_class=per_class, seed=seed)
    return Animals(loaded.features, loaded.labels, has, V)


def simulate_images(
    level: ClassLevel, noise: float, per_class: int
) -> tuple[NDArray[np.float32], Index, NDArray[np.float64]]:
    r"""Return features of simulated images, their classes, and :math:`P(c \mid z)`.

    .. math:: z = a_c + s e, \quad h = \tanh(A z), \quad x = \max(0, B h + b)

    with :math:`a_c` the class's strengths / 100 (missing: 0), :math:`e \sim N(0, I)`, A (512, 85)
    ~ N(0, 4/85), B (4096, 512) ~ N(0, 1/512), b ~ N(0, 0.01), drawn in the order A, B, b, e. They
    are the same at every noise level s.
    """
    a = np.nan_to_num(level.strength) / 100
    C, q = a.shape
    rng = np.random.default_rng(SEED)
    A = rng.normal(0, np.sqrt(4 / 85), (512, q))
    B = rng.normal(0, np.sqrt(1 / 512), (4096, 512))
    b = rng.normal(0, np.sqrt(0.01), 4096)
    labels = np.repeat(np.arange(C), per_class)
    z = a[labels] + noise * rng.normal(size=(len(labels), q))
    x = np.maximum(0, np.tanh(z @ A.T) @ B.T + b)
    log_p = -((z**2).sum(1)[:, None] - 2 * z @ a.T + (a**2).sum(1)) / (2 * noise**2)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    return x.astype(np.float32), labels, p / p.sum(axis=1, keepdims=True)
