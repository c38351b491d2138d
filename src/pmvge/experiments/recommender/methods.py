"""The recommenders by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pmvge.errors import InputError, choose
from pmvge.experiments.recommender.base import Recommender
from pmvge.experiments.recommender.ease import EASE
from pmvge.experiments.recommender.implicit_factors import ALS, BPR
from pmvge.experiments.recommender.lightfm import LightFM
from pmvge.experiments.recommender.pmvge import Ours
from pmvge.experiments.recommender.popularity import PopularityList
from pmvge.experiments.recommender.two_towers import TwoTowers

RECOMMENDERS: dict[str, type[Recommender]] = {
    "popularity": PopularityList,
    "EASE": EASE,
    "ALS": ALS,
    "BPR": BPR,
    "LightFM": LightFM,
    "two towers": TwoTowers,
    "PMvGE": Ours,
}


def make_recommender(method: str, settings: Mapping[str, Any]) -> Recommender:
    """Return a recommender by name; raise ParameterError if the name is unknown."""
    return RECOMMENDERS[choose("method", method, RECOMMENDERS)](**settings)


def check_libraries(methods: list[str]) -> None:
    """Raise InputError if a method needs a library that is not installed."""
    for method in methods:
        for library in RECOMMENDERS[method].libraries:
            try:
                import_module(library)
            except ImportError as error:
                raise InputError(
                    f"{method} needs {library!r}: install pmvge[bench], or leave the method out "
                    "with --methods"
                ) from error
