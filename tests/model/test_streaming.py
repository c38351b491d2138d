"""Embedding to a file in chunks: content, errors, memory; progress bars of long calls."""

import tracemalloc

import numpy as np
import pytest
from pyarrow import parquet
from scipy import sparse
from torch import nn

from pmvge import Embeddings, MultiViewGraph, PMvGE, progress
from pmvge.checks import NotFitted
from pmvge.cli.new_rows import count_rows, with_progress
from pmvge.encoders import embedding as encoder_embedding
from pmvge.errors import InputError, NotInductive, StorageError
from pmvge.model import embedding
from pmvge.search import writing

K = 4


@pytest.fixture(scope="module")
def fitted() -> PMvGE:
    """A model of dense items, sparse words and featureless tags."""
    rng = np.random.default_rng(0)
    views = {
        "item": rng.normal(3, 2, size=(40, 5)),
        "word": sparse.random_array((30, 60), density=0.2, format="csr", rng=1),
        "tag": 6,
    }
    links = {
        ("item", "tag"): (np.arange(40), np.arange(40) % 6),
        ("item", "word"): (np.arange(40), np.arange(40) % 30),
    }
    graph = MultiViewGraph(views, links, {"tag": list("uvwxyz")})
    settings = {"hidden_sizes": (16,), "batch_size": 16, "max_steps": 20, "random_state": 0}
    return PMvGE(K, progress=False, **settings).fit(graph)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(embedding, "CHUNK", 7 * 5)  # chunks of seven items or eight words


def rows_of(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(3, 2, size=(n, 5)).astype(np.float32)


def assert_file(path, ids, vectors) -> None:
    found = Embeddings.load(path)
    assert found.ids.tolist() == list(ids)
    np.testing.assert_allclose(found.vectors, vectors, rtol=1e-5, atol=1e-6)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


# -- embed_to -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 6, 7, 8, 50])
@pytest.mark.parametrize("kind", ["array", "float16", "list", "reversed", "memory map", "chunks"])
def test_the_file_holds_the_vectors_of_embed(fitted, tmp_path, n, kind):
    X = rows_of(n)
    if kind == "memory map":
        np.save(tmp_path / "X.npy", X)
    given = {
        "array": lambda: X,
        "float16": lambda: X.astype(np.float16),
        "list": lambda: X.tolist(),
        "reversed": lambda: X[::-1, ::-1],
        "memory map": lambda: np.load(tmp_path / "X.npy", mmap_mode="r"),
        "chunks": lambda: iter(np.array_split(X, 3)),
    }[kind]()
    path = tmp_path / "new" / "v.parquet"
    assert fitted.embed_to(path, "item", given) == n
    expected = fitted.embed("item", X if kind == "chunks" else given)
    assert_file(path, range(n), expected)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_rows_are_streamed(fitted, tmp_path, make):
    X = make(sparse.random_array((33, 60), density=0.1, rng=2))
    path = tmp_path / "v.parquet"
    assert fitted.embed_to(str(path), "word", X, [f"w{i}" for i in range(33)]) == 33
    assert_file(path, [f"w{i}" for i in range(33)], fitted.embed("word", X))
    assert parquet.ParquetFile(path).num_row_groups == 5  # chunks of eight rows


@pytest.mark.parametrize("ids", [list("xuy"), np.array(list("xuy")), iter([["x", "u"], ["y"]])])
def test_rows_of_a_featureless_view_are_ids(fitted, tmp_path, ids):
    assert fitted.embed_to(tmp_path / "v.parquet", "tag", ids) == 3
    assert_file(tmp_path / "v.parquet", "xuy", fitted.embed("tag", list("xuy")))


def test_a_single_id_is_accepted(fitted, tmp_path):
    assert fitted.embed_to(tmp_path / "v.parquet", "tag", "x") == 1
    assert_file(tmp_path / "v.parquet", "x", fitted.embed("tag", "x"))


def test_ids_are_given_with_the_chunks_or_separately(fitted, tmp_path):
    X, path = rows_of(10), tmp_path / "v.parquet"
    fitted.embed_to(path, "item", iter([([5, 3, 4], X[:3]), (np.arange(100, 107), X[3:])]))
    assert_file(path, [5, 3, 4, *range(100, 107)], fitted.embed("item", X))
    fitted.embed_to(path, "item", iter([X[:3], X[3:]]), list("abcdefghij"))
    assert_file(path, "abcdefghij", fitted.embed("item", X))
    fitted.embed_to(
        path, "tag", iter([(["v"], None), (["u", "v"], None)])
    )  # as read_rows yields them
    assert_file(path, "vuv", fitted.embed("tag", ["v", "u", "v"]))


def test_ids_of_the_training_are_known_entities(tmp_path):
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(12, 5)), [f"i{n}" for n in range(12)]
    graph = MultiViewGraph(
        {"item": X, "tag": 6}, {("item", "tag"): rng.poisson(1.0, size=(12, 6))}, {"item": names}
    )
    model = PMvGE(K, max_steps=20, random_state=0, progress=False).fit(graph)
    rows, ids = np.concatenate([X, rows_of(3)]), [*names, "x", "y", "z"]
    expected, path = model.embed("item", rows, ids=ids), tmp_path / "v.parquet"
    assert np.abs(expected - model.embed("item", rows))[:12].max() > 1e-3  # effects
    for given in (
        (rows, ids),
        (rows.tolist(), ids),
        (iter([(ids[:9], rows[:9]), (ids[9:], rows[9:])]),),
    ):
        model.embed_to(path, "item", *given)
        assert_file(path, ids, expected)


