"""Rows of JSON, Arrow, Excel, NumPy, compressed and UTF-16 files, as their libraries give them."""

import datetime
import json
import uuid

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import ipc
from pyarrow import parquet as pq
from scipy import sparse

from pmvge.errors import TableError
from pmvge.tables import Dialect, Source
from pmvge.tables.sources import arrays


def refused(rows, source) -> str:
    with pytest.raises(TableError) as caught:
        rows(source)
    return str(caught.value)


# -- JSON --------------------------------------------------------------------------------------


def test_json_texts_stay_as_written(write, rows) -> None:
    lines = [
        {"id": "007", "n": 1, "x": 1.5, "d": "2020-01-02", "u": str(uuid.UUID(int=7))},
        {"id": "8", "v": [1, 2.5], "g": ["a", "b"], "t": "12:30", "y": True},
    ]  # fmt: skip
    types, found = rows(write("t.jsonl", "\n".join(map(json.dumps, lines))))
    assert types == {
        "id": "VARCHAR", "n": "BIGINT", "x": "DOUBLE", "d": "VARCHAR", "u": "VARCHAR",
        "v": "DOUBLE[]", "g": "VARCHAR[]", "t": "VARCHAR", "y": "BOOLEAN",
    }  # fmt: skip
    wanted = [tuple(line.get(key) for key in types) for line in lines]
    assert found == wanted


def test_json_values_of_several_types_are_texts(write, rows) -> None:
    text = '{"id": 1, "x": [1, 2]}\n{"id": "001", "x": 3}\n{"id": 2.5, "x": "a"}\n'
    assert rows(write("t.jsonl", text))[1] == [("1", "[1,2]"), ("001", "3"), ("2.5", "a")]


def test_a_late_json_value_of_another_type_is_found(write, rows) -> None:
    lines = [f'{{"id": {k}}}' for k in range(60_000)] + ['{"id": "x", "late": 1}']
    types, found = rows(write("t.ndjson", "\n".join(lines)))
    assert types == {"id": "VARCHAR", "late": "BIGINT"}
    assert found[59_999:] == [("59999", None), ("x", 1)]


@pytest.mark.parametrize("orient", ["columns", "index", "split", "table", "values", "named"])
def test_json_of_another_shape_says_what_is_expected(write, rows, orient) -> None:
    frame = pd.DataFrame({"id": [1, 2], "x": ["a", "b"]})
    text = f'{{"films": {frame.to_json(orient="records")}}}'
    if orient != "named":
        text = frame.to_json(orient=orient)
    message = refused(rows, write("t.json", text))
    assert message.startswith("t.json: ")
    assert "expected a list of objects, or one object per line" in message
    assert "with pandas, write to_json(orient='records')" in message


def test_a_json_file_may_have_one_row_of_lists(write, rows) -> None:
    assert rows(write("t.json", '{"v": [1, 2]}'))[1] == [([1, 2],)]
    assert rows(write("t.json", '{"id": 7, "about": {"x": 1}}'))[1] == [(7, {"x": 1})]


def test_json_lists_byte_order_marks_and_globs(write, rows) -> None:
    write("a1.json", '[{"a": 1, "b": "x"},\n {"a": 2}]')
    write("a2.json", '\ufeff{"a": 3, "c": {"d": 1}}\n')
    assert rows("a1.json")[1] == [(1, "x"), (2, None)]
    assert rows("a*.json")[1] == [(1, "x", None), (2, None, None), (3, None, {"d": 1})]


# -- text --------------------------------------------------------------------------------------


