"""MovieLens 100k as tables: users, films, and who likes what."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pmvge.datasets import movielens_tables
from pmvge.examples.csv_files import write_csv

LIKED = 4.0  # the least rating that is a link
COLUMNS = ("user_id", "film_id")


def write_recommender(folder: Path) -> None:
    """Write users, films and likes; every tenth like, drawn at random, goes to ``later``."""
    tables = movielens_tables()
    write_csv(folder / "users.csv", ("user_id", "age", "gender", "occupation"), tables.users)
    films = (
        (film, title, "" if year is None else year, "|".join(genres))
        for film, title, year, genres in tables.films
    )
    write_csv(folder / "films.csv", ("film_id", "title", "year", "genres"), films)
    likes = sorted((user, film) for user, film, rating in tables.ratings if rating >= LIKED)
    held_out = np.random.default_rng(0).random(len(likes)) < 0.1
    for path, kept in (("likes.csv", ~held_out), ("later/held_out.csv", held_out)):
        write_csv(folder / path, COLUMNS, (likes[at] for at in np.flatnonzero(kept)))