def test_no_rows_give_an_empty_file(fitted, tmp_path):
    assert fitted.embed_to(tmp_path / "v.parquet", "item", rows_of(0)) == 0
    found = Embeddings.load(tmp_path / "v.parquet")
    assert (found.ids.tolist(), found.vectors.shape) == ([], (0, K))


def with_value(n: int, row: int, column: int, value: float) -> np.ndarray:
    X = rows_of(n)
    X[row, column] = value
    return X


@pytest.mark.parametrize("chunks", [False, True])
@pytest.mark.parametrize(("row", "value"), [(0, np.nan), (7, np.inf), (38, np.nan)])
def test_errors_name_the_row_among_all_rows(fitted, tmp_path, row, value, chunks):
    X = with_value(39, row, 2, value)
    with pytest.raises(InputError) as in_memory:
        fitted.embed("item", X)
    given = iter(np.array_split(X, 4)) if chunks else X
    with pytest.raises(InputError) as streamed:
        fitted.embed_to(tmp_path / "v.parquet", "item", given)
    assert str(streamed.value) == str(in_memory.value)
    assert f"the first is {value} at [{row}, 2]" in str(streamed.value)


def test_errors_name_the_entry_of_a_sparse_row(fitted, tmp_path):
    X = sparse.lil_array((20, 60))
    X[13, 50] = np.nan
    with pytest.raises(InputError, match=r"the first is nan at \[13, 50\]"):
        fitted.embed_to(tmp_path / "v.parquet", "word", X)


@pytest.mark.parametrize(
    ("view", "X", "ids", "error", "expected"),
    [
        ("items", rows_of(3), None, InputError, "unknown view 'items'"),
        ("item", rows_of(3)[:, :4], None, InputError, r"expected rows of shape \(5,\), got \(4,\)"),
        ("item", rows_of(3)[0], None, InputError, r"expected an array of shape \(rows, columns"),
        ("item", [[1.0], [2.0, 3.0]], None, InputError, "got a ragged list"),
        ("item", None, None, InputError, "expected X, ids or both, got neither"),
        ("item", rows_of(9), [1, 2], InputError, "expected 9 ids, one per row, got 2"),
        ("item", iter([rows_of(2), rows_of(2).astype(str)]), None, InputError, "got dtype <U"),
        ("item", iter([([1], rows_of(1)), (["x"], rows_of(1))]), None, InputError, "of one kind"),
        ("tag", ["u", "q"], None, NotInductive, "such as 'q'"),
        ("tag", ["u"], [1], InputError, "expected ids either in ids or in the batches, got both"),
    ],
)
def test_an_error_keeps_the_old_file(fitted, tmp_path, view, X, ids, error, expected):
    path = tmp_path / "v.parquet"
    path.write_text("old")
    with pytest.raises(error, match=expected):
        fitted.embed_to(path, view, X, ids)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["v.parquet"]


def test_an_unwritable_path_is_a_storage_error(fitted, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        fitted.embed_to(tmp_path / "file" / "v.parquet", "item", rows_of(3))


def test_embed_to_needs_a_fitted_model(tmp_path):
    with pytest.raises(NotFitted):
        PMvGE().embed_to(tmp_path / "v.parquet", "item", rows_of(3))
    assert not list(tmp_path.iterdir())


def test_a_module_that_fails_in_a_late_chunk_is_an_input_error(tmp_path):
    X = np.random.default_rng(0).integers(1, 9, size=(30, 2))
    graph = MultiViewGraph({"a": X, "t": 3}, {("a", "t"): (np.arange(30), np.arange(30) % 3)})
    tokens = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(8, K))
    own = PMvGE(K, encoder={"a": tokens}, max_steps=3, random_state=0, progress=False).fit(graph)
    late = np.vstack([X, [[1, 99]]])
    with pytest.raises(InputError, match="view 'a': its encoder failed on these rows"):
        own.embed_to(tmp_path / "v.parquet", "a", late)
    assert not list(tmp_path.iterdir())