def test_a_byte_order_mark_overrules_the_encoding(write, rows) -> None:
    text = 'id;"a\nb"\n1;é\n2;"x\n""y"""\n'
    wanted = [("1", "é"), ("2", 'x\n"y"')]
    latin = Dialect(encoding="latin-1")
    types, found = rows(Source(write("t.csv", text.encode("utf-16")), dialect=latin))
    assert list(types) == ["id", "a\nb"]
    assert found == wanted
    assert rows(write("u.csv", text.encode("utf-8-sig")))[1] == wanted


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_byte_order_mark(write, rows, codec) -> None:
    types, found = rows(write("t.csv", "id;n\n1;é\n2;日本\n".encode(codec)))
    assert (list(types), found) == (["id", "n"], [("1", "é"), ("2", "日本")])
    blanks = "id;n\n1;5\u00a0€\n2;山田\u3000花子\n"  # not printable, for str.isprintable
    assert rows(write("b.csv", blanks.encode(codec)))[1] == [
        ("1", "5\u00a0€"),
        ("2", "山田\u3000花子"),
    ]
    assert "got another format" in refused(rows, write("u.bin", "id\0n\n".encode(codec)))


def test_utf_16_and_utf_8_in_one_glob(write, rows) -> None:
    write("g1.csv", "a,b\n1,é\n".encode("utf-16"))
    write("g2.csv", "a,b\n2,ü\n".encode())
    assert rows("g*.csv")[1] == [("1", "é"), ("2", "ü")]


@pytest.mark.parametrize("codec", ["utf-16", "utf-8"])
def test_wide_files(write, rows, codec, tmp_path) -> None:
    names = [f"w{k}" for k in range(300)]
    frame = pd.DataFrame(np.arange(600).reshape(2, 300), columns=names)
    data = frame.to_csv(index=False).encode(codec)
    write("t.csv", data)
    with pa.CompressedOutputStream(str(tmp_path / "t.csv.zst"), "zstd") as stream:
        stream.write(data)
    for name in ("t.csv", "t.csv.zst"):
        types, found = rows(name)
        assert list(types) == names
        assert found == [tuple(range(300)), tuple(range(300, 600))]


def test_damaged_zstd_files(write, rows, tmp_path) -> None:
    with pa.CompressedOutputStream(str(tmp_path / "t.csv.zst"), "zstd") as stream:
        stream.write(b"a,b\n1,2\n" * 1000)
    whole = (tmp_path / "t.csv.zst").read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:8] + b"\xff" * 20):
        assert "x.csv.zst: cannot be read: " in refused(rows, write("x.csv.zst", damaged))


# -- Arrow -------------------------------------------------------------------------------------


@pytest.mark.parametrize("write_file", ["parquet", "arrow", "frame", "parts"])
def test_an_unnamed_index_of_pandas_is_no_column(rows, tmp_path, write_file) -> None:
    frame = pd.DataFrame({"user": [1, 2, 3], "film": ["a", "b", "c"]})
    frame.index = pd.MultiIndex.from_tuples([(5, 6), (1, 2), (9, 7)])
    table = pa.Table.from_pandas(frame)
    assert table.column_names[2:] == ["__index_level_0__", "__index_level_1__"]
    source = {"parquet": "t.parquet", "arrow": "t.arrow", "frame": table, "parts": "t*.arrow"}
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.arrow", "t2.arrow"):
        with ipc.new_file(str(tmp_path / name), table.schema) as file:
            file.write_table(table)
    types, found = rows(source[write_file])
    assert types == {"user": "BIGINT", "film": "VARCHAR"}
    assert found == [(1, "a"), (2, "b"), (3, "c")] * (1 + (write_file == "parts"))


def test_a_named_index_of_pandas_is_a_column(rows, tmp_path) -> None:
    frame = pd.DataFrame({"n": [1, 2]}, index=pd.Index(["a", "b"], name="id"))
    frame.to_parquet(tmp_path / "t.parquet")
    assert rows("t.parquet")[1] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("start", [1, 0])
