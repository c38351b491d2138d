"""Parse the manifest of a model into typed values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pmvge.encoders import EFFECTS, ViewSchema
from pmvge.errors import choose, one_line, short
from pmvge.graph import Pair
from pmvge.likelihoods import KINDS
from pmvge.model.fitted import Alpha, Factor
from pmvge.model.saving.json_values import NoneType, expect, get, number, size, strings
from pmvge.storage import DamagedValue
from pmvge.tables import check_saved_tables
from pmvge.training import History

BINS = ("expected", "observed", "error", "pairs")  # of a reliability diagram
MAX_SEED_DIGITS = 20  # seeds are below 2^64


@dataclass(frozen=True)
class SavedModel:
    """The values of ``model.json``, checked one by one."""

    parameters: dict[str, Any]
    n_components: int
    similarity: str
    family: str | dict[str, str]  # {"view,view": name} if it differs by view pair
    seed: int
    schemas: dict[str, ViewSchema]
    given_ids: frozenset[str] | None  # None: format 1 does not say
    shares: dict[str, dict[str, float]]  # of features, by view and view of the partners
    effects: dict[str, str]  # "none" for all views in format 1
    plain: list[str]  # views whose outputs without effects are saved
    alpha: dict[Pair, Alpha]
    factors: dict[Pair, dict[str, Factor]]  # none before calibration, and in older files
    history: History
    full_steps: int  # of the fit that was updated; 0: the model was not updated
    tables: Mapping[str, Any] | None
    background: dict[str, Any] | None  # links and labels


def parse_manifest(manifest: dict[str, Any]) -> SavedModel:
    """Return the values of a model's manifest.

    Encoders and parameters are left to :mod:`pmvge.model.saving.settings_json`, links and labels to
    :mod:`pmvge.model.saving.links_files`. Raise DamagedValue if a value is missing or not valid.
    """
    schemas = {view: _schema(view, entry) for view, entry in get(manifest, "views", dict).items()}
    alpha = dict(_alpha(entry, schemas) for entry in get(manifest, "alpha", list))
    return SavedModel(
        parameters=get(manifest, "parameters", dict),
        n_components=size("n_components", get(manifest, "n_components")),
        similarity=get(manifest, "similarity", str),
        family=_family(manifest.get("family", "poisson")),
        seed=_seed(get(manifest, "seed", str)),
        schemas=schemas,
        given_ids=_given_ids(manifest, schemas),
        shares=_shares(manifest.get("feature_shares", {}), schemas),
        effects=_effects(manifest.get("effects", {}), schemas),
        plain=[
            choose("view", view, schemas, "plain", error=DamagedValue)
            for view in strings("plain", manifest.get("plain", []))
        ],
        alpha=alpha,
        factors=_factors(manifest.get("calibration", []), alpha),
        history=_history(get(manifest, "history", list)),
        full_steps=_count("full_steps", manifest.get("full_steps", 0)),
        tables=_tables(manifest.get("tables")),
        background=expect("background", manifest.get("background"), dict, NoneType),
    )


def _schema(view: str, entry: Any) -> ViewSchema:
    if any("\ud800" <= letter <= "\udfff" for letter in view):
        raise DamagedValue(f"expected a view's name in Unicode, got {short(view)}")
    shape = get(entry, "row_shape", list, NoneType)
    if shape is not None:
        shape = tuple(size("row_shape", n) for n in shape)
        if math.prod(shape) >= 2**63:
            raise DamagedValue(f"row_shape: expected fewer than 2^63 columns, got {short(shape)}")
    return ViewSchema(size("n", get(entry, "n")), shape, get(entry, "sparse", bool))


def _family(saved: Any) -> str | dict[str, str]:
    family: str | dict[str, str] = expect("family", saved, str, dict)
    for name in family.values() if isinstance(family, dict) else ():
        expect("family", name, str)
    return family


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_SEED_DIGITS):
        raise DamagedValue(f"seed: expected a number, got {short(text)}")
    return int(text)


def _given_ids(
    manifest: dict[str, Any], schemas: Mapping[str, ViewSchema]
) -> frozenset[str] | None:
    if "given_ids" not in manifest:
        return None
    views = strings("given_ids", manifest["given_ids"])
    return frozenset(choose("view", v, schemas, "given_ids", error=DamagedValue) for v in views)


def _effects(saved: Any, schemas: Mapping[str, ViewSchema]) -> dict[str, str]:
    given = expect("effects", saved, dict)
    for view, kind in given.items():
        choose("view", view, schemas, "effects", error=DamagedValue)
        choose("effects", kind, EFFECTS, f"view {view!r}", error=DamagedValue)
    return {view: given.get(view, "none") for view in schemas}


def _shares(saved: Any, schemas: Mapping[str, ViewSchema]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for view, shares in expect("feature_shares", saved, dict).items():
        for other, share in expect("feature_shares", shares, dict).items():
            for name in (view, other):
                choose("view", name, schemas, "feature_shares", error=DamagedValue)
            found.setdefault(view, {})[other] = number("feature_shares", share)
    return found


def _alpha(entry: Any, schemas: Mapping[str, ViewSchema]) -> tuple[Pair, Alpha]:
    a, b = strings("pair", get(entry, "pair"), 2)
    for view in (a, b):
        choose("view", view, schemas, "alpha", error=DamagedValue)
    log_alpha = get(entry, "log_alpha")
    error, weight = (number(key, get(entry, key)) for key in ("relative_error", "weight"))
    value = -math.inf if log_alpha is None else number("log_alpha", log_alpha)
    factor = number("pair_weight", entry.get("pair_weight", 1.0))
    if factor <= 0:
        raise DamagedValue(f"pair_weight: expected a positive number, got {short(factor)}")
    return (a, b), Alpha(value, error, weight, factor)


def _factors(saved: Any, alpha: Mapping[Pair, Alpha]) -> dict[Pair, dict[str, Factor]]:
    found: dict[Pair, dict[str, Factor]] = {}
    for entry in expect("calibration", saved, list):
        a, b = strings("pair", get(entry, "pair"), 2)
        if (a, b) not in alpha:
            raise DamagedValue(f"calibration: expected a view pair with an alpha, got {(a, b)!r}")
        kind = choose("kind", get(entry, "kind"), KINDS.values(), "calibration", error=DamagedValue)
        value, error, weight = (
            number(key, get(entry, key)) for key in ("log_factor", "relative_error", "weight")
        )
        bins = {name: _bins(name, get(entry, "bins", dict)) for name in BINS}
        if len({len(values) for values in bins.values()}) > 1:
            raise DamagedValue("bins: expected lists of one length")
        found.setdefault((a, b), {})[kind] = Factor(value, error, weight, bins)
    return found


def _bins(name: str, bins: Any) -> tuple[float, ...]:
    return tuple(number(name, value) for value in get(bins, name, list))


def _count(where: str, value: Any) -> int:
    return 0 if expect(where, value, int) == 0 else size(where, value)


def _history(records: list[Any]) -> History:
    try:
        return History.from_records(records)
    except TypeError as error:
        raise DamagedValue(f"history: {one_line(error)}") from error


def _tables(tables: Any) -> Mapping[str, Any] | None:
    try:
        return check_saved_tables(tables)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DamagedValue(f"tables: {one_line(error)}") from error
