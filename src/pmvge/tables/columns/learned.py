"""What a model keeps of its tables, checked: it comes from a file, and is trusted from then on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pmvge.errors import short
from pmvge.tables.columns.blocks import Block, Category, HashedWords, Numbers, Vector, Words
from pmvge.tables.columns.recipe import Recipe
from pmvge.tables.project import AGGREGATES

BUCKETS = 2**31 - 1  # of hashed words, at most
SYMMETRIZE = (None, "sum", "max")


def check_learned(tables: Any) -> Mapping[str, Any] | None:
    """The description of tables that ``graph.tables`` is; a ValueError if it is none."""
    if tables is None:
        return None
    _expect("views", tables["views"], isinstance(tables["views"], dict))
    for view, known in tables["views"].items():
        _expect(f"{view}: id", known["id"], isinstance(known["id"], str | None))
        _expect(f"{view}: ids", known.get("ids"), known.get("ids") in (None, "integers", "text"))
        if known["recipe"] is not None:
            read_recipe(view, known["recipe"])
    for entry in tables["links"]:
        _texts("pair", entry["pair"], 2)
        _texts("columns", entry["columns"], 2)
        for view in entry["pair"]:
            _expect("a view of links", view, view in tables["views"])
        _expect("weight", entry["weight"], isinstance(entry["weight"], str | None))
        _expect("aggregate", entry["aggregate"], entry["aggregate"] in AGGREGATES)
        _expect("symmetrize", entry["symmetrize"], entry["symmetrize"] in SYMMETRIZE)
    checked: Mapping[str, Any] = tables
    return checked


def read_recipe(view: str, plain: Any) -> Recipe:
    """The recipe that ``to_plain`` came from; a ValueError, or the like, if there is none."""
    recipe = Recipe.from_plain(plain)
    _check_recipe(view, recipe)
    return recipe


def _expect(what: str, value: object, right: bool) -> None:
    if not right:
        raise ValueError(f"tables: {what}: cannot be {short(value)}")


def _texts(what: str, values: Any, n: int | None = None) -> None:
    right = isinstance(values, list | tuple) and all(isinstance(one, str) for one in values)
    _expect(what, values, right and n in (None, len(values)))


def _check_recipe(view: str, recipe: Recipe) -> None:
    _expect(f"{view}: id", recipe.id, isinstance(recipe.id, str))
    _expect(f"{view}: sparse", recipe.sparse, isinstance(recipe.sparse, bool))
    _expect(f"{view}: blocks", recipe.blocks, len(recipe.blocks) > 0)
    for block in recipe.blocks:
        _texts(f"{view}: columns", block.columns, None if isinstance(block, Numbers) else 1)
        _CHECKS[type(block)](view, block)
    columns = [column for block in recipe.blocks for column in block.columns]
    _expect(f"{view}: columns", columns, len({*columns}) == len(columns))


def _check_numbers(view: str, block: Any) -> None:
    n = len(block.columns)
    _expect(f"{view}: columns", block.columns, n > 0)
    _texts(f"{view}: kinds", block.kinds, n)
    _expect(f"{view}: kinds", block.kinds, {*block.kinds} <= {"numeric", "date"})
    _check_scalings(view, block.scalings, n)


def _check_vector(view: str, block: Any) -> None:
    _check_scalings(view, block.scalings, max(1, len(block.scalings)))
    marks = {scaling.missing for scaling in block.scalings}  # of the whole list
    _expect(f"{view}: scalings", marks, len(marks) == 1)


def _check_scalings(view: str, scalings: Any, n: int) -> None:
    _expect(f"{view}: scalings", scalings, len(scalings) == n)
    for s in scalings:
        right = _are_numbers(s.fill, s.shift, s.scale) and isinstance(s.missing, bool)
        _expect(f"{view}: scaling", s, right)


def _check_category(view: str, block: Any) -> None:
    _texts(f"{view}: categories", block.values)
    _expect(f"{view}: categories", block.values, len({*block.values}) == len(block.values))
    for flag in (block.rest, block.missing):
        _expect(f"{view}: categories", flag, isinstance(flag, bool))


def _check_words(view: str, block: Any) -> None:
    _texts(f"{view}: words", block.words)
    _expect(f"{view}: words", block.words, len({*block.words}) == len(block.words) > 0)
    right = len(block.idf) == len(block.words) and _are_numbers(*block.idf)
    _expect(f"{view}: idf", block.idf, right)


def _check_hashed(view: str, block: Any) -> None:
    right = type(block.width) is int and 1 <= block.width <= BUCKETS
    _expect(f"{view}: buckets", block.width, right)


def _are_numbers(*values: object) -> bool:
    return all(type(one) in (int, float) and math.isfinite(one) for one in values)  # type: ignore[arg-type]


_CHECKS: dict[type[Block], Callable[[str, Any], None]] = {
    Numbers: _check_numbers,
    Vector: _check_vector,
    Category: _check_category,
    Words: _check_words,
    HashedWords: _check_hashed,
}