def test_a_named_range_index_of_pandas_is_a_column(rows, tmp_path, start) -> None:
    index = pd.RangeIndex(start, start + 6, 2, name="film id")  # written as metadata only
    frame = pd.DataFrame({"n": ["a", "b", "c"]}, index=index)
    table = pa.Table.from_pandas(frame)
    assert table.column_names == ["n"]
    wanted = [("a", start), ("b", start + 2), ("c", start + 4)]
    frame.to_parquet(tmp_path / "t1.parquet")
    with ipc.new_file(str(tmp_path / "t1.arrow"), table.schema) as file:
        file.write_table(table)
    for source in ("t1.parquet", "t1.arrow", table, frame):
        types, found = rows(source)
        assert types == {"n": "VARCHAR", "film id": "BIGINT"}
        assert found == wanted
    frame.reset_index().to_parquet(tmp_path / "t2.parquet")
    assert rows("t*.parquet")[1] == wanted * 2
    assert rows(table.slice(1))[1] == [("b",), ("c",)]  # the metadata are of other rows
    frame.rename_axis(None).to_parquet(tmp_path / "u.parquet")
    assert rows("u.parquet")[1] == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize(
    "index",
    [
        '{"name": "id", "start": 0, "stop": 1e3, "step": 1}',
        f'{{"name": "id", "start": 0, "stop": {10**30}, "step": 1}}',
        f'{{"name": "id", "start": {10**30}, "stop": {10**30 + 2}, "step": 1}}',
        '{"name": "id", "start": 0, "stop": 2, "step": 0}',
        "[" * 100_000,
    ],
    ids=["no integer", "overflow", "above 64 bits", "no step", "nested"],
)
def test_a_damaged_range_index_is_no_column(rows, tmp_path, index) -> None:
    table = pa.table({"n": ["a", "b"]})
    table = table.replace_schema_metadata({"pandas": f'{{"index_columns": [{index}]}}'})
    pq.write_table(table, tmp_path / "t.parquet")
    for source in (table, "t.parquet"):
        assert rows(source)[1] == [("a",), ("b",)]


@pytest.mark.parametrize("kind", [ipc.new_file, ipc.new_stream])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_arrow_files(rows, tmp_path, kind, compression) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6, dtype=np.float32)), 2)
    table = pa.table(
        {"id": pa.array(["a", "b", "a"]).dictionary_encode(), "n": [1, None, 3], "v": vectors}
    )
    options = ipc.IpcWriteOptions(compression=compression)
    for number in (1, 2):
        with kind(str(tmp_path / f"t{number}.arrow"), table.schema, options=options) as file:
            file.write_table(table, max_chunksize=2)
    types, found = rows("t1.arrow")
    assert types == {"id": "VARCHAR", "n": "BIGINT", "v": "FLOAT[2]"}
    assert found == [("a", 1, (0.0, 1.0)), ("b", None, (2.0, 3.0)), ("a", 3, (4.0, 5.0))]
    assert rows("t*.arrow")[1] == found * 2


