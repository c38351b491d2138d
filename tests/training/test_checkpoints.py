"""An interrupted and resumed run gives the same bits as a run without interruption."""

import json
import os
import shutil
import signal

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from pmvge import EncoderSpec, MultiViewGraph, PMvGE
from pmvge.errors import CheckpointMismatch, ParameterError, StorageError
from pmvge.sampling import BlockSampler, PairSampler
from pmvge.training import Checkpoints
from pmvge.training.checkpoints import DamagedCheckpoint

SETTINGS = {
    "n_components": 4,
    "hidden_sizes": (8,),
    "dropout": 0.3,
    "batch_norm": True,
    "batch_size": 16,
    "max_steps": 80,
    "learning_rate": 0.01,
    "similarity": "cosine",
    "weight_decay": 0.1,
    "patience": 10,
    "checkpoint_steps": 5,
    "checkpoint_seconds": None,
    "random_state": 0,
    "progress": False,
}


class Interrupted(Exception):
    pass


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def interrupt(monkeypatch):
    """Return a function that makes runs raise Interrupted after so many batches."""

    def after(n_batches):
        for sampler, original in originals.items():

            def stream(self, original=original):
                for number, batch in enumerate(original(self)):
                    if number == n_batches:
                        raise Interrupted
                    yield batch

            monkeypatch.setattr(sampler, "__iter__", stream if n_batches is not None else original)

    originals = {sampler: sampler.__iter__ for sampler in (BlockSampler, PairSampler)}
    return after


def views_and_links():
    rng = np.random.default_rng(0)
    views = {
        "a": rng.normal(size=(30, 4)),
        "s": sparse.random_array((20, 25), density=0.2, format="csr", rng=1),
        "c": 6,
    }
    links = {
        ("a", "s"): (rng.integers(30, size=60), rng.integers(20, size=60)),
        ("a", "c"): (rng.integers(30, size=30), rng.integers(6, size=30)),
    }
    return views, links


@pytest.fixture(scope="module")
def graph():
    return MultiViewGraph(*views_and_links())


def pmvge(folder=None, **settings):
    return PMvGE(**SETTINGS | {"checkpoint_dir": folder} | settings)


def assert_same(one, other):
    for view, Y in other.embeddings_.items():
        assert np.array_equal(one.embeddings_[view], Y)
    assert np.array_equal(one.alpha_, other.alpha_)
    histories = [model.history_.to_dict() for model in (one, other)]
    for name in histories[1].keys() - {"seconds"}:
        np.testing.assert_array_equal(histories[0][name], histories[1][name])


# -- resuming -------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [3, 27, 50])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scheme": "paper"},
        {"scheme": "paper", "similarity": "inner", "patience": None, "schedule": "cosine"},
        {"patience": 2},
        {"schedule": "auto", "patience": 1},
        {"schedule": "auto", "patience": 1, "effects": "vector"},
        {"schedule": "auto", "patience": None, "scheme": "paper"},
        {"encoder": {"a": EncoderSpec("linear"), "s": nn.Linear(25, 4)}, "schedule": "step"},
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(graph, tmp_path, interrupt, settings, steps):
    torch.manual_seed(0)
    expected = pmvge(**settings).fit(graph)
    interrupt(steps)
    with pytest.raises(Interrupted):
        pmvge(tmp_path, **settings).fit(graph)
    interrupt(None)
    assert_same(pmvge(tmp_path, **settings).fit(graph, resume=True), expected)


def test_a_run_may_be_interrupted_several_times(graph, tmp_path, interrupt):
    for steps in (6, 11, 22, 14):
        interrupt(steps)
        with pytest.raises(Interrupted):
            pmvge(tmp_path).fit(graph, resume=True)
    interrupt(None)
    assert_same(pmvge(tmp_path).fit(graph, resume=True), pmvge().fit(graph))


def test_a_run_with_a_validation_graph_resumes(graph, tmp_path, interrupt):
    views, links = views_and_links()
    held = MultiViewGraph(views, {("a", "c"): (links["a", "c"][1] * 3, links["a", "c"][1])})
    interrupt(33)
    with pytest.raises(Interrupted):
        pmvge(tmp_path).fit(graph, held)
    interrupt(None)
    resumed = pmvge(tmp_path).fit(graph, held, resume=True)
    assert_same(resumed, pmvge().fit(graph, held))


