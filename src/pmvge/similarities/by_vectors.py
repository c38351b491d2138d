"""How similar two vectors are, whatever the similarity of the model is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.similarities.base import Similarity
from pmvge.similarities.euclidean import Euclidean
from pmvge.similarities.hyperbolic import Hyperbolic


class ByVectors(Similarity):
    """Compare the vectors of entities, without their biases, by the cosine.

    Vectors of one or two components are compared by minus half the squared distance, because
    directions say little there. So are those of ``similarity="euclidean"``; for ``"hyperbolic"``
    it is minus the distance. This ranks the most similar entities: of ``PMvGE.similar``, of the
    server, and on the map. It has arrays of vectors and biases (n, K + P) as input, and is not
    trained.
    """

    def __init__(self, similarity: Similarity, n_components: int) -> None:
        super().__init__()
        self._width = n_components
        self._distance: Similarity | None = Euclidean() if n_components <= 2 else None
        if isinstance(similarity, Euclidean | Hyperbolic):
            self._distance = similarity

    def query_array(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Return the left factors of the inner products."""
        Y = Y[:, : self._width]
        return _directions(Y) if self._distance is None else self._distance.query_array(Y)

    def candidate_array(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Return the right factors of the inner products."""
        Y = Y[:, : self._width]
        return _directions(Y) if self._distance is None else self._distance.candidate_array(Y)

    def outer_array(self, product: NDArray[Any]) -> NDArray[Any]:
        """Return cosines, or minus half the squared distances, or minus the distances."""
        return product if self._distance is None else self._distance.outer_array(product)


def _directions(Y: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-12))
