"""``init`` finds the table whose rows the rows of an array are, or asks."""

import numpy as np
import pandas as pd
import pytest

from pmvge.errors import TableError
from pmvge.tables import UnsureError, sketch_project


@pytest.fixture
def folder(tmp_path):
    """Write 30 films, 20 users and what they have seen."""
    rng = np.random.default_rng(0)
    films = {"film_id": [f"f{k}" for k in range(30)], "year": range(1990, 2020)}
    users = {"user_id": [f"u{k}" for k in range(20)], "age": range(20, 40)}
    seen = {
        "user_id": [f"u{k}" for k in rng.integers(0, 20, 150)],
        "film_id": [f"f{k}" for k in rng.integers(0, 30, 150)],
    }
    for name, columns in (("films", films), ("users", users), ("seen", seen)):
        pd.DataFrame(columns).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("name", ["film_posters.npy", "films.npy", "posters_of_films.npy"])
def test_an_array_named_after_a_table_belongs_to_it(folder, name) -> None:
    np.save(folder / name, np.zeros((30, 4)))
    sketch = sketch_project(folder)
    assert str(sketch.project.views["films"].source) == f"films.csv + {name}"
    note = f"the rows of {name} are those of films.csv, in their order"
    assert note in sketch.notes


def test_an_array_with_another_name_is_asked_about(folder) -> None:
    np.save(folder / "posters.npy", np.zeros((30, 4)))
    with pytest.raises(UnsureError, match=r"posters.npy: whose rows are its 30 rows\? films.csv"):
        sketch_project(folder)
    chosen = sketch_project(folder, {"posters.npy:rows": "films.csv"}).project
    assert str(chosen.views["films"].source) == "films.csv + posters.npy"
    alone = sketch_project(folder, {"posters.npy:rows": "none"})
    assert str(alone.project.views["films"].source) == "films.csv"
    assert alone.skipped["posters.npy"] == "no link table refers to it"


def test_an_array_with_another_number_of_rows_belongs_to_no_table(folder) -> None:
    np.save(folder / "film_posters.npy", np.zeros((7, 4)))
    sketch = sketch_project(folder)
    assert str(sketch.project.views["films"].source) == "films.csv"
    assert "film_posters.npy" in sketch.skipped
    with pytest.raises(TableError, match="unknown answer"):
        sketch_project(folder, {"film_posters.npy:rows": "films.csv"})
