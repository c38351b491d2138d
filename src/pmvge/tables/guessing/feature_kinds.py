"""Guess which columns of a view are features, of which kinds, and which are labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pmvge.tables.guessing.cells import (
    are_codes,
    are_sequences,
    are_unspaced,
    are_urls,
    guess_separator,
    is_code,
    recur,
    split,
)
from pmvge.tables.guessing.column_names import GENERIC_NAMES, KEY_NAMES, strip_number
from pmvge.tables.guessing.profile import Profile
from pmvge.tables.project import Feature

LABEL_NAMES = ("label", "labels", "class", "target")
MIN_NUMBERED = 10  # columns w0, w1, ... that are treated as one group
MAX_CATEGORIES = 1000  # distinct values of a category column
MAX_CLASSES = 50  # distinct values of a label that is guessed without its name
NGRAMS = (1, 3)  # lengths of sequences of characters, for scripts without blanks
SEQUENCE_NGRAMS = (2, 4)  # for long cells without blanks, such as DNA


def guess_features(
    columns: Mapping[str, Profile], declared: Mapping[str, str]
) -> tuple[dict[str, Feature], dict[str, str]]:
    """Return the features of a view, and for each other column why it is none."""
    guessed = {c: guess_feature(c, p, declared.get(c)) for c, p in columns.items()}
    # Keep a constant column of a numbered group w0, w1, ...: new rows may have other values.
    numbered = Counter(
        strip_number(c)
        for c, found in guessed.items()
        if found == Feature("numeric") and c != strip_number(c)
    )
    for column, profile in columns.items():
        group = strip_number(column)
        if (
            profile.kind in ("integer", "number")
            and group != column
            and numbered[group] >= MIN_NUMBERED
        ):
            guessed[column] = Feature("numeric")
    return (
        {c: found for c, found in guessed.items() if isinstance(found, Feature)},
        {c: found for c, found in guessed.items() if isinstance(found, str)},
    )


def guess_feature(column: str, profile: Profile, declared: str | None = None) -> Feature | str:
    """Return the feature of a column; or a text that says why it has no use."""
    if profile.kind == "empty":
        return "is empty"
    if profile.kind == "other":
        return "has values of a type that is not a feature"
    if profile.distinct == 1 and profile.present == profile.rows and profile.kind != "vector":
        return "is constant"
    if declared is not None:
        return _declared_feature(profile, declared)
    is_key_name = bool(KEY_NAMES.search(column)) or column.lower() == "index"
    few = profile.distinct <= min(MAX_CATEGORIES, profile.rows // 2)
    if profile.kind in ("integer", "word", "text") and is_code(column, profile.padded):
        return "has a code in every row" if profile.unique else Feature("category")
    if profile.kind == "integer" and is_key_name:
        return Feature("category") if few else "is named like an id"
    if profile.kind in ("integer", "number"):
        return Feature("numeric")
    if profile.kind in ("date", "vector"):
        return Feature(profile.kind)
    if are_urls(profile.cells):
        return "has web addresses"
    if (separator := guess_separator(column, profile.cells)) is not None:
        return Feature("categories", separator=separator)
    if not profile.has_words:  # single letters
        return Feature("category") if 0 < profile.distinct <= MAX_CATEGORIES else "has no words"
    is_category = few or profile.distinct <= 2 or (are_codes(profile.cells) and not profile.unique)
    if profile.kind == "word" and is_category:
        return Feature("category")
    if profile.kind == "word" and is_key_name:
        return "is named like an id"
    if are_unspaced(profile.cells):
        return Feature("text", ngrams=NGRAMS)
    return Feature("text", ngrams=SEQUENCE_NGRAMS if are_sequences(profile.cells) else None)


def _declared_feature(profile: Profile, declared: str) -> Feature:
    """Return the feature for a type in a RecBole header."""
    if declared == "token_seq":
        several = recur([split(cell, " ") for cell in profile.cells])
        return Feature("categories", separator=" ") if several else Feature("text")
    return Feature({"token": "category", "float": "numeric", "float_seq": "vector"}[declared])


def guess_labels(
    key: str, features: Mapping[str, Feature], profiles: Mapping[str, Profile], is_bag: bool
) -> tuple[str, ...]:
    """Return the columns that are labels: by their names, or the last one of a bag of words.

    The latter is for files without a header: a last column that is not a word count like the others
    is the class of the row.
    """
    named = tuple(
        c
        for c in profiles
        if c.lower() in LABEL_NAMES
        and c != key
        and not (c in features and features[c].kind == "categories")
    )
    last = list(profiles)[-1]
    if named or not is_bag or not GENERIC_NAMES.fullmatch(last) or last not in features:
        return named
    counts = max((profiles[c].maximum or 0 for c in features if c != last), default=0)
    few = profiles[last].distinct <= MAX_CLASSES
    is_class = features[last].kind == "category" or (profiles[last].maximum or 0) > counts == 1
    return (last,) if few and is_class else ()
