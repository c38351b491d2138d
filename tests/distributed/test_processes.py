"""Several real processes, started by torchrun; run as a script this file is one of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy import sparse

from pmvge import MultiViewGraph, PMvGE, PmvgeError
from pmvge.distributed import WHOLE, World, check_parts, join
from pmvge.distributed.launch import leave
from pmvge.encoders import EncoderSpec, MultiViewEncoder, choose_encoders, schemas_of
from pmvge.likelihoods import BlockObjective
from pmvge.model.trainer import make_trainer
from pmvge.sampling import BlockSampler, gatherer
from pmvge.tables import LinkTable, ViewTable, read_project, read_tables, share_links
from pmvge.training import EncodedLoss
from pmvge.training.progress import Silent

CPU = torch.device("cpu")
SEED, B, U, K, STEPS = 5, 16, 24, 4, 10

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available(), reason="this torch has no torch.distributed"
)


def whole_graph() -> MultiViewGraph:
    """Dense, sparse and featureless views; the last is large enough to be updated by rows."""
    rng = np.random.default_rng(0)
    return MultiViewGraph(
        {
            "dense": rng.normal(size=(300, 7)),
            "sparse": sparse.random_array((200, 30), density=0.1, format="csr", rng=rng),
            "free": 10_000,
        },
        {
            ("dense", "sparse"): (rng.integers(300, size=600), rng.integers(200, size=600)),
            ("dense", "dense"): (np.arange(150), np.arange(150, 300), 5 * rng.random(150) + 0.1),
            ("free", "dense"): (rng.integers(10_000, size=900), rng.integers(300, size=900)),
        },
    )


def shard(rank: int) -> MultiViewGraph:
    """The graph of a process that has links of its own, and images of its own."""
    rng = np.random.default_rng(rank)
    n = 60 + 20 * rank
    X = np.random.default_rng(9).normal(size=(200, 5))[100 * rank : 100 * rank + n]
    links = (rng.integers(n, size=400), rng.integers(50, size=400), rng.random(400) + 0.1)
    return MultiViewGraph(
        {"image": X, "tag": 50},
        {("image", "tag"): links},
        {"image": np.arange(100 * rank, 100 * rank + n)},
    )


def settings(**changed: Any) -> dict[str, Any]:
    plain = {"hidden_sizes": (9,), "dropout": 0.0, "input_dropout": 0.0, "clip_norm": None}
    sizes = {"batch_size": B, "negative_rate": U / B}
    return PMvGE(K, **plain | sizes | changed).get_params(deep=False)


def build_network(graph: MultiViewGraph) -> MultiViewEncoder:
    spec = EncoderSpec("mlp", (9,), "relu", "identity", False, 0.0, 0.0, False)
    schemas = schemas_of(graph)
    torch.manual_seed(0)
    return MultiViewEncoder(choose_encoders("mlp", spec, schemas), schemas, K, "cosine")


# -- what the processes do ------------------------------------------------------------------


def send_gradients(folder: Path) -> None:
    """The gradients after one backward pass, those of tables by row too."""
    graph, world = whole_graph(), join(CPU)
    parts = check_parts(world, graph, "block", False)
    network = build_network(graph)
    if not world.first:
        for parameter in network.parameters():
            parameter.data += 1.0  # the first one's count
    trainer = make_trainer(settings(), network, graph, None, CPU, SEED, Silent(), parts=parts)
    for number, batch in zip(range(STEPS), trainer.batches, strict=False):
        trainer.descent.optimizer.zero_grad()
        trainer.descent.loss(batch).value.backward()
        gradients = {n: p.grad for n, p in network.named_parameters() if p.grad is not None}
        changes = [trainer.descent._mean_change(table) for table in trainer.descent.tables]
        for k, change in enumerate(changes):
            if change is not None:
                gradients |= {f"table {k} rows": change[0], f"table {k}": change[1]}
        save_file(gradients, folder / f"step {number} rank {world.rank}")


def send_densities(folder: Path) -> None:
    world = join(CPU)
    graph = shard(world.rank)
    parts = check_parts(world, graph, "block", True)
    trainer = make_trainer(
        settings(), build_network(graph), graph, None, CPU, SEED, Silent(), parts=parts
    )
    left = next(iter(trainer.batches)).batch.left
    tensors = {
        "nodes": torch.from_numpy(left.nodes),
        "log_weight": torch.from_numpy(left.log_weight),
    }
    save_file(tensors, folder / f"rank {world.rank}")


def descend_tables(folder: Path) -> None:
    """Steps of which some depend on nothing but tables that are updated by row."""
    rng, world = np.random.default_rng(0), join(CPU)
    graph = MultiViewGraph(
        {"x": rng.normal(size=(40, 3)), "f": 3000, "h": 3000},
        {
            ("x", "f"): (rng.integers(40, size=200), rng.integers(3000, size=200)),
            ("f", "h"): (rng.integers(3000, size=400), rng.integers(3000, size=400)),
        },
    )
    parts = check_parts(world, graph, "block", False)
    spec = EncoderSpec("mlp", (9,), "relu", "identity", False, 0.0, 0.0, False)
    schemas = schemas_of(graph)
    network = MultiViewEncoder(choose_encoders("mlp", spec, schemas), schemas, K, "inner")
    chosen = settings(weight_decay=0.1, max_steps=60)
    trainer = make_trainer(chosen, network, graph, None, CPU, SEED, Silent(), parts=parts)
    assert len(trainer.descent.tables) == 2
    trainer.run()
    save_file(dict(network.state_dict()), folder / f"rank {world.rank}")


def fit_shards(folder: Path) -> None:
    rank = int(os.environ["RANK"])
    model = PMvGE(K, max_steps=60, patience=None, random_state=0, progress=False)
    model.fit(shard(rank), sharded=True).save(folder / f"model {rank}")


def fit_with_checkpoints(folder: Path) -> None:
    """The process of rank 1 lives until the file "strike" tells it to die, in the first life."""
    model = PMvGE(
        K, max_steps=400, checkpoint_dir=folder / "checkpoint", checkpoint_steps=50,
        checkpoint_seconds=None, random_state=0, progress=False, patience=None,
    )  # fmt: skip
    (folder / f"pid {os.environ['RANK']} {os.environ['TORCHELASTIC_RESTART_COUNT']}").write_text(
        str(os.getpid())
    )
    model.fit(whole_graph())
    if os.environ["RANK"] == "0":
        model.save(folder / "model")


def fit_and_leave(folder: Path) -> None:
    """The threads of the group, after a fit and after its end."""
    rank = os.environ["RANK"]
    PMvGE(K, max_steps=5, progress=False).fit(whole_graph())
    during = threads_of_the_group()
    leave()
    (folder / rank).write_text(f"{during} {threads_of_the_group()}")


def threads_of_the_group() -> int:
    names = (path.read_text() for path in Path("/proc/self/task").glob("*/comm"))
    return sum("gloo" in name for name in names)


def fit_another_graph(folder: Path) -> None:
    try:
        PMvGE(K, max_steps=5, progress=False).fit(shard(int(os.environ["RANK"])))
    except PmvgeError as error:
        (folder / os.environ["RANK"]).write_text(str(error))


def fit_more_processes(folder: Path) -> None:
    """Go on, in two processes, with what one has begun."""
    model = begun_by_one(folder, 80).fit(whole_graph(), resume=True)
    first, last = model.history_[0], model.history_[-1]
    (folder / os.environ["RANK"]).write_text(f"{first.seconds!r} {last.step}")


def begun_by_one(folder: Path, max_steps: int) -> PMvGE:
    """Of such a batch that twice as many nodes would make the large table an ordinary one."""
    settings = {"batch_size": 100, "random_state": 0, "progress": False, "patience": None}
    return PMvGE(K, max_steps=max_steps, checkpoint_dir=folder / "checkpoint", **settings)


TASKS: dict[str, Callable[[Path], None]] = {
    f.__name__: f
    for f in (
        send_gradients, send_densities, descend_tables, fit_shards, fit_with_checkpoints,
        fit_and_leave, fit_another_graph, fit_more_processes,
    )
}  # fmt: skip


def torchrun(*arguments: str, restarts: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", "--max-restarts", str(restarts), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def run_task(task: Callable[[Path], None], folder: Path, restarts: int = 0) -> None:
    process = torchrun(__file__, task.__name__, str(folder), restarts=restarts)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 0, told


# -- tests ----------------------------------------------------------------------------------


def test_gradients_are_those_of_one_process_that_averages_the_same_blocks(tmp_path):
    run_task(send_gradients, tmp_path)
    graph = whole_graph()
    network = build_network(graph)
    loss, gather = EncodedLoss(network, BlockObjective(graph), CPU), gatherer(graph, CPU)
    streams = []
    for rank in range(2):
        share = World(rank, 2).share_of(graph)
        rng = np.random.default_rng([SEED, 2, rank])
        streams.append(iter(BlockSampler(share, n_links=B, n_uniform=U, rng=rng)))
    used = set()
    for number in range(STEPS):
        batches = [next(stream) for stream in streams]
        used |= {batch.pair for batch in batches}
        network.zero_grad()
        sum(loss(gather(batch)).value for batch in batches).div(2).backward()
        expected = {n: p.grad for n, p in network.named_parameters() if p.grad is not None}
        for rank in range(2):
            found = load_file(tmp_path / f"step {number} rank {rank}")
            rows, change = found.pop("table 0 rows", None), found.pop("table 0", None)
            if rows is not None:
                (name,) = (n for n, p in network.named_parameters() if p.shape == (10_000, K))
                found[name] = torch.zeros(10_000, K).index_add_(0, rows, change)
            assert {n for n, g in expected.items() if g.any()} <= set(found) <= set(expected)
            for name, gradient in found.items():
                scale = float(expected[name].abs().max())
                assert torch.allclose(gradient, expected[name], rtol=1e-5, atol=1e-5 * scale), name
    assert len(used) == 3  # and so are those of batches that leave an encoder out


def test_tables_by_row_are_the_same_in_all_processes(tmp_path):
    run_task(descend_tables, tmp_path)
    first, second = (load_file(tmp_path / f"rank {rank}") for rank in range(2))
    for name, weights in first.items():
        assert torch.equal(weights, second[name]), name


def entries(links):
    return list(zip(links.rows, links.cols, links.weights, strict=True))


def test_shares_are_parts_of_the_whole():
    graph = whole_graph()
    shares = [World(rank, 3).share_of(graph) for rank in range(3)]
    for pair, links in graph.links.items():
        every = [entry for share in shares for entry in entries(share.links[pair])]
        assert sorted(every) == entries(links)
    assert max(s.n_links for s in shares) - min(s.n_links for s in shares) <= 1
    with pytest.raises(PmvgeError, match="cannot be shared by 9999 processes"):
        World(0, 9999).share_of(graph)


def test_densities_are_those_of_the_shard_that_a_process_draws_from(tmp_path):
    run_task(send_densities, tmp_path)
    for rank in range(2):
        found = load_file(tmp_path / f"rank {rank}")
        links = shard(rank).links["image", "tag"]
        n = links.shape[0]
        degree = np.zeros(n)
        for i, w in zip(links.rows, links.weights, strict=True):
            degree[i] += w
        nodes = found["nodes"].numpy()
        expected = -np.log(B * degree[nodes] / links.weights.sum() + U / n)
        np.testing.assert_allclose(found["log_weight"], expected, rtol=1e-5)


def test_a_model_of_shards_knows_all_nodes_and_all_weight(tmp_path):
    run_task(fit_shards, tmp_path)
    first, second = (PMvGE.load(tmp_path / f"model {rank}") for rank in range(2))
    np.testing.assert_array_equal(first.ids_["image"], [*range(60), *range(100, 180)])
    for view, Y in first.embeddings_.items():
        np.testing.assert_array_equal(Y, second.embeddings_[view])
    for rank in range(2):
        graph = shard(rank)
        place = np.searchsorted(first.ids_["image"], graph.ids["image"])
        again = first.embed("image", graph.views["image"])
        np.testing.assert_allclose(first.embeddings_["image"][place], again, atol=1e-6)
    g = first.embeddings_["image"].astype(float) @ first.embeddings_["tag"].astype(float).T
    weight = sum(shard(rank).total_weight for rank in range(2))
    assert first.alpha_[0, 1] == pytest.approx(weight / np.exp(g).sum())


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads have no names here")
def test_no_thread_outlives_the_group(tmp_path):
    """One that does may want something of Python as that ends, which aborts the process."""
    run_task(fit_and_leave, tmp_path)
    for rank in "01":
        during, after = map(int, (tmp_path / rank).read_text().split())
        assert during > 0
        assert after == 0


def test_a_killed_process_leads_to_a_restart_that_ends_as_if_nothing_had_happened(tmp_path):
    quiet, struck = tmp_path / "quiet", tmp_path / "struck"
    for folder in (quiet, struck):
        folder.mkdir()
    run_task(fit_with_checkpoints, quiet)
    process = torchrun(__file__, "fit_with_checkpoints", str(struck), restarts=2)
    deadline = time.monotonic() + 180
    while not (struck / "checkpoint" / "checkpoint.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(int((struck / "pid 1 0").read_text()), signal.SIGKILL)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 0, told
    assert (struck / "pid 1 1").exists()  # there was a second life
    whole, resumed = PMvGE.load(quiet / "model"), PMvGE.load(struck / "model")
    assert resumed.history_[-1].step == 400
    graph = whole_graph()
    assert resumed.log_likelihood(graph) == pytest.approx(whole.log_likelihood(graph), rel=1e-6)


def write_tables(folder: Path, files: int) -> Path:
    """A project with link tables cut into files."""
    rng = np.random.default_rng(0)
    taste = rng.normal(size=(60, 2))
    (folder / "users.csv").write_text(
        "user,x,y\n" + "".join(f"u{i:02},{x:.3f},{y:.3f}\n" for i, (x, y) in enumerate(taste))
    )
    (folder / "films.csv").write_text("film\n" + "".join(f"f{j:02}\n" for j in range(20)))
    for k in range(files):
        pairs = {(int(rng.integers(60)), int(rng.integers(20))) for _ in range(80)}
        rows = "".join(f"u{i:02},f{j:02}\n" for i, j in sorted(pairs))
        (folder / f"links-{k}.csv").write_text("user,film\n" + rows)
    project = folder / "pmvge.toml"
    project.write_text(
        """
        [views.users]
        source = "users.csv"
        id = "user"
        features = { x = "numeric", y = "numeric" }
        [views.films]
        source = "films.csv"
        id = "film"
        [[links]]
        views = ["users", "films"]
        source = "links-*.csv"
        columns = ["user", "film"]
        [model]
        n_components = 4
        max_steps = 40
        """
    )
    return project


@pytest.mark.parametrize("options", [[], ["--sharded"]], ids=["whole", "sharded"])
def test_the_command_fits_in_several_processes_and_one_of_them_speaks(tmp_path, options):
    project = write_tables(tmp_path, files=4)
    output = tmp_path / "model"
    process = torchrun("-m", "pmvge", "fit", str(project), "-o", str(output), "--json", *options)
    told, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert json.loads(told)["model"] == str(output)  # one of them
    model = PMvGE.load(output)
    links = (tmp_path / f"links-{k}.csv" for k in range(4))
    rows = sum(len(path.read_text().splitlines()) - 1 for path in links)
    assert sum(model.alpha_weight_.values()) == rows
    assert len(model.ids_["users"]) == 60
    assert not (output / "checkpoint").exists()


def test_link_files_that_cannot_be_shared_equally_are_refused(tmp_path):
    project = read_project(write_tables(tmp_path, files=6))
    with pytest.raises(PmvgeError, match=r"6 files cannot .* by 4 processes; start 1 or 2 or 3 or"):
        share_links(project, 0, 4)
    parts = [read_tables(share_links(project, rank, 3)).graph for rank in range(3)]
    assert sum(part.total_weight for part in parts) == read_tables(project).graph.total_weight
    named = replace(project, views={**project.views, "films": ViewTable()})
    with pytest.raises(PmvgeError, match=r"view films: .* do not name all ids"):
        share_links(named, 0, 3)
    table = LinkTable({"user": ["u01"], "film": ["f01"]}, ("user", "film"))
    with pytest.raises(PmvgeError, match="only files, named by a glob, can be shared"):
        share_links(replace(project, links={("users", "films"): table}), 0, 3)


def test_graphs_that_differ_are_refused_unless_they_are_shards(tmp_path):
    run_task(fit_another_graph, tmp_path)
    for rank in range(2):
        assert "sharded=True" in (tmp_path / str(rank)).read_text()


def test_another_number_of_processes_goes_on_from_a_checkpoint(tmp_path):
    model = begun_by_one(tmp_path, 40).fit(whole_graph())
    run_task(fit_more_processes, tmp_path)
    for rank in range(2):  # the clock tells that it is the same record
        assert (tmp_path / str(rank)).read_text() == f"{model.history_[0].seconds!r} 80"


class Spoken(World):
    """A world of two of which the other has said what it said."""

    def __init__(self, said: bytes) -> None:
        super().__init__(0, 2)
        object.__setattr__(self, "said", said)

    def gather(self, text: bytes) -> list[bytes]:
        return [text, self.said]

    def any(self, flag: bool) -> bool:
        return flag


def test_what_cannot_be_trained_in_several_processes_is_refused():
    graph = whole_graph()
    with pytest.raises(PmvgeError, match="'paper' trains in one process, 2 were started"):
        check_parts(Spoken(b""), graph, "paper", False)
    with pytest.raises(PmvgeError, match="differ in their views or observed pairs"):
        check_parts(Spoken(b""), graph, "block", True)
    assert check_parts(World(), graph, "paper", False) is WHOLE


if __name__ == "__main__":
    TASKS[sys.argv[1]](Path(sys.argv[2]))
