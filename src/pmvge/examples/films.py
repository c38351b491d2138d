"""Simulate practice tables of users, films, genres and ratings, with a known truth.

The words of a film's title and plot depend on its genres, and the words of a user's text on the
user's taste. The better taste and genres agree, the more often a user rates a film. Every tenth
rating is written to ``held_out.csv``, and 20 new users to ``new_users.csv``, both in ``later/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pmvge.examples.csv_files import write_csv

GENRES = {
    "comedy": "wedding prank neighbour mistake laugh party holiday roommate boss gag",
    "crime": "detective heist murder witness gang trial alibi mafia evidence prison",
    "drama": "family letter illness silence memory loss teacher village mother secret",
    "fantasy": "dragon wizard kingdom spell sword prophecy forest giant elf curse",
    "horror": "ghost cellar scream blood mirror cabin demon midnight doll grave",
    "romance": "kiss paris dance summer stranger promise heart train rain farewell",
    "scifi": "robot planet spaceship alien clone laser colony signal android orbit",
    "western": "sheriff saloon outlaw horse desert duel gold ranch revolver railway",
}
FILLER = ("after", "again", "always", "before", "big", "finally", "never", "old", "small", "young")
COUNTRIES = ("br", "de", "fr", "in", "jp", "us")


def write_films(folder: Path, ratings: int = 12_000, seed: int = 0) -> None:
    """Write the tables: a user for 20 ratings and a film for 40, but 100 and 60 at least."""
    rng = np.random.default_rng(seed)
    n_users, n_films = max(100, ratings // 20), max(60, ratings // 40)
    taste = rng.dirichlet(np.full(len(GENRES), 0.2), n_users + 20)  # 20 new users
    genre = rng.dirichlet(np.full(len(GENRES), 0.2), n_films)
    fame = rng.gamma(3.0, size=n_films)
    users = [_user(rng, f"u{number:05d}", row) for number, row in enumerate(taste)]
    films = [_film(rng, f"f{number:05d}", row) for number, row in enumerate(genre)]
    expected = fame * np.exp(5 * taste[:n_users] @ genre.T)
    chance = (expected / expected.sum()).ravel()
    pairs = rng.choice(chance.size, size=ratings, p=chance)
    stars = rng.integers(1, 6, size=ratings)
    rows = [
        (users[pair // n_films][0], films[pair % n_films][0], int(star))
        for pair, star in zip(pairs, stars, strict=True)
    ]
    kinds = [
        (films[row][0], list(GENRES)[column])
        for row, column in zip(*np.nonzero(genre > 0.2), strict=True)
    ]
    write_csv(folder / "users.csv", ("user_id", "age", "country", "likes"), users[:n_users])
    write_csv(folder / "films.csv", ("film_id", "title", "plot", "year"), films)
    write_csv(folder / "film_genres.csv", ("film_id", "genre"), kinds)
    columns = ("user_id", "film_id", "stars")
    write_csv(folder / "ratings.csv", columns, [row for at, row in enumerate(rows) if at % 10])
    write_csv(folder / "later" / "held_out.csv", columns, rows[::10])
    write_csv(
        folder / "later" / "new_users.csv", ("user_id", "age", "country", "likes"), users[n_users:]
    )


def _user(rng: np.random.Generator, name: str, taste: NDArray[Any]) -> tuple[Any, ...]:
    likes = " ".join(_words(rng, taste, 6))
    return name, int(rng.integers(15, 80)), str(rng.choice(COUNTRIES)), f"I like {likes}"


def _film(rng: np.random.Generator, name: str, genre: NDArray[Any]) -> tuple[Any, ...]:
    title = " ".join(_words(rng, genre, 2)).title()
    plot = " ".join([*_words(rng, genre, 10), *rng.choice(FILLER, 6)])
    year = int(rng.integers(1950, 2026)) if rng.random() > 0.05 else ""  # some are missing
    return name, title, plot, year


def _words(rng: np.random.Generator, share: NDArray[Any], count: int) -> list[str]:
    chosen = rng.choice(list(GENRES), size=count, p=share)
    return [str(rng.choice(GENRES[kind].split())) for kind in chosen]
