"""The registry of similarities, by name."""

from __future__ import annotations

import torch

from pmvge.checks import register, registered_name
from pmvge.errors import ParameterError, choose
from pmvge.similarities.base import Similarity
from pmvge.similarities.cosine import Cosine
from pmvge.similarities.difference import Difference
from pmvge.similarities.euclidean import Euclidean
from pmvge.similarities.hyperbolic import Hyperbolic
from pmvge.similarities.inner import Inner
from pmvge.similarities.shifted import Shifted
from pmvge.similarities.weighted import Weighted

SIMILARITIES: dict[str, type[Similarity]] = {
    "inner": Inner,
    "cosine": Cosine,
    "shifted": Shifted,
    "weighted": Weighted,
    "difference": Difference,
    "euclidean": Euclidean,
    "hyperbolic": Hyperbolic,
}
ROWS = 8  # entities that a similarity is checked on
TOLERANCE = 1e-4  # of symmetry, relative to the largest inner product


def register_similarity(name: str, similarity: type[Similarity]) -> None:
    """Add a similarity, so that ``PMvGE(similarity=name)`` uses it and saved models name it.

    Raise ParameterError if the name is taken by another class, or if the class is not a
    :class:`Similarity`.
    """
    register("similarity", SIMILARITIES, name, similarity, Similarity)


def build_similarity(name: str, n_components: int) -> Similarity:
    """Return a new similarity of vectors (n, K); raise ParameterError if the name is unknown."""
    return SIMILARITIES[choose("similarity", name, SIMILARITIES)](n_components)


def similarity_name(similarity: Similarity) -> str:
    """Return the registered name of a similarity; raise ParameterError if there is none."""
    return registered_name("similarity", SIMILARITIES, similarity)


def check_similarity(similarity: Similarity, n_components: int) -> None:
    """Raise ParameterError unless a similarity keeps its contract on a few random vectors."""
    where = f"similarity {similarity_name(similarity)!r}"
    generator = torch.Generator().manual_seed(0)
    f = torch.randn(ROWS, n_components, generator=generator)
    with torch.no_grad():
        y = similarity(f)
        query, candidate = similarity.query(y), similarity.candidate(y)
        if query.shape != candidate.shape or query.ndim != 2 or len(query) != ROWS:
            raise ParameterError(
                f"{where}: expected query and candidate of one shape ({ROWS}, width), got "
                f"{tuple(query.shape)} and {tuple(candidate.shape)}"
            )
        product = query @ candidate.T
        error = float((product - product.T).abs().max())
        if not error <= TOLERANCE * max(1.0, float(product.abs().max())):
            raise ParameterError(
                f"{where}: expected <query(i), candidate(j)> = <query(j), candidate(i)> within a "
                f"view, got a difference of {error:.3g}"
            )
        values = product.flatten().sort().values
        g = similarity.outer(values)
        if g.shape != values.shape or not bool((g.diff() >= 0).all()):
            raise ParameterError(f"{where}: expected outer to be elementwise and increasing")
