"""Features in a spill folder: the same bits as in memory, written once, and mapped."""

import os
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pmvge import PMvGE
from pmvge.cli.app import app
from pmvge.errors import StorageError, TableError
from pmvge.graph import is_mapped
from pmvge.tables import LinkTable, Project, Source, ViewTable, read_graph, read_tables, views
from pmvge.tables.columns import casts
from pmvge.tables.on_disk import mapped
from pmvge.tables.sources import connection

N = 20_000  # more than one batch
KINDS = {
    "age": "numeric",
    "seen": "date",
    "kind": "category",
    "v": "vector",
    "w": "vector",
}


@pytest.fixture(scope="module")
def frame():
    """Return entities in random order, with columns of every dense kind and missing values."""
    rng = np.random.default_rng(0)
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 999, N), "D")
    return pd.DataFrame(
        {
            "id": rng.permutation(N),
            "age": np.where(rng.random(N) < 0.1, np.nan, rng.normal(40, 9, N)),
            "seen": days,
            "kind": rng.choice(["a", "b", "c"], N),
            "plot": rng.choice(["red tree", "blue sea", "red sea"], N),
            "v": list(rng.normal(3, 2, (N, 5)).astype(np.float32)),
            "w": list(rng.normal(size=(N, 3))),
            "city": rng.choice(["Bonn", "Rome"], N),
        }
    )


@pytest.fixture
def folder(tmp_path, frame):
    frame.to_parquet(tmp_path / "things.parquet", row_group_size=7000)
    links = pd.DataFrame({"id": np.arange(N), "tag": np.arange(N) % 7})
    links.to_parquet(tmp_path / "tags.parquet")
    return tmp_path


def project(folder, source="things.parquet", features=None, **options):
    view = ViewTable(source, "id", features or KINDS, ("city",), **options)
    links = LinkTable("tags.parquet", ("id", "tag"))
    return Project(
        {"things": view, "tags": ViewTable()}, {("things", "tags"): links}, folder=folder
    )


@pytest.fixture
def encodings(monkeypatch):
    """Record each encoding of a table."""
    made = []
    encode_batches = views.encode_batches

    def counted(*arguments):
        made.append(1)
        return encode_batches(*arguments)

    monkeypatch.setattr(views, "encode_batches", counted)
    return made


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def equal(tables, other, same):
    """Assert that the graphs, recipes, labels and notes are equal."""
    same(tables.graph, other.graph)
    assert tables.graph.tables == other.graph.tables
    assert tables.notes() == other.notes()
    assert tables.missing == other.missing
    assert tables.labels.keys() == other.labels.keys()
    for view, labels in tables.labels.items():
        assert labels.keys() == other.labels[view].keys()
        for column, values in labels.items():
            assert values.tolist() == other.labels[view][column].tolist()


@pytest.mark.parametrize("standardize", [True, False])
def test_features_equal_those_in_memory_and_are_written_once(
    folder, same, encodings, standardize
) -> None:
    described = project(folder, standardize=standardize)
    wanted = read_tables(described)
    assert set(wanted.labels["things"]) == {"city", "kind"}
    assert wanted.missing["things"]["age"] > 0
    assert not is_mapped(wanted.graph.views["things"])
    for _ in range(2):
        found = read_tables(described, spill=folder / "deep" / "spill")
        assert is_mapped(found.graph.views["things"])
        equal(found, wanted, same)
        assert names(folder / "deep" / "spill") == ["things.npy", "things.npy.json"]
    assert len(encodings) == 2  # once in memory, once to the folder


def test_cached_columns_are_not_selected_again(folder, same, monkeypatch) -> None:
    """The second run selects only columns that may be labels."""
    first = read_tables(project(folder), spill=folder / "spill")
    selected = []
    cast = casts.cast
    monkeypatch.setattr(casts, "cast", lambda c, *rest: selected.append(c) or cast(c, *rest))
    equal(read_tables(project(folder), spill=folder / "spill"), first, same)
    assert selected == ["kind"]


