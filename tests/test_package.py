"""The wheel works in an environment with its declared dependencies only.

Downloading every dependency would take minutes. Instead, the distributions that the wheel requires,
directly or not, are linked from the environment that runs the tests. Undeclared dependencies and
the checkout are not importable there.
"""

import ast
import os
import re
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, PathDistribution, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow  # building and installing a wheel
SOURCE = ROOT / "src" / "pmvge"


class Environment:
    """A new virtual environment, with an empty working folder for commands."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "env", symlinks=True, with_pip=False)
        self.bin = folder / "env" / "bin"
        (self.site,) = (folder / "env").glob("lib/python*/site-packages")
        self.work = folder / "work"
        self.work.mkdir()

    def run(self, program: str, *arguments: str) -> str:
        return run(self.bin / program, *arguments, cwd=self.work)


def run(*command: str | Path, cwd: Path) -> str:
    """Return the standard output of a command, run without the PYTHON and PIP variables."""
    settings = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=settings | {"PYTHONNOUSERSITE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def required(dist: Distribution, extras: frozenset[str] = frozenset()) -> list[Requirement]:
    """Return what a distribution requires on this platform with these extras."""
    requirements = [Requirement(text) for text in dist.requires or []]
    return [
        requirement
        for requirement in requirements
        if requirement.marker is None
        or any(requirement.marker.evaluate({"extra": extra}) for extra in extras | {""})
    ]


def closure(dist: Distribution) -> list[Distribution]:
    """Return the installed distributions that `dist` requires, directly or not."""
    seen: set[tuple[str, frozenset[str]]] = set()
    found: dict[str, Distribution] = {}
    pending = required(dist)
    while pending:
        requirement = pending.pop()
        key = normalized(requirement.name), frozenset(requirement.extras)
        if key not in seen:
            seen.add(key)
            found[key[0]] = distribution(requirement.name)
            pending += required(found[key[0]], key[1])
    return list(found.values())


def link(dist: Distribution, site: Path) -> None:
    """Make an installed distribution importable from another site-packages folder."""
    assert dist.files is not None, f"{dist.name} has no list of files"
    for top in {file.parts[0] for file in dist.files} - {"..", "__pycache__"}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(dist.locate_file(top))))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation"]
    run(*build, "--outdir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("pmvge-*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    env = Environment(tmp_path_factory.mktemp("empty"))
    pip = [sys.executable, "-m", "pip", "--python", str(env.bin / "python")]
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=env.work)
    for dist in closure(installed(env)):
        link(dist, env.site)
    run(*pip, "check", cwd=env.work)
    return env


def installed(env: Environment) -> Distribution:
    (info,) = env.site.glob("pmvge-*.dist-info")
    return PathDistribution(info)


def test_wheel_holds_every_source_file(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("pmvge/")}
    sources = {
        path.relative_to(SOURCE.parent).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert packed == sources
    assert "pmvge/py.typed" in packed


def test_the_checkout_is_not_importable(environment: Environment) -> None:
    code = "import pmvge, sys; print(pmvge.__file__, *sys.path, sep='\\n')"
    origin, *search_path = environment.run("python", "-c", code).splitlines()
    assert Path(origin).is_relative_to(environment.site)
    assert not [entry for entry in search_path if Path(entry).is_relative_to(ROOT)]


def test_demo_runs(environment: Environment) -> None:
    assert "digits" in environment.run("python", "-m", "pmvge", "demo")


def test_command_is_installed(environment: Environment) -> None:
    assert "demo" in environment.run("pmvge", "--help")


def test_every_import_is_declared(environment: Environment) -> None:
    """Checked for all source files, with the extras for users."""
    wheel = installed(environment)
    extras = frozenset(wheel.metadata.get_all("Provides-Extra", [])) - {"bench", "dev", "docs"}
    declared = {normalized(item.name) for item in required(wheel, extras)}
    providers = packages_distributions()
    undeclared = {
        (name, path.name)
        for path in (environment.site / "pmvge").rglob("*.py")
        for name in imported(path) - sys.stdlib_module_names - {"pmvge"}
        if declared.isdisjoint(normalized(provider) for provider in providers.get(name, [name]))
    }
    assert not undeclared


def imported(path: Path) -> set[str]:
    """Return the top-level names of all modules that a source file imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}
