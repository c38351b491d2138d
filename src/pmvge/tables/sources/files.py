"""Find the files of a source by name or glob, and open them."""

from __future__ import annotations

import gzip
import io
from difflib import get_close_matches
from pathlib import Path

import pyarrow

from pmvge.errors import TableError, short

PACKED = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}  # ending -> first bytes
CSV = tuple(f"{ending}{packed}" for packed in ("", *PACKED) for ending in (".csv", ".tsv", ".txt"))
JSON = tuple(
    f"{ending}{packed}" for packed in ("", *PACKED) for ending in (".jsonl", ".ndjson", ".json")
)
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc", ".arrows")
WORKBOOKS = (".xlsx", ".xlsm")
ARRAYS = (".npy", ".npz")
ENDINGS = (*CSV, *JSON, *PARQUET, *ARROW, *WORKBOOKS, *ARRAYS)


def find_files(folder: Path, name: str) -> list[Path]:
    """Return the sorted files that a name or glob matches; raise TableError if there are none."""
    if not name or "\0" in name:
        raise TableError(f"expected the name of a file, got {short(name)}")
    scheme, separator, _ = name.partition("://")
    if separator:  # the rest may have a password
        raise TableError(
            f"{scheme}://...: expected a file or postgresql://HOST/NAME:TABLE, got another "
            "address; download the file, or export the table to Parquet or CSV"
        )
    exact = folder / name  # a file name may contain glob characters
    if exact.is_dir():
        glob = Path(name) / "*.csv"
        raise TableError(f"{name}: is a folder; name its files, such as {glob}")
    root = Path(exact.anchor) if Path(name).is_absolute() else folder
    pattern = str(exact.relative_to(root)) if Path(name).is_absolute() else name
    try:
        matches = [exact] if exact.is_file() else sorted(root.glob(pattern))
    except (ValueError, NotImplementedError) as error:
        raise TableError(f"{name}: is not a valid glob pattern: {error}") from error
    files = [path for path in matches if path.is_file()]
    if not files:
        near = sorted(p.name for p in exact.parent.glob("*") if p.name.endswith(ENDINGS))
        likely = get_close_matches(exact.name, near, n=1)
        hint = f"; there are {', '.join(near[:8])}" if near else ""
        hint += f"; did you mean {likely[0]}?" if likely else ""
        raise TableError(f"{name}: no such file in {exact.parent}{hint}")
    return files


def packing(path: Path) -> str:
    """Return ".gz" or ".zst" for a compressed file, by its first bytes; "" for others."""
    with path.open("rb") as stream:
        start = stream.read(4)
    return next((ending for ending in PACKED if start.startswith(PACKED[ending])), "")


def open_unpacked(path: Path) -> io.BufferedReader | gzip.GzipFile:
    """Open a file for reading bytes; one in gzip or zstd is decompressed."""
    ending = packing(path)
    if ending == ".gz":
        return gzip.open(path)
    if ending == ".zst":
        packed = pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd")
        return io.BufferedReader(packed)
    return path.open("rb")


def read_start(path: Path) -> bytes:
    """Return the first bytes of a file, decompressed."""
    with open_unpacked(path) as stream:
        return stream.read(4096)
