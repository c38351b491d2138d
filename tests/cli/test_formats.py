"""Every format works in init, fit, embed and evaluate, with the results of CSV files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, ipc

from pmvge import Embeddings, PMvGE
from pmvge.tables import rows_of

Frames = dict[str, pd.DataFrame]
TABLES = ("users", "films", "ratings")
QUICK = ("--set", "max_steps=5", "--set", "n_components=4", "--set", "patience=null")


@pytest.fixture(scope="module")
def frames() -> Frames:
    """Tables of users, films and ratings, later ratings, and new users; letters beyond ASCII."""
    rng = np.random.default_rng(0)
    users = pd.DataFrame(
        {
            "user_id": [f"u{k:03d}" for k in range(1, 41)],
            "age": rng.integers(18, 80, 40),
            "city": rng.choice(["Köln", "Nîmes", "Málaga"], 40),
        }
    )
    films = pd.DataFrame(
        {
            "film_id": 7 * np.arange(1, 31) + 100,
            "title": [f"{['Été', 'Île', 'Août'][k % 3]} du nº{k} à x{k * k}" for k in range(30)],
            "length": rng.integers(150, 400, 30) / 2,
        }
    )
    films.loc[3, "length"] = np.nan
    pairs = rng.choice(40 * 30, 300, replace=False)
    ratings = pd.DataFrame(
        {
            "user_id": users.user_id.to_numpy()[pairs // 30],
            "film_id": films.film_id.to_numpy()[pairs % 30],
            "stars": rng.integers(1, 6, 300),
        }
    )
    new = users.iloc[:5].assign(user_id=[f"v{k}" for k in range(5)], age=[20, 30, 40, 50, 60])
    return {
        "users": users, "films": films, "ratings": ratings[:270], "held_out": ratings[270:],
        "new_users": new,
    }  # fmt: skip


def text(encoding: str = "utf-8", **options) -> Callable[[pd.DataFrame, Path], None]:
    def write(frame: pd.DataFrame, path: Path) -> None:
        path.write_bytes(frame.to_csv(index=False, **options).encode(encoding))

    return write


def zstd(frame: pd.DataFrame, path: Path) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as stream:
        stream.write(frame.to_csv(index=False).encode())


def recbole(frame: pd.DataFrame, path: Path) -> None:
    types = {"age": "float", "length": "float", "stars": "float", "title": "token_seq"}
    named = frame.rename(columns={c: f"{c}:{types.get(c, 'token')}" for c in frame})
    named.to_csv(path, sep="\t", index=False)


def lines(frame: pd.DataFrame, path: Path) -> None:
    rows = json.loads(frame.to_json(orient="records"))
    # A missing value is a key that is not there.
    kept = [{key: value for key, value in row.items() if value is not None} for row in rows]
    written = "\n".join(json.dumps(row, ensure_ascii=False) for row in kept)
    path.write_bytes(gzip.compress(written.encode()) if path.suffix == ".gz" else written.encode())


def arrow(frame: pd.DataFrame, path: Path) -> None:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with ipc.new_file(str(path), table.schema) as file:
        file.write_table(table, max_chunksize=7)


def stream(frame: pd.DataFrame, path: Path) -> None:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    with ipc.new_stream(str(path), table.schema) as file:
        file.write_table(table)


def compressed_feather(frame: pd.DataFrame, path: Path) -> None:
    feather.write_feather(pa.Table.from_pandas(frame, preserve_index=False), str(path), "zstd")


def excel(frame: pd.DataFrame, path: Path) -> None:
    frame.to_excel(path, sheet_name="Tabelle1", index=False, engine="openpyxl")


def npz(frame: pd.DataFrame, path: Path) -> None:
    columns = {c: frame[c].to_numpy() for c in frame}
    np.savez(path, **{c: x.astype(str) if x.dtype == object else x for c, x in columns.items()})


FORMATS = {
    "gzip": (".csv.gz", lambda frame, path: frame.to_csv(path, index=False)),
    "zstd": (".csv.zst", zstd),
    "semicolons and decimal commas": (".csv", text(sep=";", decimal=",")),
    "tabs": (".tsv", text(sep="\t")),
    "latin-1": (".csv", text("latin-1")),
    "utf-8 with a mark": (".csv", text("utf-8-sig")),
    "utf-16": (".csv", text("utf-16")),
    "utf-16, big-endian tabs": (
        ".txt",
        lambda frame, path: path.write_bytes(
            b"\xfe\xff" + frame.to_csv(index=False, sep="\t").encode("utf-16-be")
        ),
    ),
    "recbole": (".inter", recbole),
    "json lines": (".jsonl", lines),
    "json lines, gzip": (".jsonl.gz", lines),
    "json list": (".json", lambda frame, path: frame.to_json(path, orient="records")),
    "arrow": (".arrow", arrow),
    "arrow stream": (".arrows", stream),
    "feather": (".feather", compressed_feather),
    "excel": (".xlsx", excel),
    "npz": (".npz", npz),
}


def run_all(run, folder: Path, sources: dict[str, str], *, start: object = None) -> tuple:
    """Run the four commands; return the vectors of new users and the scores of later ratings."""
    project = folder / "pmvge.toml"
    run("init", folder if start is None else start, "-o", project)
    run("fit", project, "-o", folder / "model", *QUICK)
    vectors = folder / "vectors.parquet"
    run("embed", folder / "model", "--view", "users", sources["new_users"], "-o", vectors)
    scores = run(
        "evaluate", folder / "model", "--links", sources["held_out"], "--pair", "users,films",
        "--json",
    )  # fmt: skip
    return Embeddings.load(vectors), json.loads(scores.out)["pairs"]


def write_all(folder: Path, frames: Frames, ending: str, write) -> dict[str, str]:
    later = folder / "later"
    later.mkdir()
    names = {}
    for name, frame in frames.items():
        path = (folder if name in TABLES else later) / f"{name}{ending}"
        write(frame, path)
        names[name] = str(path)
    return names


@pytest.fixture(scope="module")
def expected(run, frames, tmp_path_factory) -> tuple:
    folder = tmp_path_factory.mktemp("csv")
    names = write_all(folder, frames, ".csv", text())
    return run_all(run, folder, names)


def check(found: tuple, expected: tuple) -> None:
    vectors, scores = found
    wanted, wanted_scores = expected
    assert vectors.ids.tolist() == wanted.ids.tolist()
    np.testing.assert_allclose(vectors.vectors, wanted.vectors, rtol=0, atol=1e-6)
    assert scores == wanted_scores
    assert scores["users,films"]["links"] == 30


@pytest.mark.parametrize(("ending", "write"), FORMATS.values(), ids=FORMATS)
def test_each_format_gives_the_results_of_csv(
    run, frames, expected, tmp_path, ending, write
) -> None:
    names = write_all(tmp_path, frames, ending, write)
    check(run_all(run, tmp_path, names), expected)


def test_sheets_of_one_workbook(run, frames, expected, tmp_path) -> None:
    (tmp_path / "later").mkdir()
    book = tmp_path / "shop.xlsx"
    with pd.ExcelWriter(book, engine="openpyxl") as writer:
        for name in TABLES:
            frames[name].to_excel(writer, sheet_name=name, index=False)
    later = tmp_path / "later" / "later.xlsx"
    with pd.ExcelWriter(later, engine="openpyxl") as writer:
        for name in ("held_out", "new_users"):
            frames[name].to_excel(writer, sheet_name=name, index=False)
    names = {name: f"{later}:{name}" for name in ("held_out", "new_users")}
    check(run_all(run, tmp_path, names), expected)
    assert 'source = "shop.xlsx"\ntable = "users"' in (tmp_path / "pmvge.toml").read_text()


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(45, 3)).round(4)


def test_the_rows_of_an_array_are_a_vector_column(run, frames, vectors, tmp_path) -> None:
    """A table with an array beside it gives the results of a table with a column of lists."""
    folders, found = (tmp_path / "csv", tmp_path / "npy"), []
    for folder in folders:
        (folder / "later").mkdir(parents=True)
        named = {"users": vectors[:40], "new_users": vectors[40:]}
        names = {}
        for name, frame in frames.items():
            place = folder if name in TABLES else folder / "later"
            path, x = place / f"{name}.csv", named.get(name)
            names[name] = str(path)
            if x is not None and folder.name == "npy":
                np.save(place / f"{name.removesuffix('s')}_tastes.npy", x)
                names[name] += f" + {place / name.removesuffix('s')}_tastes.npy"
            elif x is not None:
                frame = frame.assign(vector=[str(row) for row in x.tolist()])
            frame.to_csv(path, index=False)
        found.append(run_all(run, folder, names))
    check(found[1], found[0])
    project = (folders[1] / "pmvge.toml").read_text()
    assert 'source = "users.csv + user_tastes.npy"' in project
    assert 'vector = "vector"' in project


def test_an_array_alone_is_a_view_of_numbered_rows(run, frames, vectors, tmp_path) -> None:
    (tmp_path / "later").mkdir()
    np.save(tmp_path / "users.npy", vectors[:40])
    np.save(tmp_path / "later" / "more.npy", vectors[40:])
    names = {"new_users": str(tmp_path / "later" / "more.npy")}
    for name in ("films", "ratings", "held_out"):
        path = (tmp_path if name in TABLES else tmp_path / "later") / f"{name}.csv"
        frame = frames[name]
        if "user_id" in frame:
            frame = frame.assign(user_id=frame.user_id.str[1:].astype(int) - 1)
        frame.to_csv(path, index=False)
        names[name] = str(path)
    found, scores = run_all(run, tmp_path, names)
    assert scores["users,films"]["links"] == 30
    model = PMvGE.load(tmp_path / "model")
    assert model.ids_["users"].tolist() == list(range(40))
    # Rows of another file are new entities, not the first ones of the training.
    X = rows_of(model.tables_, "users", names["new_users"])[1]
    np.testing.assert_allclose(found.vectors, model.embed("users", X), rtol=0, atol=1e-6)
    assert not np.allclose(found.vectors, model.embed("users", ids=range(5)), atol=1e-3)
