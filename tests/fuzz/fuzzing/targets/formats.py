"""Tables in other formats than text and Parquet: JSON, Arrow, Excel, NumPy, zstd, UTF-16."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow
from pyarrow import ipc

from fuzzing.target import Target
from fuzzing.targets.tables import SEEN, USERS, check_tables, frames, make_csv, read_sketch
from pmvge.tables import LinkTable, Project, ViewTable, read_tables


def make_json(folder: Path) -> None:
    for name, frame in frames().items():
        rows = [json.dumps(row, default=str) for row in frame.to_pylist()]
        (folder / f"{name}.jsonl").write_text("\n".join(rows))


def make_arrow(kind: Any) -> Any:
    def make(folder: Path) -> None:
        for name, frame in frames().items():
            with kind(str(folder / f"{name}.arrow"), frame.schema) as file:
                file.write_table(frame)

    return make


def make_excel(folder: Path) -> None:
    for name, frame in frames().items():
        book = openpyxl.Workbook()
        book.active.append(frame.column_names)
        for row in frame.to_pylist():
            book.active.append([str(v) if isinstance(v, list) else v for v in row.values()])
        book.save(folder / f"{name}.xlsx")


def make_npz(folder: Path) -> None:
    users = {"user_id": np.arange(1, 5), "taste": np.arange(8.0).reshape(4, 2)}
    np.savez(folder / "users.npz", **users)
    np.savez_compressed(folder / "seen.npz", user=[1, 1, 2, 3], film=np.array(list("abca")))


def make_npy(folder: Path) -> None:
    make_csv(folder)
    np.save(folder / "tastes.npy", np.arange(8, dtype=np.float32).reshape(4, 2))


def make_zstd(folder: Path) -> None:
    for name, text in (("users", USERS), ("seen", SEEN)):
        with pyarrow.CompressedOutputStream(str(folder / f"{name}.csv.zst"), "zstd") as stream:
            stream.write(text.encode())


def make_utf16(folder: Path) -> None:
    for name, text in (("users", USERS), ("seen", SEEN)):
        (folder / f"{name}.csv").write_bytes(text.encode("utf-16"))


def read(users: str, seen: str, columns: tuple[str, str]) -> Any:
    def check(folder: Path, output: Path) -> None:
        project = Project(
            {"users": ViewTable(users), "films": ViewTable()},
            {("users", "films"): LinkTable(seen, columns)},
            folder=folder,
        )
        check_tables(read_tables(project))

    return check


TYPED, TEXT = ("user_id", "film"), ("user", "film")
TARGETS = [
    Target("json", make_json, read("users.jsonl", "seen.jsonl", TYPED)),
    Target("json init", make_json, read_sketch, share=0.3),
    Target("arrow", make_arrow(ipc.new_file), read("users.arrow", "seen.arrow", TYPED)),
    Target("arrow stream", make_arrow(ipc.new_stream), read("users.arrow", "seen.arrow", TYPED)),
    Target("excel", make_excel, read("users.xlsx", "seen.xlsx", TYPED), share=0.5),
    Target("npz", make_npz, read("users.npz", "seen.npz", TEXT)),
    Target("npy", make_npy, read("users.csv + tastes.npy", "seen.csv", TEXT), ("*.npy",)),
    Target("csv zstd", make_zstd, read("users.csv.zst", "seen.csv.zst", TEXT), share=0.5),
    Target("csv utf-16", make_utf16, read("users.csv", "seen.csv", TEXT), share=0.5),
]
