"""Validation of the table descriptions that a saved model holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pmvge.errors import short
from pmvge.tables.columns.category_encodings import Categories, Category
from pmvge.tables.columns.encodings import ColumnEncoding
from pmvge.tables.columns.number_encodings import Numbers, Vector
from pmvge.tables.columns.recipe import Recipe
from pmvge.tables.columns.word_encodings import HashedWords, Words
from pmvge.tables.project import (
    AGGREGATES,
    MAX_SIZE,
    ON_ERROR,
    SYMMETRIZE,
    TRANSFORMS,
    is_ngram_range,
)
from pmvge.tables.sources.dialect import KEYS, Dialect


def check_saved_tables(tables: Any) -> Mapping[str, Any] | None:
    """Return the description of tables (``graph.tables``), or None, as read from a file.

    Raise KeyError, TypeError, AttributeError or ValueError if it is not valid.
    """
    if tables is None:
        return None
    _expect("views", tables["views"], isinstance(tables["views"], dict))
    for view, known in tables["views"].items():
        _expect(f"{view}: id", known["id"], isinstance(known["id"], str | None))
        _expect(f"{view}: ids", known.get("ids"), known.get("ids") in (None, "integers", "text"))
        standardize = known.get("standardize", True)  # models of earlier versions have no entry
        _expect(f"{view}: standardize", standardize, isinstance(standardize, bool))
        normalize = known.get("normalize_ids", False)
        _expect(f"{view}: normalize_ids", normalize, isinstance(normalize, bool))
        _check_source(view, known)
        if known["recipe"] is not None:
            read_recipe(view, known["recipe"])
    for entry in tables["links"]:
        _expect_strings("pair", entry["pair"], 2)
        _expect_strings("columns", entry["columns"], 2)
        for view in entry["pair"]:
            _expect("a view of links", view, view in tables["views"])
        _expect("weight", entry["weight"], isinstance(entry["weight"], str | None))
        _expect("aggregate", entry["aggregate"], entry["aggregate"] in AGGREGATES)
        _expect("symmetrize", entry["symmetrize"], entry["symmetrize"] in (None, *SYMMETRIZE))
        transform = entry.get("transform")  # models of earlier versions have no entry
        _expect("transform", transform, transform in (None, *TRANSFORMS))
        _check_source("links", entry)
    checked: Mapping[str, Any] = tables
    return checked


def _check_source(what: str, entry: Mapping[str, Any]) -> None:
    """Check the entries of tables that are not written, or not read, as by default."""
    dialect = entry.get("dialect", {})
    known = isinstance(dialect, dict) and {*dialect} <= {*KEYS}
    _expect(f"{what}: dialect", dialect, known)
    Dialect.of(f"tables: {what}", dialect)  # its TableError is a ValueError
    on_error = entry.get("on_error", "stop")
    _expect(f"{what}: on_error", on_error, on_error in ON_ERROR)


def read_recipe(view: str, plain: Any) -> Recipe:
    """Return the recipe of a dict that ``Recipe.to_dict`` made.

    Raise KeyError, TypeError, AttributeError or ValueError if it is not valid.
    """
    recipe = Recipe.from_dict(plain)
    _check_recipe(view, recipe)
    return recipe


def _expect(what: str, value: object, valid: bool) -> None:
    if not valid:
        raise ValueError(f"tables: {what}: invalid value {short(value)}")


def _expect_strings(what: str, values: Any, n: int | None = None) -> None:
    valid = isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)
    _expect(what, values, valid and n in (None, len(values)))


def _check_recipe(view: str, recipe: Recipe) -> None:
    _expect(f"{view}: id", recipe.id, isinstance(recipe.id, str))
    _expect(f"{view}: sparse", recipe.sparse, isinstance(recipe.sparse, bool))
    _expect(f"{view}: blocks", recipe.encodings, len(recipe.encodings) > 0)
    for encoding in recipe.encodings:
        _expect_strings(
            f"{view}: columns", encoding.columns, None if isinstance(encoding, Numbers) else 1
        )
        _CHECKS[type(encoding)](view, encoding)
    columns = [column for encoding in recipe.encodings for column in encoding.columns]
    _expect(f"{view}: columns", columns, len({*columns}) == len(columns))


def _check_numbers(view: str, encoding: Any) -> None:
    n = len(encoding.columns)
    _expect(f"{view}: columns", encoding.columns, n > 0)
    _expect_strings(f"{view}: kinds", encoding.kinds, n)
    _expect(f"{view}: kinds", encoding.kinds, {*encoding.kinds} <= {"numeric", "date"})
    _check_scalings(view, encoding.scalings, n)


def _check_vector(view: str, encoding: Any) -> None:
    _check_scalings(view, encoding.scalings, max(1, len(encoding.scalings)))
    missing = {scaling.missing for scaling in encoding.scalings}  # of lists, not of elements
    _expect(f"{view}: scalings", missing, len(missing) == 1)


def _check_scalings(view: str, scalings: Any, n: int) -> None:
    _expect(f"{view}: scalings", scalings, len(scalings) == n)
    for s in scalings:
        valid = _are_numbers(s.fill, s.shift, s.scale) and isinstance(s.missing, bool)
        _expect(f"{view}: scaling", s, valid)


def _check_category(view: str, encoding: Any) -> None:
    _expect_strings(f"{view}: categories", encoding.values)
    _expect(f"{view}: categories", encoding.values, len({*encoding.values}) == len(encoding.values))
    for flag in (encoding.rest, encoding.missing):
        _expect(f"{view}: categories", flag, isinstance(flag, bool))


def _check_categories(view: str, encoding: Any) -> None:
    _check_category(view, encoding)
    valid = isinstance(encoding.separator, str) and encoding.separator != ""
    _expect(f"{view}: separator", encoding.separator, valid)


def _check_words(view: str, encoding: Any) -> None:
    _expect_strings(f"{view}: words", encoding.words)
    _expect(f"{view}: words", encoding.words, len({*encoding.words}) == len(encoding.words) > 0)
    valid = len(encoding.idf) == len(encoding.words) and _are_numbers(*encoding.idf)
    _expect(f"{view}: idf", encoding.idf, valid)
    _check_ngrams(view, encoding)


def _check_hashed(view: str, encoding: Any) -> None:
    valid = type(encoding.width) is int and 1 <= encoding.width <= MAX_SIZE
    _expect(f"{view}: buckets", encoding.width, valid)
    _check_ngrams(view, encoding)


def _check_ngrams(view: str, encoding: Any) -> None:
    valid = encoding.ngrams is None or is_ngram_range(encoding.ngrams)
    _expect(f"{view}: ngrams", encoding.ngrams, valid)


def _are_numbers(*values: object) -> bool:
    return all(type(value) in (int, float) and math.isfinite(value) for value in values)  # type: ignore[arg-type]


_CHECKS: dict[type[ColumnEncoding], Callable[[str, Any], None]] = {
    Numbers: _check_numbers,
    Vector: _check_vector,
    Category: _check_category,
    Categories: _check_categories,
    Words: _check_words,
    HashedWords: _check_hashed,
}