@pytest.mark.parametrize(
    "change",
    [
        {"features": {"age": "numeric", "v": "vector"}},
        {"features": {**KINDS, "kind": {"kind": "category", "size": 2}}},
        {"standardize": False},
    ],
)
def test_changed_options_write_the_features_again(folder, same, encodings, change) -> None:
    spill = folder / "spill"
    read_tables(project(folder), spill=spill)
    other = read_tables(project(folder, **change), spill=spill)
    assert len(encodings) == 2
    assert is_mapped(other.graph.views["things"])
    equal(other, read_tables(project(folder, **change)), same)


def test_changed_files_write_the_features_again(folder, frame, same, encodings) -> None:
    spill = folder / "spill"
    before = read_tables(project(folder), spill=spill)
    kept = before.graph.views["things"][:5].tolist()
    frame.assign(age=frame["age"] * 2).iloc[: N // 2].to_parquet(folder / "things.parquet")
    after = read_tables(project(folder), spill=spill)
    assert len(encodings) == 2
    assert after.graph.sizes["things"] == N // 2
    equal(after, read_tables(project(folder)), same)
    assert before.graph.views["things"][:5].tolist() == kept  # an open map keeps the old content
    os.utime(folder / "things.parquet", ns=(1, 1))
    read_tables(project(folder), spill=spill)
    assert len(encodings) == 4


def test_globs_and_databases_are_cached(folder, frame, same, encodings) -> None:
    for at, part in enumerate((frame.iloc[:9999], frame.iloc[9999:])):
        part.to_parquet(folder / f"part-{at}.parquet")
    with duckdb.connect(str(folder / "all.duckdb")) as db:
        db.execute(f"CREATE TABLE things AS SELECT * FROM '{folder}/things.parquet'")
    wanted = read_tables(project(folder))
    for source in ("part-*.parquet", "all.duckdb:things"):
        made = len(encodings)
        for _ in range(2):
            same(read_tables(project(folder, source), spill=folder / "s").graph, wanted.graph)
        assert len(encodings) == made + 1
    with duckdb.connect(str(folder / "all.duckdb")) as db:
        db.execute("UPDATE things SET age = 7 WHERE id < 10")
    read_tables(project(folder, "all.duckdb:things"), spill=folder / "s")
    assert len(encodings) == made + 2


def test_data_frames_and_queries_are_not_cached(folder, frame, same, encodings) -> None:
    wanted = read_tables(project(folder))
    for source in (frame, Source(query="SELECT * FROM 'things.parquet'")):
        for _ in range(2):
            found = read_tables(project(folder, source), spill=folder / "spill")
            assert is_mapped(found.graph.views["things"])
            same(found.graph, wanted.graph)
    assert len(encodings) == 5


def test_sparse_features_stay_in_memory(folder, same) -> None:
    described = project(folder, features={"plot": "text", "age": "numeric"})
    found = read_tables(described, spill=folder / "spill")
    equal(found, read_tables(described), same)
    assert names(folder / "spill") == []


@pytest.mark.parametrize("name", ["a/b: [c]", "..", "ä" * 200, "A" * 90])
def test_view_names_with_special_characters(tmp_path, name) -> None:
    frame = {"id": [1, 2], "x": [0.5, 1.5]}
    links = LinkTable({"id": [1, 2], "t": [1, 1]}, ("id", "t"))
    described = Project(
        {name: ViewTable(frame, "id", {"x": "numeric"}), "t": ViewTable()}, {(name, "t"): links}
    )
    graph = read_tables(described, spill=tmp_path / "spill").graph
    assert graph.views[name].tolist() == [[-1], [1]]
    assert len(names(tmp_path / "spill")) == 2
    assert names(tmp_path) == ["spill"]


def test_read_graph_with_spill(folder, same) -> None:
    (folder / "pmvge.toml").write_text(
        "[views.tags]\n"
        '[views.things]\nsource = "things.parquet"\nid = "id"\nfeatures.v = "vector"\n'
        '[[links]]\nviews = ["things", "tags"]\nsource = "tags.parquet"\ncolumns = ["id", "tag"]\n'
    )
    graph = read_graph(folder / "pmvge.toml", spill=folder / "spill")
    assert is_mapped(graph.views["things"])
    same(graph, read_graph(folder / "pmvge.toml"))


# -- memory and disk ----------------------------------------------------------------------------


def test_duckdb_spills_to_the_folder(tmp_path, monkeypatch) -> None:
    """Sort 200 MB with a limit of 100 MB: temporary files are in the folder, and are removed."""
    n, p = 200_000, 128
    rng = np.random.default_rng(0)
    rows, ids = rng.random((n, p), np.float32), rng.permutation(n)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), p)
    plain = {"row_group_size": 5000, "use_dictionary": False, "compression": None}
    pq.write_table(pa.table({"id": ids, "v": flat}), tmp_path / "v.parquet", **plain)
    connect = duckdb.connect
    limits = {"memory_limit": "100MB", "threads": 1}
    monkeypatch.setattr(
        connection.duckdb, "connect", lambda *a, config: connect(*a, config=config | limits)
    )
    seen = []
    encode_batches = views.encode_batches

    def watched(*arguments):
        seen.extend(p.stat().st_size for p in (tmp_path / "spill").rglob("pmvge-*/*"))
        return encode_batches(*arguments)

    monkeypatch.setattr(views, "encode_batches", watched)
    links = LinkTable({"id": range(n), "t": [1] * n}, ("id", "t"))
    described = Project(
        {"v": ViewTable("v.parquet", "id", {"v": "vector"}, standardize=False), "t": ViewTable()},
        {("v", "t"): links},
        folder=tmp_path,
    )
    graph = read_tables(described, spill=tmp_path / "spill").graph
    assert sum(seen) > 10e6
    assert np.array_equal(graph.views["v"], rows[np.argsort(ids)])
    assert names(tmp_path / "spill") == ["v.npy", "v.npy.json"]


