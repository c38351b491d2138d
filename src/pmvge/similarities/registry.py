r"""The registry of similarities.

A similarity maps the output of an encoder to a vector y, such that the model's similarity is the
inner product :math:`g_{ij} = \langle y_i, y_j \rangle` for every pair of views. Parameters that a
similarity learns are part of y.
"""

from __future__ import annotations

from pmvge.errors import choose
from pmvge.similarities.cosine import Cosine
from pmvge.similarities.inner import Inner

SIMILARITIES: dict[str, type[Inner] | type[Cosine]] = {"inner": Inner, "cosine": Cosine}


def build_similarity(name: str) -> Inner | Cosine:
    """Return a new similarity of that name; raise ParameterError if it is unknown."""
    return SIMILARITIES[choose("similarity", name, SIMILARITIES)]()
