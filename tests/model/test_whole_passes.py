"""Passes over all data: streamed to a file, in bounded memory, with a bar where it takes long."""

import tracemalloc

import numpy as np
import pytest
from pyarrow import parquet
from scipy import sparse
from torch import nn

from pmvge import Embeddings, MultiViewGraph, PMvGE, progress
from pmvge.checks import NotFitted
from pmvge.cli.embed import _count, _watched
from pmvge.encoders import embedding
from pmvge.errors import InputError, NotInductive, StorageError
from pmvge.model import estimator as model
from pmvge.search import writing

K = 4


@pytest.fixture(scope="module")
def fitted() -> PMvGE:
    """Dense items, sparse words and featureless tags."""
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
def small_blocks(monkeypatch) -> None:
    monkeypatch.setattr(model, "CHUNK", 7 * 5)  # seven items, or eight words, at a time


def rows_of(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(3, 2, size=(n, 5)).astype(np.float32)


def assert_file(path, ids, vectors) -> None:
    found = Embeddings.load(path)
    assert found.ids.tolist() == list(ids)
    np.testing.assert_allclose(found.vectors, vectors, rtol=1e-5, atol=1e-6)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


# -- embed_to -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 6, 7, 8, 50])
@pytest.mark.parametrize("kind", ["array", "float16", "list", "backwards", "memory map", "blocks"])
def test_the_file_holds_what_embed_returns(fitted, tmp_path, n, kind):
    X = rows_of(n)
    if kind == "memory map":
        np.save(tmp_path / "X.npy", X)
    given = {
        "array": lambda: X,
        "float16": lambda: X.astype(np.float16),
        "list": lambda: X.tolist(),
        "backwards": lambda: X[::-1, ::-1],
        "memory map": lambda: np.load(tmp_path / "X.npy", mmap_mode="r"),
        "blocks": lambda: iter(np.array_split(X, 3)),
    }[kind]()
    path = tmp_path / "new" / "v.parquet"
    assert fitted.embed_to(path, "item", given) == n
    expected = fitted.embed("item", X if kind == "blocks" else given)
    assert_file(path, range(n), expected)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_rows_stream_too(fitted, tmp_path, make):
    X = make(sparse.random_array((33, 60), density=0.1, rng=2))
    path = tmp_path / "v.parquet"
    assert fitted.embed_to(str(path), "word", X, [f"w{i}" for i in range(33)]) == 33
    assert_file(path, [f"w{i}" for i in range(33)], fitted.embed("word", X))
    assert parquet.ParquetFile(path).num_row_groups == 5  # eight rows a block


@pytest.mark.parametrize("ids", [list("xuy"), np.array(list("xuy")), iter([["x", "u"], ["y"]])])
def test_ids_of_a_featureless_view_are_their_own(fitted, tmp_path, ids):
    assert fitted.embed_to(tmp_path / "v.parquet", "tag", ids) == 3
    assert_file(tmp_path / "v.parquet", "xuy", fitted.embed("tag", list("xuy")))


def test_one_id_may_stand_alone(fitted, tmp_path):
    assert fitted.embed_to(tmp_path / "v.parquet", "tag", "x") == 1
    assert_file(tmp_path / "v.parquet", "x", fitted.embed("tag", "x"))


def test_ids_come_with_the_blocks_or_by_themselves(fitted, tmp_path):
    X, path = rows_of(10), tmp_path / "v.parquet"
    fitted.embed_to(path, "item", iter([([5, 3, 4], X[:3]), (np.arange(100, 107), X[3:])]))
    assert_file(path, [5, 3, 4, *range(100, 107)], fitted.embed("item", X))
    fitted.embed_to(path, "item", iter([X[:3], X[3:]]), list("abcdefghij"))
    assert_file(path, "abcdefghij", fitted.embed("item", X))
    fitted.embed_to(path, "tag", iter([(["v"], None), (["u", "v"], None)]))  # as read_rows has it
    assert_file(path, "vuv", fitted.embed("tag", ["v", "u", "v"]))


def test_no_rows_make_an_empty_file(fitted, tmp_path):
    assert fitted.embed_to(tmp_path / "v.parquet", "item", rows_of(0)) == 0
    found = Embeddings.load(tmp_path / "v.parquet")
    assert (found.ids.tolist(), found.vectors.shape) == ([], (0, K))


def spoilt(n: int, row: int, column: int, value: float) -> np.ndarray:
    X = rows_of(n)
    X[row, column] = value
    return X


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize(("row", "value"), [(0, np.nan), (7, np.inf), (38, np.nan)])
def test_a_bad_row_is_named_by_its_place_among_all(fitted, tmp_path, row, value, blocks):
    X = spoilt(39, row, 2, value)
    with pytest.raises(InputError) as plain:
        fitted.embed("item", X)
    given = iter(np.array_split(X, 4)) if blocks else X
    with pytest.raises(InputError) as streamed:
        fitted.embed_to(tmp_path / "v.parquet", "item", given)
    assert str(streamed.value) == str(plain.value)
    assert f"the first is {value} at [{row}, 2]" in str(streamed.value)


def test_a_bad_entry_of_a_sparse_row_is_named_too(fitted, tmp_path):
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
        ("item", None, None, InputError, "expected real numbers, got dtype object"),
        ("item", rows_of(9), [1, 2], InputError, "expected 9 ids, one per row, got 2"),
        ("item", iter([rows_of(2), rows_of(2).astype(str)]), None, InputError, "got dtype <U"),
        ("item", iter([([1], rows_of(1)), (["x"], rows_of(1))]), None, InputError, "of one kind"),
        ("tag", ["u", "q"], None, NotInductive, "such as 'q'"),
        ("tag", ["u"], [1], InputError, "ids came both by themselves and with the rows"),
    ],
)
def test_an_error_leaves_the_old_file(fitted, tmp_path, view, X, ids, error, expected):
    path = tmp_path / "v.parquet"
    path.write_text("what was there before")
    with pytest.raises(error, match=expected):
        fitted.embed_to(path, view, X, ids)
    assert path.read_text() == "what was there before"
    assert [p.name for p in tmp_path.iterdir()] == ["v.parquet"]


