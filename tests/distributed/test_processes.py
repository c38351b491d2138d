"""Training in several processes that torchrun starts; each of them runs this file as a script."""

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
from pmvge.distributed import SINGLE_PROCESS, World, check_shards, join_process_group
from pmvge.distributed.process_group import leave_process_group
from pmvge.distributed.shards import link_share
from pmvge.encoders import EncoderSpec, MultiViewEncoder, choose_encoders, schemas_of
from pmvge.likelihoods import BlockObjective
from pmvge.model.fitting.trainer import make_trainer
from pmvge.sampling import BlockSampler, row_gatherer
from pmvge.tables import LinkTable, ViewTable, read_project, read_tables, share_links
from pmvge.training import EncodedLoss

CPU = torch.device("cpu")
SEED, B, U, K, STEPS = 5, 16, 24, 4, 10

pytestmark = [
    pytest.mark.slow,  # starts torchrun
    pytest.mark.skipif(
        not torch.distributed.is_available(), reason="this torch has no torch.distributed"
    ),
]


def full_graph() -> MultiViewGraph:
    """Dense, sparse and featureless views; the last is large enough for lazy updates."""
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
    """The graph of a process with links of its own, and images of its own."""
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


# -- tasks of the processes -----------------------------------------------------------------


def send_gradients(folder: Path) -> None:
    """Save the gradients after one backward pass, including those of lazy rows."""
    graph, world = full_graph(), join_process_group(CPU)
    shards = check_shards(world, graph, "block", False)
    network = build_network(graph)
    if not world.first:
        for parameter in network.parameters():
            parameter.data += 1.0  # the weights of the first process are used
    trainer = make_trainer(settings(), network, graph, None, CPU, SEED, shards=shards)
    for number, batch in zip(range(STEPS), trainer.batches, strict=False):
        trainer.optimizer.adam.zero_grad()
        trainer.optimizer.loss(batch).value.backward()
        gradients = {n: p.grad for n, p in network.named_parameters() if p.grad is not None}
        for k, lazy in enumerate(trainer.optimizer.lazy):
            found = trainer.optimizer._row_gradient(lazy)
            if found is not None:
                gradients |= {f"lazy {k} rows": found[0], f"lazy {k}": found[1]}
        save_file(gradients, folder / f"step {number} rank {world.rank}")


def send_densities(folder: Path) -> None:
    """Save the first batch's entities and weights."""
    world = join_process_group(CPU)
    graph = shard(world.rank)
    shards = check_shards(world, graph, "block", True)
    trainer = make_trainer(settings(), build_network(graph), graph, None, CPU, SEED, shards=shards)
    left = next(iter(trainer.batches)).batch.left
    tensors = {
        "entities": torch.from_numpy(left.entities),
        "log_weight": torch.from_numpy(left.log_weight),
    }
    save_file(tensors, folder / f"rank {world.rank}")


def train_lazy_rows(folder: Path) -> None:
    """Make steps, some of which depend on lazily updated weights only."""
    rng, world = np.random.default_rng(0), join_process_group(CPU)
    graph = MultiViewGraph(
        {"x": rng.normal(size=(40, 3)), "f": 3000, "h": 3000},
        {
            ("x", "f"): (rng.integers(40, size=200), rng.integers(3000, size=200)),
            ("f", "h"): (rng.integers(3000, size=400), rng.integers(3000, size=400)),
        },
    )
    shards = check_shards(world, graph, "block", False)
    spec = EncoderSpec("mlp", (9,), "relu", "identity", False, 0.0, 0.0, False)
    schemas = schemas_of(graph)
    network = MultiViewEncoder(choose_encoders("mlp", spec, schemas), schemas, K, "inner")
    chosen = settings(weight_decay=0.1, max_steps=60)
    trainer = make_trainer(chosen, network, graph, None, CPU, SEED, shards=shards)
    assert len(trainer.optimizer.lazy) == 2
    trainer.run()
    save_file(dict(network.state_dict()), folder / f"rank {world.rank}")


def fit_shards(folder: Path) -> None:
    rank = int(os.environ["RANK"])
    model = PMvGE(K, max_steps=60, patience=None, random_state=0, progress=False)
    model.fit(shard(rank), sharded=True).save(folder / f"model {rank}")