def test_damaged_arrow_files(rows, write, tmp_path) -> None:
    table = pa.table({"id": list(range(1000))})
    with ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as file:
        file.write_table(table)
    whole = (tmp_path / "t.arrow").read_bytes()
    for damaged in (whole[:100], whole[: len(whole) // 2], b"\xff\xff\xff\xff" + whole[:50]):
        assert refused(rows, write("x.arrow", damaged)).startswith("x.arrow: cannot be read: ")
    with ipc.new_file(str(tmp_path / "u.arrow"), pa.schema([("b", pa.int64())])) as file:
        file.write_table(pa.table({"b": [1]}))
    assert "u.arrow and t.arrow have different columns" in refused(rows, "[tu].arrow")


# -- Excel -------------------------------------------------------------------------------------


@pytest.fixture
def workbook(tmp_path):
    """Write sheets, as {name: rows of cells}, with openpyxl."""

    def put(name, sheets):
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, cells in sheets.items():
            sheet = book.create_sheet(title)
            for row in cells:
                sheet.append(row)
        book.save(tmp_path / name)
        return name

    return put


DAY = datetime.datetime(2020, 1, 2)
CELLS = [
    ["id", "code", "x", "yes", "day", "mixed", "empty"],
    [7, "007", 1.5, True, DAY, 1, None],
    [8, "2", None, False, DAY.replace(hour=3), "a", None],
    [None, None, None, None, None, None, None],
    [9, None, 2, None, None, 2.5, None],
]


def test_the_cells_of_a_sheet(rows, workbook) -> None:
    types, found = rows(workbook("t.xlsx", {"Sheet": CELLS, "empty": []}))
    assert types == {
        "id": "BIGINT", "code": "VARCHAR", "x": "DOUBLE", "yes": "BOOLEAN", "day": "VARCHAR",
        "mixed": "VARCHAR", "empty": "VARCHAR",
    }  # fmt: skip
    assert found == [
        (7, "007", 1.5, True, "2020-01-02", "1", None),
        (8, "2", None, False, "2020-01-02 03:00:00", "a", None),
        (9, None, 2.0, None, None, "2.5", None),
    ]


def test_sheets_are_named_like_tables(rows, workbook) -> None:
    name = workbook("t.xlsx", {"users": [["id"], [1]], "my films": [["id"], [2]]})
    assert rows(f"{name}:my films")[1] == [(2,)]
    assert rows(Source(name, table="users"))[1] == [(1,)]
    message = refused(rows, name)
    assert "t.xlsx: expected the name of a sheet, one of 'users', 'my films'; add table" in message
    assert "unknown sheet 'film': expected one of 'users', 'my films'" in refused(
        rows, f"{name}:film"
    )


def test_empty_columns_without_a_name_are_left_out(rows, workbook, write) -> None:
    cells = [["film id", None, "title", " "], [1, None, "a", " "], [2, "", None, None]]
    types, found = rows(workbook("t.xlsx", {"a": cells}))
    assert (list(types), found) == (["film id", "title"], [(1, "a"), (2, None)])
    assert rows(write("t.csv", "film id,,title, \n1,,a, \n2,,,\n"))[1] == [("1", "a"), ("2", None)]
    assert list(rows(write("u.csv", ",id,\n0,a,\n"))[0]) == ["index", "id"]
    names, values = [f"w{k}" for k in range(300)], ["1"] * 300
    wide = write("w.csv", ",".join([*names, ""]) + "\n" + ",".join([*values, ""]) + "\n")
    assert list(rows(wide)[0]) == names


def test_bad_sheets(rows, workbook, write) -> None:
    assert "t.xlsx: column 2 has 1 values, but no name in the first line" in refused(
        rows, workbook("t.xlsx", {"a": [["id", None, "x"], [1, 2, 3]]})
    )
    message = refused(rows, workbook("t.xlsx", {"a": [["Films", None], ["id", "x"], [1, 2]]}))
    assert "no name in the first line, which starts with 'Films'; name it, or if " in message
    assert "is a title, delete the lines above the names of the columns" in message
    assert "repeats the column name 'id'" in refused(
        rows, workbook("t.xlsx", {"a": [["id", "id"], [1, 2]]})
    )
    assert "expected a sheet with a header and rows, found none" in refused(
        rows, workbook("t.xlsx", {"a": []})
    )
    assert rows(workbook("t.xlsx", {"a": [["id", "x"]]}))[1] == []
    headless = Source("t.xlsx", dialect=Dialect(header=False))
    assert rows(headless)[1] == [("id", "x")]
    write("t.csv", "id\n1\n")
    message = refused(rows, Source("t.csv", table="a"))
    assert "t.csv:a: table: expected the sheet of an Excel file, but the file is CSV" in message


# -- NumPy -------------------------------------------------------------------------------------

MATRIX = np.arange(12).reshape(4, 3)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (MATRIX.astype(np.float32), "FLOAT"),
        (MATRIX.astype(np.float16), "FLOAT"),
        (MATRIX.astype(">f8"), "DOUBLE"),
        (np.asfortranarray(MATRIX), "BIGINT"),
        (MATRIX.astype(np.uint8), "UTINYINT"),
        (MATRIX.reshape(4, 3, 1), "BIGINT"),
    ],
)
def test_the_rows_of_an_array(rows, tmp_path, monkeypatch, array, kind) -> None:
    monkeypatch.setattr(arrays, "CHUNK", 3)
    np.save(tmp_path / "t.npy", array)
    types, found = rows("t.npy")
    assert types == {"row number": "BIGINT", "vector": f"{kind}[3]"}
    assert found == [(k, tuple(MATRIX[k].tolist())) for k in range(4)]