def test_no_space_in_the_folder(folder, monkeypatch) -> None:
    usage = mapped.shutil.disk_usage(folder)
    monkeypatch.setattr(mapped.shutil, "disk_usage", lambda _: usage._replace(free=12345))
    with pytest.raises(StorageError, match=r"things.npy: no space .*[\d,]+ bytes .*, 12,345 are"):
        read_tables(project(folder), spill=folder / "spill")
    assert names(folder / "spill") == []


def test_folders_that_cannot_be_written(folder, monkeypatch) -> None:
    with pytest.raises(StorageError, match=r"things.parquet: cannot write the features: "):
        read_tables(project(folder), spill=folder / "things.parquet")
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "spill")
    with pytest.raises(StorageError, match=r"spill: cannot write the features: no permission"):
        read_tables(project(folder), spill=folder / "spill")


def test_a_bad_row_leaves_nothing_behind(folder, frame) -> None:
    ragged = frame["v"].copy()
    ragged.iloc[19_000] = np.ones(4, np.float32)
    frame.assign(v=ragged).to_parquet(folder / "things.parquet")
    with pytest.raises(TableError, match="'v': expected vectors of length 5, got one of 4"):
        read_tables(project(folder), spill=folder / "spill")
    assert names(folder / "spill") == []


# -- the command --------------------------------------------------------------------------------


def test_the_fit_command_with_spill(folder, frame) -> None:
    few = frame[frame["id"] < 300].drop(columns="plot")  # text features are sparse
    few.to_parquet(folder / "things.parquet")
    pd.DataFrame({"id": np.arange(300), "tag": np.arange(300) % 7}).to_parquet(
        folder / "tags.parquet"
    )
    models = []
    for options in ([], ["--spill", str(folder / "s")], ["--spill", str(folder / "s")]):
        output = folder / f"model-{len(models)}"
        result = CliRunner().invoke(
            app,
            [
                *("fit", "--view", f"things={folder}/things.parquet:id=id"),
                *("--links", f"things,tags={folder}/tags.parquet:columns=id,tag"),
                *("-o", str(output), "--set", "max_steps=5", "--set", "n_components=4"),
                *options,
            ],
        )
        assert result.exit_code == 0, result.output
        assert "Reading" not in result.stderr  # on terminals only
        models.append(PMvGE.load(output))
    assert names(folder / "s") == ["things.npy", "things.npy.json"]
    for model in models[1:]:
        for view, rows in model.embeddings_.items():
            assert rows.tobytes() == models[0].embeddings_[view].tobytes()
