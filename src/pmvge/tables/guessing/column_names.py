"""What the name of a column says about its values: ids, weights, times, or ids of a view."""

from __future__ import annotations

import re

WEIGHT_NAMES = ("weight", "rating", "ratings", "stars", "count", "counts", "score", "value",
                "strength", "times", "quantity", "qty", "amount", "n", "frequency", "freq", "plays",
                "playcount", "clicks", "visits", "purchases")  # fmt: skip
KEY_NAMES = re.compile(r"(_|^)id$|Id$|ID$")
# Words beside the name of the view in the name of a column of its ids, as in from_user_id.
ID_WORDS = frozenset(
    {"id", "ids", "key", "code", "uuid", "no", "nr", "number", "from", "to", "source", "target"}
    | {"src", "dst", "left", "right", "parent", "child", "other", "first", "second", "1", "2", ""}
)
# Words in the name of a column that refers to rows of its own table, as in parent_id.
SELF_WORDS = frozenset(
    {"parent", "child", "boss", "manager", "supervisor", "reply", "replied", "previous", "next"}
    | {"mother", "father", "root", "original", "related", "similar", "partner", "spouse", "friend"}
)
TIME_NAMES = re.compile(r"time|date|year|month|day|_at$", re.IGNORECASE)
EDGE_LIST_NAMES = [  # names of the two columns of an edge list
    {"source", "target"},
    {"src", "dst"},
    {"from", "to"},
    {"head", "tail"},
    {"start", "end"},
    {"u", "v"},
    {"i", "j"},
    {"a", "b"},
    {"node1", "node2"},
    {"id1", "id2"},
    {"cited", "citing"},
    {"left", "right"},
]
GENERIC_NAMES = re.compile(r"column\d+")  # of columns in a file without a header


def strip_number(column: str) -> str:
    """Return a column name without the number at its end."""
    return re.sub(r"[0-9]+$", "", column)


def singulars(name: str) -> set[str]:
    """Return possible singulars of a name: movie (and movy) of movies, category of categories."""
    lower = name.lower()
    names = {lower}
    for ending, replacement in (("s", ""), ("es", ""), ("ies", "y")):
        if lower.endswith(ending) and not lower.endswith("ss"):
            names.add(lower[: -len(ending)] + replacement)
    return names - {""}


def is_named_after(column: str, view: str) -> bool:
    """Return whether a column is named after a view: user, user_id, userId or id_user of users."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower()
    return words == view.lower() or not singulars(view).isdisjoint(re.split(r"[\W_]+", words))


def holds_ids_of(column: str, view: str) -> bool:
    """Return whether a name says that a column holds ids of a view: user_id, but not user_age."""
    words = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower())
    name = "_".join(word for word in words if word not in ID_WORDS)
    return column.lower() == view.lower() or name in {
        re.sub(r"[\W_]+", "_", single) for single in singulars(view)
    }


def is_self_reference(column: str) -> bool:
    """Return whether a name says that a column refers to rows of its own table: parent_id."""
    words = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).lower())
    return not SELF_WORDS.isdisjoint(words)


def view_name(column: str) -> str:
    """Return the name of the view whose ids a column holds: user of user_id."""
    return re.sub(r"[_\s]?(id|Id|ID)$", "", stem(column)) or column


def stem(column: str) -> str:
    """Return a column name without what tells two columns of one view apart: user of user_2."""
    if GENERIC_NAMES.fullmatch(column):
        return column
    return re.sub(r"(?<=[^\W\d_])([_\s]?[12]|[_\s][abAB])$", "", column)


def has_id_suffix(column: str) -> bool:
    """Return whether a name ends as that of an id: user_id, userId, film_code."""
    return bool(re.search(r"(_|^)(id|Id|key|code|uuid)$|[a-z]Id$|ID$", column))


def plain_name(name: str) -> str:
    """Return a name in lower case without separators: user_id, userId and USER ID are equal."""
    return re.sub(r"[\W_]+", "", name).lower()


def is_generic(name: str) -> bool:
    """Return whether a name says nothing about the entities."""
    return plain_name(name) in ("id", "key", "index", "name", "code", "uuid") or bool(
        GENERIC_NAMES.fullmatch(name)
    )


def names_an_entity(column: str) -> bool:
    """Return whether a name says what its ids identify: user_id, but not uid."""
    return bool(KEY_NAMES.search(column)) and len(plain_name(column)) >= 5