def test_an_npz_file_is_a_table(rows, tmp_path) -> None:
    np.savez_compressed(
        tmp_path / "t.npz", id=np.array(["a", "b", "c", "d"]), X=MATRIX, y=[True, False, True, True]
    )
    types, found = rows("t.npz")
    assert types == {"id": "VARCHAR", "X": "BIGINT[3]", "y": "BOOLEAN"}
    assert found[1] == ("b", (3, 4, 5), False)
    np.savez(tmp_path / "u.npz", X=MATRIX)
    assert list(rows("u.npz")[0]) == ["row number", "X"]


def test_a_sparse_matrix(rows, tmp_path, monkeypatch) -> None:
    sparse.save_npz(tmp_path / "t.npz", sparse.csr_array(MATRIX))
    types, found = rows("t.npz")
    assert types == {"row number": "BIGINT", "vector": "BIGINT[3]"}
    assert found[3] == (3, (9, 10, 11))
    monkeypatch.setattr(arrays, "MAX_DENSE", 50)
    assert "a sparse matrix of 4 x 3 needs" in refused(rows, "t.npz")


def test_bad_arrays(rows, tmp_path, write) -> None:
    np.save(tmp_path / "t.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "t.npz", x=np.array([{"a": 1}], dtype=object))
    assert "t.npz: expected an array of numbers or texts, got Python objects" in refused(
        rows, "t.npz"
    )
    assert "t.npy: expected an array of numbers or texts, got Python objects; convert " in refused(
        rows, "t.npy"
    )
    np.savez(tmp_path / "t.npz", a=[1, 2], b=[1, 2, 3])
    assert "expected arrays with the same number of rows, one or more, got a (2,), b (3,)" in (
        refused(rows, "t.npz")
    )
    np.save(tmp_path / "t.npy", np.array(3.0))
    assert "got vector ()" in refused(rows, "t.npy")
    np.save(tmp_path / "t.npy", np.ones((2, 2), complex))
    assert "array 'vector': expected numbers, or texts in one dimension, got complex128" in (
        refused(rows, "t.npy")
    )
    np.save(tmp_path / "t.npy", MATRIX)
    whole = (tmp_path / "t.npy").read_bytes()
    assert "x.npy: cannot be read: " in refused(rows, write("x.npy", whole[:-9]))
    assert "expected one file of arrays, got 2" in refused(rows, "[tx].npy")


def test_the_rows_of_arrays_beside_a_table(rows, tmp_path, write) -> None:
    """Rows stay in their order, also in a file that several threads read."""
    n = 300_000
    write("t.csv", "id,x\n" + "".join(f"i{k},{'x' * (k % 7)}\n" for k in range(n)))
    np.save(tmp_path / "a.npy", np.arange(2 * n).reshape(n, 2))
    np.save(tmp_path / "b.npy", np.arange(n, dtype=np.float32)[:, None])
    np.savez(tmp_path / "c.npz", size=np.arange(n))
    types, found = rows("t.csv + a.npy + b.npy + c.npz")
    assert types == {
        "id": "VARCHAR", "x": "VARCHAR", "vector": "BIGINT[2]", "vector2": "FLOAT[1]",
        "size": "BIGINT",
    }  # fmt: skip
    wanted = [(f"i{k}", "x" * (k % 7) or None, (2 * k, 2 * k + 1), (k,), k) for k in range(n)]
    assert found == wanted


def test_bad_arrays_beside_a_table(rows, tmp_path, write) -> None:
    write("t.csv", "id,Vector\na,1\nb,2\n")
    np.save(tmp_path / "a.npy", MATRIX)
    message = refused(rows, "t.csv + a.npy")
    assert "expected one row of a.npy for each of the 2 rows of the table, got 4" in message
    np.save(tmp_path / "a.npy", MATRIX[:2])
    assert "a.npy: the table has a column 'vector' already" in refused(rows, "t.csv + a.npy")
    assert "b.npy: no such file" in refused(rows, "t.csv + b.npy")
    assert "b.csv: no such file" in refused(rows, "b.csv + a.npy")
    write("x + y.csv", "id\n1\n")
    assert rows("x + y.csv")[1] == [("1",)]
