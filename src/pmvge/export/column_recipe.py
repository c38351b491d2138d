"""How raw columns become the features of a view, as plain data for programs without pmvge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HASH = "MurmurHash3 x86 32 bit of the UTF-8 word, seed 0; column = abs(signed hash) % width"
SCALING = ("fill", "shift", "scale", "missing")


def column_recipe(tables: Mapping[str, Any] | None, view: str) -> list[dict[str, Any]] | None:
    """Return the blocks of features of a view, in their order; None without a table of the view.

    Every block has its kind as ``block``, its ``columns``, and its number of features as ``width``:

    - "numbers" and "vector": ``fill``, ``shift``, ``scale`` and ``missing``, lists with an entry
      for each column, or each element of a vector. The features are (x - shift) * scale, with
      fill in place of a missing x, then a 1 or 0 for each column with ``missing`` (one for a whole
      vector): whether x is missing. ``kinds`` says which columns are dates, in days since 1970.
    - "category" and "categories": one feature for each of ``values``, one for all others if
      ``rest``, one for a missing cell if ``missing``. The cells of "categories" have several
      values, with ``separator`` between them, which are trimmed and counted.
    - "words": one feature for each of ``words``: how often it occurs in the text in lower case,
      times its ``idf``; then the row is divided by its norm. Words are matches of ``pattern``, or
      with ``ngrams`` (shortest, longest) the sequences of so many characters within the parts
      between spaces, after Unicode normalisation NFKC.
    - "hashed words": counts of words, by ``hash``; then the row is divided by its norm.
    """
    entry = (tables or {"views": {}})["views"].get(view) or {}
    if not entry.get("recipe"):
        return None
    return [_block(block) for block in entry["recipe"]["blocks"]]


def _block(saved: Mapping[str, Any]) -> dict[str, Any]:
    block = {name: value for name, value in saved.items() if name != "scalings"}
    if "scalings" in saved:
        parts = zip(*saved["scalings"], strict=True)
        block |= {name: list(part) for name, part in zip(SCALING, parts, strict=True)}
        indicators = sum(block["missing"]) if "kinds" in saved else block["missing"][0]
        block["width"] = len(saved["scalings"]) + int(indicators)
    elif "values" in saved:
        block["width"] = max(1, len(saved["values"]) + saved["rest"] + saved["missing"])
    else:
        if not block.get("ngrams"):
            block.pop("ngrams", None)
            block["pattern"] = r"\b\w\w+\b"
        block |= {"width": len(saved["words"])} if "words" in saved else {"hash": HASH}
    return block
