"""Five public data sets as downloaded: ``init`` writes the right project without a question.

MovieLens in GroupLens' layout and the practice films are made here; the others are read from
``PMVGE_DATA``. The right numbers are counted from the raw lines.
"""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pmvge.tables import project_text, read_project, read_tables, sketch_project

GENRES = ("unknown", "Action", "Adventure", "Animation", "Comedy", "Crime", "Drama", "War")


def data(folder: str) -> Path:
    path = Path(os.environ.get("PMVGE_DATA", "")) / folder
    if not os.environ.get("PMVGE_DATA") or not path.is_dir():
        pytest.skip(f"PMVGE_DATA has no {folder}")
    return path


def init(folder: Path, output: Path):
    """Return the sketch of a folder and the graph of the project file written for it."""
    sketch = sketch_project(folder)
    text = project_text(sketch.project, sketch.reasons, sketch.unused)
    output.write_text(text.replace('source = "', f'source = "{folder.resolve()}/'))
    return sketch, read_tables(read_project(output)).graph


def kinds(sketch, view: str) -> dict[str, str]:
    return {c: f.kind for c, f in sketch.project.views[view].features.items()}


def cells(path: Path, separator: str = "\t", encoding: str = "utf-8") -> np.ndarray:
    lines = path.read_text(encoding=encoding).splitlines()
    return np.array([line.split(separator) for line in lines])


def make_grouplens(folder: Path) -> None:
    """Write users, films and ratings in the layout of ml-100k.zip, with its other files."""
    rng = np.random.default_rng(0)
    users = [
        f"{n}|{rng.integers(10, 70)}|{rng.choice(['M', 'F'])}|{rng.choice(['artist', 'other'])}|"
        + rng.choice([f"{rng.integers(10**5):05}", "T8H1N", "V3N4P"], p=[0.9, 0.05, 0.05])
        for n in range(1, 91)
    ]
    items = [
        f"{n}|Misérables, Les {n} (19{n % 70 + 29})|0{n % 9 + 1}-Jan-19{n % 70 + 29}||"
        f"http://us.imdb.com/M/title-exact?{n}|" + "|".join(map(str, flags))
        for n, flags in enumerate((rng.random((160, len(GENRES))) < 0.2).astype(int).tolist(), 1)
    ]
    pairs = rng.choice(90 * 160, 3000, replace=False)
    times = rng.integers(874_724_710, 893_286_638, 3000)
    ratings = [
        f"{pair % 90 + 1}\t{pair // 90 + 1}\t{rng.integers(1, 6)}\t{time}"
        for pair, time in zip(pairs, times, strict=True)
    ]
    files = {
        "u.user": users, "u.item": items, "u.data": ratings, "u1.base": ratings[:2400],
        # The first users only, as in u1.test: integers that are ids of users and of items.
        "u1.test": [line for line in ratings[2400:] if int(line.split("\t")[0]) < 45],
        "u.genre": [f"{name}|{n}" for n, name in enumerate(GENRES)],
        "u.info": ["90 users", "160 items", "3000 ratings"],
        "u.occupation": ["artist", "other"],
        "README": ["SUMMARY & USAGE LICENSE", "", "These data, are made by a test."],
        "mku.sh": ["#!/bin/sh"],
    }  # fmt: skip
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="latin-1")


