"""What the documents say is so: their code runs, and the tests and files they name exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_python_of_the_readme_runs(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "History:" in done.stdout


def test_every_test_that_the_paper_page_names_exists():
    text = (ROOT / "docs/paper.md").read_text()
    file = None
    names = re.findall(r"`(test_\w+\.py)?(?:::)?(test_\w+)?`", text)
    named = [(a, b) for a, b in names if a or b]
    assert len(named) > 20
    for path, test in named:
        file = path or file
        source = (ROOT / "tests" / str(file)).read_text()
        assert not test or f"def {test}(" in source, (file, test)


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))])
def test_links_between_documents_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_architecture_names_every_module():
    text = (ROOT / "docs/architecture.md").read_text()
    for path in (ROOT / "src/pmvge").iterdir():
        if path.stem.startswith("_") or path.name in ("py.typed", "version.py"):
            continue
        name = f"{path.name}/" if path.is_dir() else path.stem
        assert f"`{name}`" in text, name