def fit_effects(folder: Path) -> None:
    """Fit effects to the same graph, and to shards of the links; try them on split views."""
    rank = int(os.environ["RANK"])
    options = {"max_steps": 60, "patience": None, "random_state": 0, "progress": False}
    model = PMvGE(K, effects="vector", **options).fit(full_graph())
    model.save(folder / f"same {rank}")
    share = link_share(full_graph(), World(rank, 2))
    PMvGE(K, effects="vector", **options).fit(share, sharded=True).save(folder / f"shard {rank}")
    try:
        PMvGE(K, effects="vector", **options).fit(shard(rank), sharded=True)
    except PmvgeError as error:
        (folder / f"refused {rank}").write_text(str(error))


def fit_held_out(folder: Path) -> None:
    """Hold out links, and entities to calibrate with; with a seed, without one, and of shards."""
    rank = int(os.environ["RANK"])
    options = {"max_steps": 40, "progress": False}
    for seed in (0, None):
        model = PMvGE(K, random_state=seed, **options)
        model.fit(full_graph(), hold_out=0.2, calibrate=0.2).save(folder / f"{seed} {rank}")
    model = PMvGE(K, random_state=0, **options)
    model.fit(link_share(full_graph(), World(rank, 2)), hold_out=0.2, sharded=True)
    model.save(folder / f"shard {rank}")


def fit_with_checkpoints(folder: Path) -> None:
    """Fit with checkpoints, and write the process id, which a test uses to kill the process."""
    model = PMvGE(
        K, max_steps=400, checkpoint_dir=folder / "checkpoint", checkpoint_steps=50,
        checkpoint_seconds=None, random_state=0, progress=False, patience=None,
    )  # fmt: skip
    (folder / f"pid {os.environ['RANK']} {os.environ['TORCHELASTIC_RESTART_COUNT']}").write_text(
        str(os.getpid())
    )
    model.fit(full_graph())
    if os.environ["RANK"] == "0":
        model.save(folder / "model")


def fit_and_leave(folder: Path) -> None:
    """Write the number of the process group's threads, after a fit and after leaving the group."""
    rank = os.environ["RANK"]
    PMvGE(K, max_steps=5, progress=False).fit(full_graph())
    during = count_group_threads()
    leave_process_group()
    (folder / rank).write_text(f"{during} {count_group_threads()}")


def count_group_threads() -> int:
    names = (path.read_text() for path in Path("/proc/self/task").glob("*/comm"))
    return sum("gloo" in name for name in names)


def fit_another_graph(folder: Path) -> None:
    try:
        PMvGE(K, max_steps=5, progress=False).fit(shard(int(os.environ["RANK"])))
    except PmvgeError as error:
        (folder / os.environ["RANK"]).write_text(str(error))


def fit_more_processes(folder: Path) -> None:
    """Resume, in two processes, a run that one process has started."""
    model = model_for_resume(folder, 80).fit(full_graph(), resume=True)
    first, last = model.history_[0], model.history_[-1]
    (folder / os.environ["RANK"]).write_text(f"{first.seconds!r} {last.step}")


def model_for_resume(folder: Path, max_steps: int) -> PMvGE:
    """A model whose batches, twice as large, would make the lazy weight an ordinary one."""
    settings = {"batch_size": 100, "random_state": 0, "progress": False, "patience": None}
    return PMvGE(K, max_steps=max_steps, checkpoint_dir=folder / "checkpoint", **settings)