# -- memory ---------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_number_of_rows(fitted, tmp_path, monkeypatch):
    """40 MB of rows, 32 MB of vectors and 16 MB of ids need less than 4 MB."""
    monkeypatch.setattr(embedding, "CHUNK", 1 << 16)
    n = 2_000_000
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, 5))
    X[:] = np.random.default_rng(0).standard_normal((1, 5))
    X[-1] = 1
    del X
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    parts = []
    usual = writing.save_batches
    monkeypatch.setattr(
        writing,
        "save_batches",
        lambda path, stream: usual(path, (parts.append(len(part)) or part for part in stream)),
    )
    tracemalloc.start()
    assert fitted.embed_to(tmp_path / "v.parquet", "item", X) == n
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4e6
    assert max(parts) == (1 << 16) // 5
    last = parquet.ParquetFile(tmp_path / "v.parquet")
    tail = last.read_row_group(last.num_row_groups - 1).to_pydict()
    assert tail["id"][-1] == n - 1
    wanted = fitted.embed("item", X[-1:])[0]
    np.testing.assert_allclose(tail["vector"][-1], wanted, rtol=1e-5, atol=1e-6)


# -- progress -------------------------------------------------------------------------------


@pytest.fixture
def no_delay(monkeypatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "REFRESH", 0.0)
    monkeypatch.setattr(encoder_embedding, "CHUNK_ROWS", 4)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "100")


WORK = {
    "embedding item": lambda m, path: m.embed("item", rows_of(20)),
    "embedding word": lambda m, path: m.embed_to(path, "word", sparse.csr_array((9, 60))),
    "searching tag": lambda m, path: m.search("item", rows_of(2), among="tag", k=2),
    "searching word": lambda m, path: m.search(
        "item", rows_of(2), among="word", candidates=sparse.csr_array((9, 60))
    ),
    "log-likelihood": lambda m, path: m.score(
        MultiViewGraph({"item": rows_of(6), "tag": 2}, {("item", "tag"): ([0], [1])}, {"tag": "uv"})
    ),
}


@pytest.mark.parametrize("title", WORK)
@pytest.mark.parametrize("shown", [True, False])
def test_long_calls_show_a_progress_bar(fitted, no_delay, capsys, tmp_path, title, shown):
    watched = PMvGE.__new__(PMvGE)
    watched.__dict__ = fitted.__dict__ | {"progress": shown}
    WORK[title](watched, tmp_path / "v.parquet")
    out, err = capsys.readouterr()
    assert out == ""
    assert (title in err) == shown
    assert ("100%" in err) == shown
    assert bool(err) == shown


def test_short_calls_show_no_progress_bar(fitted, no_delay, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "DELAY", 3600.0)
    watched = PMvGE.__new__(PMvGE)
    watched.__dict__ = fitted.__dict__ | {"progress": True}
    for work in WORK.values():
        work(watched, tmp_path / "v.parquet")
    assert capsys.readouterr() == ("", "")


def test_embed_to_shows_one_bar_for_all_chunks(fitted, monkeypatch, tmp_path):
    bars = []
    progress_bar = embedding.progress_bar

    def count(*arguments):
        bars.append(arguments)
        return progress_bar(*arguments)

    monkeypatch.setattr(embedding, "progress_bar", count)
    fitted.embed_to(tmp_path / "v.parquet", "item", rows_of(30))
    assert bars == [("embedding item", False)]


def test_the_number_of_rows_is_known_for_parquet_files(tmp_path):
    part = Embeddings(np.arange(3), np.ones((3, 2), np.float32))
    calls = []
    parts = with_progress(iter([part, part]), lambda *call: calls.append(call), 6)
    assert list(parts) == [part, part]
    assert calls == [(3, 6), (6, 6)]
    part.save(tmp_path / "three.parquet")
    (tmp_path / "some.csv").write_text("id\n1\n")
    assert count_rows(str(tmp_path / "three.parquet")) == 3
    for name in ("some.csv", "nothing.parquet", "*.parquet", "films.db:users", ""):
        assert count_rows(str(tmp_path / name)) is None
