"""The lists of mutation testing refer to files, functions and lines that exist."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
REASONS = tomllib.loads((Path(__file__).with_name("survivors.toml")).read_text(encoding="utf-8"))
MUTANTS = [mutant for reason in REASONS["reason"] for mutant in reason["mutants"]]


def source_of(name: str) -> str:
    """Return the source of a function or method, such as ``graph.links.Links.degrees``."""
    parts, folder = name.split("."), ROOT / "src" / "pmvge"
    while (folder / parts[0]).is_dir():
        folder = folder / parts.pop(0)
    path = folder / f"{parts.pop(0)}.py"
    assert path.relative_to(ROOT).as_posix() in SETTINGS["only_mutate"]
    text = path.read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in parts:
        node = next(
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.FunctionDef | ast.ClassDef) and child.name == part
        )
    return ast.get_source_segment(text, node) or ""


@pytest.mark.parametrize("key", ["only_mutate", "pytest_add_cli_args_test_selection"])
def test_files_exist(key: str) -> None:
    assert [name for name in SETTINGS[key] if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("mutant", MUTANTS)
def test_survivors_are_changes_of_the_current_source(mutant: str) -> None:
    name, _, change = mutant.partition(": ")
    before, _, after = change.partition(" => ")
    assert before != after
    assert before in " ".join(source_of(name).split())
