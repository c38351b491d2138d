"""LastFM from both layouts, MAGNN's split, and invalid files."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from pmvge.datasets import DATASETS, lastfm, load_lastfm, load_lastfm_split
from pmvge.errors import InputError

# Users 2, 4 and 5, artists 51, 60 and 61; MAGNN numbers them from 1.
GROUPLENS = {
    "user_artists.dat": "userID\tartistID\tweight\r\n2\t51\t13883\r\n2\t60\t7\r\n4\t60\t1\r\n"
    "5\t61\t352698\r\n",
    "user_friends.dat": "userID\tfriendID\r\n2\t4\r\n4\t2\r\n4\t5\r\n5\t99\r\n2\t2\r\n",
    "user_taggedartists.dat": "userID\tartistID\ttagID\tday\tmonth\tyear\r\n"
    "2\t51\t13\t1\t4\t2009\r\n4\t51\t13\t1\t4\t2009\r\n4\t61\t15\t1\t4\t2009\r\n"
    "4\t70\t16\t1\t4\t2009\r\n",  # nobody has played artist 70
}
MAGNN = {
    "user_artist.dat": "1\t1\t13883\n1\t2\t7\n2\t2\t1\n3\t3\t352698\n",
    "user_user.dat": "1\t2\n2\t1\n2\t3\n1\t1\n",
    "artist_tag.dat": "1\t1\n1\t1\n3\t2\n",
}
PARTS = {"train_idx": [2, 0], "val_idx": [1], "test_idx": [3]}


def as_files(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())


def as_zip(folder: Path, files: dict[str, str]) -> None:
    with zipfile.ZipFile(folder / "hetrec2011-lastfm-2k.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


WRITERS = {"files": (as_files, GROUPLENS), "zip": (as_zip, GROUPLENS), "magnn": (as_files, MAGNN)}


@pytest.mark.parametrize("layout", WRITERS)
def test_links_friends_and_tags(layout, tmp_path) -> None:
    write, files = WRITERS[layout]
    write(tmp_path, files)
    plain = load_lastfm(tmp_path)
    assert plain.view_names == ("artist", "user")
    assert all(X is None for X in plain.views.values())
    assert plain.given_ids == {"artist", "user"}
    assert plain.ids["user"].tolist() == ([1, 2, 3] if layout == "magnn" else [2, 4, 5])
    linked = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1]])
    assert plain.links["user", "artist"].matrix().toarray().tolist() == linked.tolist()
    graph = load_lastfm(tmp_path, plays=True, friends=True, tags=True)
    plays = graph.links["user", "artist"].matrix().toarray()
    assert plays.tolist() == [[13883, 7, 0], [0, 1, 0], [0, 0, 352698]]
    friends = graph.links["user", "user"].matrix().toarray()
    assert friends.tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]  # in any order, once
    tags = graph.links["artist", "tag"].matrix().toarray()
    assert tags.tolist() == [[2, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize("layout", WRITERS)
def test_the_split_has_row_numbers_of_the_file(layout, tmp_path) -> None:
    write, files = WRITERS[layout]
    write(tmp_path, files)
    np.savez(tmp_path / "train_val_test_idx.npz", **PARTS)
    split = load_lastfm_split(tmp_path)
    parts = [part.matrix().toarray().tolist() for part in (split.train, split.validation)]
    assert parts == [[[1, 0, 0], [0, 1, 0], [0, 0, 0]], [[0, 1, 0], [0, 0, 0], [0, 0, 0]]]
    assert split.test.matrix().toarray().tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    "parts",
    [
        {**PARTS, "test_idx": [4]},
        {**PARTS, "test_idx": [0]},
        {**PARTS, "test_idx": []},
    ],
)
def test_a_split_of_other_rows(parts, tmp_path) -> None:
    as_files(tmp_path, MAGNN)
    np.savez(tmp_path / "train_val_test_idx.npz", **parts)
    with pytest.raises(InputError, match=r"expected each of the 4 rows of user_artist.dat once"):
        load_lastfm_split(tmp_path)


def test_a_missing_or_damaged_split(tmp_path) -> None:
    as_files(tmp_path, MAGNN)
    with pytest.raises(InputError, match=r"MAGNN's split not found: download it from https://"):
        load_lastfm_split(tmp_path)
    (tmp_path / "train_val_test_idx.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(InputError, match="expected arrays train_idx, val_idx and test_idx"):
        load_lastfm_split(tmp_path)
    np.savez(tmp_path / "train_val_test_idx.npz", train_idx=[0])
    with pytest.raises(InputError, match="expected arrays train_idx, val_idx and test_idx"):
        load_lastfm_split(tmp_path)


def test_missing_files_name_the_publisher_and_the_command(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PMVGE_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"LastFM not found.*https://.*download lastfm"):
        load_lastfm()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\t2\n", "user_artist.dat: expected lines of at least 3 numbers"),
        ("", "user_artist.dat: expected lines of at least 3 numbers, got 0 lines"),
        ("1\t2\tmany\n", "user_artist.dat: expected whole numbers"),
        ("1\t2\t3\n1\t2\n", "user_artist.dat: expected whole numbers in columns of the same len"),
    ],
)
def test_errors_are_located(text, message, tmp_path) -> None:
    as_files(tmp_path, MAGNN | {"user_artist.dat": text})
    with pytest.raises(InputError, match=message):
        load_lastfm(tmp_path)


def test_an_archive_is_verified_by_what_it_contains(tmp_path, monkeypatch) -> None:
    archive, _ = DATASETS["lastfm"].archives
    as_zip(tmp_path, GROUPLENS)
    path = tmp_path / archive.name
    with pytest.raises(InputError, match=r"expected 92,834, 1,892, 17,632, 69,183,975 rows.*got 4"):
        archive.verify(path)
    monkeypatch.setattr(lastfm, "EXPECTED", (4, 3, 3, 13883 + 7 + 1 + 352698))
    archive.verify(path)
