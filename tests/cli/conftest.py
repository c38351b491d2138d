"""Small tables, models fitted to them, and fixtures that run a command."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from pmvge import PMvGE
from pmvge.cli import main as run_main
from pmvge.cli.app import app
from pmvge.examples import write_films

QUICK = ("--set", "max_steps=20", "--set", "n_components=8")
# The scores of these models are inner products of their vectors alone.
VECTORS = (*QUICK, "--set", 'effects="none"', "--set", "similarity=cosine")
VECTORS += ("--set", "schedule=constant")


@dataclass(frozen=True)
class Printed:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


def invoke(*arguments: object, code: int = 0) -> Printed:
    """Run a command in this process; its errors are raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return Printed(result.exit_code, result.stdout, result.stderr)


@pytest.fixture(scope="session")
def run() -> Callable[..., Printed]:
    return invoke


@pytest.fixture
def main(monkeypatch, capsys) -> Callable[..., Printed]:
    """Run ``main()`` in this process: errors become a line and an exit code."""

    def call(*arguments: object) -> Printed:
        monkeypatch.setattr(sys, "argv", ["pmvge", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            run_main()
        return Printed(int(end.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def refused(main) -> Callable[..., str]:
    """Run ``main()`` on bad input; return the error, one line on the error stream after notes."""

    def call(*arguments: object) -> str:
        printed = main(*arguments)
        assert printed.code == 2, printed
        lines = [line for line in printed.err.splitlines() if not line.startswith("note: ")]
        assert len(lines) == 1, printed.err
        assert lines[0].startswith("pmvge: "), printed.err
        return lines[0].removeprefix("pmvge: ")

    return call


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def shell() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``python -m pmvge`` in a new process."""

    def call(*arguments: object, before: str = "", cwd: Path | None = None) -> Any:
        start = f"{before}\nfrom pmvge.cli import main\nmain()"
        command = [sys.executable, "-c", start] if before else [sys.executable, "-m", "pmvge"]
        return subprocess.run(
            [*command, *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment(),
            cwd=cwd,
            timeout=300,
            check=False,
        )

    return call


@pytest.fixture(scope="session")
def environ() -> dict[str, str]:
    return environment()


def write(path: Path, columns: Sequence[str], rows: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(rows)
    return path


@pytest.fixture(scope="session")
def table() -> Callable[..., Path]:
    """Write a CSV file."""
    return write


@pytest.fixture(scope="session")
def read() -> Callable[[Path], list[dict[str, str]]]:
    """Read the rows of a CSV file with Python's reader."""

    def rows(path: Path) -> list[dict[str, str]]:
        with path.open(newline="") as stream:
            return list(csv.DictReader(stream))

    return rows


# -- users, films, genres ----------------------------------------------------------------------


@pytest.fixture(scope="session")
def films(tmp_path_factory) -> Path:
    """The practice tables, small: 100 users, 60 films, and a pmvge.toml by init."""
    folder = tmp_path_factory.mktemp("films")
    write_films(folder, ratings=1200)
    invoke("init", folder)
    return folder


@pytest.fixture
def tables(films, tmp_path) -> Path:
    """A copy of the tables that a test may change."""
    return Path(shutil.copytree(films, tmp_path / "tables"))


@pytest.fixture(scope="session")
def model(films, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fitted") / "model"
    invoke("fit", films / "pmvge.toml", "-o", folder, *VECTORS)
    return folder


@pytest.fixture
def own_model(model, tmp_path) -> Path:
    """A copy of the model that a test may overwrite."""
    return Path(shutil.copytree(model, tmp_path / "model"))


@pytest.fixture(scope="session")
def truth(films, model, read) -> Truth:
    """The model's numbers computed from its vectors and the raw tables."""
    return Truth(PMvGE.load(model), read(films / "ratings.csv"))


class Truth:
    """Dense matrices over users and films: g, expected weights, and weights of the training."""

    def __init__(self, model: PMvGE, ratings: list[dict[str, str]]) -> None:
        self.model = model
        self.users, self.films = (model.ids_[view].tolist() for view in ("users", "films"))
        Y = {view: vectors.astype(np.float64) for view, vectors in model.embeddings_.items()}
        self.g = Y["users"] @ Y["films"].T
        self.W = self.dense(ratings)
        # alpha is the total weight over the sum of exp(g).
        self.alpha = self.W.sum() / np.exp(self.g).sum()
        self.mu = self.alpha * np.exp(self.g)

    def dense(self, rows: list[dict[str, str]]) -> np.ndarray:
        W = np.zeros((len(self.users), len(self.films)))
        for row in rows:
            if row["user_id"] in self.users and row["film_id"] in self.films:
                at = self.users.index(row["user_id"]), self.films.index(row["film_id"])
                W[at] += float(row["stars"])
        return W


# -- papers that cite papers, with integers for ids ---------------------------------------------


@pytest.fixture(scope="session")
def papers(tmp_path_factory) -> Path:
    """50 papers with two numbers each, linked if the first ones are close."""
    folder = tmp_path_factory.mktemp("papers")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2)).round(3)
    ids = 1000 + 7 * np.arange(50)
    near = np.abs(X[:, :1] - X[:, 0]) + 0.3 * rng.random((50, 50)) < 0.4
    cites = [(ids[i], ids[j]) for i, j in zip(*np.nonzero(np.triu(near, 1)), strict=True)]
    rows = [(int(i), *x) for i, x in zip(ids, X.tolist(), strict=True)]
    write(folder / "papers.csv", ("paper_id", "x", "y"), rows)
    write(folder / "cites.csv", ("citing", "cited"), cites[::2] + cites[1::4])
    write(folder / "later" / "held_out.csv", ("citing", "cited"), cites[3::4])
    return folder


@pytest.fixture(scope="session")
def paper_model(papers, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("fitted") / "papers"
    flags = ("--view", f"papers={papers / 'papers.csv'}")
    links = ("--links", f"papers,papers={papers / 'cites.csv'}:columns=citing,cited")
    invoke("fit", *flags, *links, "-o", folder, *VECTORS)
    return folder


@pytest.fixture(scope="session")
def effects_model(films, tmp_path_factory) -> Path:
    """A model of the practice tables whose entities have effects."""
    folder = tmp_path_factory.mktemp("fitted") / "effects"
    flags = ("--set", "effects=vector", "--set", "similarity=inner")
    invoke("fit", films / "pmvge.toml", "-o", folder, *QUICK, *flags)
    return folder
