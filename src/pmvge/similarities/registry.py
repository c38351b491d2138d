r"""Similarities of the shared space.

A similarity maps what an encoder puts out to the vector y whose plain inner products are the
model's :math:`g_{ij} = \langle y_i, y_j \rangle`. So every pair of views is compared in the same
way, and whatever is learned here is part of the embedding.
"""

from __future__ import annotations

from pmvge.errors import choose
from pmvge.similarities.cosine import Cosine
from pmvge.similarities.inner import Inner

SIMILARITIES: dict[str, type[Inner] | type[Cosine]] = {"inner": Inner, "cosine": Cosine}


def build_similarity(name: str) -> Inner | Cosine:
    """The similarity of that name."""
    return SIMILARITIES[choose("similarity", name, SIMILARITIES)]()
