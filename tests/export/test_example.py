"""The example of the export page, without pmvge, against ``embed``."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pmvge import PMvGE
from pmvge.export import export_onnx
from pmvge.tables import Feature, LinkTable, Project, ViewTable, read_rows, read_tables

pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "export.md"
COLUMNS = ("id", "size", "born", "kind", "tags", "text", "place")
KINDS = {
    "size": "numeric",
    "born": "date",
    "kind": Feature("category", size=2),
    "tags": Feature("categories", separator="|"),
    "place": "vector",
}
RUN = """
import sys
from pathlib import Path
sys.modules["pmvge"] = sys.modules["torch"] = None  # importing them raises
{code}
view = json.loads(Path("export/recipe.json").read_text(encoding="utf-8"))["views"]["things"]
rows = json.loads(Path("rows.json").read_text())
print(json.dumps([embed(view, row, "vector")[0][0].tolist() for row in rows]))
"""


def rows(seed: int, n: int) -> list[dict[str, object]]:
    """Return raw rows of every kind of column, some with missing cells."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        row = {
            "id": f"t{seed}-{i}",
            "size": float(rng.normal(5, 2)),
            "born": f"20{rng.integers(10, 30)}-0{rng.integers(1, 9)}-17",
            "kind": str(rng.choice(["a", "b", "c", "d"])),
            "tags": " | ".join(rng.choice(["x", "y y", "z"], 2)),
            "text": " ".join(rng.choice(["One", "two,", "three", "été", "東京タワー"], 5)),
            "place": rng.normal(size=3).tolist(),
        }
        for column in COLUMNS[1:]:
            if i and rng.random() < 0.2:
                row[column] = None
        found.append(row)
    return found


def write(path: Path, table: list[dict[str, object]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(table)
    return path.name


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        Feature("text"),
        Feature("text", hashed=True, size=64),
        Feature("text", ngrams=(1, 3)),
        Feature("text", hashed=True, size=128, ngrams=(2, 2)),
    ],
    ids=["words", "hashed words", "n-grams", "hashed n-grams"],
)
def test_the_example_embeds_raw_rows_of_every_kind(tmp_path: Path, text: Feature) -> None:
    things = write(tmp_path / "things.csv", rows(0, 40))
    (tmp_path / "links.csv").write_text("a,b\n" + "".join(f"t0-{i},l{i % 5}\n" for i in range(40)))
    project = Project(
        {"things": ViewTable(things, "id", {**KINDS, "text": text}), "likes": ViewTable()},
        {("things", "likes"): LinkTable("links.csv", ("a", "b"))},
        {},
        tmp_path,
    )
    tables = read_tables(project)
    model = PMvGE(4, max_steps=20, random_state=0, progress=False).fit(tables.graph)
    export_onnx(model, tmp_path / "export")
    new = rows(1, 25)
    (tmp_path / "rows.json").write_text(json.dumps(new))
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code = blocks[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    if text != Feature("text"):
        (other,) = (block for block in blocks[1:] if "def words" in block)
        code += other
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(code=code)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    write(tmp_path / "new.csv", new)
    ((ids, X),) = read_rows(model.tables_, "things", str(tmp_path / "new.csv"))
    assert ids.tolist() == [row["id"] for row in new]
    np.testing.assert_allclose(json.loads(done.stdout), model.embed("things", X), atol=1e-5)
