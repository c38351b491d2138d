"""The encoder of one view as a torch module of tensors."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from pmvge import storage
from pmvge.errors import InputError
from pmvge.graph import Pair
from pmvge.model.fitted import Fitted


def linked_views(pairs: Iterable[Pair], view: str) -> tuple[str, ...]:
    """Return the views that a view is linked to, from all view pairs with links.

    >>> linked_views([("user", "film"), ("film", "film"), ("user", "tag")], "film")
    ('user', 'film')
    """
    return tuple(b if a == view else a for a, b in pairs if view in (a, b))


class EncoderModule(nn.Module):
    """Map rows of features of new entities of a view to their vectors.

    The input are dense rows (n, ...), before input scaling. The outputs are, in the order of
    ``output_names``, the vectors y (n, K) of :meth:`PMvGE.embed <pmvge.PMvGE.embed>` and, for each
    view that this one is linked to, the query and the candidate vectors of :meth:`PMvGE.vectors
    <pmvge.PMvGE.vectors>`. The weights are those of the model, not copies.

    Attributes
    ----------
    view, row_shape
        The view, and the shape of one row.
    partners
        The views that this one is linked to.
    output_names
        "vector", then "query_VIEW" and "candidate_VIEW" for each of ``partners``. Characters of a
        name other than ASCII letters, digits and ``_.-~`` are percent-encoded.
    """

    def __init__(self, fitted: Fitted, view: str) -> None:
        super().__init__()
        row_shape = fitted.schema_of(view).row_shape
        if row_shape is None:
            raise InputError(
                f"view {view!r} has no features: expected a view with an encoder; its vectors are "
                "embeddings_"
            )
        self.view, self.row_shape = view, row_shape
        self.partners = linked_views(fitted.alpha, view)
        self.output_names = ("vector", *self._names())
        self.network = fitted.network
        compared = fitted.pair_similarity
        self._queries = [compared.for_pair(view, other) for other in self.partners]
        self._candidates = [compared.for_pair(other, view) for other in self.partners]
        self.eval()

    def _names(self) -> list[str]:
        names = map(storage.file_name, self.partners)
        return [f"{side}_{name}" for name in names for side in ("query", "candidate")]

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the vectors, and the query and candidate vectors for each linked view."""
        outputs = self.network(self.view, x)
        found = [outputs[:, : self.network.n_components]]
        for queries, candidates in zip(self._queries, self._candidates, strict=True):
            found += [queries.query(outputs), candidates.candidate(outputs)]
        return tuple(found)
