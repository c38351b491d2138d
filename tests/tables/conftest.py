"""Fixtures that write tables, read them back, and compare graphs."""

import numpy as np
import pytest

from pmvge.tables.sources.connection import connect, fetch_all
from pmvge.tables.sources.source import as_source
from pmvge.tables.sources.staging import stage


@pytest.fixture
def write(tmp_path):
    """Return a function that writes text or bytes to a file and returns its name."""

    def put(name, content):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
        return name

    return put


@pytest.fixture
def rows(tmp_path):
    """Return a function that returns the column types and the rows of a source."""

    def read(source, folder=tmp_path):
        with connect(folder) as db:
            types = stage(db, "raw", as_source(source), folder)
            return types, fetch_all(db, "SELECT * FROM raw")

    return read


@pytest.fixture
def dense():
    """Return a function that returns features as a dense array."""
    return lambda X: X.toarray() if hasattr(X, "toarray") else np.asarray(X)


@pytest.fixture
def same(dense):
    """Return a function that asserts that two graphs are equal, bit for bit."""

    def check(graph, other):
        assert dict(graph.sizes) == dict(other.sizes)
        assert list(graph.links) == list(other.links)
        for view, X in graph.views.items():
            assert graph.ids[view].tolist() == other.ids[view].tolist(), view
            assert (X is None) == (other.views[view] is None), view
            if X is not None:
                assert type(X) is type(other.views[view])
                assert dense(X).tobytes() == dense(other.views[view]).tobytes(), view
        for pair, links in graph.links.items():
            for part in ("rows", "cols", "weights"):
                values, others = getattr(links, part), getattr(other.links[pair], part)
                assert values.tobytes() == others.tobytes(), (pair, part)

    return check
