"""Folders with a manifest: models with their links and labels, and checkpoints.

Most inputs get correct checksums again, so that the code behind the checks is reached.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fuzzing.target import Files, Target, check_finite
from fuzzing.targets.tables import FRIENDS, SEEN, USERS
from pmvge import Embeddings, EncoderSpec, MultiViewGraph, PMvGE
from pmvge.errors import PmvgeError, StorageError
from pmvge.graph import hold_out_links
from pmvge.tables import LinkTable, Project, ViewTable, link_pairs, read_tables, rows_of
from pmvge.training import Checkpoints, saved_seed

SETTINGS: dict[str, Any] = {
    "n_components": 3,
    "hidden_sizes": (4,),
    "batch_size": 8,
    "max_steps": 4,
    "random_state": 0,
    "device": "cpu",
    "progress": False,
}
MAX_WEIGHT = 10.0  # with larger weights, vectors of these small models can overflow


@cache
def graph() -> MultiViewGraph:
    rng = np.random.default_rng(0)
    views = {
        "a": rng.normal(size=(8, 3)),
        "s": sparse.random_array((6, 5), density=0.5, format="csr", rng=1),
        "t": 5,
    }
    links: dict[tuple[str, str], Any] = {
        ("a", "t"): (np.arange(8), np.arange(8) % 5, 1.0 + np.arange(8) % 3),
        ("s", "a"): (np.arange(6), np.arange(6)),
        ("a", "a"): ([0, 1, 2], [1, 2, 3]),
    }
    return MultiViewGraph(views, links, {"t": list("abcdü")})


def make_model(folder: Path) -> None:
    kept, held = hold_out_links(graph(), 0.25, np.random.default_rng(1))
    encoder = {"s": EncoderSpec(kind="linear"), "a": "mlp"}
    model = PMvGE(**SETTINGS, encoder=encoder).fit(kept, held)
    labels = {"a": {"colour": list("rgbrgbrg")}}
    model.label(labels).save(folder)


def make_model_of_tables(folder: Path) -> None:
    """Write a model that was fitted to tables, and the tables."""
    for name, text in (("users", USERS), ("seen", SEEN), ("friends", FRIENDS)):
        (folder / f"{name}.csv").write_text(text)
    project = Project(
        {"users": ViewTable("users.csv"), "films": ViewTable()},
        {("users", "films"): LinkTable("seen.csv", ("user", "film"), "times")},
        folder=folder,
    )
    PMvGE(**SETTINGS).fit(read_tables(project).graph).save(folder)


def make_checkpoint(folder: Path) -> None:
    PMvGE(**SETTINGS, checkpoint_dir=folder, checkpoint_steps=2).fit(graph())


def make_embeddings(folder: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(5, 3)).astype(np.float32)
    Embeddings(np.array(list("abcdü")), vectors).save(folder / "words.parquet")
    Embeddings(np.arange(5), vectors).save(folder / "numbers.parquet")


def repair(kind: str) -> Any:
    """Return a function that recomputes the checksums of a manifest, if it can be read."""

    def repair_checksums(files: Files) -> None:
        try:
            manifest = json.loads(files[f"{kind}.json"])
            for entry in manifest["files"].values():
                data = files[entry["name"]]
                entry |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        try:
            manifest = dict(manifest)
            manifest.pop("checksum", None)
            text = json.dumps(manifest, sort_keys=True)
            manifest["checksum"] = hashlib.sha256(text.encode()).hexdigest()
            files[f"{kind}.json"] = json.dumps(manifest).encode()
        except (UnboundLocalError, ValueError, TypeError, RecursionError):
            pass

    return repair_checksums


# -- readers ------------------------------------------------------------------------------------


def check_model(model: PMvGE) -> None:
    """Check that a model can be used: its vectors are finite, and it embeds rows."""
    description = json.dumps(model.describe(), default=str)
    assert description
    assert repr(model)
    rng = np.random.default_rng(0)
    weights = model._fitted.network.state_dict().values()
    moderate = all(float(tensor.abs().max()) < MAX_WEIGHT for tensor in weights)
    for view in model.view_names_:
        vectors = model.embeddings_[view]
        check_finite(vectors)
        assert vectors.dtype == np.float32
        assert len(model.ids_[view]) == len(vectors)
        shape = model._fitted.schemas[view].row_shape
        rows = model.ids_[view] if shape is None else rng.normal(size=(2, *shape))
        vectors = model.embed(view, rows)
        if moderate:
            check_finite(vectors)
    assert not np.isnan(model.alpha_).any()
    for a, b in model.log_alpha_:
        shape = model._fitted.schemas[a].row_shape
        rows = model.ids_[a][:1] if shape is None else rng.normal(size=(1, *shape))
        ids, mu = model.search(a, rows, among=b, k=2)
        assert ids.shape == mu.shape
        assert not (moderate and np.isnan(mu).any())


def load(folder: Path) -> PMvGE:
    """Load a model; any other exception than StorageError fails."""
    try:
        return PMvGE.load(folder)
    except StorageError:
        raise
    except PmvgeError as error:
        raise AssertionError("expected a StorageError") from error


def read_model(folder: Path, output: Path) -> None:
    model = load(folder)
    check_model(model)
    model.save(output / "again")


def read_model_of_tables(folder: Path, output: Path) -> None:
    """Its later tables, too, by what the model says of them."""
    model = load(folder)
    for a, b in link_pairs(model.tables_):
        assert isinstance(a, str)
        assert isinstance(b, str)
    ids, X = rows_of(model.tables_, "users", folder / "users.csv")
    assert len(ids) > 0
    model.embed("users", ids if X is None else X)


def read_links(folder: Path, output: Path) -> None:
    """Read the links and labels of a model, and use the links."""
    model = load(folder)
    links = model.links_
    if links is not None:
        for (a, b), trained in links.training.items():
            for part in (trained, links.held_out.get((a, b))):
                if part is not None and len(part):
                    check_finite(part.weights)
                    assert (np.asarray(part.weights) > 0).all()
                    assert 0 <= part.rows.min() <= part.rows.max() < part.shape[0]
                    assert 0 <= part.cols.min() <= part.cols.max() < part.shape[1]
            assert links.known(b, a) is not None
    for view, columns in model.labels_.items():
        for values in columns.values():
            assert values.dtype.kind == "U"
            assert values.shape == model.ids_[view].shape


def read_embeddings(folder: Path, output: Path) -> None:
    for name in ("words.parquet", "numbers.parquet"):
        found = Embeddings.load(folder / name)
        check_finite(found.vectors)
        assert found.vectors.ndim == 2
        assert len(found.ids) == len(found.vectors)
        assert found.ids.dtype.kind in "iuU"
        if len(found):
            found.nearest(found.vectors[:1], 2)


def read_checkpoint(folder: Path, output: Path) -> None:
    """Read the seed and the content of a checkpoint."""
    saved_seed(folder)
    mark = json.loads(dict(CHECKPOINT.valid)["checkpoint.json"])["fingerprint"]
    Checkpoints(folder, None, None, mark, 0).read()


def resume(folder: Path, output: Path) -> None:
    """Resume training from a copy of a checkpoint, which is overwritten."""
    for path in folder.iterdir():
        (output / path.name).write_bytes(path.read_bytes())
    again = SETTINGS | {"max_steps": 6, "checkpoint_dir": output}
    check_model(PMvGE(**again, checkpoint_steps=2).fit(graph(), resume=True))


MANIFEST = ("model.json",)
CHECKPOINT = Target(
    "checkpoint", make_checkpoint, read_checkpoint, as_json=("*.json",), repair=repair("checkpoint")
)
TARGETS = [
    Target("model raw", make_model, read_model, as_json=MANIFEST, share=0.5),
    Target("model.json", make_model, read_model, MANIFEST, MANIFEST, repair("model"), share=2.0),
    Target("safetensors", make_model, read_model, ("weights*",), repair=repair("model")),
    Target("model vectors", make_model, read_model, ("embeddings*",), repair=repair("model")),
    Target(
        "model tables",
        make_model_of_tables,
        read_model_of_tables,
        MANIFEST,
        MANIFEST,
        repair("model"),
        share=0.5,
    ),
    Target(
        "links",
        make_model,
        read_links,
        ("model.json", "links*", "labels*"),
        MANIFEST,
        repair("model"),
    ),
    Target("embeddings", make_embeddings, read_embeddings),
    CHECKPOINT,
    Target(
        "resume",
        make_checkpoint,
        resume,
        as_json=("*.json",),
        repair=repair("checkpoint"),
        share=0.3,
    ),
]
