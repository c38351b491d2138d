"""Readers of files that hold arbitrary bytes, cells or JSON values."""

from __future__ import annotations

import csv
import io
import json

import pytest
from fuzzing.outcome import run_case
from fuzzing.target import Case
from fuzzing.targets import TARGETS
from hypothesis import given, settings
from hypothesis import strategies as st

EXAMPLES = 15
QUICK = {  # target: the file that is replaced
    "npy": "wide.npy",
    "vectors in parquet": "1.parquet",
    "embeddings": "words.parquet",
    "cora": "cora.content",
    "awa": "awa/predicates.txt",
    "word vectors": "glove.txt",
    "recipes": "own.toml",
    "zip": "cora.zip",
    "tgz": "cora.tgz",
    "toml": "pmvge.toml",
    "csv guessed": "users.csv",
    "sqlite": "shop.sqlite",
    "model raw": "model.json",
    "checkpoint": "checkpoint.json",
}
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
CELLS = st.text(max_size=8) | st.sampled_from(
    ["", "1", "-1", "1e400", "nan", "x", "2020-01-01", "[1, 2]", "[]", "true", "0" * 30, '"', "\n"]
)


def check_not_failed(name, **files):
    """Read a valid input with some files replaced; it must be accepted or refused."""
    case = Case(TARGETS[name], 0, {**TARGETS[name].valid, **files})
    if TARGETS[name].repair is not None:
        TARGETS[name].repair(case.files)
    outcome = run_case(case)
    assert outcome.kind != "failed", outcome.message


@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=EXAMPLES)
@given(
    data=st.binary(max_size=300) | st.text(max_size=100).map(lambda t: t.encode(errors="replace"))
)
def test_any_bytes(name, data):
    check_not_failed(name, **{QUICK[name]: data})


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.tuples(*[CELLS] * 3), min_size=1, max_size=5, unique_by=lambda row: row[0].lower())
)
def test_any_cells(rows):
    text = io.StringIO()
    csv.writer(text).writerows([("user_id", "a", "b"), *rows])
    check_not_failed("csv guessed", **{"users.csv": text.getvalue().encode(errors="replace")})


@pytest.mark.parametrize("name", ["model.json", "model tables", "links", "checkpoint"])
@settings(max_examples=2 * EXAMPLES)
@given(data=st.data())
def test_any_value_in_a_manifest(name, data):
    """Replace a value at any depth of a manifest with a valid checksum."""
    file = "checkpoint.json" if name == "checkpoint" else "model.json"
    manifest = json.loads(TARGETS[name].valid[file])
    parent = manifest
    while True:
        is_dict = isinstance(parent, dict)
        keys = st.sampled_from(sorted(parent)) if is_dict else st.integers(0, len(parent) - 1)
        key = data.draw(keys)
        value = parent[key]
        if not (isinstance(value, dict | list) and value and data.draw(st.booleans())):
            break
        parent = value
    parent[key] = data.draw(VALUES)
    check_not_failed(name, **{file: json.dumps(manifest).encode()})
