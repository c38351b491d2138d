"""Tables of the tests: written to a folder, or read back as they stand on the workbench."""

import numpy as np
import pytest

from pmvge.tables.sources.source import as_source
from pmvge.tables.sources.staging import stage
from pmvge.tables.sources.workbench import ask, workbench


@pytest.fixture
def write(tmp_path):
    """Write a file of the folder, from text or bytes, and give its name."""

    def put(name, content):
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
        return name

    return put


@pytest.fixture
def rows(tmp_path):
    """Names, types and rows of a source."""

    def read(source, folder=tmp_path):
        with workbench(folder) as db:
            types = stage(db, "raw", as_source(source), folder)
            return types, ask(db, "SELECT * FROM raw")

    return read


@pytest.fixture
def dense():
    """Features as a dense array, whatever they are."""
    return lambda X: X.toarray() if hasattr(X, "toarray") else np.asarray(X)


@pytest.fixture
def same(dense):
    """Assert that two graphs are equal to the last bit."""

    def check(one, other):
        assert dict(one.sizes) == dict(other.sizes)
        assert list(one.links) == list(other.links)
        for view, X in one.views.items():
            assert one.ids[view].tolist() == other.ids[view].tolist(), view
            assert (X is None) == (other.views[view] is None), view
            if X is not None:
                assert type(X) is type(other.views[view])
                assert dense(X).tobytes() == dense(other.views[view]).tobytes(), view
        for pair, links in one.links.items():
            for part in ("rows", "cols", "weights"):
                ours, theirs = getattr(links, part), getattr(other.links[pair], part)
                assert ours.tobytes() == theirs.tobytes(), (pair, part)

    return check