@pytest.mark.parametrize("state", [None, 5])
def test_a_run_without_a_fixed_seed_resumes_with_its_saved_seed(graph, tmp_path, interrupt, state):
    """A generator has another state when the run is resumed; fresh entropy differs every time."""
    generator = None if state is None else np.random.default_rng(state)
    interrupt(33)
    with pytest.raises(Interrupted):
        pmvge(tmp_path, random_state=generator).fit(graph)
    interrupt(None)
    resumed = pmvge(tmp_path, random_state=generator).fit(graph, resume=True)
    assert resumed.history_[-1].step == 80
    if state is not None:
        assert_same(resumed, pmvge(random_state=np.random.default_rng(state)).fit(graph))


def test_seconds_include_those_before_the_resume(graph, tmp_path, interrupt):
    interrupt(50)
    with pytest.raises(Interrupted):
        pmvge(tmp_path).fit(graph)
    interrupt(None)
    seconds = pmvge(tmp_path).fit(graph, resume=True).history_.to_dict()["seconds"]
    assert (np.diff(seconds) > 0).all()


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"checkpoint_steps": None, "checkpoint_seconds": 0}, 13),
        ({"checkpoint_steps": None, "checkpoint_seconds": 1e9}, None),
        ({"checkpoint_steps": 4}, 12),
        ({"checkpoint_steps": None}, None),
    ],
)
def test_checkpoints_are_written_as_often_as_asked(graph, tmp_path, interrupt, settings, steps):
    interrupt(13)
    with pytest.raises(Interrupted):
        pmvge(tmp_path, **settings).fit(graph)
    manifest = tmp_path / "checkpoint.json"
    assert manifest.exists() == (steps is not None)
    if steps is not None:
        assert json.loads(manifest.read_text())["step"] == steps
        assert (
            len(list(tmp_path.iterdir())) == 4
        )  # two files each of the latest and the previous one


def test_a_run_with_a_pair_observed_as_all_zero_resumes(tmp_path, interrupt):
    views, links = views_and_links()
    graph = MultiViewGraph(views, links | {("s", "c"): sparse.csr_array((20, 6))})
    for scheme in ("block", "paper"):
        interrupt(33)
        with pytest.raises(Interrupted):
            pmvge(tmp_path / scheme, scheme=scheme).fit(graph)
        interrupt(None)
        resumed = pmvge(tmp_path / scheme, scheme=scheme).fit(graph, resume=True)
        assert_same(resumed, pmvge(scheme=scheme).fit(graph))


def test_tied_weights_stay_tied(graph, tmp_path, interrupt):
    encoder = {"a": Tied()}
    interrupt(33)
    with pytest.raises(Interrupted):
        pmvge(tmp_path, encoder=encoder).fit(graph)
    interrupt(None)
    resumed = pmvge(tmp_path, encoder=encoder).fit(graph, resume=True)
    assert_same(resumed, pmvge(encoder=encoder).fit(graph))


