"""MovieLens from both layouts, and invalid files."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from pmvge.datasets import DATASETS, load_movielens
from pmvge.datasets.movielens import GENRES, OCCUPATIONS
from pmvge.errors import InputError


def flags(*genres: str) -> str:
    return "|".join(str(int(genre in genres)) for genre in GENRES)


GROUPLENS = {
    "u.data": "7\t20\t5\t881250949\n7\t10\t3\t1\n3\t10\t4\t2\n3\t30\t1\t3\n",
    "u.user": "3|24|M|technician|85711\n7|53|F|other|94043\n9|30|F|artist|0\n",
    "u.item": f"10|Toy Story (1995)|01-Jan-1995||http://x|{flags('Animation', 'Comedy')}\n"
    f"20|Misérables, Les (1998)|01-May-1998||http://y|{flags('Drama')}\n"
    f"30|unknown||||{flags('unknown')}\n",
}
RECBOLE = {
    "ml-100k.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    + GROUPLENS["u.data"],
    "ml-100k.user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
    + GROUPLENS["u.user"].replace("|", "\t"),
    "ml-100k.item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
    "10\tToy Story\t1995\tAnimation Comedy\n"
    "20\tMisérables, Les (1998)\tV\tDrama\n"  # one year of the published file is a V
    "30\tunkonwn\tunkonwn\tunknown\n",
}


def as_files(folder: Path, files: dict[str, str], encoding: str = "latin-1") -> None:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding=encoding)


def as_zip(folder: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(folder / "ml-100k.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(f"ml-100k/{name}", text.encode("latin-1"))


@pytest.mark.parametrize("layout", ["files", "zip", "recbole"])
def test_users_films_and_links(layout, tmp_path) -> None:
    if layout == "recbole":
        as_files(tmp_path, RECBOLE, "utf-8")
    else:
        (as_zip if layout == "zip" else as_files)(tmp_path, GROUPLENS)
    graph = load_movielens(tmp_path)
    assert graph.given_ids == {"user", "film"}
    assert graph.ids["user"].tolist() == [3, 7, 9]
    assert graph.ids["film"].tolist() == [10, 20, 30]
    assert graph.links["user", "film"].matrix().toarray().tolist() == [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 0],
    ]
    users, films = graph.views["user"], graph.views["film"]
    assert users[:, :2].tolist() == [[24, 0], [53, 1], [30, 1]]
    work = [OCCUPATIONS[row] for row in users[:, 2:].argmax(axis=1)]
    assert work == ["technician", "other", "artist"]
    assert (users[:, 2:].sum(axis=1) == 1).all()
    assert films[:, 0].tolist() == [1995, 1998, 1996.5]  # the median year if it is unknown
    genres = [[GENRES[k] for k in np.flatnonzero(row)] for row in films[:, 1:]]
    assert genres == [["Animation", "Comedy"], ["Drama"], ["unknown"]]


def test_the_lowest_rating_that_is_a_link(tmp_path) -> None:
    as_files(tmp_path, GROUPLENS)
    assert load_movielens(tmp_path, min_rating=3).n_links == 3
    assert load_movielens(tmp_path, min_rating=5).n_links == 1


def test_the_registry_reads_the_same(tmp_path) -> None:
    dataset = DATASETS["movielens"]
    as_files(dataset.folder(tmp_path), GROUPLENS)
    assert dataset.installed_path(tmp_path) == tmp_path / "movielens"
    assert dataset.load(dataset.folder(tmp_path)).n_links == 2


def test_missing_files_name_the_publisher_and_the_command(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PMVGE_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"MovieLens not found.*https://.*download movielens"):
        load_movielens()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("u.data", "7\t20\t5\n", "u.data, line 1: expected 4 fields, got 3"),
        ("u.data", "", "u.data: expected lines of 4 fields, got none"),
        ("u.data", "7\t20\tfive\t1\n", "expected ratings as numbers"),
        ("u.data", "7\t20\t5\t1\n8\t20\t5\t1\n", "line 2: expected a user that is listed, got '8'"),
        ("u.data", "7\t40\t5\t1\n", "line 1: expected a film that is listed, got '40'"),
        ("u.user", "3|24|M|wizard|1\n", "u.user, line 1: occupation: expected one of admin"),
        ("u.user", "3|old|M|artist|1\n", "u.user, line 1: expected a whole number, got 'old'"),
        ("u.item", f"10|A||||{'2|' * 18}0\n", "u.item, line 1: expected genres as 0 or 1"),
        ("u.item", f"10|A||||{flags('War')}\n", "expected films with a release year, got none"),
    ],
)
def test_errors_are_located(name, text, message, tmp_path) -> None:
    as_files(tmp_path, GROUPLENS | {name: text})
    with pytest.raises(InputError, match=message):
        load_movielens(tmp_path)