def test_what_cannot_be_written_is_a_storage_error(fitted, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        fitted.embed_to(tmp_path / "file" / "v.parquet", "item", rows_of(3))


def test_a_model_that_is_not_fitted_embeds_nothing(tmp_path):
    with pytest.raises(NotFitted):
        PMvGE().embed_to(tmp_path / "v.parquet", "item", rows_of(3))
    assert not list(tmp_path.iterdir())


def test_a_module_that_fails_in_a_late_block_is_an_input_error(tmp_path):
    X = np.random.default_rng(0).integers(1, 9, size=(30, 2))
    graph = MultiViewGraph({"a": X, "t": 3}, {("a", "t"): (np.arange(30), np.arange(30) % 3)})
    tokens = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(8, K))
    own = PMvGE(K, encoder={"a": tokens}, max_steps=3, random_state=0, progress=False).fit(graph)
    late = np.vstack([X, [[1, 99]]])
    with pytest.raises(InputError, match="view 'a': its encoder failed on these rows"):
        own.embed_to(tmp_path / "v.parquet", "a", late)
    assert not list(tmp_path.iterdir())


# -- memory ---------------------------------------------------------------------------------


def test_memory_is_that_of_a_block_whatever_the_number_of_rows(fitted, tmp_path, monkeypatch):
    """40 MB of rows, 32 MB of vectors and 16 MB of ids pass by in less than 4 MB."""
    monkeypatch.setattr(model, "CHUNK", 1 << 16)
    n = 2_000_000
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (n, 5))
    X[:] = np.random.default_rng(0).standard_normal((1, 5))
    X[-1] = 1
    del X
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    parts = []
    usual = writing.save_stream
    monkeypatch.setattr(
        writing,
        "save_stream",
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
    np.testing.assert_allclose(tail["vector"][-1], fitted.embed("item", X[-1:])[0], rtol=1e-5)


# -- progress -------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "REFRESH", 0.0)
    monkeypatch.setattr(embedding, "ROWS", 4)
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
def test_long_work_shows_a_bar_if_it_may(fitted, impatient, capsys, tmp_path, title, shown):
    watched = PMvGE.__new__(PMvGE)
    watched.__dict__ = fitted.__dict__ | {"progress": shown}
    WORK[title](watched, tmp_path / "v.parquet")
    out, err = capsys.readouterr()
    assert out == ""
    assert (title in err) == shown
    assert ("100%" in err) == shown
    assert bool(err) == shown


def test_short_work_shows_nothing(fitted, impatient, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "DELAY", 3600.0)
    watched = PMvGE.__new__(PMvGE)
    watched.__dict__ = fitted.__dict__ | {"progress": True}
    for work in WORK.values():
        work(watched, tmp_path / "v.parquet")
    assert capsys.readouterr() == ("", "")


def test_a_stream_has_one_bar(fitted, monkeypatch, tmp_path):
    """None for each of its blocks, which would write over each other."""
    bars = []
    usual = model.progress_bar
    monkeypatch.setattr(model, "progress_bar", lambda *told: (bars.append(told), usual(*told))[1])
    fitted.embed_to(tmp_path / "v.parquet", "item", rows_of(30))
    assert bars == [("embedding item", False)]


def test_the_command_counts_rows_and_knows_how_many_parquet_files_have(tmp_path):
    part = Embeddings(np.arange(3), np.ones((3, 2), np.float32))
    told = []
    assert list(_watched(iter([part, part]), lambda *now: told.append(now), 6)) == [part, part]
    assert told == [(3, 6), (6, 6)]
    part.save(tmp_path / "three.parquet")
    (tmp_path / "some.csv").write_text("id\n1\n")
    assert _count(str(tmp_path / "three.parquet")) == 3
    for name in ("some.csv", "nothing.parquet", "*.parquet", "films.db:users", ""):
        assert _count(str(tmp_path / name)) is None
