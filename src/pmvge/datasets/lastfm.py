"""LastFM (HetRec 2011): 1,892 users, 17,632 artists, and how often a user has played an artist.

Two layouts are read from the folder ``lastfm``, both separated by tabs. GroupLens's own, with
headers, as files or in ``hetrec2011-lastfm-2k.zip``: ``user_artists.dat`` (user, artist, plays),
``user_friends.dat`` (user, user) and ``user_taggedartists.dat`` (user, artist, tag, day, month,
year). And that of MAGNN, without headers and with new numbers from 1: ``user_artist.dat``,
``user_user.dat`` and ``artist_tag.dat`` (artist, tag).

MAGNN's split, ``train_val_test_idx.npz``, has row numbers of the first file for training,
validation and testing. Both layouts list the rows in the same order.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pmvge.datasets.downloads import data_folder
from pmvge.datasets.unpacking import read_files
from pmvge.errors import InputError, one_line
from pmvge.graph import Links, MultiViewGraph, find_ids

SOURCE = "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip"
SPLIT_SOURCE = (
    "https://raw.githubusercontent.com/cynricfu/MAGNN/55bdf3cf178119bc430e1e6706ce77acd119411b/"
    "data/raw/LastFM/train_val_test_idx.npz"
)
ARCHIVE, SPLIT = "hetrec2011-lastfm-2k.zip", "train_val_test_idx.npz"
MAX_BYTES = 100_000_000  # limit for an archive when unpacked
# What the published file contains; there is no published checksum. Measured: rows, users, artists
# and the sum of all plays.
EXPECTED = (92_834, 1_892, 17_632, 69_183_975)
Table = NDArray[np.int64]


class _Layout(NamedTuple):
    """The names of the files, whether they have a header, and the columns of artist and tag."""

    plays: str
    friends: str
    tags: str
    header: bool
    tag_columns: tuple[int, int]


GROUPLENS = _Layout("user_artists.dat", "user_friends.dat", "user_taggedartists.dat", True, (1, 2))
MAGNN = _Layout("user_artist.dat", "user_user.dat", "artist_tag.dat", False, (0, 1))


@dataclass(frozen=True, eq=False)
class LinkSplit:
    """Links between users and artists for training, validation and testing."""

    train: Links
    validation: Links
    test: Links


def load_lastfm(
    folder: str | Path | None = None,
    *,
    plays: bool = False,
    friends: bool = False,
    tags: bool = False,
) -> MultiViewGraph:
    """Read LastFM from ``folder``, by default ``lastfm`` in the data folder.

    The views "user" and "artist" have no features. Links have weight 1, or with ``plays`` the
    number of plays. ``friends`` adds links between users, ``tags`` a view "tag" with links to
    artists, weighted by the number of users who gave the tag. Ids are the numbers of the files.
    Raise InputError if files are missing or invalid.
    """
    folder = Path(folder) if folder is not None else data_folder() / "lastfm"
    layout, files = _read(folder, friends=friends, tags=tags)
    rows = files[layout.plays]
    users, i = np.unique(rows[:, 0], return_inverse=True)
    artists, j = np.unique(rows[:, 1], return_inverse=True)
    views = {"user": len(users), "artist": len(artists)}
    ids = {"user": users, "artist": artists}
    weights = rows[:, 2].astype(np.float64) if plays else np.ones(len(rows))
    links = {("user", "artist"): (i, j, weights)}
    if friends:
        ends = _known(users, files[layout.friends][:, :2])
        pairs = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
        links["user", "user"] = (pairs[:, 0], pairs[:, 1], np.ones(len(pairs)))
    if tags:
        table = files[layout.tags][:, list(layout.tag_columns)]
        positions = find_ids(artists, table[:, 0])
        table, positions = table[positions >= 0], positions[positions >= 0]
        ids["tag"], t = np.unique(table[:, 1], return_inverse=True)
        views["tag"] = len(ids["tag"])
        links["artist", "tag"] = (positions, t, np.ones(len(t)))  # repeated entries add up
    return MultiViewGraph(views, links, ids)


def load_lastfm_split(folder: str | Path | None = None) -> LinkSplit:
    """Return MAGNN's split of the links between users and artists, with weights of 1.

    Raise InputError if files are missing or invalid.
    """
    folder = Path(folder) if folder is not None else data_folder() / "lastfm"
    layout, files = _read(folder)
    rows = files[layout.plays]
    path = folder / SPLIT
    if not path.is_file():
        raise InputError(
            f"{path}: MAGNN's split not found: download it from {SPLIT_SOURCE}, or run "
            "'pmvge datasets download lastfm'"
        )
    try:
        with path.open("rb") as stream, np.load(stream) as content:
            names = ("train_idx", "val_idx", "test_idx")
            parts = [content[name].astype(np.int64) for name in names]
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: expected arrays train_idx, val_idx and test_idx: {one_line(error)}"
        ) from error
    if not np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(rows))):
        raise InputError(
            f"{path}: expected each of the {len(rows):,} rows of {layout.plays} once, got "
            f"{sum(map(len, parts)):,} row numbers"
        )
    i = np.unique(rows[:, 0], return_inverse=True)[1]
    j = np.unique(rows[:, 1], return_inverse=True)[1]
    shape = (int(i.max()) + 1, int(j.max()) + 1)
    train, validation, test = (_links(i[part], j[part], shape) for part in parts)
    return LinkSplit(train, validation, test)


def find_lastfm(folder: Path) -> Path | None:
    """Return what ``load_lastfm`` reads: the folder if it has files, else the archive in it."""
    if any((folder / layout.plays).is_file() for layout in (GROUPLENS, MAGNN)):
        return folder
    archive = folder / ARCHIVE
    return archive if archive.is_file() else None


def verify_lastfm(path: Path) -> None:
    """Raise InputError unless an archive has the rows, users, artists and plays of LastFM."""
    try:
        text = read_files(path, [GROUPLENS.plays], max_bytes=MAX_BYTES)[GROUPLENS.plays]
    except (InputError, OSError) as error:
        raise InputError(f"expected an archive with {GROUPLENS.plays}: {error}") from error
    rows = _parse(GROUPLENS.plays, text, header=True, least=3)
    sizes = (len(np.unique(rows[:, k])) for k in (0, 1))
    found = (len(rows), *sizes, int(rows[:, 2].sum()))
    if found != EXPECTED:
        names = "rows, users, artists and plays"
        raise InputError(
            f"{GROUPLENS.plays}: expected {', '.join(f'{n:,}' for n in EXPECTED)} {names}, "
            f"got {', '.join(f'{n:,}' for n in found)}"
        )


def _links(i: Table, j: Table, shape: tuple[int, int]) -> Links:
    graph = MultiViewGraph({"user": shape[0], "artist": shape[1]}, {("user", "artist"): (i, j)})
    return graph.links["user", "artist"]


def _known(ids: Table, ends: Table) -> Table:
    """Return positions of both ends of rows whose ends are both known."""
    positions = np.column_stack([find_ids(ids, ends[:, 0]), find_ids(ids, ends[:, 1])])
    return positions[(positions >= 0).all(axis=1)]


def _read(
    folder: Path, *, friends: bool = False, tags: bool = False
) -> tuple[_Layout, dict[str, Table]]:
    """Return the layout and the tables of its files; raise InputError if files are missing."""
    location = find_lastfm(folder)
    if location is None:
        raise InputError(
            f"{folder}: LastFM not found: expected {GROUPLENS.plays}, or {ARCHIVE} (from {SOURCE})"
            "; run 'pmvge datasets download lastfm', or set PMVGE_DATA to the folder that contains "
            "'lastfm'"
        )
    layout = GROUPLENS
    if location == folder and not (folder / GROUPLENS.plays).is_file():
        layout = MAGNN
    least = {layout.plays: 3}
    if friends:
        least[layout.friends] = 2
    if tags:
        least[layout.tags] = max(layout.tag_columns) + 1
    try:
        if location == folder:
            content = {name: (folder / name).read_bytes() for name in least}
        else:
            content = dict(read_files(location, list(least), max_bytes=MAX_BYTES))
    except (InputError, OSError) as error:
        raise InputError(f"{folder}: cannot read LastFM: {error}") from error
    return layout, {
        name: _parse(f"{folder}: {name}", text, header=layout.header, least=least[name])
        for name, text in content.items()
    }


def _parse(where: str, content: bytes, *, header: bool, least: int) -> Table:
    """Return a table of whole numbers; raise InputError if there are others, or too few columns."""
    lines = [line.split(b"\t") for line in content.splitlines()[int(header) :] if line.strip()]
    try:
        table = np.array([[int(field) for field in line] for line in lines], np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{where}: expected whole numbers in columns of the same length: {one_line(error)}"
        ) from error
    if table.ndim != 2 or table.shape[1] < least:
        raise InputError(
            f"{where}: expected lines of at least {least} numbers, got {len(lines)} lines"
        )
    return table
