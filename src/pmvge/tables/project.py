"""Descriptions of tables: a project has views, links, and the kinds of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pmvge.errors import TableError, choose, short
from pmvge.tables.sources.files import find_files
from pmvge.tables.sources.source import as_source

KINDS = ("numeric", "date", "category", "categories", "text", "vector")
AGGREGATES = ("sum", "count", "max")
SYMMETRIZE = ("sum", "max")
TRANSFORMS = ("log1p",)  # of weights
ON_ERROR = ("stop", "missing")
MAX_SIZE = 2**31 - 1  # of a feature
MAX_NGRAM = 8  # characters


def is_ngram_range(given: Any) -> bool:
    """Return whether a value is (shortest, longest), lengths of sequences of characters."""
    return (
        isinstance(given, list | tuple)
        and [type(n) for n in given] == [int, int]
        and 1 <= given[0] <= given[1] <= MAX_NGRAM
    )


@dataclass(frozen=True)
class Feature:
    """The kind of a column, and how it is encoded as numbers.

    ``kind`` is "numeric", "date" (days), "category" (one-hot), "categories" (several in a cell,
    counted), "text" (a bag of words, weighted by TF-IDF) or "vector" (a list of numbers). ``size``
    limits the categories (default 1,000) or words (default 20,000) that get a feature each, the
    most frequent first. With ``hashed``, words are hashed to ``size`` features instead (default
    16,384), and no vocabulary is stored. ``ngrams`` is (shortest, longest): the features of a text
    are sequences of so many characters instead of words, for scripts without blanks between words
    (Chinese, Japanese, Thai, Khmer) and for codes. ``separator`` is the text between the categories
    of a cell (default "|").
    """

    kind: str
    size: int | None = None
    hashed: bool = False
    separator: str | None = None
    ngrams: tuple[int, int] | None = None

    @classmethod
    def of(cls, where: str, given: Any) -> Feature:
        """Return the feature for a kind, or for options ``{ kind = ..., size = ... }``.

        Raise TableError, which starts with ``where``, if they are not valid.
        """
        if isinstance(given, Feature):
            return given
        options = {"kind": given} if isinstance(given, str) else given
        if not isinstance(options, Mapping):
            raise TableError(
                f"{where}: expected a kind, one of {', '.join(KINDS)}, got {short(given)}"
            )
        check_keys(where, options, ("kind", "size", "hashed", "separator", "ngrams"))
        kind = choose("kind", options.get("kind"), KINDS, where, error=TableError)
        size, hashed = options.get("size"), options.get("hashed", False)
        if size is not None and (type(size) is not int or not 1 <= size <= MAX_SIZE):
            raise TableError(
                f"{where}: size: expected a positive integer up to {MAX_SIZE:,}, got {short(size)}"
            )
        if not isinstance(hashed, bool) or (hashed and kind != "text"):
            raise TableError(
                f"{where}: hashed = true needs kind text, got {short(hashed)} for {kind}"
            )
        separator = options.get("separator")
        valid = isinstance(separator, str) and separator and kind == "categories"
        if separator is not None and not valid:
            raise TableError(
                f"{where}: separator: expected a text, with kind categories, got "
                f"{short(separator)} for {kind}"
            )
        ngrams = options.get("ngrams")
        if ngrams is not None and not (kind == "text" and is_ngram_range(ngrams)):
            raise TableError(
                f"{where}: ngrams: expected [shortest, longest], two integers from 1 to "
                f"{MAX_NGRAM}, with kind text, got {short(ngrams)} for {kind}"
            )
        return cls(kind, size, hashed, separator, None if ngrams is None else tuple(ngrams))


@dataclass(frozen=True, eq=False)
class ViewTable:
    """The table of one view.

    Parameters
    ----------
    source
        A file name, ``file.db:table``, a data frame, or a :class:`Source`. None: the view has no
        features, and its ids are those in the link tables.
    id
        The id column. None: guess it.
    features
        ``{column: kind}``, with kinds as in :class:`Feature`. Keys are column names, or patterns
        such as ``"word_*"``. None: guess them.
    labels
        Columns that are shown in reports and not used in training.
    standardize
        Scale numbers to mean 0 and variance 1, by the training rows.
    sparse
        Make the features a CSR matrix. None: if there is text, or a category column becomes more
        than 256 features.
    name
        The column with the names of the entities, which results show before the ids. None: guess
        it if features are guessed, else there are no names.
    on_error
        "stop": raise TableError if a value is not of its column's kind, or if ids are empty or
        repeat. "missing": count such values as missing, and leave out rows without an id and all
        but the first row of an id; notes say how many.
    normalize_ids
        Read ids, here and in link tables, without blanks around them, leading zeros, and ".0" at
        the end: "001", " 1" and 1 are then the same id, 1.
    """

    source: Any = None
    id: str | None = None
    features: Mapping[str, Any] | None = None
    labels: tuple[str, ...] = ()
    standardize: bool = True
    sparse: bool | None = None
    name: str | None = None
    on_error: str = "stop"
    normalize_ids: bool = False

    def __post_init__(self) -> None:
        if self.source is not None:
            object.__setattr__(self, "source", as_source(self.source))
        if self.features is not None and not isinstance(self.features, Mapping):
            raise TableError(
                f"features: expected {{column: kind}} with kinds {', '.join(KINDS)}, "
                f"got {short(self.features)}"
            )
        if isinstance(self.labels, str):
            raise TableError(f"labels: expected a list of columns, got {short(self.labels)}")
        choose("on_error", self.on_error, ON_ERROR, "views", error=TableError)


@dataclass(frozen=True, eq=False)
class LinkTable:
    """One link table.

    Parameters
    ----------
    source
        A file name, ``file.db:table``, a data frame, or a :class:`Source`.
    columns
        The id columns of the two views. None: guess them.
    weight
        The weight column. None: every row has weight 1.
    aggregate
        How the weights of rows with the same two ids are combined into one link: "sum", "count"
        (of rows) or "max".
    symmetrize
        How the weights of (a, b) and (b, a) are combined within a view: "sum" or "max".
    transform
        A function of the combined weight of a link: "log1p", log(1 + w), for weights of which a
        few are much larger than the others. None: the weight itself.
    on_error
        "stop": raise TableError if a weight is not a number >= 0. "missing": such a weight is
        missing, so its row is dropped and counted.
    """

    source: Any
    columns: tuple[str, str] | None = None
    weight: str | None = None
    aggregate: str = "sum"
    symmetrize: str | None = None
    transform: str | None = None
    on_error: str = "stop"

    def __post_init__(self) -> None:
        if self.source is None:
            raise TableError("links: expected a file name or a table, got None")
        object.__setattr__(self, "source", as_source(self.source))
        valid = self.columns is None or (
            len(self.columns) == 2 and not isinstance(self.columns, str)
        )
        if not valid:
            raise TableError(f"links: columns: expected two names, got {short(self.columns)}")
        choose("aggregate", self.aggregate, AGGREGATES, "links", error=TableError)
        if self.symmetrize is not None:
            choose("symmetrize", self.symmetrize, SYMMETRIZE, "links", error=TableError)
        if self.transform is not None:
            choose("transform", self.transform, TRANSFORMS, "links", error=TableError)
        choose("on_error", self.on_error, ON_ERROR, "links", error=TableError)


@dataclass(frozen=True, eq=False)
class Project:
    """Views, links, parameters of the model, and the folder that file names are relative to."""

    views: Mapping[str, ViewTable]
    links: Mapping[tuple[str, str], LinkTable]
    model: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()


def share_links(project: Project, rank: int, size: int) -> Project:
    """Return the project with the link files of process ``rank`` of ``size``.

    Each process reads every ``size``-th file of a glob. Raise TableError unless the number of files
    of every link table is a multiple of the number of processes.
    """
    shared = {}
    for (a, b), table in project.links.items():
        where = f"links {a},{b} ({table.source})"
        if table.source.path is None:
            raise TableError(f"{where}: expected files, named by a glob, to share among processes")
        files = find_files(project.folder, table.source.path)
        if len(files) % size:
            fit = [str(n) for n in range(1, len(files) + 1) if len(files) % n == 0]
            raise TableError(
                f"{where}: {len(files)} files cannot be shared equally by {size} processes; start "
                f"{' or '.join(fit)}, or split the links into another number of files"
            )
        for view in (a, b):
            if project.views[view].source is None:
                raise TableError(
                    f"view {view}: the link files of one process do not have all ids: give the "
                    "view a table with its ids"
                )
        shared[a, b] = replace(table, source=replace(table.source, share=(rank, size)))
    return replace(project, links=shared)


def check_keys(where: str, entry: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raise TableError if an entry has a key that is not known."""
    for key in entry:
        choose("key", key, known, where, error=TableError)