TASKS: dict[str, Callable[[Path], None]] = {
    f.__name__: f
    for f in (
        send_gradients, send_densities, train_lazy_rows, fit_shards, fit_with_checkpoints,
        fit_and_leave, fit_another_graph, fit_more_processes, fit_effects, fit_held_out,
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
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


# -- tests ----------------------------------------------------------------------------------


def test_gradients_equal_the_average_over_the_same_blocks_in_one_process(tmp_path):
    run_task(send_gradients, tmp_path)
    graph = full_graph()
    network = build_network(graph)
    loss, gather = EncodedLoss(network, BlockObjective(graph), CPU), row_gatherer(graph, CPU)
    streams = []
    for rank in range(2):
        share = link_share(graph, World(rank, 2))
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
            rows, row_gradient = found.pop("lazy 0 rows", None), found.pop("lazy 0", None)
            if rows is not None:
                (name,) = (n for n, p in network.named_parameters() if p.shape == (10_000, K))
                found[name] = torch.zeros(10_000, K).index_add_(0, rows, row_gradient)
            assert {n for n, g in expected.items() if g.any()} <= set(found) <= set(expected)
            for name, gradient in found.items():
                scale = float(expected[name].abs().max())
                assert torch.allclose(gradient, expected[name], rtol=1e-5, atol=1e-5 * scale), name
    assert len(used) == 3  # each view pair leaves an encoder out


def test_lazily_updated_rows_are_the_same_in_all_processes(tmp_path):
    run_task(train_lazy_rows, tmp_path)
    first, second = (load_file(tmp_path / f"rank {rank}") for rank in range(2))
    for name, weights in first.items():
        assert torch.equal(weights, second[name]), name


def entries(links):
    return list(zip(links.rows, links.cols, links.weights, strict=True))


def test_link_shares_partition_the_links():
    graph = full_graph()
    shares = [link_share(graph, World(rank, 3)) for rank in range(3)]
    for pair, links in graph.links.items():
        every = [entry for share in shares for entry in entries(share.links[pair])]
        assert sorted(every) == entries(links)
    assert max(s.n_links for s in shares) - min(s.n_links for s in shares) <= 1
    with pytest.raises(PmvgeError, match="cannot be shared by 9999 processes"):
        link_share(graph, World(0, 9999))


def test_densities_are_computed_from_the_own_shard(tmp_path):
    run_task(send_densities, tmp_path)
    for rank in range(2):
        found = load_file(tmp_path / f"rank {rank}")
        links = shard(rank).links["image", "tag"]
        n = links.shape[0]
        degree = np.zeros(n)
        for i, w in zip(links.rows, links.weights, strict=True):
            degree[i] += w
        entities = found["entities"].numpy()
        expected = -np.log(B * degree[entities] / links.weights.sum() + U / n)
        np.testing.assert_allclose(found["log_weight"], expected, rtol=1e-5)


def test_a_sharded_fit_has_all_entities_and_the_total_weight(tmp_path):
    run_task(fit_shards, tmp_path)
    first, second = (PMvGE.load(tmp_path / f"model {rank}") for rank in range(2))
    np.testing.assert_array_equal(first.ids_["image"], [*range(60), *range(100, 180)])
    for view, Y in first.embeddings_.items():
        np.testing.assert_array_equal(Y, second.embeddings_[view])
    for rank in range(2):
        graph = shard(rank)
        position = np.searchsorted(first.ids_["image"], graph.ids["image"])
        again = first.embed("image", graph.views["image"])
        np.testing.assert_allclose(first.embeddings_["image"][position], again, atol=1e-6)
    query = first.vectors("image", among="tag").astype(float)  # tags have biases
    g = query @ first.vectors("tag", among="image", side="candidate").astype(float).T
    weight = sum(shard(rank).total_weight for rank in range(2))
    assert first.alpha_[0, 1] == pytest.approx(weight / np.exp(g).sum())


def test_effects_are_the_same_in_all_processes(tmp_path):
    run_task(fit_effects, tmp_path)
    for kind in ("same", "shard"):
        first, second = (PMvGE.load(tmp_path / f"{kind} {rank}") for rank in range(2))
        for (a, b), log_alpha in first.log_alpha_.items():
            assert second.log_alpha_[a, b] == log_alpha
            for view, other in ((a, b), (b, a)):
                Y = first.vectors(view, among=other)
                np.testing.assert_array_equal(Y, second.vectors(view, among=other))
        views = [model.describe()["views"] for model in (first, second)]
        priors = [{v: facts[v]["effects"]["sigma"] for v in facts} for facts in views]
        assert priors[0] == priors[1]
        linked = np.zeros(10_000, bool)
        linked[full_graph().links["free", "dense"].rows] = True
        norms = np.linalg.norm(first.embeddings_["free"], axis=1)
        assert (norms[linked] > 0).all()
        assert (norms[~linked] == 0).all()
    for rank in range(2):
        assert "'image': expected the same entities" in (tmp_path / f"refused {rank}").read_text()


def test_held_out_links_and_factors_are_the_same_in_all_processes(tmp_path):
    run_task(fit_held_out, tmp_path)
    alone = PMvGE(K, max_steps=1, random_state=0, progress=False).fit(full_graph(), hold_out=0.2)
    for kind in ("0", "None", "shard"):
        first, second = (PMvGE.load(tmp_path / f"{kind} {rank}") for rank in range(2))
        for view, Y in first.embeddings_.items():
            np.testing.assert_array_equal(Y, second.embeddings_[view])
        factors = [model.describe()["calibrated"] for model in (first, second)]
        assert factors[0] == factors[1]
        found = factors[0]["dense,sparse"]["new-known"]
        assert (found is not None) == (kind != "shard")
        assert first.history_[-1].validation is not None
        if kind == "shard":  # no process has all links
            assert first.links_ is None
            continue
        for pair, held in alone.links_.held_out.items():
            ends = [
                np.stack([model.links_.held_out[pair].rows, model.links_.held_out[pair].cols])
                for model in (first, second)
            ]
            np.testing.assert_array_equal(*ends)
            assert ends[0].shape[1] == len(held)
            if kind == "0":
                np.testing.assert_array_equal(ends[0], np.stack([held.rows, held.cols]))
        assert first.evaluate()["overall"] == second.evaluate()["overall"]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc/self/task")
def test_no_thread_is_left_after_leaving_the_process_group(tmp_path):
    """A thread that is still running at interpreter shutdown can abort the process."""
    run_task(fit_and_leave, tmp_path)
    for rank in "01":
        during, after = map(int, (tmp_path / rank).read_text().split())
        assert during > 0
        assert after == 0


def test_a_run_restarted_after_a_kill_gives_the_same_model(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    for folder in (undisturbed, killed):
        folder.mkdir()
    run_task(fit_with_checkpoints, undisturbed)
    process = torchrun(__file__, "fit_with_checkpoints", str(killed), restarts=2)
    deadline = time.monotonic() + 180
    while not (killed / "checkpoint" / "checkpoint.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(int((killed / "pid 1 0").read_text()), signal.SIGKILL)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert (killed / "pid 1 1").exists()  # the process was restarted
    expected, resumed = PMvGE.load(undisturbed / "model"), PMvGE.load(killed / "model")
    assert resumed.history_[-1].step == 400
    graph = full_graph()
    assert resumed.log_likelihood(graph) == pytest.approx(expected.log_likelihood(graph), rel=1e-6)


def write_tables(folder: Path, files: int) -> Path:
    """Write a project whose links are in several files; return the path of its pmvge.toml."""
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


@pytest.mark.parametrize("options", [[], ["--sharded"]], ids=["same graph", "sharded"])
def test_pmvge_fit_in_several_processes_prints_one_result(tmp_path, options):
    project = write_tables(tmp_path, files=4)
    output = tmp_path / "model"
    process = torchrun("-m", "pmvge", "fit", str(project), "-o", str(output), "--json", *options)
    output_text, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert json.loads(output_text)["model"] == str(output)
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
    with pytest.raises(PmvgeError, match=r"view films: .* do not have all ids"):
        share_links(named, 0, 3)
    table = LinkTable({"user": ["u01"], "film": ["f01"]}, ("user", "film"))
    with pytest.raises(PmvgeError, match="expected files, named by a glob, to share"):
        share_links(replace(project, links={("users", "films"): table}), 0, 3)


def test_graphs_that_differ_are_refused_unless_they_are_shards(tmp_path):
    run_task(fit_another_graph, tmp_path)
    for rank in range(2):
        assert "sharded=True" in (tmp_path / str(rank)).read_text()


def test_a_run_resumes_with_another_number_of_processes(tmp_path):
    model = model_for_resume(tmp_path, 40).fit(full_graph())
    run_task(fit_more_processes, tmp_path)
    for rank in range(2):  # equal seconds: the record is that of the first run
        assert (tmp_path / str(rank)).read_text() == f"{model.history_[0].seconds!r} 80"


class FakeWorld(World):
    """A world of two processes, of which the other sends fixed bytes."""

    def __init__(self, received: bytes) -> None:
        super().__init__(0, 2)
        object.__setattr__(self, "received", received)

    def gather(self, content: bytes) -> list[bytes]:
        object.__setattr__(self, "sent", content)
        return [content, self.received]

    def any(self, flag: bool) -> bool:
        return flag


def test_schemes_and_graphs_unfit_for_several_processes_are_refused():
    graph = full_graph()
    with pytest.raises(PmvgeError, match="'paper' trains in one process, but 2 were started"):
        check_shards(FakeWorld(b""), graph, "paper", False)
    with pytest.raises(PmvgeError, match="differ in their views or observed pairs"):
        check_shards(FakeWorld(b""), graph, "block", True)
    assert check_shards(World(), graph, "paper", False) is SINGLE_PROCESS


def test_ids_given_in_one_process_only_are_refused():
    graph = full_graph()
    parts = (graph.sizes, graph.views, graph.ids, graph.links)
    worlds = []
    for given_ids in ([], ["free"]):
        worlds.append(FakeWorld(b""))
        with pytest.raises(PmvgeError, match="ids for the same ones"):
            check_shards(
                worlds[-1], MultiViewGraph.trusted(*parts, given_ids=given_ids), "block", True
            )
    assert worlds[0].sent != worlds[1].sent


if __name__ == "__main__":
    TASKS[sys.argv[1]](Path(sys.argv[2]))
