"""MovieLens 100k: 943 users, 1,682 films and 100,000 ratings from 1 to 5.

Two layouts are read from the folder ``movielens``. GroupLens's own, as files or in ``ml-100k.zip``:

- ``u.data``: ``<user> <film> <rating> <time>``, separated by tabs;
- ``u.user``: ``<user>|<age>|<gender>|<occupation>|<zip code>``;
- ``u.item``: ``<film>|<title>|<release date>|<video date>|<address>|<0/1 x 19>``, in Latin-1; the
  last fields are genres.

And that of RecBole, with a header and tabs: ``ml-100k.inter``, ``ml-100k.user`` and
``ml-100k.item``, which has the release year and the names of the genres, separated by blanks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pmvge.datasets.downloads import data_folder
from pmvge.datasets.unpacking import read_files
from pmvge.errors import InputError, one_line, short
from pmvge.graph import MultiViewGraph, find_ids

SOURCE = "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
MD5 = "0e33842e24a9c977be4e0107933c0723"  # from the publisher: ml-100k.zip.md5
MAX_BYTES = 100_000_000  # limit for the archive when unpacked; its files have 15 million
GROUPLENS = ("u.data", "u.user", "u.item")
RECBOLE = ("ml-100k.inter", "ml-100k.user", "ml-100k.item")
GENRES = (
    "unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary",
    "Drama", "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi",
    "Thriller", "War", "Western",
)  # fmt: skip
OCCUPATIONS = (
    "administrator", "artist", "doctor", "educator", "engineer", "entertainment", "executive",
    "healthcare", "homemaker", "lawyer", "librarian", "marketing", "none", "other", "programmer",
    "retired", "salesman", "scientist", "student", "technician", "writer",
)  # fmt: skip
GENDERS = ("M", "F")
Lines = list[tuple[str, list[str]]]  # where a line is, and its fields


class _Item(NamedTuple):
    """A film: its id, its release year (NaN if unknown), and its genres as zeros and ones."""

    film: int
    year: float
    genres: list[float]


class MovieLensTables(NamedTuple):
    """The tables with their texts; a year is None if it is not known."""

    users: list[tuple[int, int, str, str]]  # id, age, gender, occupation
    films: list[tuple[int, str, int | None, list[str]]]  # id, title, year, names of genres
    ratings: list[tuple[int, int, float]]  # user, film, rating


def load_movielens(folder: str | Path | None = None, *, min_rating: float = 4.0) -> MultiViewGraph:
    """Read MovieLens 100k from ``folder``, by default ``movielens`` in the data folder.

    The views are "user", with age, gender (1: female) and 21 occupations, and "film", with release
    year and 19 genres; an unknown year is the median year. Ratings of at least ``min_rating``
    become links of weight 1. All users and films are kept, with the numbers of the files as ids.
    Raise InputError if files are missing or invalid.
    """
    folder = Path(folder) if folder is not None else data_folder() / "movielens"
    ratings, users, items = _read(folder)
    user_ids = np.array([_integer(where, row[0]) for where, row in users], np.int64)
    X_user = np.array([_user(where, row) for where, row in users], np.float32)
    films = [_item(where, row) for where, row in items]
    film_ids = np.array([film.film for film in films], np.int64)
    years = np.array([film.year for film in films])
    if np.isnan(years).all():
        raise InputError(f"{folder}: expected films with a release year, got none")
    years[np.isnan(years)] = np.nanmedian(years)
    X_film = np.column_stack([years, [film.genres for film in films]]).astype(np.float32)
    try:
        table = np.array([row[:3] for _, row in ratings], np.float64)
    except ValueError as error:
        raise InputError(
            f"{folder}: expected ratings as numbers: user, film, rating: {one_line(error)}"
        ) from error
    ends = []
    for k, (name, ids) in enumerate((("user", user_ids), ("film", film_ids))):
        positions = find_ids(ids, table[:, k].astype(np.int64))
        if (positions < 0).any():
            where, row = ratings[int(np.argmax(positions < 0))]
            raise InputError(f"{where}: expected a {name} that is listed, got {short(row[k])}")
        ends.append(positions)
    liked = table[:, 2] >= min_rating
    return MultiViewGraph(
        {"user": X_user, "film": X_film},
        {("user", "film"): (ends[0][liked], ends[1][liked])},
        {"user": user_ids, "film": film_ids},
    )


def movielens_tables(folder: str | Path | None = None) -> MovieLensTables:
    """Return users, films with their titles, and all ratings, as the files have them.

    ``folder`` is as in :func:`load_movielens`. Raise InputError if files are missing or invalid.
    """
    folder = Path(folder) if folder is not None else data_folder() / "movielens"
    ratings, users, items = _read(folder)
    films = []
    for where, row in items:
        film, year, flags = _item(where, row)
        genres = [genre for genre, flag in zip(GENRES, flags, strict=True) if flag]
        title = re.sub(r"\s*\((?:18|19|20)\d\d\)$", "", row[1].strip())
        films.append((film, title, None if np.isnan(year) else int(year), genres))
    try:
        stars = [(int(row[0]), int(row[1]), float(row[2])) for _, row in ratings]
    except ValueError as error:
        raise InputError(f"{folder}: expected ratings as numbers: {one_line(error)}") from error
    people = [
        (_integer(where, row[0]), _integer(where, row[1]), row[2], row[3]) for where, row in users
    ]
    return MovieLensTables(people, films, stars)


def find_movielens(folder: Path) -> Path | None:
    """Return what ``load_movielens`` reads: the folder if it has files, else the archive in it."""
    for names in (GROUPLENS, RECBOLE):
        if all((folder / name).is_file() for name in names):
            return folder
    archive = folder / "ml-100k.zip"
    return archive if archive.is_file() else None


def _read(folder: Path) -> tuple[Lines, Lines, Lines]:
    """Return the lines of ratings, users and films; raise InputError if files are missing."""
    try:
        location = find_movielens(folder)
        if location is None:
            raise InputError(
                f"{folder}: MovieLens not found: expected {', '.join(GROUPLENS)}, or ml-100k.zip "
                f"(from {SOURCE}); run 'pmvge datasets download movielens', or set PMVGE_DATA to "
                "the folder that contains 'movielens'"
            )
        if location != folder:
            content = dict(read_files(location, GROUPLENS, max_bytes=MAX_BYTES))
        else:
            here = all((folder / name).is_file() for name in GROUPLENS)
            names = GROUPLENS if here else RECBOLE
            content = {name: (folder / name).read_bytes() for name in names}
    except OSError as error:
        raise InputError(f"{folder}: cannot read MovieLens: {error}") from error
    if GROUPLENS[0] in content:
        shapes = (("\t", 4), ("|", 5), ("|", 24))
        parts = [
            _lines(f"{folder}: {name}", content[name].decode("latin-1"), *shape)
            for name, shape in zip(GROUPLENS, shapes, strict=True)
        ]
    else:
        try:
            texts = {name: content[name].decode() for name in RECBOLE}
        except UnicodeDecodeError as error:
            raise InputError(f"{folder}: expected files in UTF-8: {error}") from error
        columns = (4, 5, 4)
        parts = [
            _lines(f"{folder}: {name}", texts[name], "\t", n, header=True)
            for name, n in zip(RECBOLE, columns, strict=True)
        ]
    return parts[0], parts[1], parts[2]


def _lines(where: str, text: str, separator: str, n_fields: int, *, header: bool = False) -> Lines:
    """Return the fields of each line; raise InputError if there are not ``n_fields`` in each."""
    lines = []
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.rstrip("\r").split(separator)
        if fields == [""] or (header and number == 1):
            continue
        if len(fields) != n_fields:
            raise InputError(
                f"{where}, line {number}: expected {n_fields} fields, got {len(fields)}"
            )
        lines.append((f"{where}, line {number}", fields))
    if not lines:
        raise InputError(f"{where}: expected lines of {n_fields} fields, got none")
    return lines


def _user(where: str, row: Sequence[str]) -> list[float]:
    age, gender, occupation = row[1:4]
    return [
        float(_integer(where, age)),
        float(_position(where, "gender", gender, GENDERS)),
        *_flags(OCCUPATIONS, [_position(where, "occupation", occupation, OCCUPATIONS)]),
    ]


def _item(where: str, row: Sequence[str]) -> _Item:
    film, title, released = _integer(where, row[0]), row[1], row[2]
    years = re.findall(r"(?<!\d)(?:18|19|20)\d\d(?!\d)", released) or re.findall(
        r"\(((?:18|19|20)\d\d)\)", title
    )
    year = float(years[-1]) if years else float("nan")
    if len(row) == 24:
        if not set(row[5:]) <= {"0", "1"}:
            raise InputError(f"{where}: expected genres as 0 or 1, got {short(row[5:])}")
        return _Item(film, year, [float(flag) for flag in row[5:]])
    genres = [_position(where, "genre", genre, GENRES) for genre in row[3].split()]
    return _Item(film, year, _flags(GENRES, genres))


def _flags(names: Sequence[str], positions: Sequence[int]) -> list[float]:
    return [float(k in positions) for k in range(len(names))]


def _integer(where: str, text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"{where}: expected a whole number, got {short(text)}")
    return int(text)


def _position(where: str, what: str, name: str, known: Sequence[str]) -> int:
    if name not in known:
        raise InputError(f"{where}: {what}: expected one of {', '.join(known)}, got {short(name)}")
    return known.index(name)
