"""Published data sets, word vectors, recipes and results of experiments."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

import numpy as np

from fuzzing.target import Target, check_finite
from fuzzing.targets.tables import check_graph
from pmvge.datasets import load_attributes, load_cora, load_images, load_vectors
from pmvge.datasets.awa import load_awa2
from pmvge.experiments import make, missing_jobs
from pmvge.experiments import recipe as recipes
from pmvge.experiments.result_cache import cached
from pmvge.experiments.runs import read_results

CONTENT = "31\t0\t1\t0\tTheory\n7\t1\t1\t0\tRules\n12\t0\t0\t1\tTheory\n9\t1\t0\t0\tRules\n"
CITES = "31\t7\n7\t12\n12\t9\n31\t12\n99\t7\n"
LEVEL = {
    "classes.txt": "     1\tantelope\n     2\tgrizzly+bear\n",
    "predicates.txt": "1\tblack\n2\tbig\n3\tfast\n",
    "predicate-matrix-binary.txt": "0 0 1\n1 1 0\n",
    "predicate-matrix-continuous.txt": "  -1.00   12.5 80\n39.25 1.39  0.00\n",
}
CLASSES = ("antelope", "grizzly+bear")
RESNET = {
    "Features/ResNet101/AwA2-features.txt": "0.5 1 2 3\n4 5.5 6 7\n1 1 0 2\n8 9 10 11\n",
    "Features/ResNet101/AwA2-labels.txt": "2\n1\n2\n1\n",
    "Features/ResNet101/AwA2-filenames.txt": "a.jpg\nb.jpg\nc.jpg\nd.jpg\n",
}
GLOVE = "the 0.1 0.2 0.3\ngrizzly 1 2 3\n. . . 0.5 0.5 0.5\nbear -1e-3 0 1.5\nfast 1 1 1\n"
RECIPE = """title = "Locality"
experiment = "locality"
summary = "Vectors of linked nodes."
repetitions = 2
seed = 3
trials = 2
simulated = true
notes = ["as published"]

[options]

[[methods]]
label = "PMvGE"
method = "pmvge"
settings = { n_components = 10, tau = "none" }
search = { learning_rate = [0.001, 0.01] }
paper = { accuracy = [74.8, 1.5], nmi = [35.9, 2] }
"""


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def make_cora(folder: Path) -> None:
    _write(folder, {"cora.content": CONTENT, "cora.cites": CITES})


def make_awa(folder: Path) -> None:
    decaf = {
        f"awa/Features/decaf/{name}/{i}.txt": f"{i}.5 1\n3 4e0\n"
        for name in CLASSES
        for i in range(2)
    }
    _write(folder, {f"awa/{name}": text for name, text in (LEVEL | RESNET).items()} | decaf)


def make_glove(folder: Path) -> None:
    _write(folder, {"glove.txt": GLOVE, "word2vec.txt": f"5 3\n{GLOVE}"})


def make_recipe(folder: Path) -> None:
    packaged = resources.files("pmvge.experiments") / "recipes" / "cora-a.toml"
    _write(folder, {"own.toml": RECIPE, "cora.toml": packaged.read_text(encoding="utf-8")})


def make_results(folder: Path) -> None:
    """Write results of jobs, and a cached archive of arrays."""
    experiment = make(recipes.load_recipe("figure2"), None, None)
    job = experiment.jobs()[0]
    result = {"job": [job.row, job.column], "fingerprint": experiment.fingerprint(job)}
    result |= {"made_with": {"versions": {}}, "seconds": 1.5, "result": {"x": [1, 2]}}
    _write(folder, {f"jobs/{job.row}-{job.column}.json": json.dumps(result)})
    cached(folder / "fits", ["of"], lambda: {"y": np.ones((2, 3), np.float32)})


# -- readers ------------------------------------------------------------------------------------


def read_cora(folder: Path, output: Path) -> None:
    cora = load_cora(folder)
    check_graph(cora.graph)
    assert len(cora.labels) == cora.graph.sizes["paper"]
    assert 0 <= cora.labels.min() <= cora.labels.max() < len(cora.classes)


def read_awa(folder: Path, output: Path) -> None:
    level = load_attributes(folder)
    assert level.binary.shape == level.strength.shape
    assert level.binary.shape == (len(level.classes), len(level.attributes))
    assert set(np.unique(level.binary).tolist()) <= {0, 1}
    for kind in ("awa1", "awa2"):
        for per_class in (None, 1):
            images = load_images(kind, CLASSES, folder, per_class=per_class, columns=4)
            check_finite(images.features)
            assert images.features.shape == (len(images.labels), 4)
            assert len(images.names) == len(images.labels)


def read_awa2(folder: Path, output: Path) -> None:
    """Read through the registry, which requires the published number of columns."""
    table = folder / "awa" / "Features/ResNet101/AwA2-features.txt"
    lines = [line + b" 0" * 2044 for line in table.read_bytes().split(b"\n") if line]
    copied = output / "awa2"
    for path in (folder / "awa").rglob("*.txt"):
        copy = copied / path.relative_to(folder / "awa")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (copied / "Features/ResNet101/AwA2-features.txt").write_bytes(b"\n".join(lines) + b"\n")
    check_graph(load_awa2(copied))


def read_glove(folder: Path, output: Path) -> None:
    for name in ("glove.txt", "word2vec.txt"):
        found = load_vectors(folder / name, ["the", "grizzly+bear", "fast"])
        check_finite(found)
        assert found.shape[0] == 3
        assert found.shape[1] > 0


def read_recipe(folder: Path, output: Path) -> None:
    for name in ("own", "cora"):
        text = (folder / f"{name}.toml").read_bytes().decode(errors="replace")
        recipe = recipes.parse(name, text)
        assert recipe.repetitions >= 1
        assert all(isinstance(note, str) for note in recipe.notes)
        assert [recipe.entry(entry.label) for entry in recipe.methods] == [*recipe.methods]
        make(recipe, None, output).recipe.fingerprint(recipe.options)


def read_cached(folder: Path, output: Path) -> None:
    """Damaged results are computed again; no input is refused."""
    experiment = make(recipes.load_recipe("figure2"), None, None)
    done = read_results(experiment, folder)
    assert len(missing_jobs(experiment, folder)) + len(done) == len(experiment.jobs())
    for path in folder.glob("fits/*"):
        (output / path.name).write_bytes(path.read_bytes())
    arrays, seconds = cached(output, ["of"], lambda: {"y": np.ones((2, 3), np.float32)})
    assert "y" in arrays
    check_finite(seconds)


TARGETS = [
    Target("cora", make_cora, read_cora, share=1.5),
    Target("awa", make_awa, read_awa, share=1.5),
    Target("awa2 graph", make_awa, read_awa2, ("awa/*.txt", "*ResNet*"), share=0.5),
    Target("word vectors", make_glove, read_glove, share=1.5),
    Target("recipes", make_recipe, read_recipe, share=1.5),
    Target("cached results", make_results, read_cached, as_json=("*.json",), share=0.5),
]
