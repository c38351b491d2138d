"""Wide text files: columns of integers get that type, and no cell changes."""

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pmvge.errors import TableError
from pmvge.tables import read_tables, sketch_project
from pmvge.tables.sources import wide

CELLS = st.one_of(
    st.none(),
    st.sampled_from(
        ["0", "1", "7", "10", "-3", "007", "+1", "1.0", "", "x", " 1", "99999999999999999999"]
    ),
    st.integers(-(10**20), 10**20).map(str),
    st.text(max_size=3),
)


@given(st.lists(CELLS, max_size=20), st.integers(0, 3))
def test_cells_are_the_same_text(cells, start) -> None:
    array = pa.array(cells, pa.string())[start:]  # a slice has an offset into its buffers
    (found,) = wide.with_integers(pa.table({"x": array})).columns
    assert found.cast(pa.string()).to_pylist() == array.to_pylist()
    plain = [cell for cell in array.to_pylist() if cell is not None]
    if pa.types.is_integer(found.type):
        assert all(str(int(cell)) == cell for cell in plain)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [(["0", "1", "9"], pa.int8()), (["0", None], pa.int64()), (["12"], pa.int64()), (["01"], None)],
)
def test_types(cells, kind) -> None:
    (found,) = wide.with_integers(pa.table({"x": pa.array(cells, pa.string())})).columns
    assert found.type == (kind or pa.string())


def test_a_wide_file_gives_the_graph_of_a_narrow_one(tmp_path, monkeypatch, same) -> None:
    rng = np.random.default_rng(0)
    words = pd.DataFrame((rng.random((80, 300)) < 0.05).astype(int)).add_prefix("w")
    words["w7"] = np.where(rng.random(80) < 0.2, np.nan, words["w7"])  # 1.0, 0.0 and missing
    words["w9"] = rng.integers(0, 20, 80)
    words.insert(0, "id", [f"{n:03}" for n in rng.permutation(80)])
    words.assign(label=rng.choice(["a", "b"], 80)).to_csv(tmp_path / "papers.csv", index=False)
    ends = rng.integers(0, 80, (200, 2))
    ends = pd.DataFrame(ends[ends[:, 0] < ends[:, 1]], columns=["cited", "citing"])
    ends.map("{:03}".format).to_csv(tmp_path / "cites.csv", index=False)
    read = sketch_project(tmp_path)
    graph = read_tables(read.project).graph
    assert graph.views["papers"].shape == (80, 301)  # with an indicator of missing values
    monkeypatch.setattr(wide, "MIN_COLUMNS", 10_000)
    narrow = sketch_project(tmp_path)
    assert {c: f.kind for c, f in narrow.project.views["papers"].features.items()} == {
        c: f.kind for c, f in read.project.views["papers"].features.items()
    }
    same(graph, read_tables(narrow.project).graph)


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,x\n2,\n",
        'a,b\r\n"1","x, ""y"""\r\nNA,"p\nq"\r\n',
        '\ufeffa,b\n007,5" disc\n\n3,null\n',
        '"a\nb",c\n1,2\n',
        "a,b\n1,2,\n",  # Arrow refuses a trailing delimiter: DuckDB reads it
        "a,b\n1\n",
        'a,b\n1,"2\n',
        b"a,b\n1,\xff\n",
        "a,b\n",
    ],
)
def test_wide_files_are_read_as_narrow_ones(content, write, rows, monkeypatch) -> None:
    name = write("t.csv", content)

    def read():
        try:
            types, found = rows(name)
        except (TableError, duckdb.Error):
            return "error"
        return list(types), [tuple(None if v is None else str(v) for v in row) for row in found]

    narrow = read()
    monkeypatch.setattr(wide, "MIN_COLUMNS", 1)
    assert read() == narrow
