r"""Explain an expected weight as a sum.

For entity i of view d and partner j of view e,

.. math:: \eta_{ij} = \log\alpha^{(de)} + u_i + b_i + u_j + b_j + s(y_i, y_j),

with biases u from features and b from effects. The similarity s of the vectors is split by
:mod:`integrated gradients <pmvge.model.explain.integrated_gradients>` over the features x and
effects e of both entities jointly. The baseline is an average entity that has no links: the mean
row of the training (0 after standardisation), a row of zeros for sparse features and for
user-defined modules, and effects 0. A featureless entity has the baseline 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pmvge.errors import InputError
from pmvge.likelihoods import PairLevels
from pmvge.model.explain.explained_entity import ExplainedEntity, entity_name, find_explained
from pmvge.model.explain.explained_similarity import (
    SideName,
    SplitSide,
    named_parts,
    split_similarity,
)
from pmvge.model.explain.explanation import Evidence, Explanation, Part
from pmvge.model.fitted import Fitted
from pmvge.model.searching.search import known_links


def explain(
    fitted: Fitted,
    view: str,
    entity: Any,
    other: str,
    partner: Any,
    *,
    X: Any,
    X_other: Any,
    links: Any,
    exposure: Any,
    max_parts: int,
    k: int,
) -> Explanation:
    """Return the parts of the log expected weight of one entity pair, and evidence.

    See :meth:`PMvGE.explain <pmvge.PMvGE.explain>`. Raise InputError if an entity is not valid, or
    if the view pair was not observed in training.
    """
    log_alpha = fitted.log_alpha_of(view, other)
    if log_alpha == -math.inf:
        raise InputError(
            f"explain: {view!r} and {other!r} have no links in training, so that all expected "
            "weights are 0"
        )
    left = find_explained(fitted, view, entity, X, links=links, exposure=exposure)
    right = find_explained(fitted, other, partner, X_other)
    eta, level = _log_expected_weight(fitted, left, right)
    parts = [Part("log alpha", "pair", None, "alpha", log_alpha)]
    if level != log_alpha:
        parts.append(Part("calibration", "pair", None, "calibration", level - log_alpha))
    biases = [*_biases(fitted, left, other, "entity"), *_biases(fitted, right, view, "partner")]
    total = math.fsum(part.value for part in biases)
    attribution, sides = split_similarity(fitted, left, right, total)
    parts += [
        *biases,
        Part("similarity of baselines", "pair", None, "baseline", attribution.baseline),
    ]
    names: tuple[SideName, SideName] = ("entity", "partner")
    split = [
        part
        for side, values, name in zip(sides, attribution.parts, names, strict=True)
        for part in _largest(named_parts(fitted, side, values, name), max_parts)
    ]
    parts += sorted(split, key=lambda part: -abs(part.value))
    rest = eta - math.fsum(part.value for part in parts)
    parts.append(Part("remainder", "pair", None, "remainder", rest))
    linked, evidence = _evidence(fitted, left, right, k)
    return Explanation(
        view,
        left.id_of(fitted),
        left.name_of(fitted),
        other,
        right.id_of(fitted),
        right.name_of(fitted),
        float(fitted.family_of(view, other).expected_array(np.array([eta]))[0]),
        eta,
        tuple(parts),
        linked,
        evidence,
        tuple(_notes(fitted, sides)),
    )


def _log_expected_weight(
    fitted: Fitted, left: ExplainedEntity, right: ExplainedEntity
) -> tuple[float, float]:
    """Return eta, as :meth:`PMvGE.intensity` computes it, and log alpha with calibration."""
    level = fitted.level_of(left.view, right.view, left.entities.new, right.entities.new)
    log_alpha = float(level.at(0, 0)) if isinstance(level, PairLevels) else level
    similarity = fitted.pair_similarity.for_pair(left.view, right.view)
    query = similarity.query_array(left.entities.outputs).astype(np.float64)
    candidate = similarity.candidate_array(right.entities.outputs).astype(np.float64)
    g = similarity.outer_array(query @ candidate.T)
    return float(g[0, 0]) + log_alpha, log_alpha


def _biases(fitted: Fitted, found: ExplainedEntity, other: str, side: SideName) -> Iterator[Part]:
    """Yield the bias from features and the bias effect of one side, where it has them."""
    view = found.view
    pairs = fitted.network.bias_pairs.get(view, ())
    at = [n for n, pair in enumerate(pairs) if pair in ((view, other), (other, view))]
    if not at:
        return
    bias = float(found.outputs[fitted.n_components + at[0]])
    linked = found.entities.has_level is not None and found.entities.has_level[0]
    if fitted.schema_of(view).row_shape is None:  # links alone say it
        yield Part("bias of first links" if linked else "bias", side, view, "bias effect", bias)
        return
    b = float(found.b[at[0]])
    yield Part("bias from features", side, view, "bias", bias - b)
    if linked:
        yield Part("bias of first links", side, view, "bias effect", b)
    elif fitted.effects[view] != "none" and found.position >= 0:
        yield Part("bias effect", side, view, "bias effect", b)


def _largest(parts: Iterable[Part], n: int) -> list[Part]:
    """Return the n parts of a side with the largest absolute values, and the sum of the others.

    Effects are always kept.
    """
    listed = sorted(parts, key=lambda part: (part.kind == "feature", -abs(part.value)))
    n += sum(part.kind != "feature" for part in listed)
    kept, others = listed[:n], listed[n:]
    if len(others) > 1:
        value = math.fsum(part.value for part in others)
        kept.append(replace(others[0], name=f"{len(others):,} other parts", value=value))
    else:
        kept += others
    return kept


def _evidence(
    fitted: Fitted, left: ExplainedEntity, right: ExplainedEntity, k: int
) -> tuple[float | None, tuple[Evidence, ...] | None]:
    """Return the weight of the known link, and the k known partners nearest to the candidate.

    Vectors are compared as :meth:`PMvGE.similar <pmvge.PMvGE.similar>` does. Partners of a new
    entity are those of its first links.
    """
    first = left.entities.first_links
    if right.view in first and left.position < 0:
        known = first[right.view]
    elif fitted.links is None:
        return None, None
    else:
        known = known_links(fitted, left.view, left.entities.positions, right.view)
    weights = dict(zip(known.indices.tolist(), known.data.tolist(), strict=True))
    linked = weights.pop(right.position, 0.0)
    at = np.array([*weights], np.int64)
    compared = fitted.vector_similarity
    candidate = compared.query_array(right.entities.outputs.astype(np.float64))
    partners = compared.candidate_array(fitted.outputs[right.view][at].astype(np.float64))
    similar = compared.outer_array(partners @ candidate[0])
    best = np.argsort(-similar, kind="stable")[:k]
    return float(linked), tuple(
        Evidence(
            fitted.ids[right.view][at[n]].item(),
            entity_name(fitted, right.view, int(at[n])),
            float(weights[int(at[n])]),
            float(similar[n]),
        )
        for n in best
    )


def _notes(fitted: Fitted, sides: tuple[SplitSide, SplitSide]) -> Iterator[str]:
    for split in sides:
        found = split.found
        if any("features" in name for name in split.inputs):
            why = (
                "its encoder has no gradients in them"
                if found.row is not None
                else "the model does not keep them; pass its row of features to split them"
            )
            called = found.id_of(fitted)
            yield f"the features of {found.view} {called} are one part: {why}"
    left, right = (split.found for split in sides)
    if left.entities.first_links and left.entities.effects is None:
        yield (
            f"the first links change nothing: the effects of {left.view} are biases, which need "
            "an exposure"
        )
    elif fitted.links is None and right.view not in left.entities.first_links:
        yield "no known partners: the model was saved without its training links"
    missing = fitted.uncalibrated(left.view, right.view, left.entities.new, right.entities.new)
    if missing:
        yield f"expected weights of new entities ({', '.join(missing)}) are not calibrated"
