"""Run an experiment: jobs one by one or in processes, each result kept as soon as it is there.

A folder per experiment: ``jobs/<key>.json`` for every job done, ``results.json`` with all of them,
``table.md`` and ``index.html``. A run that is started again does what is missing. The file of a job
names the fingerprint of its recipe: results of another recipe are not used.
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
from pmvge.experiments.attributes import AttributeRanking
from pmvge.experiments.base import Experiment, Job, Result
from pmvge.experiments.cdmca import WeakSignals
from pmvge.experiments.citation import Citation
from pmvge.experiments.classifier import Classifier
from pmvge.experiments.comparison import Comparison
from pmvge.experiments.consistency import Consistency
from pmvge.experiments.figure2 import Figure2
from pmvge.experiments.locality import Locality
from pmvge.experiments.recipe import Recipe
from pmvge.experiments.sbm import Blocks
from pmvge.storage import replace_file

EXPERIMENTS: dict[str, type[Experiment]] = {
    "citation": Citation,
    "attributes": AttributeRanking,
    "locality": Locality,
    "figure2": Figure2,
    "consistency": Consistency,
    "cdmca": WeakSignals,
    "sbm": Blocks,
    "classifier": Classifier,
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# As the paper has them.
ORDER = (
    "cora-a", "cora-b", "cora-ablation", "awa-a", "awa-b", "awa-sim", "locality",
    "figure2", "consistency", "cdmca", "sbm", "classifier",
)  # fmt: skip
LIBRARIES = ("pmvge", "torch", "numpy", "scipy", "scikit-learn", "gensim", "cca-zoo", "optuna")
Told = Callable[[Job, float], None]  # a job is done, after so many seconds


def make(recipe: Recipe, data: Path | None, workspace: Path | None) -> Experiment:
    """The experiment of a recipe."""
    kind = choose("experiment", recipe.experiment, EXPERIMENTS, f"recipe {recipe.name!r}")
    return EXPERIMENTS[kind](recipe, data, workspace)


def missing_jobs(experiment: Experiment, folder: Path) -> list[Job]:
    """What is still to be done."""
    done = read_results(experiment, folder)
    return [job for job in experiment.jobs() if job not in done]


def run(
    experiment: Experiment, folder: Path, *, processes: int = 1, told: Told = lambda job, s: None
) -> None:
    """Do all jobs that are missing; a result is on disk before the next one is begun."""
    missing, by = missing_jobs(experiment, folder), made_with()
    for job, result, seconds in _results(experiment, missing, processes):
        content = {
            "job": [job.row, job.column],
            "fingerprint": experiment.fingerprint(job),
            "made_with": by,
            "seconds": seconds,
            "result": result,
        }
        _write_json(_path(folder, job), content)
        told(job, seconds)


def _results(
    experiment: Experiment, jobs: Sequence[Job], processes: int
) -> Iterator[tuple[Job, Result, float]]:
    if processes == 1 or len(jobs) < 2:
        for job in jobs:
            yield (job, *_timed(experiment, job))
        return
    threads = max(1, (os.cpu_count() or 1) // processes)
    context = multiprocessing.get_context("spawn")  # a fork would share torch's threads
    with (
        _thread_limits(threads),
        ProcessPoolExecutor(
            processes, mp_context=context, initializer=_begin, initargs=(experiment, threads)
        ) as pool,
    ):
        futures = {pool.submit(_in_process, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield (futures[future], *future.result())
        except BaseException:  # Ctrl-C as well: what is running now would be lost anyway
            for process in list(pool._processes.values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _thread_limits(threads: int) -> Iterator[None]:
    """Processes that start meanwhile use so many threads: more than there are cores fight for them.

    Libraries of linear algebra read these variables once, when they are loaded.
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


_experiment: Experiment | None = None  # of a process of the pool


def _begin(experiment: Experiment, threads: int) -> None:
    global _experiment
    _experiment = experiment
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which ends this process
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
    """The results that are there, in the order of the jobs; those of another recipe are not."""
    return {job: content["result"] for job, content in read_jobs(experiment, folder).items()}


def read_jobs(experiment: Experiment, folder: Path) -> dict[Job, dict[str, Any]]:
    """The same, with what each was made by and how long it took."""
    found = {}
    for job in experiment.jobs():
        try:
            content = json.loads(_path(folder, job).read_text())
            whole = (
                content["fingerprint"] == experiment.fingerprint(job)
                and content["job"] == [job.row, job.column]
                and "versions" in content["made_with"]
                and content["seconds"] >= 0
                and experiment.is_result(content["result"])
            )
            if whole:
                found[job] = content
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue  # not there, or damaged: to be done again
    return found


def write_results(experiment: Experiment, folder: Path) -> None:
    """All results in one file, with what they were made by, and the settings that were chosen."""
    recipe, jobs = experiment.recipe, read_jobs(experiment, folder)
    if isinstance(experiment, Comparison):
        results = {job: content["result"] for job, content in jobs.items()}
        _write_json(folder / "tuned.json", {"settings": experiment.found(results)})
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
    """Versions and machine."""
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
