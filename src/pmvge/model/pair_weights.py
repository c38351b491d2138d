r"""The factors of view pairs in the objective.

With :math:`c_{de}` the total measure of a view pair's links (their total weight for Poisson) and
:math:`\lambda_{de}` its factor, the objective is

.. math:: -\frac 1 C \sum_{de} \lambda_{de}\, \ell_{de} + \frac 1 C \sum_i \text{penalty}_i,
          \qquad C = \sum_{de} \lambda_{de} c_{de}.

A step draws a view pair with probability :math:`\lambda_{de} c_{de} / C`, and its loss is
:math:`-\ell_{de} / c_{de}`. Alpha maximises each :math:`\ell_{de}` alone: the factors change
expected weights through the vectors only. With n links, ``"balanced"`` is

.. math:: \lambda_{de} = \sqrt{n_{de}\, n_{\max}} / c_{de}:

view pairs count in proportion to the square root of their numbers of links, whatever the weights
are, and the links of the largest view pair count 1 on average. Equal shares would repeat the links
of a small table so often that the vectors overfit to them, and large tables would be predicted
worse (``benchmarks/pair_weights.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pmvge.checks import real
from pmvge.errors import ParameterError, choose
from pmvge.graph import Pair, pair_key

BALANCED = "balanced"


def key_text(key: Any) -> str:
    """Return a view pair as text, "users,films"; other keys as they are."""
    return pair_key([*map(str, key)]) if isinstance(key, tuple) else str(key)


def check_pair_weights(name: str, value: Any) -> None:
    """Raise ParameterError unless a value is None, "balanced" or {(view, view): factor}."""
    if value is None or (isinstance(value, str) and value == BALANCED):
        return
    if not isinstance(value, Mapping):
        raise ParameterError(
            f"{name}: expected None, {BALANCED!r} or {{(view, view): factor}}, got {value!r}"
        )
    for pair, factor in value.items():
        real(0, open_low=True)(f"{name}: {key_text(pair)}", factor)


def choose_pair_weights(
    settings: Mapping[str, Any], measures: Mapping[Pair, float], counts: Mapping[Pair, float]
) -> dict[Pair, float]:
    """Return the factor of each view pair, from the measures and numbers of their links.

    Keys of the setting are (view, view) or "view,view", in either order. Raise ParameterError for
    a view pair without links, and with ``scheme="paper"``.
    """
    given = settings["pair_weights"]
    if given is None:
        return dict.fromkeys(measures, 1.0)
    if settings["scheme"] != "block":
        raise ParameterError(
            f"pair_weights: expected None with scheme={settings['scheme']!r}, got {given!r}"
        )
    if given == BALANCED:
        largest = max(counts.values())
        return {
            pair: math.sqrt(counts[pair] * largest) / measure
            for pair, measure in measures.items()
            if measure > 0
        }
    known = {pair_key(key): pair for pair in measures for key in (pair, pair[::-1])}
    factors = dict.fromkeys(measures, 1.0)
    for pair, factor in given.items():
        factors[known[choose("view pair", key_text(pair), known, "pair_weights")]] = float(factor)
    return factors
