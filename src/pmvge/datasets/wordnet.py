"""WordNet's noun hierarchy: every synset below a root, linked with all of its ancestors.

The publisher's files ``data.noun`` and ``index.noun`` are read from the folder ``wordnet``, from
its subfolder ``dict``, or from ``/usr/share/wordnet``, where Debian's package ``wordnet-base``
installs them. A line of ``data.noun`` has the synset's offset, its words, and pointers to other
synsets; ``~`` points to a hyponym and ``~i`` to an instance.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pmvge.datasets.downloads import data_folder
from pmvge.errors import InputError
from pmvge.graph import MultiViewGraph

DATA, INDEX = "data.noun", "index.noun"
SYSTEM = Path("/usr/share/wordnet")
SOURCE = "https://wordnet.princeton.edu"
HYPONYMS = ("~", "~i")


def find_wordnet(folder: Path) -> Path | None:
    """Return the folder with WordNet's files: ``folder``, its ``dict``, or Debian's; else None."""
    for place in (folder, folder / "dict", SYSTEM):
        if (place / DATA).is_file() and (place / INDEX).is_file():
            return place
    return None


def load_wordnet(root: str = "mammal", folder: Path | None = None) -> MultiViewGraph:
    """Return the transitive closure below the first sense of a noun.

    The graph has one view ``synset`` without features, whose ids are a word and the offset, such as
    ``dog-02084071``, and a link of weight 1 between each synset and each of its ancestors up to the
    root. ``folder`` is by default the folder ``wordnet`` of the data folder. Raise InputError if
    the files are missing or damaged, or if there is no such noun.
    """
    folder = data_folder() / "wordnet" if folder is None else folder
    place = find_wordnet(folder)
    if place is None:
        raise InputError(
            f"{folder}: WordNet not found: expected {DATA} and {INDEX} (from {SOURCE}) there, in "
            f"its subfolder dict or in {SYSTEM}; install Debian's package wordnet-base, or set "
            "PMVGE_DATA to the folder that contains 'wordnet'"
        )
    words, children = _read_synsets(place / DATA)
    top = _first_sense(place / INDEX, root)
    if top not in words:
        raise InputError(f"{place / DATA}: expected the synset {top} of {root!r}, got none")
    order, ancestors = _closure(top, children)
    position = {synset: n for n, synset in enumerate(order)}
    pairs = [(position[a], position[s]) for s in order for a in ancestors[s]]
    rows, cols = np.array(pairs, np.int64).reshape(-1, 2).T
    ids = [f"{words[synset]}-{synset}" for synset in order]
    return MultiViewGraph(
        {"synset": len(order)}, {("synset", "synset"): (rows, cols)}, ids={"synset": ids}
    )


def _read_synsets(path: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return the first word and the hyponyms of each synset, by offset."""
    words: dict[str, str] = {}
    children: dict[str, list[str]] = {}
    for number, line in enumerate(_lines(path), start=1):
        if line.startswith("  "):  # the licence
            continue
        fields = line.partition("|")[0].split()
        try:
            offset, n_words = fields[0], int(fields[3], 16)
            at = 4 + 2 * n_words
            pointers = fields[at + 1 : at + 1 + 4 * int(fields[at])]
            words[offset] = fields[4]
            kinds, targets, parts = (pointers[k::4] for k in range(3))
            children[offset] = [
                target
                for kind, target, part in zip(kinds, targets, parts, strict=True)
                if kind in HYPONYMS and part == "n"
            ]
        except (IndexError, ValueError) as error:
            raise InputError(
                f"{path}: line {number}: expected an offset, words and pointers, got {line[:60]!r}"
            ) from error
    return words, children


def _first_sense(path: Path, noun: str) -> str:
    """Return the offset of the first sense of a noun."""
    for line in _lines(path):
        fields = line.split()
        if fields and fields[0] == noun and not line.startswith(" "):
            n_senses = int(fields[2]) if len(fields) > 2 and fields[2].isdecimal() else 0
            if not 0 < n_senses < len(fields):
                raise InputError(f"{path}: {noun}: expected offsets of senses, got {line[:60]!r}")
            return fields[len(fields) - n_senses]
    raise InputError(f"{path}: expected the noun {noun!r}, got none")


def _closure(top: str, children: dict[str, list[str]]) -> tuple[list[str], dict[str, set[str]]]:
    """Return all synsets below the top one, and the ancestors of each, up to it."""
    order, ancestors = [top], {top: set[str]()}
    pending = [top]
    while pending:  # a synset with several parents is visited again with each
        synset = pending.pop()
        own = ancestors[synset] | {synset}
        for child in children.get(synset, []):
            if child not in ancestors:
                ancestors[child] = set()
                order.append(child)
            if not own <= ancestors[child]:
                ancestors[child] |= own - {child}
                pending.append(child)
    return order, ancestors


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="latin-1").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