class Tied(nn.Module):
    """A module with one matrix under two names."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


# -- finished runs, fresh runs --------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"patience": 1}, {"checkpoint_steps": None}])
def test_resuming_a_finished_run_makes_no_steps(graph, tmp_path, interrupt, settings):
    finished = pmvge(tmp_path, **settings).fit(graph)
    interrupt(0)
    assert_same(pmvge(tmp_path, **settings).fit(graph, resume=True), finished)


def test_a_finished_run_resumes_if_max_steps_is_larger(graph, tmp_path):
    settings = {"schedule": "constant"}  # its rates do not depend on max_steps
    pmvge(tmp_path, max_steps=50, **settings).fit(graph)
    resumed = pmvge(tmp_path, **settings).fit(graph, resume=True)
    assert_same(resumed, pmvge(**settings).fit(graph))


@pytest.mark.parametrize("exists", [True, False])
def test_resume_without_a_checkpoint_starts_fresh(graph, tmp_path, exists):
    folder = tmp_path if exists else tmp_path / "new" / "folder"
    assert_same(pmvge(folder).fit(graph, resume=True), pmvge().fit(graph))


def test_without_resume_an_older_checkpoint_is_overwritten(graph, tmp_path):
    pmvge(tmp_path, random_state=1).fit(graph)
    fresh = pmvge(tmp_path).fit(graph)
    assert_same(fresh, pmvge().fit(graph))
    assert_same(pmvge(tmp_path).fit(graph, resume=True), fresh)


def test_writing_checkpoints_does_not_change_the_result(graph, tmp_path):
    assert_same(pmvge(tmp_path).fit(graph), pmvge(checkpoint_steps=None).fit(graph))


def test_a_model_and_its_checkpoint_may_share_a_folder(graph, tmp_path, interrupt):
    finished = pmvge(tmp_path).fit(graph)
    finished.save(tmp_path)
    interrupt(0)
    assert_same(pmvge(tmp_path).fit(graph, resume=True), finished)
    interrupt(None)
    pmvge(tmp_path, random_state=1).fit(graph)
    assert_same(PMvGE.load(tmp_path), finished)


def test_resume_needs_checkpoint_dir(graph):
    with pytest.raises(ParameterError, match=r"resume=True\) needs checkpoint_dir"):
        pmvge().fit(graph, resume=True)


# -- checkpoints of other data or settings --------------------------------------------------


def other_graph(what):
    views, links = views_and_links()
    if what == "links":
        rows, cols = links["a", "s"]
        links["a", "s"] = (rows, (cols + 1) % 20)
    if what == "one column":  # of an entity with one link, so that nothing else changes
        rows, cols = links["a", "c"]
        single = np.flatnonzero(np.bincount(rows)[rows] == 1)[0]
        cols = cols.copy()
        cols[single] = (cols[single] + 1) % 6
        links["a", "c"] = (rows, cols)
    if what == "weights":
        links["a", "s"] = (*links["a", "s"], np.full(60, 2.0))
    if what == "features":
        views["a"] = views["a"] + 1e-3
    if what == "sparse columns":
        S = views["s"].copy()
        S.indices = (S.indices + 1) % 25
        views["s"] = S
    if what == "sparse rows":
        S = views["s"].copy()
        start = S.indptr[1:-1]  # move the first entry of a row to the row before it
        row = np.flatnonzero(
            (S.indices[start - 1] < S.indices[start]) & (np.diff(S.indptr)[1:] > 0)
        )
        S.indptr[row[0] + 1] += 1
        views["s"] = S
    if what == "size":
        views["c"] = 7
    return MultiViewGraph(views, links)


@pytest.mark.parametrize(
    "what", ["links", "one column", "weights", "features", "sparse columns", "sparse rows", "size"]
)
def test_a_checkpoint_of_other_data_is_refused(graph, tmp_path, what):
    pmvge(tmp_path, max_steps=5).fit(graph)
    with pytest.raises(CheckpointMismatch, match="belongs to other data or other settings"):
        pmvge(tmp_path, max_steps=5).fit(other_graph(what), resume=True)


def test_a_checkpoint_of_another_validation_graph_is_refused(graph, tmp_path):
    pmvge(tmp_path, max_steps=5).fit(graph, graph)
    with pytest.raises(StorageError, match="belongs to other data or other settings"):
        pmvge(tmp_path, max_steps=5).fit(graph, other_graph("links"), resume=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"random_state": 1},
        {"n_components": 5},
        {"hidden_sizes": (9,)},
        {"activation": "tanh"},
        {"learning_rate": 0.02},
        {"scheme": "paper"},
        {"similarity": "inner"},
        {"encoder": "linear"},
        {"encoder": {"a": EncoderSpec(dropout=0.1)}},
        {"encoder": {"a": nn.Linear(4, 4)}},
        {"patience": None},
    ],
    ids=str,
)
def test_a_checkpoint_of_other_settings_is_refused(graph, tmp_path, settings):
    pmvge(tmp_path, max_steps=5).fit(graph)
    with pytest.raises(StorageError, match="belongs to other data or other settings"):
        pmvge(tmp_path, max_steps=5, **settings).fit(graph, resume=True)


def test_a_checkpoint_of_another_seed_is_refused_when_nothing_is_held_out(graph, tmp_path):
    settings = {"max_steps": 5, "patience": None}
    pmvge(tmp_path, **settings).fit(graph)
    with pytest.raises(StorageError, match="belongs to other data or other settings"):
        pmvge(tmp_path, **settings, random_state=1).fit(graph, resume=True)


def test_a_module_of_other_widths_is_refused(graph, tmp_path):
    def encoder(width):
        return {"a": nn.Sequential(nn.Linear(4, width), nn.Linear(width, 4))}

    pmvge(tmp_path, max_steps=5, encoder=encoder(3)).fit(graph)
    with pytest.raises(StorageError, match="belongs to other data or other settings"):
        pmvge(tmp_path, max_steps=5, encoder=encoder(4)).fit(graph, resume=True)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-10])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def remove(path):
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (truncate, "state-*.safetensors"),
        (flip, "state-*.safetensors"),
        (remove, "state-*.safetensors"),
        (truncate, "checkpoint.json"),
        (flip, "checkpoint.json"),
    ],
)
def test_a_damaged_checkpoint_is_refused(graph, tmp_path, damage, part):
    pmvge(tmp_path, max_steps=5).fit(graph)
    (path,) = tmp_path.glob(part)
    damage(path)
    with pytest.raises(StorageError, match="damaged"):
        pmvge(tmp_path, max_steps=5).fit(graph, resume=True)


def damaged_files(folder, count):
    """Damage the files of the latest checkpoint in ``count`` ways: cut them or flip a bit."""
    rng = np.random.default_rng(0)
    manifest = json.loads((folder / "checkpoint.json").read_text())
    (entry,) = manifest["files"].values()
    for k in range(count):
        path = folder / ("checkpoint.json" if k // 2 % 2 else entry["name"])
        content = path.read_bytes()
        if k % 2:
            broken = bytearray(content)
            broken[rng.integers(len(content))] ^= 1 << rng.integers(8)
        else:
            broken = content[: rng.integers(len(content))]
        path.write_bytes(broken)
        yield
        path.write_bytes(content)


def test_the_previous_checkpoint_is_used_if_the_latest_is_damaged(graph, tmp_path):
    settings = {"checkpoint_steps": 10, "patience": None, "schedule": "constant"}
    expected = pmvge(max_steps=40, patience=None, schedule="constant").fit(graph)
    pmvge(tmp_path / "made", max_steps=25, **settings).fit(graph)  # written at 10, 20 and 25
    for number, _ in enumerate(damaged_files(tmp_path / "made", 40)):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "made", folder)
        checkpoints = Checkpoints(folder, None, None, saved_fingerprint(tmp_path / "made"), 0)
        with pytest.warns(DamagedCheckpoint, match="; using the previous checkpoint$"):
            content, _ = checkpoints.read()
        assert content["step"] == 20
        if number < 4:  # a complete fit for some of them
            shutil.rmtree(folder)
            shutil.copytree(tmp_path / "made", folder)
            with pytest.warns(DamagedCheckpoint):
                again = pmvge(folder, max_steps=40, **settings).fit(graph, resume=True)
            assert_same(again, expected)


def test_a_damaged_checkpoint_is_not_kept_as_the_previous_one(graph, tmp_path):
    settings = {"checkpoint_steps": 10, "patience": None, "schedule": "constant"}
    pmvge(tmp_path, max_steps=25, **settings).fit(graph)
    flip(tmp_path / "checkpoint.json")
    with pytest.warns(DamagedCheckpoint):
        pmvge(tmp_path, max_steps=30, **settings).fit(graph, resume=True)
    flip(tmp_path / "checkpoint.json")  # that of step 30; the previous one is of step 20
    with pytest.warns(DamagedCheckpoint):
        again = pmvge(tmp_path, max_steps=40, **settings).fit(graph, resume=True)
    assert_same(again, pmvge(max_steps=40, patience=None, schedule="constant").fit(graph))


def saved_fingerprint(folder):
    return json.loads((folder / "checkpoint-before.json").read_text())["fingerprint"]


def test_resume_fails_if_both_checkpoints_are_damaged(graph, tmp_path):
    settings = {"checkpoint_steps": 10, "checkpoint_seconds": None}
    pmvge(tmp_path, max_steps=25, **settings).fit(graph)
    assert len(list(tmp_path.glob("state-*.safetensors"))) == 2  # older ones are removed
    for path in tmp_path.glob("state-*.safetensors"):
        flip(path)
    with pytest.raises(StorageError, match="damaged"):
        pmvge(tmp_path, max_steps=25, **settings).fit(graph, resume=True)


def test_a_run_may_be_resumed_with_fewer_steps_than_it_made(tmp_path):
    """The last steps of lazily updated rows may be above max_steps."""
    rng = np.random.default_rng(0)
    pairs = (rng.integers(20_000, size=5000), rng.integers(5, size=5000))
    graph = MultiViewGraph({"a": 20_000, "b": 5}, {("a", "b"): pairs})
    settings = {"checkpoint_steps": 50, "patience": None}
    finished = pmvge(tmp_path, max_steps=600, **settings).fit(graph)
    for steps in (1, 50, 599):
        resumed = pmvge(tmp_path, max_steps=steps, **settings).fit(graph, resume=True)
        assert_same(resumed, finished)


def test_an_interrupt_during_the_last_checkpoint_is_raised(graph, tmp_path, monkeypatch):
    write = Checkpoints.write

    def write_interrupted(self, content, tensors):
        if content["step"] == 40:
            signal.raise_signal(signal.SIGINT)
        write(self, content, tensors)

    monkeypatch.setattr(Checkpoints, "write", write_interrupted)
    with pytest.raises(KeyboardInterrupt):
        pmvge(tmp_path, max_steps=40, patience=None).fit(graph)
    monkeypatch.setattr(Checkpoints, "write", write)
    again = pmvge(tmp_path, max_steps=40, patience=None).fit(graph, resume=True)
    assert_same(again, pmvge(max_steps=40, patience=None).fit(graph))
