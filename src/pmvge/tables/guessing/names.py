"""Guess the column with the names of a view's entities."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from pmvge.tables.guessing.profile import Profile

NAME_WORDS = ("name", "title")
OWN_WORDS = ("full", "display", "long", "original")  # a full_name is a name; a country_name is not
# Least share of distinct values, by rank: a column of few values, such as country_name, is none.
MIN_DISTINCT = (0.5, 0.5, 0.9)


def guess_name(
    columns: Mapping[str, Profile], key: str | None, own: Collection[str] = ()
) -> str | None:
    """Return the column with the names of entities: name, title, film_title; None if none is.

    ``own`` are singulars of the view's name, ``key`` is the id column, which is not a name.
    """
    ranks: dict[int, list[str]] = {}
    for column, profile in columns.items():
        distinct = profile.distinct / max(1, profile.present)
        rank = _rank(column, own)
        if column == key or profile.kind not in ("word", "text") or rank is None:
            continue
        if distinct >= MIN_DISTINCT[rank]:
            ranks.setdefault(rank, []).append(column)
    best = ranks[min(ranks)] if ranks else []
    return best[0] if best and (len(best) == 1 or min(ranks) == 0) else None


def _rank(column: str, own: Collection[str]) -> int | None:
    """Return how well a column's name says that it holds names, 0 for best; None: it does not."""
    base = column.partition(":")[0]  # RecBole writes movie_title:token_seq
    words = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", base).lower())
    words = [word for word in words if word]
    if not words or words[-1] not in NAME_WORDS:
        return None
    if len(words) == 1:
        return 0
    return 1 if all(word in {*own, *OWN_WORDS} for word in words[:-1]) else 2
