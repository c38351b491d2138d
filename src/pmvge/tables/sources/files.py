"""Tables in files: which files a name or a glob means, and the SQL that reads them.

CSV is read as text, whole and by its header, so that nothing depends on a sample: ``007`` stays
``007``, and a word in row 10,000,000 is found to be no number when a number is asked for.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import Counter
from difflib import get_close_matches
from glob import escape
from pathlib import Path

from pmvge.errors import TableError, short
from pmvge.tables.sources.source import DATABASES
from pmvge.tables.sources.workbench import literal

CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
PARQUET = (".parquet", ".pq")
NULLS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")  # what pandas, too, takes for nothing


def find(folder: Path, name: str) -> list[Path]:
    """The files of a name or a glob, in the order of their names."""
    if not name or "\0" in name:
        raise TableError(f"expected the name of a file, got {short(name)}")
    exact = folder / name  # a name with brackets in it may be just a name
    root = Path(exact.anchor) if Path(name).is_absolute() else folder
    pattern = str(exact.relative_to(root)) if Path(name).is_absolute() else name
    try:
        found = [exact] if exact.is_file() else sorted(root.glob(pattern))
    except (ValueError, NotImplementedError) as error:
        raise TableError(f"{name}: not a pattern of file names: {error}") from error
    files = [path for path in found if path.is_file()]
    if not files:
        if exact.is_dir():
            raise TableError(f"{name}: is a folder; name its files, such as {name}/*.csv")
        near = sorted(p.name for p in exact.parent.glob("*") if p.name.endswith(CSV + PARQUET))
        likely = get_close_matches(exact.name, near, n=1)
        hint = f"; there are {', '.join(near[:8])}" if near else ""
        hint += f"; did you mean {likely[0]}?" if likely else ""
        raise TableError(f"{name}: no such file in {exact.parent}{hint}")
    return files


def scan_files(where: str, files: list[Path]) -> str:
    """The SQL that reads one or more files of one kind."""
    kinds = {_kind(path) for path in files}
    if len(kinds) > 1:
        raise TableError(f"{where}: CSV and Parquet files are mixed; name one kind of them")
    listed = "[" + ", ".join(literal(escape(str(path))) for path in files) + "]"
    if kinds == {"parquet"}:
        return f"read_parquet({listed}, union_by_name = true)"
    delimiter, header = _header(files[0])
    for path in files[1:]:
        if _header(path) != (delimiter, header):
            raise TableError(f"{where}: {path.name} has another header than {files[0].name}")
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header)
    nulls = ", ".join(map(literal, NULLS))
    return (
        f"read_csv({listed}, auto_detect = false, header = true, delim = {literal(delimiter)}, "
        f"quote = '\"', escape = '\"', columns = {{{columns}}}, nullstr = [{nulls}])"
    )


def _kind(path: Path) -> str:
    with path.open("rb") as stream:
        start = stream.read(4096)
    if start[:4] == b"PAR1":
        return "parquet"
    if start[:2] == b"\x1f\x8b" and path.suffix == ".gz":
        return "csv"
    expected = "expected a CSV file (text, with a header) or a Parquet file"
    if not start.strip():
        raise TableError(f"{path}: is empty; {expected}")
    if b"\x00" in start or start[:4] == b"PK\x03\x04" or start.lstrip()[:1] in b"{[<":
        extra = "; export the sheet as CSV" if path.suffix in (".xlsx", ".xls", ".ods") else ""
        extra = "; give it as database = ... with a table" if path.suffix in DATABASES else extra
        raise TableError(f"{path}: is neither: {expected}{extra}")
    return "csv"


def _header(path: Path) -> tuple[str, list[str]]:
    """The delimiter of a CSV file, by its first line, and the names in it."""
    with path.open("rb") as packed:
        stream = gzip.open(packed) if path.suffix == ".gz" else packed  # noqa: SIM115
        first = stream.readline(1 << 24).decode("utf-8-sig")
        while first.count('"') % 2 and (more := stream.readline(1 << 24)):  # a name of two lines
            first += more.decode()
    if not first.strip():
        raise TableError(f"{path}: is empty, or its first line is; expected a header")
    delimiter = max(",\t;|", key=re.sub(r'"[^"]*"', "", first).count)
    try:
        names = next(csv.reader(io.StringIO(first), delimiter=delimiter), [])
    except csv.Error as error:
        raise TableError(f"{path}: its first line is no CSV header: {error}") from error
    if any(not name.strip() for name in names):
        unnamed = 1 + next(at for at, name in enumerate(names) if not name.strip())
        if unnamed == 1 and len(names) > 1 and len({*names}) == len(names):
            names = ["index", *names[1:]]  # pandas' row numbers
        else:
            raise TableError(f"{path}: column {unnamed} has no name in the first line")
    counts = Counter(name.lower() for name in names)
    repeated = sorted(name for name in names if counts[name.lower()] > 1)
    if repeated:
        raise TableError(f"{path}: the first line names {short(repeated[0])} twice")
    numbers = [name for name in names if re.fullmatch(r"\s*-?\d+(\.\d*)?\s*", name)]
    if numbers and not {*numbers} <= {*map(str, range(len(names) + 1))}:  # pandas' are 0, 1, 2 ...
        raise TableError(
            f"{path}: expected the names of the columns in its first line, got {short(numbers[0])}"
        )
    return delimiter, names