def test_movielens_by_grouplens(tmp_path) -> None:
    make_grouplens(tmp_path)
    sketch, graph = init(tmp_path, tmp_path / "pmvge.toml")
    assert {v: (str(t.source), t.id) for v, t in sketch.project.views.items()} == {
        "user": ("u.user", "column1"),
        "item": ("u.item", "column1"),
    }
    (link,) = sketch.project.links.values()
    assert (str(link.source), link.columns, link.weight) == (
        "u.data", ("column1", "column2"), "column3"
    )  # fmt: skip
    assert kinds(sketch, "user") == {
        "column2": "numeric", "column3": "category", "column4": "category", "column5": "category"
    }  # fmt: skip
    assert kinds(sketch, "item") == {
        "column2": "text", "column3": "date",
        **{f"column{n}": "numeric" for n in range(6, 6 + len(GENRES))},
    }  # fmt: skip
    ratings = cells(tmp_path / "u.data").astype(int)
    W = graph.links["user", "item"].matrix().toarray()
    wanted = np.zeros((90, 160))
    wanted[ratings[:, 0] - 1, ratings[:, 1] - 1] = ratings[:, 2]
    np.testing.assert_array_equal(W, wanted)
    assert any("u.item is not UTF-8: it is read as cp1252" in note for note in sketch.notes)
    assert set(sketch.skipped) == {
        "u1.base", "u1.test", "u.genre", "u.info", "u.occupation", "README", "mku.sh"
    }  # fmt: skip


def test_movielens_by_recbole(tmp_path) -> None:
    folder = data("movielens")
    sketch, graph = init(folder, tmp_path / "pmvge.toml")
    assert {v: (str(t.source), t.id) for v, t in sketch.project.views.items()} == {
        "user": ("ml-100k.user", "user_id"),
        "item": ("ml-100k.item", "item_id"),
    }
    assert kinds(sketch, "user") == dict.fromkeys(
        ("age", "gender", "occupation", "zip_code"), "category"
    )
    assert kinds(sketch, "item") == {
        "movie_title": "text", "release_year": "category", "class": "categories"
    }  # fmt: skip
    (link,) = sketch.project.links.values()
    assert (link.columns, link.weight) == (("user_id", "item_id"), "rating")
    ratings = cells(folder / "ml-100k.inter")[1:, :3].astype(float)
    assert dict(graph.sizes) == {"item": 1682, "user": 943}
    assert (len(graph.links["user", "item"]), graph.total_weight) == (100_000, ratings[:, 2].sum())


@pytest.mark.slow
def test_lastfm(tmp_path) -> None:
    folder = data("lastfm")
    sketch, graph = init(folder, tmp_path / "pmvge.toml")
    assert {t.source for t in sketch.project.views.values()} == {None}
    plays, tags, friends = (
        cells(folder / f"{name}.dat").astype(int)
        for name in ("user_artist", "artist_tag", "user_user")
    )
    assert dict(graph.sizes) == {
        "user": len({*plays[:, 0], *friends.ravel()}),
        "artist": len({*plays[:, 1], *tags[:, 0]}),
        "tag": len({*tags[:, 1]}),
    }
    assert graph.links["user", "artist"].total == plays[:, 2].sum()
    assert len(graph.links["artist", "tag"]) == len({*map(tuple, tags)})
    assert len(graph.links["user", "user"]) == len({frozenset(pair) for pair in friends.tolist()})
    assert list(sketch.skipped) == ["train_val_test_idx.npz"]


@pytest.mark.slow
def test_cora(tmp_path) -> None:
    with zipfile.ZipFile(data("cora") / "cora.zip") as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / "cora"
    sketch, graph = init(folder, tmp_path / "pmvge.toml")
    content = cells(folder / "cora.content")
    order = np.argsort(content[:, 0].astype(int))
    assert graph.ids["content"].tolist() == sorted(map(int, content[:, 0]))
    np.testing.assert_array_equal(
        graph.views["content"].toarray(), content[order, 1:-1].astype(int)
    )
    assert sketch.project.views["content"].labels == ("column1435",)
    cited = {frozenset(pair) for pair in cells(folder / "cora.cites").tolist()}
    assert len(graph.links["content", "content"]) == len({p for p in cited if len(p) == 2})
    assert (tmp_path / "pmvge.toml").read_text().count("\n") < 60


def test_the_downloaded_archive_says_what_to_do(tmp_path) -> None:
    (tmp_path / "cora.zip").write_bytes(b"PK\x03\x04")
    with pytest.raises(Exception, match=r"found no tables \(cora.zip: an archive: unpack it"):
        sketch_project(tmp_path)
