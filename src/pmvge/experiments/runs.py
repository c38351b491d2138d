"""Run an experiment: jobs in sequence or in processes, with each result written when it is done.

Each experiment has a folder with ``jobs/<key>.json`` for every job done, ``results.json`` with all
results, ``table.md`` and ``index.html``. A second run does the missing jobs only. The file of a job
has the job's fingerprint: results of another recipe, data set or version are not used.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from pmvge.errors import choose
from pmvge.experiments.base import Experiment, Job, Result
from pmvge.experiments.bipartite.experiment import BipartiteLinks
from pmvge.experiments.comparison import Comparison
from pmvge.experiments.cross_view.experiment import CrossViewRetrieval
from pmvge.experiments.kinds.hierarchy import Hierarchy
from pmvge.experiments.kinds.indefinite import Indefinite
from pmvge.experiments.kinds.outliers import Outliers
from pmvge.experiments.kinds.weights import HeldOutWeights
from pmvge.experiments.microbes.experiment import MicrobesMetabolites
from pmvge.experiments.paper.attributes import AttributeRanking
from pmvge.experiments.paper.cdmca import WeakSignals
from pmvge.experiments.paper.citation import Citation
from pmvge.experiments.paper.classifier import Classifier
from pmvge.experiments.paper.consistency import Consistency
from pmvge.experiments.paper.figure2 import Figure2
from pmvge.experiments.paper.locality import Locality
from pmvge.experiments.paper.sbm import StochasticBlockModel
from pmvge.experiments.recipe import Recipe
from pmvge.experiments.recommender.experiment import Recommendation
from pmvge.storage import replace_file

EXPERIMENTS: dict[str, type[Experiment]] = {
    "citation": Citation,
    "attributes": AttributeRanking,
    "locality": Locality,
    "figure2": Figure2,
    "consistency": Consistency,
    "cdmca": WeakSignals,
    "sbm": StochasticBlockModel,
    "classifier": Classifier,
    "recommender": Recommendation,
    "hierarchy": Hierarchy,
    "indefinite": Indefinite,
    "weights": HeldOutWeights,
    "outliers": Outliers,
    "bipartite": BipartiteLinks,
    "cross-view": CrossViewRetrieval,
    "microbes": MicrobesMetabolites,
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# In the order of the paper.
ORDER = (
    "cora-a", "cora-b", "cora-ablation", "awa-a", "awa-b", "awa-sim", "locality",
    "figure2", "consistency", "cdmca", "sbm", "classifier", "movielens", "lastfm",
    "wordnet", "indefinite", "lastfm-counts", "side-effects", "outliers", "bipartite",
    "microbes", "digits-retrieval",
)  # fmt: skip
LIBRARIES = (
    "pmvge",
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "gensim",
    "cca-zoo",
    "optuna",
    "implicit",
    "lightfm-next",
)
OnJobDone = Callable[[Job, float], None]  # called with the job and its seconds


def make(recipe: Recipe, data: Path | None, workspace: Path | None) -> Experiment:
    """Return the experiment of a recipe.

    ``data`` is the data folder (None: the default), ``workspace`` the folder for unfinished
    searches and cached fits (None: not stored).
    """
    kind = choose("experiment", recipe.experiment, EXPERIMENTS, f"recipe {recipe.name!r}")
    return EXPERIMENTS[kind](recipe, data, workspace)


def missing_jobs(experiment: Experiment, folder: Path) -> list[Job]:
    """Return the jobs without a valid result in the folder."""
    done = read_results(experiment, folder)
    return [job for job in experiment.jobs() if job not in done]


def run(
    experiment: Experiment,
    folder: Path,
    *,
    processes: int = 1,
    on_job_done: OnJobDone = lambda job, seconds: None,
) -> None:
    """Run all missing jobs, write each result when it is done, then call ``on_job_done``."""
    missing, environment = missing_jobs(experiment, folder), made_with()
    for job, result, seconds in _results(experiment, missing, processes):
        content = {
            "job": [job.row, job.column],
            "fingerprint": experiment.fingerprint(job),
            "made_with": environment,
            "seconds": seconds,
            "result": result,
        }
        _write_json(_path(folder, job), content)
        on_job_done(job, seconds)


def _results(
    experiment: Experiment, jobs: Sequence[Job], processes: int
) -> Iterator[tuple[Job, Result, float]]:
    if processes == 1 or len(jobs) < 2:
        for job in jobs:
            yield (job, *_timed(experiment, job))
        return
    threads = max(1, (os.cpu_count() or 1) // processes)
    context = multiprocessing.get_context("spawn")  # fork is not safe with torch's threads
    with (
        _thread_limits(threads),
        ProcessPoolExecutor(
            processes, mp_context=context, initializer=_start_worker, initargs=(experiment, threads)
        ) as pool,
    ):
        futures = {pool.submit(_in_process, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield (futures[future], *future.result())
        except BaseException:  # also Ctrl-C: running jobs have no partial results to wait for
            for process in list(pool._processes.values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _thread_limits(threads: int) -> Iterator[None]:
    """Limit the threads of processes that are started within the context.

    Linear algebra libraries read these environment variables once, when they are loaded. More
    threads than cores would slow all processes down.
    """
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_experiment: Experiment | None = None  # in a process of the pool


def _start_worker(experiment: Experiment, threads: int) -> None:
    global _experiment
    _experiment = experiment
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    torch.set_num_threads(threads)


def _in_process(job: Job) -> tuple[Result, float]:
    assert _experiment is not None
    return _timed(_experiment, job)


def _timed(experiment: Experiment, job: Job) -> tuple[Result, float]:
    started = time.perf_counter()
    result = experiment.run(job)
    return result, time.perf_counter() - started


def _path(folder: Path, job: Job) -> Path:
    return folder / "jobs" / (re.sub(r"[^\w.-]+", "-", job.key) + ".json")


def read_results(experiment: Experiment, folder: Path) -> dict[Job, Result]:
    """Return the valid results in the folder, in the order of the jobs."""
    return {job: content["result"] for job, content in read_jobs(experiment, folder).items()}


def read_jobs(experiment: Experiment, folder: Path) -> dict[Job, dict[str, Any]]:
    """Return the valid job files in the folder: results with versions and seconds.

    Files that are missing, damaged, or have another fingerprint are left out.
    """
    valid_jobs = {}
    for job in experiment.jobs():
        try:
            content = json.loads(_path(folder, job).read_text())
            valid = (
                content["fingerprint"] == experiment.fingerprint(job)
                and content["job"] == [job.row, job.column]
                and "versions" in content["made_with"]
                and content["seconds"] >= 0
                and experiment.is_result(content["result"])
            )
            if valid:
                valid_jobs[job] = content
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue  # missing or damaged
    return valid_jobs


def write_results(experiment: Experiment, folder: Path) -> None:
    """Write ``results.json`` with all results and, for comparisons, the settings chosen."""
    recipe, jobs = experiment.recipe, read_jobs(experiment, folder)
    if isinstance(experiment, Comparison):
        results = {job: content["result"] for job, content in jobs.items()}
        _write_json(folder / "tuned.json", {"settings": experiment.chosen_settings(results)})
    content = {
        "experiment": recipe.name,
        "simulated": recipe.simulated,
        "seed": recipe.seed,
        "jobs": [
            {
                "row": job.row,
                "column": job.column,
                "made_with": content["made_with"],
                "job_seconds": content["seconds"],
                **content["result"],
            }
            for job, content in jobs.items()
        ],
    }
    _write_json(folder / "results.json", content)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    replace_file(path, lambda partial: partial.write_text(text))


def made_with() -> Mapping[str, Any]:
    """Return the versions of libraries, and the system, processor and number of cores."""
    versions = {}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            continue
    return {
        "versions": {**versions, "python": platform.python_version()},
        "system": platform.system(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }
