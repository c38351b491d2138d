"""The column encodings by name, and their conversion to and from dicts.

A column encoding turns one or more columns of a batch into a dense or sparse matrix. It is fitted
once, to the training table, and holds plain data: means, categories, words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from pmvge.tables.columns.category_encodings import Categories, Category
from pmvge.tables.columns.number_encodings import Numbers, Scaling, Vector
from pmvge.tables.columns.word_encodings import HashedWords, Words

ColumnEncoding: TypeAlias = Numbers | Vector | Category | Categories | Words | HashedWords

_NAMES: dict[str, type[ColumnEncoding]] = {
    "numbers": Numbers,
    "vector": Vector,
    "category": Category,
    "categories": Categories,
    "words": Words,
    "hashed words": HashedWords,
}


def to_dict(encoding: ColumnEncoding) -> dict[str, Any]:
    """Return an encoding as a dict that can be stored as JSON."""
    (name,) = (name for name, kind in _NAMES.items() if kind is type(encoding))
    plain: dict[str, Any] = {"block": name}
    for field in fields(encoding):
        value = getattr(encoding, field.name)
        if value is not None:
            plain[field.name] = list(value) if isinstance(value, tuple) else value
    if isinstance(encoding, Numbers | Vector):
        plain["scalings"] = [[s.fill, s.shift, s.scale, s.missing] for s in encoding.scalings]
    return plain


def from_dict(plain: Mapping[str, Any]) -> ColumnEncoding:
    """Return the encoding of a dict that :func:`to_dict` made."""
    options: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in plain.items()
    }
    kind: Any = _NAMES[options.pop("block")]
    if "scalings" in options:
        options["scalings"] = tuple(Scaling(*part) for part in plain["scalings"])
    encoding: ColumnEncoding = kind(**options)
    return encoding
